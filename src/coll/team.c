/* SPDX-License-Identifier: BSD-3-Clause */
/* The teams of this PE: a table by slot, the predefined ones, and questions about members. Making
 * and destroying teams of the program is split.c's and unique.c's.
 *
 * A handle is a base, a slot number and a generation, so that a handle kept after its team's end is
 * recognised, and that neither a small number nor another kind of constant passes as one. */
#include "config.h"
#include "src/coll/private.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/env/env.h"

#define GENERATIONS 0x3fff

struct px_coll_state px_coll;

/* The table, and last_epoch. Whoever looks up its own team needs no lock: its slot does not change meanwhile. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct px_team reserved = {.handle = INT32_MIN}; /* equals no handle */

static uint32_t *identity; /* group_of when no peer is mapped by choice */

struct px_team *px_team_of(int32_t handle)
{
    uint32_t offset = (uint32_t)handle - PX_TEAM_HANDLE_BASE;
    uint32_t slot = offset & 0xffff;
    if (slot >= px_coll.setup.max_teams || !px_coll.teams)
        return NULL;
    struct px_team *team = atomic_load_explicit(&px_coll.teams[slot], memory_order_acquire);
    return team && team->handle == handle ? team : NULL;
}

struct px_team *px_team_world(void)
{
    return px_coll.teams ? px_coll.teams[PX_TEAM_WORLD] : NULL;
}

uint32_t px_team_slot(const struct px_team *team)
{
    return team->slot_number;
}

int32_t px_team_handle(const struct px_team *team)
{
    return team->handle;
}

uint32_t px_team_rank(const struct px_team *team)
{
    return team->rank;
}

uint32_t px_team_size(const struct px_team *team)
{
    return team->size;
}

long px_team_contexts(const struct px_team *team)
{
    return team->num_contexts;
}

void px_team_set_contexts(struct px_team *team, long num_contexts)
{
    team->num_contexts = num_contexts;
}

bool px_team_predefined(const struct px_team *team)
{
    return team->slot_number < PX_TEAM_PREDEFINED;
}

uint32_t px_team_epoch(const struct px_team *team)
{
    return team->epoch;
}

uint32_t px_team_pe(const struct px_team *team, uint32_t member)
{
    return team->list ? team->list[member] : team->start + member * team->stride;
}

int px_team_find(const struct px_team *team, uint32_t pe)
{
    if (!team->list && team->start == 0 && team->stride == 1)
        return pe < team->size ? (int)pe : -1;
    for (uint32_t i = 0; i < team->size; i++)
        if (px_team_pe(team, i) == pe)
            return (int)i;
    return -1;
}

struct px_team *px_team_new(const struct px_members *members, struct px_error *error)
{
    struct px_team *team = calloc(1, sizeof(*team));
    if (!team) {
        px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a team");
        return NULL;
    }
    team->rank = members->rank;
    team->size = members->size;
    team->start = members->start;
    team->stride = members->stride;
    team->num_contexts = -1;
    if (members->list) {
        team->list = malloc(members->size * sizeof(*team->list));
        if (!team->list) {
            px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a team of %u PEs", members->size);
            px_team_free(team);
            return NULL;
        }
        memcpy(team->list, members->list, members->size * sizeof(*team->list));
    }
    if (px_shape(team, error) != PX_OK) {
        px_team_free(team);
        return NULL;
    }
    return team;
}

void px_team_place(struct px_team *team, uint32_t slot, uint32_t epoch)
{
    team->slot_number = slot;
    team->slot = (struct px_slot *)(px_coll.setup.base + PX_CONTROL_BYTES) + slot;
    team->epoch = epoch;
    px_lay_steps(team);
}

bool px_team_reserve(uint32_t slot)
{
    pthread_mutex_lock(&table_lock);
    bool free = !px_coll.teams[slot];
    if (free)
        px_coll.teams[slot] = &reserved;
    pthread_mutex_unlock(&table_lock);
    return free;
}

void px_team_unreserve(uint32_t slot)
{
    pthread_mutex_lock(&table_lock);
    px_coll.teams[slot] = NULL;
    pthread_mutex_unlock(&table_lock);
}

uint32_t px_team_free_slots(uint32_t first, uint64_t *free, unsigned words)
{
    memset(free, 0, words * sizeof(*free));
    pthread_mutex_lock(&table_lock);
    for (uint32_t bit = 0; bit < words * 64 && first + bit < px_coll.setup.max_teams; bit++)
        if (first + bit >= PX_TEAM_PREDEFINED && !px_coll.teams[first + bit]) /* not every PE leads a GPU */
            free[bit / 64] |= 1ull << bit % 64;
    uint32_t epoch = px_coll.last_epoch;
    pthread_mutex_unlock(&table_lock);
    return epoch;
}

/* The first epoch is the same on all members, and another one than that of the slot's last team. */
void px_team_enlist(struct px_team *team)
{
    uint32_t slot = team->slot_number,
             turn = slot < PX_TEAM_PREDEFINED ? 0 : 1 + team->epoch % GENERATIONS;
    team->handle = (int32_t)(PX_TEAM_HANDLE_BASE + slot + (turn << 16));
    pthread_mutex_lock(&table_lock);
    px_coll.teams[slot] = team;
    pthread_mutex_unlock(&table_lock);
}

void px_team_strike(struct px_team *team)
{
    pthread_mutex_lock(&table_lock);
    px_coll.teams[team->slot_number] = NULL;
    if (team->epoch > px_coll.last_epoch)
        px_coll.last_epoch = team->epoch;
    pthread_mutex_unlock(&table_lock);
}

void px_team_free(struct px_team *team)
{
    if (!team)
        return;
    px_unshape(team);
    free(team->list);
    free(team->offsets);
    free(team->scratch);
    free(team);
}

