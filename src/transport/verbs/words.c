/* SPDX-License-Identifier: BSD-3-Clause */
/* What a failure of the network looks like to a user: which peer, which operation, what usually
 * causes it, both ends, and what to try. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "src/diag/log.h"

const char *px_verbs_usual_cause(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer no longer answers: its process or node has ended, or the path is broken "
               "or loses too much "
               "(for RoCE: flow control, mtu, wrong GID). NVSHMEM_IB_TIMEOUT and "
               "NVSHMEM_IB_RETRY_COUNT set how long to try";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer takes no messages: its progress thread does not run";
    case IBV_WC_REM_ACCESS_ERR:
        return "the peer's device refused the address: outside its symmetric memory, or memory "
               "that was released";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_MW_BIND_ERR:
        return "this node's device refused the local address: memory that was unmapped during the "
               "transfer";
    case IBV_WC_REM_OP_ERR:
        return "the peer's device could not carry it out: its memory or the device failed (see "
               "dmesg there)";
    case IBV_WC_REM_INV_REQ_ERR:
        return "the peer's device does not accept such a request: too long, misaligned or an "
               "operation it does not have";
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_LEN_ERR:
        return "this node's device does not accept the request: an internal error of the library "
               "or a broken driver";
    case IBV_WC_WR_FLUSH_ERR:
        return "the connection had already failed";
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
        return "the device or its driver failed (see dmesg)";
    default:
        return "not usual; see the device's manual and dmesg";
    }
}

static const char *operation(enum px_verbs_kind kind)
{
    static const char *const words[] = {[PX_KIND_PUT] = "put",
                                        [PX_KIND_GET] = "get",
                                        [PX_KIND_AMO] = "atomic operation",
                                        [PX_KIND_SIGNAL] = "signal",
                                        [PX_KIND_MESSAGE] = "message"};
    return words[kind];
}

static const char *state_of(struct px_verbs *self, struct px_verbs_lane *lane)
{
    static const char *const states[] = {"reset",
                                         "init",
                                         "ready to receive",
                                         "ready to send",
                                         "send queue drained",
                                         "send queue error",
                                         "error"};
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr init;
    if (self->ibv->ibv_query_qp(lane->qp, &attributes, IBV_QP_STATE, &init) != 0 ||
        (unsigned)attributes.qp_state > 6)
        return "unknown";
    return states[attributes.qp_state];
}

static char *end_of(const struct px_verbs_address *address, char *text, size_t size)
{
    char gid_text[PX_GID_TEXT_MAX];
    struct px_gid gid = {.type = (enum px_gid_type)address->gid_type};
    memcpy(gid.raw, address->gid, 16);
    if (address->ethernet)
        snprintf(text, size, "%s index %u", px_gid_format(&gid, gid_text), address->gid_index);
    else
        snprintf(text, size, "lid %u", address->lid);
    return text;
}

_Noreturn void px_verbs_broken_lane(struct px_verbs *self, struct px_verbs_lane *lane,
                                    const struct ibv_wc *wc)
{
    char mine[128], theirs[128];
    const struct px_verbs_greeting *greeting = &lane->peer->theirs;
    const struct px_verbs_track *track = &lane->tracks[wc->wr_id % (1ull << 40) % lane->depth];
    end_of(&lane->nic->address, mine, sizeof(mine));
    end_of(&greeting->nics[lane->number % greeting->n_nics], theirs, sizeof(theirs));
    px_fatal(1,
             "verbs: %s of %u bytes to PE %u failed: %s (code %d, vendor %#x): %s. This end %s "
             "port %u, %s, queue pair %u, "
             "state %s; other end %s, queue pair %u; mtu %u. To test the path alone: ib_write_bw "
             "-d %s -x %u on the other "
             "node, then the same with its name here",
             operation((enum px_verbs_kind)track->kind), track->bytes, lane->peer->pe,
             self->ibv->ibv_wc_status_str(wc->status), wc->status, wc->vendor_err,
             px_verbs_usual_cause(wc->status), lane->nic->name, lane->nic->port, mine,
             lane->qp->qp_num, state_of(self, lane), theirs, greeting->qpn[lane->number],
             128u << lane->mtu, lane->nic->name, lane->nic->address.gid_index);
}

/* The capability that lifts the limit: bit 14 of the effective set. */
static bool may_lock_any(void)
{
    char line[128];
    unsigned long long effective = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "CapEff: %llx", &effective) == 1)
            break;
    if (file)
        fclose(file);
    return effective >> 14 & 1;
}

px_status px_verbs_check_memlock(size_t need, struct px_error *error)
{
    char limits[640];
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= need || may_lock_any())
        return PX_OK;
    px_verbs_memlock_text(need, limits, sizeof(limits));
    return px_error_set(error, PX_ERR_NO_MEMORY, "too little memory may be locked%s", limits);
}

/* Text to append to "Cannot allocate memory" of a registration; empty when the limit is not the
 * reason. */
void px_verbs_memlock_text(size_t need, char *text, size_t size)
{
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    snprintf(text, size,
             ". The limit for locked memory is %llu KiB (ulimit -l), %zu KiB are needed. "
             "Raise it to unlimited: under Slurm "
             "LimitMEMLOCK=infinity in the slurmd service and "
             "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, elsewhere "
             "\"* - memlock unlimited\" in /etc/security/limits.conf",
             (unsigned long long)limit.rlim_cur / 1024, (need + 1023) / 1024);
}
