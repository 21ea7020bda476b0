/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a wait that takes long: where every PE is, as each keeps it in its own control area. PEs in the same place
 * become one line; a node prints it once. */
#include "config.h"
#include "src/api/entry.h"
#include "src/api/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/diag/log.h"
#include "src/transport/move.h"
#include "src/transport/wait.h"

#define TEXT_MAX 200

struct place {
    char text[TEXT_MAX];
    uint32_t pe, state;
};

static uint64_t real_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static const char *state_words(uint32_t state)
{
    switch (state) {
    case PX_PE_STARTING:
        return "still starting";
    case PX_PE_FINALIZING:
        return "finalised";
    case PX_PE_GONE:
        return "gone without nvshmem_finalize";
    default:
        return "";
    }
}

static void describe(const struct px_control *control, struct place *place)
{
    char *text = place->text;
    size_t size = sizeof(place->text);
    const struct px_where *where = &control->where;
    uint64_t sequence = atomic_load(&where->sequence);
    place->state = atomic_load(&control->state);
    if (*state_words(place->state)) {
        snprintf(text, size, "%s", state_words(place->state));
        return;
    }
    if (!(sequence & 1)) {
        snprintf(text, size, "in no collective, after %llu of them",
                 (unsigned long long)(sequence / 2));
        return;
    }
    uint64_t since = atomic_load(&where->since_ns), now = real_ns();
    snprintf(
        text, size,
        "in %.43s (%#llx, %#llx, %#llx, %#llx) on team %d, its collective number %llu, for %llu s",
        where->call, (unsigned long long)where->arguments[0],
        (unsigned long long)where->arguments[1], (unsigned long long)where->arguments[2],
        (unsigned long long)where->arguments[3], where->team,
        (unsigned long long)(sequence / 2 + 1),
        (unsigned long long)(since && now > since ? (now - since) / 1000000000ull : 0));
}

static void look_at(uint32_t pe, struct place *place)
{
    struct px_control control;
    *place = (struct place){.pe = pe, .state = PX_PE_STARTING};
    px_get(pe, &control, px_world.control, sizeof(control));
    if (control.magic != PX_CONTROL_MAGIC || control.pe != pe)
        snprintf(place->text, sizeof(place->text), "not readable");
    else
        describe(&control, place);
}

static int by_text(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->pe > y->pe) - (x->pe < y->pe);
}

/* "PE 0-3, 7 (node0 ...)" for the run of equal places that starts at places[0]; returns its length. */
static uint32_t say_run(const struct place *places, uint32_t count)
{
    char list[256], name[128];
    size_t used = 0;
    uint32_t run = 1;
    while (run < count && strcmp(places[run].text, places[0].text) == 0)
        run++;
    for (uint32_t i = 0; i < run && used < sizeof(list) - 24;) {
        uint32_t end = i;
        while (end + 1 < run && places[end + 1].pe == places[end].pe + 1)
            end++;
        used += (size_t)snprintf(list + used, sizeof(list) - used, end > i ? "%s%u-%u" : "%s%u",
                                 i ? ", " : "", places[i].pe, places[end].pe);
        i = end + 1;
    }
    if (run == 1)
        px_warn("  %s: %s", px_world_pe_name(places[0].pe, name, sizeof(name)), places[0].text);
    else
        px_warn("  PE %s: %s", list, places[0].text);
    return run;
}

/* One that has left can never come to a collective of all PEs: then there is nothing to wait for. */
static void end_if_hopeless(const struct px_wait *wait, const struct place *places, uint32_t n)
{
    char name[128];
    const struct px_where *mine = &px_world.control->where;
    if (!(atomic_load(&mine->sequence) & 1) || mine->team != NVSHMEM_TEAM_WORLD)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (places[i].state == PX_PE_GONE)
            px_fatal(1, "%s cannot end: %s has left without nvshmem_finalize", wait->call,
                     px_world_pe_name(places[i].pe, name, sizeof(name)));
}

void px_hang_report(const struct px_wait *wait)
{
    uint32_t n = px_peers.n_pes;
    if (!px_log_first_on_node("hang report"))
        return;
    struct place *places = calloc(n, sizeof(*places));
    if (!places)
        return;
    for (uint32_t pe = 0; pe < n; pe++)
        look_at(pe, &places[pe]);
    qsort(places, n, sizeof(*places), by_text);
    px_warn("%s has waited for more than %u s (NVSHMEM_HANG_TIMEOUT); where the PEs are:",
            wait->call, px_world.env.hang_timeout);
    for (uint32_t i = 0; i < n;)
        i += say_run(&places[i], n - i);
    end_if_hopeless(wait, places, n);
    free(places);
}
