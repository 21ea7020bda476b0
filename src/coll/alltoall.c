/* SPDX-License-Identifier: BSD-3-Clause */
/* alltoall and alltoalls: short blocks of a direct team are handed over in one meeting; otherwise
 * each fetches its block from every member between two meetings, starting with its neighbour, so
 * that no member is asked by all at once. */
#include "config.h"
#include "src/coll/private.h"

static uint32_t neighbour(const struct px_team *team, uint32_t i)
{
    return team->rank + i < team->size ? team->rank + i : team->rank + i - team->size;
}

static void alltoall_short(struct px_visit *visit, void *dest, const void *source, size_t bytes)
{
    const struct px_team *team = visit->team;
    px_direct_hand(visit, source, bytes, bytes);
    for (uint32_t i = 0; i < team->size; i++) {
        const void *block =
            i == team->rank ? (const char *)source + i * bytes : px_direct_take(visit, i, bytes);
        px_copy((char *)dest + i * bytes, block, bytes);
    }
}

void px_alltoall(struct px_team *team, void *dest, const void *source, size_t bytes,
                 const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    if (px_direct_fits(team, bytes)) {
        alltoall_short(&visit, dest, source, bytes);
    } else {
        px_meet(&visit);
        for (uint32_t i = 0; i < team->size; i++)
            px_get_nbi(px_team_pe(team, neighbour(team, i)),
                       (char *)dest + neighbour(team, i) * bytes,
                       (const char *)source + team->rank * bytes, bytes);
        px_quiet();
        px_meet(&visit);
    }
    px_leave(&visit);
}

/* Elements one by one: for a remote member not worse than the strided get that a program would
 * write. */
static void fetch_strided(const struct px_team *team, uint32_t member, char *dest,
                          const char *source, const struct px_strides *s)
{
    uint32_t pe = px_team_pe(team, member);
    char *to = dest + member * s->count * s->dest * s->width;
    const char *from = source + team->rank * s->count * s->source * s->width;
    if (s->dest == 1 && s->source == 1) {
        px_get_nbi(pe, to, from, s->count * s->width);
        return;
    }
    for (size_t e = 0; e < s->count; e++)
        px_get_nbi(pe, to + e * s->dest * s->width, from + e * s->source * s->width, s->width);
}

void px_alltoalls(struct px_team *team, void *dest, const void *source,
                  const struct px_strides *strides, const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    px_meet(&visit);
    for (uint32_t i = 0; i < team->size; i++)
        fetch_strided(team, neighbour(team, i), dest, source, strides);
    px_quiet();
    px_meet(&visit);
    px_leave(&visit);
}
