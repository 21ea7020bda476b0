/* SPDX-License-Identifier: BSD-3-Clause */
/* Folding operands that lie at several PEs. A piece is small enough to stay in the first cache
 * while all operands pass by. Mapped operands are read where they are; remote ones of a piece are
 * fetched together, as many as the scratch holds at once, in larger pieces, since their number of
 * messages counts and not the cache. */
#include "config.h"
#include "src/coll/private.h"

#include <stdlib.h>

#include "src/diag/log.h"
#include "src/env/env.h"

size_t px_scratch_landing(void)
{
    size_t bytes = px_coll.setup.env->reduce_scratch_size;
    return bytes > PX_PIECE ? bytes & ~(size_t)(PX_CACHE_LINE - 1) : PX_PIECE;
}

/* A piece of results as long as the landing, then the landing. */
char *px_scratch(struct px_team *team, const char *call)
{
    size_t bytes = px_peers.any_remote ? 2 * px_scratch_landing() : PX_PIECE;
    if (!team->scratch && posix_memalign((void **)&team->scratch, PX_CACHE_LINE, bytes) != 0)
        px_fatal(1, "%s: no memory for %zu bytes of scratch (NVSHMEM_REDUCE_SCRATCH_SIZE)", call,
                 bytes);
    return team->scratch;
}

static uint32_t count_remote(const struct px_pieces *pieces, size_t first)
{
    uint32_t remote = 0;
    for (uint32_t i = 0; i < pieces->count && px_peers.any_remote; i++)
        remote += !px_is_mapped(pieces->operand(pieces, i, first).pe);
    return remote;
}

/* Elements in a piece: cache-sized, or what lets all remote operands of it land at once, but not
 * less than a packet. */
static size_t piece_length(const struct px_pieces *pieces, uint32_t remote)
{
    size_t bytes = PX_PIECE;
    if (remote && px_scratch_landing() / remote > PX_PIECE)
        bytes = px_scratch_landing() / remote;
    return bytes / pieces->width;
}

/* A remote operand in the landing zone, a mapped one in its place. */
struct batch {
    char *landing;
    uint32_t begin, end; /* operands whose remote ones have landed, in order */
};

static void fetch_batch(const struct px_pieces *pieces, struct batch *batch, size_t first,
                        size_t bytes)
{
    size_t room = px_scratch_landing(), used = 0;
    batch->begin = batch->end;
    for (; batch->end < pieces->count; batch->end++) {
        struct px_operand operand = pieces->operand(pieces, batch->end, first);
        if (px_is_mapped(operand.pe))
            continue;
        if (used + bytes > room)
            break;
        px_get_nbi(operand.pe, batch->landing + used, operand.from, bytes);
        used += bytes;
    }
    if (used)
        px_quiet();
}

static void fold_piece(const struct px_pieces *pieces, char *acc, size_t first, size_t n)
{
    size_t bytes = n * pieces->width;
    struct batch batch = {.landing = acc + px_scratch_landing()};
    while (batch.end < pieces->count) {
        fetch_batch(pieces, &batch, first, bytes);
        const char *landed = batch.landing;
        for (uint32_t i = batch.begin; i < batch.end; i++) {
            struct px_operand operand = pieces->operand(pieces, i, first);
            const void *in = landed;
            if (px_is_mapped(operand.pe))
                in = px_mapped(operand.pe, operand.from);
            else
                landed += bytes;
            if (i == 0)
                px_copy(acc, in, bytes);
            else
                px_reduce_kernel(pieces->arithmetic.type, pieces->arithmetic.op, acc, in, n);
        }
    }
    pieces->deliver(pieces, first, n, acc);
}

void px_fold_pieces(const struct px_pieces *pieces, size_t first, size_t end)
{
    size_t length = piece_length(pieces, count_remote(pieces, first));
    for (; first < end; first += length)
        fold_piece(pieces, pieces->team->scratch, first,
                   end - first < length ? end - first : length);
}
