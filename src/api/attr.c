/* SPDX-License-Identifier: BSD-3-Clause */
/* The other ways to initialise: with attributes. Every way returns a code, leaves nothing behind when it fails, and may be
 * tried again.
 *
 * A communicator and a unique id both come down to a list of the launcher's processes (pmix/group.c); the memory, the
 * network and everything after start as in nvshmem_init. With a communicator MPI carries that list; with a unique id the
 * PEs find each other through the launcher. */
#include "config.h"
#include "src/api/entry.h"
#include "src/api/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/api/mpi.h"
#include "src/diag/log.h"

#define WITH_KINDS (NVSHMEMX_INIT_WITH_MPI_COMM | NVSHMEMX_INIT_WITH_UNIQUEID)

static const char init_call[] = "nvshmemx_init_attr";

static int refuse(const char *call, px_status status, const char *what)
{
    struct px_error error = PX_ERROR_INIT;
    px_error_set(&error, status, "%s", what);
    return px_start_failed(call, &error);
}

/* ---- a communicator ---- */

#define WORD_MAGIC 0x70786d70u

/* What the members tell each other over MPI, before any of them can rely on the launcher. */
struct word {
    uint32_t magic;
    enum { WORD_READY, WORD_FAILED, WORD_UP } state; /* UP: this init is nested */
    uint64_t job;                                    /* digest of the launcher's name for it */
    uint32_t launcher_rank;
    uint32_t tag;       /* random; that of rank 0 counts */
    uint32_t pe, n_pes; /* nested: of the world that is up */
    uint64_t world;     /* nested: digest of its name */
    char text[256];     /* failed: why */
};

static uint64_t digest(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
    return hash;
}

static px_status fill_random(void *bytes, size_t size, struct px_error *error)
{
    ssize_t got;
    do
        got = getrandom(bytes, size, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)size ? PX_OK : px_error_errno(error, errno, "draw a random number");
}

/* All members hear the same words, so all come to the same answer. */
static px_status hear(const struct px_mpi *mpi, const struct word *mine, struct word *all,
                      struct px_error *error)
{
    px_status status = px_mpi_allgather(mpi, mine, sizeof(*mine), all, error);
    for (int rank = 0; status == PX_OK && rank < mpi->size; rank++) {
        if (all[rank].magic != WORD_MAGIC)
            return px_error_set(error, PX_ERR_PROTOCOL,
                                "rank %d of the communicator uses another version of this library",
                                rank);
        if (all[rank].state == WORD_FAILED) {
            px_world.said_elsewhere = rank != mpi->rank;
            return px_error_set(error, PX_ERR_UNREACHABLE, "rank %d of the communicator: %.*s",
                                rank, (int)sizeof(all[rank].text) - 1, all[rank].text);
        }
        if (all[rank].state != all[0].state)
            return px_error_set(error, PX_ERR_INVALID,
                                "the library is up already on some ranks of the communicator and "
                                "not on others (rank %d "
                                "and rank 0)",
                                rank);
    }
    return status;
}

static struct word *make_room(const struct px_mpi *mpi, struct px_error *error)
{
    struct word *all = calloc((size_t)mpi->size, sizeof(*all));
    if (!all)
        px_error_set(error, PX_ERR_NO_MEMORY, "no memory for the words of %d ranks", mpi->size);
    return all;
}

static px_status take_ranks(const struct px_mpi *mpi, const struct word *all,
                            struct px_members *members, struct px_error *error)
{
    for (int rank = 0; rank < mpi->size; rank++)
        if (all[rank].job != all[0].job)
            return px_error_set(error, PX_ERR_UNSUPPORTED,
                                "ranks 0 and %d of the communicator were not started as one job, "
                                "or not through PMIx or "
                                "PMI-2",
                                rank);
    members->ranks = malloc((size_t)mpi->size * sizeof(*members->ranks));
    if (!members->ranks)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %d ranks", mpi->size);
    for (int rank = 0; rank < mpi->size; rank++)
        members->ranks[rank] = all[rank].launcher_rank;
    members->count = (uint32_t)mpi->size;
    members->tag = all[0].tag;
    return PX_OK;
}

