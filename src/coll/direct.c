/* SPDX-License-Identifier: BSD-3-Clause */
/* Each to each: in a team of a few members every small collective is one meeting in which everybody
 * hands its block to everybody. The line of a message is the rank of its sender, its cell an equal
 * share of the cells. */
#include "config.h"
#include "src/coll/private.h"

void px_direct_hand(struct px_visit *visit, const void *source, size_t stride, size_t bytes)
{
    const struct px_team *team = visit->team;
    px_next_meeting(visit);
    for (uint32_t i = 1; i < team->size; i++) {
        uint32_t member =
            team->rank + i < team->size ? team->rank + i : team->rank + i - team->size;
        px_hand(visit, px_team_pe(team, member), team->rank, team->rank * px_direct_cell(team),
                (const char *)source + member * stride, bytes);
    }
}

const void *px_direct_take(const struct px_visit *visit, uint32_t member, size_t bytes)
{
    const struct px_team *team = visit->team;
    return px_take(visit, px_team_pe(team, member), member, member * px_direct_cell(team), bytes);
}
