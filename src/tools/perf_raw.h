/* SPDX-License-Identifier: BSD-3-Clause */
/* The raw limits of pxshmem-perf: what the processor does without any library in between. */
#ifndef PX_TOOLS_PERF_RAW_H
#define PX_TOOLS_PERF_RAW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

static inline void px_raw_store(uint64_t *word, uint64_t value)
{
    *(volatile uint64_t *)word = value;
}

static inline void px_raw_load(const uint64_t *word)
{
    (void)*(const volatile uint64_t *)word;
}

static inline void px_raw_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

static inline void px_raw_fetch_add(uint64_t *word)
{
    __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}

static inline void px_raw_signal(uint64_t *flag, uint64_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static inline void px_raw_await(uint64_t *flag, uint64_t value)
{
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < value) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

/* A plain loop of vectors; sizes are multiples of 64. */
void px_raw_copy(char *dest, const char *source, size_t bytes);

/* dest = a + b as doubles. */
void px_raw_add(char *dest, const char *a, const char *b, size_t bytes);

#endif