/* `boot` is NULL where the launcher could not be joined: the others are told. */
static px_status mpi_members(void *arg, struct px_boot *boot, struct px_members *members,
                             struct px_error *error)
{
    const struct px_mpi *mpi = arg;
    struct word mine = {.magic = WORD_MAGIC, .state = WORD_FAILED};
    struct word *all = make_room(mpi, error);
    if (!all)
        return error->status;
    if (boot && fill_random(&mine.tag, sizeof(mine.tag), error) == PX_OK) {
        mine.state = WORD_READY;
        mine.job = digest(px_boot_facts(boot)->job);
        mine.launcher_rank = px_boot_facts(boot)->rank;
    } else {
        snprintf(mine.text, sizeof(mine.text), "%.*s", (int)sizeof(mine.text) - 1, error->text);
    }
    px_status status = hear(mpi, &mine, all, error);
    if (status == PX_OK && all[0].state == WORD_UP)
        status = px_error_set(error, PX_ERR_INVALID,
                              "the library is up already on the other ranks of the communicator");
    if (status == PX_OK)
        status = take_ranks(mpi, all, members, error);
    free(all);
    return status;
}

/* The library is up: does this communicator have the same PEs in the same order? */
static px_status mpi_nested(void *arg, struct px_error *error)
{
    const struct px_mpi *mpi = arg;
    struct word mine = {.magic = WORD_MAGIC,
                        .state = WORD_UP,
                        .pe = px_world.facts->rank,
                        .n_pes = px_world.facts->size,
                        .world = digest(px_world.facts->job)};
    struct word *all = make_room(mpi, error);
    if (!all)
        return error->status;
    px_status status = hear(mpi, &mine, all, error);
    for (int rank = 0; status == PX_OK && rank < mpi->size; rank++)
        if (all[rank].pe != (uint32_t)rank || all[rank].n_pes != (uint32_t)mpi->size ||
            all[rank].world != all[0].world)
            status = px_error_set(error, PX_ERR_INVALID,
                                  "the library is up already with other PEs: rank %d of the "
                                  "communicator of %d is PE %u of "
                                  "%u; finalize first",
                                  rank, mpi->size, all[rank].pe, all[rank].n_pes);
    free(all);
    return status;
}

static int init_with_comm(const nvshmemx_init_attr_t *attr)
{
    struct px_mpi mpi;
    struct px_error error = PX_ERROR_INIT;
    if (!attr || !attr->mpi_comm)
        return refuse(init_call, PX_ERR_INVALID,
                      attr ? "attr->mpi_comm is NULL; it must point to the communicator"
                           : "attr is NULL; with NVSHMEMX_INIT_WITH_MPI_COMM attr->mpi_comm must "
                             "point to the communicator");
    /* The version is not asked for: the field has the same place in all layouts, and programs leave the rest unset. */
    if (px_mpi_open(attr->mpi_comm, &mpi, &error) != PX_OK)
        return px_start_failed(init_call, &error);
    return px_start_with(&(struct px_start){.members = mpi_members,
                                            .nested = mpi_nested,
                                            .arg = &mpi},
                         init_call);
}

/* ---- a unique id ---- */

#define ID_VERSION   ((1 << 16) + (int)sizeof(nvshmemx_uniqueid_v1))
#define ARGS_VERSION ((1 << 16) + (int)sizeof(nvshmemx_uniqueid_args_v1))

static const char id_mark[8] = "pxshmem1"; /* in front of the token, in an id that was given out */

struct place {
    uint64_t token;
    uint32_t rank, size;
};