/* PEs with my value of `key`, in ascending order. */
static struct px_members same_key(const uint32_t *key, uint32_t *list)
{
    uint32_t me = px_coll.setup.my_pe;
    struct px_members members = {.list = list};
    for (uint32_t pe = 0; pe < px_coll.setup.n_pes; pe++) {
        if (pe == me)
            members.rank = members.size;
        if (key[pe] == key[me])
            list[members.size++] = pe;
    }
    return members;
}

static px_status predefine(uint32_t slot, const struct px_members *members, struct px_error *error)
{
    struct px_team *team = px_team_new(members, error);
    if (!team)
        return error ? error->status : PX_ERR_NO_MEMORY;
    px_team_place(team, slot, 0);
    px_team_enlist(team);
    return PX_OK;
}

/* Index in its node of every PE: one pass with a counter for each node. */
static px_status indices(uint32_t *index, struct px_error *error)
{
    const struct px_coll_setup *setup = &px_coll.setup;
    uint32_t nodes = 0;
    for (uint32_t pe = 0; pe < setup->n_pes; pe++)
        nodes = setup->node_of[pe] >= nodes ? setup->node_of[pe] + 1 : nodes;
    uint32_t *count = calloc(nodes, sizeof(*count));
    if (!count)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u nodes", nodes);
    for (uint32_t pe = 0; pe < setup->n_pes; pe++)
        index[pe] = count[setup->node_of[pe]]++;
    free(count);
    return PX_OK;
}

/* Without a GPU a PE is on its own, and so a leader. */
static px_status predefine_by_gpu(uint32_t *list, uint32_t *key, struct px_error *error)
{
    const struct px_coll_setup *setup = &px_coll.setup;
    for (uint32_t pe = 0; pe < setup->n_pes; pe++)
        key[pe] = setup->gpu_of ? setup->gpu_of[pe] : pe;
    struct px_members same_gpu = same_key(key, list);
    px_status status = predefine(PX_TEAM_SAME_GPU, &same_gpu, error);
    bool leads = key[setup->my_pe] == setup->my_pe;
    for (uint32_t pe = 0; pe < setup->n_pes; pe++)
        key[pe] = key[pe] == pe;
    struct px_members leaders = same_key(key, list);
    return status == PX_OK && leads ? predefine(PX_TEAM_GPU_LEADERS, &leaders, error) : status;
}

static px_status predefine_all(uint32_t *list, uint32_t *key, struct px_error *error)
{
    const struct px_coll_setup *setup = &px_coll.setup;
    struct px_members world = {.rank = setup->my_pe, .size = setup->n_pes, .stride = 1};
    struct px_members shared = same_key(px_coll.group_of, list);
    px_status status = predefine(PX_TEAM_WORLD, &world, error);
    if (status == PX_OK)
        status = predefine(PX_TEAM_SHARED, &shared, error);
    struct px_members node = same_key(setup->node_of, list);
    if (status == PX_OK)
        status = predefine(PX_TEAM_NODE, &node, error);
    if (status == PX_OK)
        status = indices(key, error);
    if (status != PX_OK)
        return status;
    struct px_members same_index = same_key(key, list);
    status = predefine(PX_TEAM_SAME_MYPE_NODE, &same_index, error);
    return status == PX_OK ? predefine_by_gpu(list, key, error) : status;
}

static px_status make_tables(struct px_error *error)
{
    uint32_t n_pes = px_coll.setup.n_pes, max_teams = px_coll.setup.max_teams;
    px_coll.teams = calloc(max_teams, sizeof(*px_coll.teams));
    identity = malloc(n_pes * sizeof(*identity));
    if (!px_coll.teams || !identity)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u teams of %u PEs", max_teams,
                            n_pes);
    for (uint32_t pe = 0; pe < n_pes; pe++)
        identity[pe] = pe;
    bool unmapped = px_coll.setup.env->disable_p2p;
    px_coll.group_of = unmapped ? identity : px_coll.setup.node_of;
    return PX_OK;
}

px_status px_coll_open(const struct px_coll_setup *setup, struct px_error *error)
{
    if (setup->max_teams <= PX_TEAM_PREDEFINED || setup->max_teams > PX_TEAMS_LIMIT)
        return px_error_set(error, PX_ERR_INVALID, "NVSHMEM_MAX_TEAMS is %u; it must be %d to %d",
                            setup->max_teams, PX_TEAM_PREDEFINED + 1, PX_TEAMS_LIMIT);
    px_coll = (struct px_coll_state){
        .setup = *setup,
        .control = (struct px_control *)setup->base,
        .tuning = px_tune(setup->env),
    };
    uint32_t *list = malloc(2 * setup->n_pes * sizeof(*list));
    px_status status = make_tables(error);
    if (status == PX_OK && !list)
        status =
            px_error_set(error, PX_ERR_NO_MEMORY, "no memory for teams of %u PEs", setup->n_pes);
    if (status == PX_OK)
        status = predefine_all(list, list + setup->n_pes, error);
    free(list);
    if (status != PX_OK)
        px_coll_close();
    return status;
}

void px_coll_close(void)
{
    for (uint32_t slot = 0; px_coll.teams && slot < px_coll.setup.max_teams; slot++)
        px_team_free(px_coll.teams[slot]);
    free(px_coll.teams);
    free(identity);
    identity = NULL;
    px_coll = (struct px_coll_state){0};
}

void px_coll_remap(void)
{
    for (uint32_t slot = 0; px_coll.teams && slot < px_coll.setup.max_teams; slot++)
        if (px_coll.teams[slot])
            px_lay_steps(px_coll.teams[slot]);
}
