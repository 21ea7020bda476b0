/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs, opened when a network is needed and never linked. Calls that verbs.h defines inline
 * (posting, polling) go through the device's own table and need no symbol; the others are listed
 * here once. */
#ifndef PX_TRANSPORT_VERBS_LIBRARY_H
#define PX_TRANSPORT_VERBS_LIBRARY_H

#include <infiniband/verbs.h>

#include "src/transport/dynlib.h"

/* verbs.h hides these behind macros of the same name. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define PX_IBV_CALLS(X)                                                                            \
    X(struct ibv_device **, ibv_get_device_list, (int *count))                                     \
    X(void, ibv_free_device_list, (struct ibv_device * *list))                                     \
    X(const char *, ibv_get_device_name, (struct ibv_device * device))                             \
    X(struct ibv_context *, ibv_open_device, (struct ibv_device * device))                         \
    X(int, ibv_close_device, (struct ibv_context * context))                                       \
    X(int, ibv_query_device, (struct ibv_context * context, struct ibv_device_attr * attributes))  \
    X(int, ibv_query_port,                                                                         \
      (struct ibv_context * context, uint8_t port, struct ibv_port_attr * attributes))             \
    X(int, ibv_query_gid,                                                                          \
      (struct ibv_context * context, uint8_t port, int index, union ibv_gid *gid))                 \
    X(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context))                               \
    X(int, ibv_dealloc_pd, (struct ibv_pd * pd))                                                   \
    X(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *start, size_t length, int access))   \
    X(int, ibv_dereg_mr, (struct ibv_mr * mr))                                                     \
    X(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * context))          \
    X(int, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel))                          \
    X(struct ibv_cq *, ibv_create_cq,                                                              \
      (struct ibv_context * context, int entries, void *user, struct ibv_comp_channel *channel,    \
       int vector))                                                                                \
    X(int, ibv_destroy_cq, (struct ibv_cq * cq))                                                   \
    X(int, ibv_get_cq_event,                                                                       \
      (struct ibv_comp_channel * channel, struct ibv_cq * *cq, void **user))                       \
    X(void, ibv_ack_cq_events, (struct ibv_cq * cq, unsigned count))                               \
    X(struct ibv_srq *, ibv_create_srq,                                                            \
      (struct ibv_pd * pd, struct ibv_srq_init_attr * attributes))                                 \
    X(int, ibv_destroy_srq, (struct ibv_srq * srq))                                                \
    X(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr * attributes))  \
    X(int, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr * attributes, int mask))         \
    X(int, ibv_query_qp,                                                                           \
      (struct ibv_qp * qp, struct ibv_qp_attr * attributes, int mask,                              \
       struct ibv_qp_init_attr *init))                                                             \
    X(int, ibv_destroy_qp, (struct ibv_qp * qp))                                                   \
    X(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * pd, struct ibv_ah_attr * attributes))       \
    X(int, ibv_destroy_ah, (struct ibv_ah * ah))                                                   \
    X(int, ibv_get_async_event, (struct ibv_context * context, struct ibv_async_event * event))    \
    X(void, ibv_ack_async_event, (struct ibv_async_event * event))                                 \
    X(const char *, ibv_wc_status_str, (enum ibv_wc_status status))                                \
    X(const char *, ibv_event_type_str, (enum ibv_event_type event))

struct px_ibv {
    PX_DYNLIB_FIELDS(PX_IBV_CALLS)
    /* Newer than the oldest release we accept: NULL where the library does not have them. */
    ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
                               size_t most, uint32_t flags, size_t entry_size);
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access);
};

/* The table, opened at the first call and kept; NULL with the reason in `error`. */
const struct px_ibv *px_ibv_open(struct px_error *error);

#endif