int px_api_get_uniqueid(nvshmemx_uniqueid_t *uniqueid)
{
    static const char call[] = "nvshmemx_get_uniqueid";
    struct px_error error = PX_ERROR_INIT;
    uint64_t token = 0;
    if (!uniqueid)
        return refuse(call, PX_ERR_INVALID, "uniqueid is NULL");
    while (token == 0)
        if (fill_random(&token, sizeof(token), &error) != PX_OK)
            return px_start_failed(call, &error);
    *uniqueid = (nvshmemx_uniqueid_t){.version = ID_VERSION};
    memcpy(uniqueid->internal, id_mark, sizeof(id_mark));
    memcpy(uniqueid->internal + sizeof(id_mark), &token, sizeof(token));
    return NVSHMEMX_SUCCESS;
}

static bool has_known_version(const nvshmemx_init_attr_t *attr)
{
    return attr->version == NVSHMEM_INIT_ATTR_V1_IDENTIFIER ||
           attr->version == NVSHMEM_INIT_ATTR_V2_IDENTIFIER;
}

static px_status read_id(const nvshmemx_uniqueid_t *id, uint64_t *token, struct px_error *error)
{
    if (!id)
        return px_error_set(error, PX_ERR_INVALID, "the unique id is NULL");
    if (id->version != ID_VERSION || memcmp(id->internal, id_mark, sizeof(id_mark)) != 0)
        return px_error_set(error, PX_ERR_INVALID,
                            "the unique id was not made by nvshmemx_get_uniqueid, or did not "
                            "arrive whole: one PE calls "
                            "it and sends all %zu bytes to the others",
                            sizeof(*id));
    memcpy(token, id->internal + sizeof(id_mark), sizeof(*token));
    return PX_OK;
}

static px_status check_rank(int rank, int size, struct px_error *error)
{
    if (size < 1)
        return px_error_set(error, PX_ERR_INVALID, "nranks is %d, it must be at least 1", size);
    if (rank < 0 || rank >= size)
        return px_error_set(error, PX_ERR_INVALID, "myrank is %d, it must be between 0 and %d",
                            rank, size - 1);
    return PX_OK;
}

static px_status unknown_version(const char *field, int version, struct px_error *error)
{
    return px_error_set(
        error, PX_ERR_INVALID,
        "%s is %d, which this version of the library does not know: initialise the structure with "
        "NVSHMEMX_INIT_ATTR_INITIALIZER",
        field, version);
}

int px_api_set_attr_uniqueid_args(int myrank, int nranks, const nvshmemx_uniqueid_t *uniqueid,
                                  nvshmemx_init_attr_t *attr)
{
    static const char call[] = "nvshmemx_set_attr_uniqueid_args";
    struct px_error error = PX_ERROR_INIT;
    uint64_t token;
    if (!attr)
        return refuse(call, PX_ERR_INVALID, "attr is NULL");
    if (!has_known_version(attr))
        unknown_version("attr->version", attr->version, &error);
    else if (check_rank(myrank, nranks, &error) == PX_OK)
        (void)read_id(uniqueid, &token, &error); /* in `error` */
    if (error.status != PX_OK)
        return px_start_failed(call, &error);
    attr->args.uid_args = (nvshmemx_uniqueid_args_t){.version = ARGS_VERSION,
                                                     .id = (nvshmemx_uniqueid_t *)uniqueid,
                                                     .myrank = myrank,
                                                     .nranks = nranks};
    return NVSHMEMX_SUCCESS;
}

static px_status read_place(const nvshmemx_init_attr_t *attr, struct place *place,
                            struct px_error *error)
{
    if (!attr)
        return px_error_set(error, PX_ERR_INVALID,
                            "attr is NULL; with NVSHMEMX_INIT_WITH_UNIQUEID "
                            "nvshmemx_set_attr_uniqueid_args fills it");
    const nvshmemx_uniqueid_args_t *args = &attr->args.uid_args;
    if (!has_known_version(attr))
        return unknown_version("attr->version", attr->version, error);
    if (args->version != ARGS_VERSION)
        return unknown_version("attr->args.uid_args.version", args->version, error);
    px_status status = read_id(args->id, &place->token, error);
    if (status == PX_OK)
        status = check_rank(args->myrank, args->nranks, error);
    if (status == PX_OK) {
        place->rank = (uint32_t)args->myrank;
        place->size = (uint32_t)args->nranks;
    }
    return status;
}

