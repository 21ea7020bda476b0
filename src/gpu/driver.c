/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening libcuda and filling the table of its functions: see driver.h. The library stays open until
 * the process ends: CUDA cannot be started twice. */
#include "config.h"
#include "src/gpu/driver.h"

#if PX_HAVE_CUDA
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

struct px_cuda px_cuda;

/* cuGetProcAddress has had two signatures; both are found by name. */
struct finder {
    PFN_cuGetProcAddress_v11030 old;
    CUresult (*now)(const char *, void **, int, cuuint64_t, int *);
};

struct entry {
    const char *name;
    int version;
    size_t offset;
    bool optional;
};

#define NEEDED(name, version)   {#name, version, offsetof(struct px_cuda, name), false},
#define OPTIONAL(name, version) {#name, version, offsetof(struct px_cuda, name), true},
static const struct entry entries[] = {PX_CUDA_CALLS(NEEDED) PX_CUDA_OPTIONAL(OPTIONAL)};

static void *find(const struct finder *finder, const struct entry *entry)
{
    void *address = NULL;
    int what;
    CUresult result = finder->now ? finder->now(entry->name, &address, entry->version, 0, &what)
                                  : finder->old(entry->name, &address, entry->version, 0);
    return result == CUDA_SUCCESS ? address : NULL;
}

static px_status fill(void *library, struct px_error *error)
{
    struct finder finder = {0};
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    memcpy(&finder.now, &symbol, sizeof(symbol));
    symbol = dlsym(library, "cuGetProcAddress");
    memcpy(&finder.old, &symbol, sizeof(symbol));
    if (!finder.now && !finder.old)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            LIBRARY " has no cuGetProcAddress: the NVIDIA driver is older than "
                                    "CUDA 11.8, which is needed");
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *address = find(&finder, &entries[i]);
        if (!address && !entries[i].optional)
            return px_error_set(error, PX_ERR_UNSUPPORTED,
                                LIBRARY " has no %s (of version %d): update the NVIDIA driver to "
                                        "CUDA 11.8 or newer",
                                entries[i].name, entries[i].version);
        memcpy((char *)&px_cuda + entries[i].offset, &address, sizeof(address));
    }
    return PX_OK;
}

static px_status start(struct px_error *error)
{
    int count = 0;
    CUresult result = px_cuda.cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE)
        return px_error_set(error, PX_ERR_NOT_FOUND,
                            "the NVIDIA driver shows no GPU to this process (CUDA_VISIBLE_DEVICES, "
                            "or no GPU was allocated to the job)");
    px_status status = px_cuda_status(result, "cuInit(0)", error);
    if (status == PX_OK)
        status = px_cu(error, cuDriverGetVersion(&px_cuda.version));
    if (status == PX_OK)
        status = px_cu(error, cuDeviceGetCount(&count));
    if (status == PX_OK && count == 0)
        return px_error_set(error, PX_ERR_NOT_FOUND, "no GPU is visible (CUDA_VISIBLE_DEVICES)");
    if (status == PX_OK && px_cuda.version < PX_CUDA_OLDEST)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "the NVIDIA driver is of CUDA %d.%d; 11.8 or newer is needed",
                            px_cuda.version / 1000, px_cuda.version % 1000 / 10);
    return status;
}

static px_status open_once(const char *folder, struct px_error *error)
{
    char path[4096];
    const char *names[] = {"%s/" LIBRARY, "%s/lib64/" LIBRARY, "%s/lib/" LIBRARY};
    void *library = NULL;
    if (!folder[0])
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; folder[0] && !library && i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), names[i], folder);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library)
        return px_error_set(error, PX_ERR_NOT_FOUND, "no NVIDIA driver: %s", dlerror());
    px_status status = fill(library, error);
    return status == PX_OK ? start(error) : status;
}

px_status px_cuda_open(const char *folder, struct px_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool tried;
    static struct px_error answer = PX_ERROR_INIT;
    pthread_mutex_lock(&lock);
    if (!tried)
        (void)open_once(folder ? folder : "", &answer); /* kept in `answer` */
    tried = true;
    pthread_mutex_unlock(&lock);
    if (answer.status != PX_OK && error)
        *error = answer;
    return answer.status;
}

static px_status meaning(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return PX_ERR_NO_MEMORY;
    case CUDA_ERROR_INVALID_VALUE:
        return PX_ERR_INVALID;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
        return PX_ERR_UNSUPPORTED;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_NOT_FOUND:
        return PX_ERR_NOT_FOUND;
    default:
        return PX_ERR_SYSTEM;
    }
}

px_status px_cuda_status(CUresult result, const char *expression, struct px_error *error)
{
    const char *name = NULL, *words = NULL;
    if (result == CUDA_SUCCESS)
        return PX_OK;
    if (px_cuda.cuGetErrorName)
        (void)px_cuda.cuGetErrorName(result, &name); /* unknown numbers keep NULL */
    if (px_cuda.cuGetErrorString)
        (void)px_cuda.cuGetErrorString(result, &words);
    return px_error_set(error, meaning(result), "%s: %s (%d): %s", expression,
                        name ? name : "CUresult", (int)result, words ? words : "no words");
}
#endif
