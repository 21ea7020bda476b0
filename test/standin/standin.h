/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the stand-in driver share. */
#ifndef PX_TEST_STANDIN_H
#define PX_TEST_STANDIN_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* cuda.c: where the processor may touch GPU memory, or the address itself; bytes up to the end of
 * that piece; is it GPU memory at all; the device of this thread's context, -1 without one; is a
 * failure planned? */
char *standin_reach(CUdeviceptr address, size_t bytes);
size_t standin_left(CUdeviceptr address);
bool standin_is_gpu(CUdeviceptr address);
int standin_device(void);
bool standin_planned(const char *word);

/* stream.c: copy between GPU memory and any other, across its pieces, words of 4 and 8 bytes whole; a function of the
 * driver, NULL for a name that is not there. */
void standin_copy(CUdeviceptr dest, CUdeviceptr source, size_t bytes);
void *standin_stream_function(const char *name);

/* kernels.c: carry out a kernel that cuModuleGetFunction has found, and the bytes of its arguments. */
int standin_kernel(const char *name);
size_t standin_arguments(int kernel, unsigned index); /* 0 behind the last */
void standin_run(int kernel, void **arguments);

#endif
