/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams (9.4): handles to teams and back, configurations, and what is refused before src/coll is
 * asked. Calls that make a team store NVSHMEM_TEAM_INVALID first, so that it is there on every path
 * but success. */
#include "config.h"
#include "src/api/entry.h"

#include <inttypes.h>

#include "src/api/check.h"
#include "src/coll/coll.h"
#include "src/device/device.h"
#include "src/diag/log.h"

_Static_assert(NVSHMEM_TEAM_WORLD == PX_TEAM_HANDLE_BASE + PX_TEAM_WORLD &&
                   NVSHMEM_TEAM_SHARED == PX_TEAM_HANDLE_BASE + PX_TEAM_SHARED &&
                   NVSHMEMX_TEAM_NODE == PX_TEAM_HANDLE_BASE + PX_TEAM_NODE &&
                   NVSHMEMX_TEAM_SAME_MYPE_NODE == PX_TEAM_HANDLE_BASE + PX_TEAM_SAME_MYPE_NODE &&
                   NVSHMEMI_TEAM_SAME_GPU == PX_TEAM_HANDLE_BASE + PX_TEAM_SAME_GPU &&
                   NVSHMEMI_TEAM_GPU_LEADERS == PX_TEAM_HANDLE_BASE + PX_TEAM_GPU_LEADERS &&
                   NVSHMEM_TEAMS_MIN == PX_TEAM_HANDLE_BASE + PX_TEAM_PREDEFINED,
               "predefined handles are those of the header");

#define REFUSED PX_TEAM_REFUSED

static struct px_team *find_team(nvshmem_team_t handle, const char *call)
{
    if (px_suspect_call())
        px_check_up(call);
    return px_team_of(handle);
}

int px_api_team_my_pe(nvshmem_team_t handle)
{
    const struct px_team *team = find_team(handle, "nvshmem_team_my_pe");
    return team ? (int)px_team_rank(team) : -1;
}

int px_api_team_n_pes(nvshmem_team_t handle)
{
    const struct px_team *team = find_team(handle, "nvshmem_team_n_pes");
    return team ? (int)px_team_size(team) : -1;
}

int px_api_team_translate_pe(nvshmem_team_t src_handle, int src_pe, nvshmem_team_t dest_handle)
{
    const struct px_team *src = find_team(src_handle, "nvshmem_team_translate_pe");
    const struct px_team *dest = px_team_of(dest_handle);
    if (!src || !dest || src_pe < 0 || (uint32_t)src_pe >= px_team_size(src))
        return -1;
    return px_team_find(dest, px_team_pe(src, (uint32_t)src_pe));
}

void px_api_team_get_config(nvshmem_team_t handle, nvshmem_team_config_t *config)
{
    const struct px_team *team = find_team(handle, "nvshmem_team_get_config");
    if (!team || !config)
        return;
    *config = (nvshmem_team_config_t)NVSHMEM_TEAM_CONFIG_INITIALIZER;
    config->num_contexts = (int)px_team_contexts(team);
}

/* num_contexts where the mask asks for it, else -1. False when the mask asks for what is not there.
 */
static bool read_config(const nvshmem_team_config_t *config, long mask, const char *call,
                        long *num_contexts)
{
    if (mask & ~(NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS | NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID)) {
        px_warn_once_per_node("%s: config_mask %#lx has bits that mean nothing", call, mask);
        return false;
    }
    if (mask && !config) {
        px_warn_once_per_node("%s: config_mask is %#lx and config is NULL", call, mask);
        return false;
    }
    *num_contexts = mask & NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS ? config->num_contexts : -1;
    return true;
}

static void hand_out(struct px_team *team, long num_contexts, nvshmem_team_t *handle)
{
    if (!team)
        return;
    px_team_set_contexts(team, num_contexts);
    px_device_team(team);
    *handle = px_team_handle(team);
}

static void require_place(const char *call, const char *argument, const nvshmem_team_t *place)
{
    if (!place)
        px_fatal(1, "%s: %s is NULL; the handle of the new team is stored there", call, argument);
}

int px_api_team_split_strided(nvshmem_team_t parent_handle, int start, int stride, int size,
                              const nvshmem_team_config_t *config, long config_mask,
                              nvshmem_team_t *new_team)
{
    const struct px_call call = {
        .name = "nvshmem_team_split_strided",
        .arguments = {(uint32_t)start, (uint32_t)stride, (uint32_t)size, (uint64_t)config_mask}};
    struct px_team *parent = find_team(parent_handle, call.name), *team = NULL;
    long num_contexts;
    require_place(call.name, "new_team", new_team);
    *new_team = NVSHMEM_TEAM_INVALID;
    if (!parent || !read_config(config, config_mask, call.name, &num_contexts))
        return REFUSED;
    int status = px_team_split(parent, start, stride, size, &team, &call);
    hand_out(team, num_contexts, new_team);
    return status;
}

