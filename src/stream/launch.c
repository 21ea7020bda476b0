/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels and copies into a stream. The kernels come in two modules, loaded at first use, also while
 * a stream is being captured: machine code for the common GPUs, else text that the driver compiles. */
#include "config.h"
#include "src/stream/private.h"

#if PX_HAVE_CUDA
#include <pthread.h>
#include <stdatomic.h>

#include "src/stream/images.h"

#define IMAGE(name, file)                                                                          \
    __asm__(".pushsection .rodata\n.balign 64\n" #name ":\n.incbin \"" file                        \
            "\"\n.byte 0\n.balign 64\n.popsection");                                               \
    extern const char name[] __attribute__((visibility("hidden")))

IMAGE(px_stream_kernels_fatbin, PX_IMAGE_KERNELS_FATBIN);
IMAGE(px_stream_kernels_ptx, PX_IMAGE_KERNELS_PTX);
IMAGE(px_stream_reduce_fatbin, PX_IMAGE_REDUCE_FATBIN);
IMAGE(px_stream_reduce_ptx, PX_IMAGE_REDUCE_PTX);

static const char *const names[PX_KERNEL_COUNT] = {
    [PX_KERNEL_MEET] = "px_stream_meet",
    [PX_KERNEL_GATHER] = "px_stream_gather",
    [PX_KERNEL_SPREAD] = "px_stream_spread",
    [PX_KERNEL_COPY] = "px_stream_copy",
    [PX_KERNEL_STORE] = "px_stream_store",
    [PX_KERNEL_SIGNAL] = "px_stream_signal",
    [PX_KERNEL_AWAIT] = "px_stream_await",
    [PX_KERNEL_REDUCE_8] = "px_stream_reduce_8",
    [PX_KERNEL_REDUCE_16] = "px_stream_reduce_16",
    [PX_KERNEL_REDUCE_32] = "px_stream_reduce_32",
    [PX_KERNEL_REDUCE_64] = "px_stream_reduce_64",
    [PX_KERNEL_REDUCE_FLOAT] = "px_stream_reduce_float",
    [PX_KERNEL_REDUCE_DOUBLE] = "px_stream_reduce_double",
    [PX_KERNEL_REDUCE_HALF] = "px_stream_reduce_half",
    [PX_KERNEL_REDUCE_BFLOAT16] = "px_stream_reduce_bfloat16",
};

static struct {
    pthread_mutex_t lock;
    CUmodule module[2];
    CUfunction function[PX_KERNEL_COUNT];
    atomic_bool loaded[2];
    int processors;
} launcher = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Noreturn void px_stream_failed(const struct px_stream *s, const struct px_error *error)
{
    px_fatal(1, "%s: on stream %p of %s: %s", s->call, (void *)s->stream, px_gpu.name, error->text);
}

void px_stream_enter(const struct px_stream *s, struct px_gpu_visit *visit)
{
    struct px_error error = PX_ERROR_INIT;
    if (px_gpu_enter(visit, &error) != PX_OK)
        px_stream_failed(s, &error);
}

/* --- loading --- */

static px_status load_image(CUmodule *module, const char *code, const char *text,
                            struct px_error *error)
{
    if (px_cuda.cuModuleLoadData(module, code) == CUDA_SUCCESS)
        return PX_OK;
    return px_cu(error, cuModuleLoadData(module, text)); /* a driver that does not know the code */
}

static px_status load(int which, struct px_error *error)
{
    int first = which ? PX_KERNEL_BASE : 0, end = which ? PX_KERNEL_COUNT : PX_KERNEL_BASE;
    px_status status = which ? load_image(&launcher.module[1], px_stream_reduce_fatbin,
                                          px_stream_reduce_ptx, error)
                             : load_image(&launcher.module[0], px_stream_kernels_fatbin,
                                          px_stream_kernels_ptx, error);
    for (int k = first; k < end && status == PX_OK; k++)
        status = px_cu(
            error, cuModuleGetFunction(&launcher.function[k], launcher.module[which], names[k]));
    if (status == PX_OK)
        status = px_cu(error, cuDeviceGetAttribute(&launcher.processors,
                                                   CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                                   px_gpu.device));
    return status;
}

/* Loading allocates, which a thread that captures may not do unless it says that it knows. */
static void load_once(const struct px_stream *s, int which)
{
    struct px_error error = PX_ERROR_INIT;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pthread_mutex_lock(&launcher.lock);
    if (!atomic_load_explicit(&launcher.loaded[which], memory_order_relaxed)) {
        (void)px_cuda.cuThreadExchangeStreamCaptureMode(&mode);
        if (load(which, &error) != PX_OK)
            px_stream_failed(s, &error);
        (void)px_cuda.cuThreadExchangeStreamCaptureMode(&mode);
        atomic_store_explicit(&launcher.loaded[which], true, memory_order_release);
    }
    pthread_mutex_unlock(&launcher.lock);
}

void px_stream_close(void)
{
    struct px_gpu_visit visit;
    if (px_gpu_enter(&visit, NULL) != PX_OK)
        return;
    for (int i = 0; i < 2; i++) {
        if (atomic_exchange(&launcher.loaded[i], false))
            (void)px_cuda.cuModuleUnload(launcher.module[i]); /* at the end nothing can be done */
    }
    px_gpu_leave(&visit);
}

/* --- launching --- */

uint32_t px_stream_blocks(size_t threads)
{
    size_t blocks = (threads + PX_STREAM_BLOCK - 1) / PX_STREAM_BLOCK;
    size_t most = launcher.processors > 0 ? (size_t)launcher.processors * 4 : 128;
    return (uint32_t)(blocks == 0 ? 1 : blocks < most ? blocks : most);
}

void px_stream_launch(const struct px_stream *s, enum px_stream_kernel kernel, uint32_t blocks,
                      uint32_t threads, const struct px_stream_work *work)
{
    struct px_error error = PX_ERROR_INIT;
    int which = kernel >= PX_KERNEL_BASE;
    void *arguments[] = {(void *)(uintptr_t)work};
    if (!atomic_load_explicit(&launcher.loaded[which], memory_order_acquire))
        load_once(s, which);
    if (px_cu(&error, cuLaunchKernel(launcher.function[kernel], blocks, 1, 1, threads, 1, 1, 0,
                                     s->stream, arguments, NULL)) != PX_OK)
        px_stream_failed(s, &error);
}

void px_stream_copy(const struct px_stream *s, void *dest, const void *source, size_t bytes)
{
    struct px_error error = PX_ERROR_INIT;
    if (bytes && dest != source &&
        px_cu(&error, cuMemcpyAsync(px_stream_address(dest), px_stream_address(source), bytes,
                                    s->stream)) != PX_OK)
        px_stream_failed(s, &error);
}

bool px_stream_on_gpu(const void *address)
{
    unsigned type = 0;
    if (px_gpu_holds(address))
        return true;
    return px_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         px_stream_address(address)) == CUDA_SUCCESS;
}
#endif
