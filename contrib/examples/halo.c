/* SPDX-License-Identifier: BSD-3-Clause */
/* A large array in blocks, one per PE, smoothed step by step. Only the edges of a block come from
 * neighbours: they are put into halo cells, so a step moves two values however large the block is.
 * At the end the same sum over a neighbour's block is taken twice, by reading each value where it
 * lies and by copying the block once: copy what is read often. gcc halo.c $(pkg-config --cflags
 * --libs pxshmem) -o halo && srun --mpi=pmix -N2 -n4 ./halo */
#include <nvshmem.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCK 4096 /* cells of a PE, without the two halo cells */
#define STEPS 50
#define READS 2 /* how often the neighbour's block is read */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double start_value(long cell)
{
    return (double)((cell * 37) % 101);
}

/* cell[0] and cell[BLOCK + 1] are the halo. */
static void smooth(double *to, const double *from)
{
    for (int i = 1; i <= BLOCK; i++)
        to[i] = 0.25 * from[i - 1] + 0.5 * from[i] + 0.25 * from[i + 1];
}

/* The same on one processor over the whole ring; returns the cells of block `pe`. */
static double *serial(int n, int pe)
{
    size_t cells = (size_t)n * BLOCK;
    double *a = malloc(cells * sizeof(*a)), *b = malloc(cells * sizeof(*b)),
           *mine = malloc(BLOCK * sizeof(*mine));
    for (size_t i = 0; i < cells; i++)
        a[i] = start_value((long)i);
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < cells; i++)
            b[i] = 0.25 * a[(i + cells - 1) % cells] + 0.5 * a[i] + 0.25 * a[(i + 1) % cells];
        double *swap = a;
        a = b;
        b = swap;
    }
    for (int i = 0; i < BLOCK; i++)
        mine[i] = a[(size_t)pe * BLOCK + (size_t)i];
    free(a);
    free(b);
    return mine;
}

static double sum_remote(const double *block, int pe)
{
    double sum = 0;
    for (int i = 1; i <= BLOCK; i++)
        sum += nvshmem_double_g(&block[i], pe);
    return sum;
}

static double sum_local(const double *block)
{
    double sum = 0;
    for (int i = 1; i <= BLOCK; i++)
        sum += block[i];
    return sum;
}

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    int left = (me + n - 1) % n, right = (me + 1) % n;
    double *grid[2];
    uint64_t *arrived = nvshmem_calloc(
        2, sizeof(*arrived)); /* steps whose halo came: from the left, from the right */
    for (int g = 0; g < 2; g++)
        grid[g] = nvshmem_calloc(BLOCK + 2, sizeof(double));
    for (int i = 1; i <= BLOCK; i++)
        grid[0][i] = start_value((long)me * BLOCK + i - 1);
    nvshmem_barrier_all();

    for (int step = 0; step < STEPS; step++) {
        double *from = grid[step % 2], *to = grid[(step + 1) % 2];
        uint64_t number = (uint64_t)step + 1;
        nvshmem_double_put_signal(&from[0], &from[BLOCK], 1, &arrived[0], number,
                                  NVSHMEM_SIGNAL_SET, right);
        nvshmem_double_put_signal(&from[BLOCK + 1], &from[1], 1, &arrived[1], number,
                                  NVSHMEM_SIGNAL_SET, left);
        nvshmem_signal_wait_until(&arrived[0], NVSHMEM_CMP_GE, number);
        nvshmem_signal_wait_until(&arrived[1], NVSHMEM_CMP_GE, number);
        smooth(to, from);
    }

    double *expected = serial(n, me), worst = 0;
    double *result = grid[STEPS % 2];
    for (int i = 0; i < BLOCK; i++)
        if (fabs(result[i + 1] - expected[i]) > worst)
            worst = fabs(result[i + 1] - expected[i]);
    nvshmem_barrier_all();

    double start = seconds(), remote = 0, copied = 0;
    for (int r = 0; r < READS; r++)
        remote = sum_remote(result, right);
    double middle = seconds();
    double *copy = malloc((BLOCK + 2) * sizeof(*copy));
    nvshmem_double_get(copy, result, BLOCK + 2, right);
    for (int r = 0; r < READS; r++)
        copied = sum_local(copy);
    double end = seconds();
    int wrong = worst > 1e-12 || remote != copied;
    if (me == 0) {
        printf("halo: %d PEs, %d cells each, %d steps, largest error %g\n", n, BLOCK, STEPS, worst);
        printf("remote bytes of a PE per step: %zu (the block has %zu)\n",
               2 * (sizeof(double) + sizeof(uint64_t)), BLOCK * sizeof(double));
        printf("%d sums over the right neighbour's block: read in place %.0f us, copied first %.0f "
               "us\n",
               READS, 1e6 * (middle - start), 1e6 * (end - middle));
    }

    free(copy);
    free(expected);
    nvshmem_barrier_all();
    nvshmem_free(grid[1]);
    nvshmem_free(grid[0]);
    nvshmem_free(arrived);
    nvshmem_finalize();
    return wrong;
}