int px_api_team_split_2d(nvshmem_team_t parent_handle, int xrange,
                         const nvshmem_team_config_t *xaxis_config, long xaxis_mask,
                         nvshmem_team_t *xaxis_team, const nvshmem_team_config_t *yaxis_config,
                         long yaxis_mask, nvshmem_team_t *yaxis_team)
{
    const struct px_call call = {
        .name = "nvshmem_team_split_2d",
        .arguments = {(uint32_t)xrange, (uint64_t)xaxis_mask, (uint64_t)yaxis_mask}};
    struct px_team *parent = find_team(parent_handle, call.name), *x = NULL, *y = NULL;
    long x_contexts, y_contexts;
    require_place(call.name, "xaxis_team", xaxis_team);
    require_place(call.name, "yaxis_team", yaxis_team);
    *xaxis_team = *yaxis_team = NVSHMEM_TEAM_INVALID;
    if (!parent || !read_config(xaxis_config, xaxis_mask, call.name, &x_contexts) ||
        !read_config(yaxis_config, yaxis_mask, call.name, &y_contexts))
        return REFUSED;
    int status = px_team_split_2d(parent, xrange, &x, &y, &call);
    hand_out(x, x_contexts, xaxis_team);
    hand_out(y, y_contexts, yaxis_team);
    return status;
}

void px_api_team_destroy(nvshmem_team_t handle)
{
    static const struct px_call call = {.name = "nvshmem_team_destroy"};
    struct px_team *team = find_team(handle, call.name);
    if (team && px_team_predefined(team))
        px_warn_once_per_node("%s: team %d is predefined and stays", call.name, (int)handle);
    else if (team) {
        px_device_no_team(handle);
        px_team_destroy(team, &call);
    }
    else if (handle != NVSHMEM_TEAM_INVALID)
        px_warn("%s: %d is not a team of this PE: it was destroyed already, or never made",
                call.name, (int)handle);
}

int px_api_team_get_uniqueid(nvshmemx_team_uniqueid_t *uniqueid)
{
    struct px_error error = PX_ERROR_INIT;
    if (px_suspect_call())
        px_check_up("nvshmemx_team_get_uniqueid");
    if (!uniqueid)
        px_error_set(&error, PX_ERR_INVALID, "uniqueid is NULL");
    else
        px_team_unique_id(uniqueid, &error);
    if (error.status != PX_OK)
        px_warn("nvshmemx_team_get_uniqueid: %s", error.text);
    return error.status != PX_OK;
}

/* What is wrong with the arguments of team_init, or NULL. */
static const char *wrong_with_init(const nvshmem_team_config_t *config, long config_mask, int npes,
                                   int pe_idx)
{
    if (!config || !(config_mask & NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID) ||
        config->uniqueid == NVSHMEM_TEAM_UNIQUID_INITIALIZER)
        return "the members need a unique id: config->uniqueid from nvshmemx_team_get_uniqueid, "
               "and its mask bit";
    if (npes < 1 || (uint32_t)npes > px_peers.n_pes)
        return "npes is not 1 to the number of PEs of the job";
    if (pe_idx < 0 || pe_idx >= npes)
        return "pe_idx_in_team is not 0 to npes - 1";
    return NULL;
}

int px_api_team_init(nvshmem_team_t *handle, nvshmem_team_config_t *config, long config_mask,
                     int npes, int pe_idx)
{
    static const char name[] = "nvshmemx_team_init";
    struct px_team *team = NULL;
    long num_contexts;
    if (px_suspect_call())
        px_check_up(name);
    require_place(name, "team", handle);
    *handle = NVSHMEM_TEAM_INVALID;
    const char *wrong = wrong_with_init(config, config_mask, npes, pe_idx);
    if (wrong)
        px_warn("%s: %s; npes is %d, pe_idx_in_team %d", name, wrong, npes, pe_idx);
    if (wrong || !read_config(config, config_mask, name, &num_contexts))
        return REFUSED;
    const struct px_call call = {.name = name,
                                 .arguments = {config->uniqueid, (uint32_t)npes, (uint32_t)pe_idx},
                                 .own = 1u << 2};
    int status = px_team_join(config->uniqueid, (uint32_t)npes, (uint32_t)pe_idx, &team, &call);
    hand_out(team, num_contexts, handle);
    return status;
}
