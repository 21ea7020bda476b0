/* SPDX-License-Identifier: BSD-3-Clause */
/* The typed functions as tables of untyped ones, one row a type, built from types.c.in: so that
 * tests are loops. Values travel by address. A call that a type does not have is NULL. */
#ifndef PX_TEST_UNIT_TYPES_H
#define PX_TEST_UNIT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rma_type {
    const char *name;
    size_t size;
    void (*put)(void *dest, const void *source, size_t nelems, int pe);
    void (*get)(void *dest, const void *source, size_t nelems, int pe);
    void (*put_nbi)(void *dest, const void *source, size_t nelems, int pe);
    void (*get_nbi)(void *dest, const void *source, size_t nelems, int pe);
    void (*p)(void *dest, const void *value, int pe);
    void (*g)(void *result, const void *source, int pe);
    void (*iput)(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                 size_t nelems, int pe);
    void (*iget)(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                 size_t nelems, int pe);
    void (*put_signal)(void *dest, const void *source, size_t nelems, uint64_t *signal,
                       uint64_t value, int op, int pe);
    void (*put_signal_nbi)(void *dest, const void *source, size_t nelems, uint64_t *signal,
                           uint64_t value, int op, int pe);
    void (*generic)(void *dest, const void *source, size_t nelems, int pe); /* nvshmem_put(...) */
};
extern const struct rma_type rma_types[];
extern const size_t rma_type_count;

/* `op` as in the name: "fetch_add"; unused operands are ignored; *result is set where the call
 * fetches. */
struct amo_type {
    const char *name, *op;
    size_t size;
    bool fetches, nbi;
    void (*call)(void *result, void *dest, const void *value, const void *compare, int pe);
};
extern const struct amo_type amo_types[];
extern const size_t amo_type_count;

struct wait_type {
    const char *name;
    size_t size;
    bool is_signed;
    void (*wait_until)(void *ivar, int cmp, const void *value);
    int (*test)(void *ivar, int cmp, const void *value);
    /* vector: `values` has one for each element, else one for all */
    void (*wait_all)(void *ivars, size_t n, const int *status, int cmp, void *values, bool vector);
    size_t (*wait_any)(void *ivars, size_t n, const int *status, int cmp, void *values,
                       bool vector);
    size_t (*wait_some)(void *ivars, size_t n, size_t *indices, const int *status, int cmp,
                        void *values, bool vector);
    int (*test_all)(void *ivars, size_t n, const int *status, int cmp, void *values, bool vector);
    size_t (*test_any)(void *ivars, size_t n, const int *status, int cmp, void *values,
                       bool vector);
    size_t (*test_some)(void *ivars, size_t n, size_t *indices, const int *status, int cmp,
                        void *values, bool vector);
};
extern const struct wait_type wait_types[];
extern const size_t wait_type_count;

#endif