static px_status id_members(void *arg, struct px_boot *boot, struct px_members *members,
                            struct px_error *error)
{
    const struct place *place = arg;
    if (!boot)
        return error->status;
    uint32_t *ranks = malloc(place->size * sizeof(*ranks));
    if (!ranks)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u PEs", place->size);
    px_status status =
        px_boot_gather(boot, place->token, place->rank, place->size, ranks, &members->tag, error);
    if (status != PX_OK) {
        free(ranks);
        return status;
    }
    members->ranks = ranks;
    members->count = place->size;
    members->token = place->token;
    return PX_OK;
}

static px_status id_nested(void *arg, struct px_error *error)
{
    const struct place *place = arg;
    if (px_world.token != place->token)
        return px_error_set(error, PX_ERR_INVALID,
                            "the library is up already and did not start with this unique id; "
                            "finalize first");
    if (px_world.facts->rank != place->rank || px_world.facts->size != place->size)
        return px_error_set(error, PX_ERR_INVALID,
                            "the library is up already with this process as PE %u of %u; it comes "
                            "as PE %u of %u now",
                            px_world.facts->rank, px_world.facts->size, place->rank, place->size);
    return PX_OK;
}

static int init_with_id(const nvshmemx_init_attr_t *attr)
{
    struct place place;
    struct px_error error = PX_ERROR_INIT;
    if (read_place(attr, &place, &error) != PX_OK)
        return px_start_failed(init_call, &error);
    return px_start_with(&(struct px_start){.members = id_members,
                                            .nested = id_nested,
                                            .arg = &place},
                         init_call);
}

/* ---- the door ---- */

int px_api_set_attr_mpi_comm_args(void *mpi_comm, nvshmemx_init_attr_t *attr)
{
    static const char call[] = "nvshmemx_set_attr_mpi_comm_args";
    if (!attr || !mpi_comm)
        return refuse(call, PX_ERR_INVALID, attr ? "mpi_comm is NULL" : "attr is NULL");
    attr->mpi_comm = mpi_comm;
    return NVSHMEMX_SUCCESS;
}

static px_status check_flags(unsigned int flags, struct px_error *error)
{
    if (flags & NVSHMEMX_INIT_THREAD_PES)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "NVSHMEMX_INIT_THREAD_PES: PEs are processes here, not threads");
    if (flags & NVSHMEMX_INIT_WITH_SHMEM)
        return px_error_set(
            error, PX_ERR_UNSUPPORTED,
            "NVSHMEMX_INIT_WITH_SHMEM: there is no other OpenSHMEM to start from; use flags 0, the "
            "launcher knows the same PEs");
    if (flags & ~(unsigned)WITH_KINDS)
        return px_error_set(error, PX_ERR_INVALID, "flags are 0x%x; 0x%x is not known", flags,
                            flags & ~(unsigned)WITH_KINDS);
    if (flags == WITH_KINDS)
        return px_error_set(
            error, PX_ERR_INVALID,
            "NVSHMEMX_INIT_WITH_MPI_COMM and NVSHMEMX_INIT_WITH_UNIQUEID exclude each other");
    return PX_OK;
}

int px_api_init_attr(unsigned int flags, nvshmemx_init_attr_t *attr)
{
    struct px_error error = PX_ERROR_INIT;
    if (check_flags(flags, &error) != PX_OK)
        return px_start_failed(init_call, &error);
    if (flags == NVSHMEMX_INIT_WITH_MPI_COMM)
        return init_with_comm(attr);
    if (flags == NVSHMEMX_INIT_WITH_UNIQUEID)
        return init_with_id(attr);
    return px_start_with(&(struct px_start){.members = NULL}, init_call);
}

int px_api_hostlib_init_attr(unsigned int flags, nvshmemx_init_attr_t *attr)
{
    return px_api_init_attr(flags, attr);
}
