/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher alone, without our library: every rank publishes a number, a collecting fence
 * follows, and every rank reads everybody's. When this fails, the cluster or its PMIx is at fault,
 * not pxshmem.
 */
#include "test/job/tap.h"

#include <pmix.h>
#include <string.h>

static uint32_t job_size(const pmix_proc_t *me)
{
    pmix_proc_t job = *me;
    pmix_value_t *value;
    uint32_t size;

    job.rank = PMIX_RANK_WILDCARD;
    if (PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS)
        return 0;
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return size;
}

static pmix_status_t publish(uint32_t number)
{
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = number};
    pmix_info_t collect;
    bool yes = true;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, "test.number", &value);

    if (status != PMIX_SUCCESS || (status = PMIx_Commit()) != PMIX_SUCCESS)
        return status;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    return PMIx_Fence(NULL, 0, &collect, 1);
}

static bool has_number(const pmix_proc_t *me, uint32_t rank, uint32_t number)
{
    pmix_proc_t peer = *me;
    pmix_value_t *value;
    bool same;

    peer.rank = rank;
    if (PMIx_Get(&peer, "test.number", NULL, 0, &value) != PMIX_SUCCESS)
        return false;
    same = value->type == PMIX_UINT32 && value->data.uint32 == number;
    PMIX_VALUE_RELEASE(value);
    return same;
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    uint32_t size, rank, wanted = argc > 1 ? (uint32_t)atoi(argv[1]) : 1, right = 0;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);

    tap_start(status == PMIX_SUCCESS ? (int)me.rank : 0);
    if (!ok(status == PMIX_SUCCESS, "PMIx_Init returns %s", PMIx_Error_string(status)))
        return tap_done();
    size = job_size(&me);
    ok(size == wanted, "the job has %u ranks, %u wanted", size, wanted);
    status = publish(1000 + me.rank);
    ok(status == PMIX_SUCCESS, "publish and fence return %s", PMIx_Error_string(status));
    for (rank = 0; rank < size; rank++)
        right += has_number(&me, rank, 1000 + rank);
    ok(right == size, "%u of %u numbers arrived", right, size);
    status = PMIx_Finalize(NULL, 0);
    ok(status == PMIX_SUCCESS, "PMIx_Finalize returns %s", PMIx_Error_string(status));
    return tap_done();
}
