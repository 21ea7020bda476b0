/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a library and looking up a table of its functions. */
#include "config.h"
#include "src/transport/dynlib.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

/* Some network libraries catch crashes from the moment they are opened (libinfinipath, libpsm2: they print a backtrace
 * and call exit()). The program's handlers, and its crashes, stay its own. */
static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM};
#define CRASHES (sizeof(crashes) / sizeof(crashes[0]))

static void *open_quietly(const char *library)
{
    struct sigaction before[CRASHES];
    bool known[CRASHES];
    for (size_t i = 0; i < CRASHES; i++)
        known[i] = sigaction(crashes[i], NULL, &before[i]) == 0;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < CRASHES; i++)
        if (known[i])
            (void)sigaction(crashes[i], &before[i], NULL); /* as it was a moment ago */
    return handle;
}

px_status px_dynlib_open(const char *library, const char *remedy,
                         const struct px_dynlib_call *calls, size_t count, void *table,
                         struct px_error *error)
{
    void *handle = open_quietly(library);
    if (!handle)
        return px_error_set(error, PX_ERR_NOT_FOUND, "%s cannot be opened: %s (%s)", library,
                            dlerror(), remedy);
    for (size_t i = 0; i < count; i++) {
        if (!dlsym(handle, calls[i].name)) {
            dlclose(handle);
            return px_error_set(error, PX_ERR_UNSUPPORTED,
                                "%s has no %s: it is too old or another library (%s)", library,
                                calls[i].name, remedy);
        }
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, calls[i].name);
        memcpy((char *)table + calls[i].offset, &symbol, sizeof(symbol));
    }
    return PX_OK;
}
