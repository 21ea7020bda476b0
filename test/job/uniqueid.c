/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting with a unique id: by all processes of the job, by some while the others do nothing, by two groups at once, and
 * when somebody does not come.
 *
 *   uniqueid all | some | two | missing | wrong      with the number of processes behind it */
#include "test/job/group.h"
#include "test/job/tap.h"

static int launcher_rank, launcher_size;

/* The process with place 0 makes the id and leaves it in a file. */
static nvshmemx_uniqueid_t share_id(const char *name, int place)
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    if (place == 0 && nvshmemx_get_uniqueid(&id) == 0)
        group_write(name, &id, sizeof(id));
    group_read(name, &id, sizeof(id));
    return id;
}

static int start(nvshmemx_uniqueid_t *id, int place, int count)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    int code = nvshmemx_set_attr_uniqueid_args(place, count, id, &attr);
    return code ? code : nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr);
}

static bool one_world(const char *name, int place, int count, int salt)
{
    nvshmemx_uniqueid_t id = share_id(name, place);
    if (start(&id, place, count) != 0)
        return false;
    bool good = group_works(place, count, salt);
    nvshmem_finalize();
    return good;
}

static void all_of_them(void)
{
    int n = launcher_size, me = n - 1 - launcher_rank;
    nvshmemx_uniqueid_t id = share_id("first", me), other;
    nvshmemx_init_attr_t v1;
    nvshmemx_init_init_attr_ver_only(v1);
    int code = nvshmemx_set_attr_uniqueid_args(me, n, &id, &v1);
    if (code == 0)
        code = nvshmemx_hostlib_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &v1);
    tap_start(me);
    ok(code == 0, "all processes in reverse order, attributes of version 1: %d", code);
    ok(group_works(me, n, 100), "they reach each other");
    ok(start(&id, me, n) == 0, "a nested init with the same id is counted");
    nvshmemx_get_uniqueid(&other);
    ok(start(&other, me, n) != 0, "one with another id is refused");
    ok(start(&id, (me + 1) % n, n + (n == 1)) != 0, "and one with another place");
    nvshmem_init();
    nvshmem_finalize();
    nvshmem_finalize();
    ok(group_works(me, n, 200), "the world is as before");
    nvshmem_finalize();
    ok(start(&id, me, n) == 0 && group_works(me, n, 300), "the same id serves once more");
    nvshmem_finalize();
    ok(one_world("second", launcher_rank, n, 400), "another id in another order");
    nvshmem_init();
    ok(group_works(launcher_rank, n, 500), "nvshmem_init afterwards");
    nvshmem_finalize();
}

/* Ranks 0, 2, 4 ..., last first; the odd ones call nothing until the even ones are done. */
static void some_of_them(void)
{
    int count = (launcher_size + 1) / 2, place = count - 1 - launcher_rank / 2;
    char done;
    tap_start(launcher_rank);
    if (launcher_rank % 2 == 0) {
        ok(one_world("some", place, count, 100), "%d of %d processes", count, launcher_size);
        ok(one_world("again", place, count, 200), "once more with a new id");
    }
    if (launcher_rank == 0)
        group_write("done", "", 1);
    group_read("done", &done, 1);
    if (launcher_rank < 2) /* one has been in two worlds, the other in none */
        ok(one_world("pair", 1 - launcher_rank, 2, 300),
           "a process that was in a world and one that was not");
}

static void two_at_once(void)
{
    int part = launcher_rank % 2, place = launcher_rank / 2;
    int count = (launcher_size + 1 - part) / 2;
    tap_start(launcher_rank);
    for (int round = 0; round < 3; round++) {
        char name[16];
        snprintf(name, sizeof(name), "%d.%d", part, round);
        ok(one_world(name, place, count, 1000 * part + round), "two worlds at once, round %d",
           round);
    }
    nvshmem_init();
    ok(group_works(launcher_rank, launcher_size, 7), "then all in one");
    nvshmem_finalize();
}

/* Place 1 of 3 never comes; the two others are told, and start without it. */
static void one_is_missing(void)
{
    int place = launcher_rank == 0 ? 0 : 2;
    tap_start(launcher_rank);
    if (launcher_rank > 1)
        return;
    nvshmemx_uniqueid_t id = share_id("three", place);
    int code = start(&id, place, 3);
    ok(code != 0, "an id for 3 with 2 of them: %d, %s", code, nvshmemx_error_string(code));
    ok(strstr(nvshmemx_error_string(nvshmem_error_check()), "2 of 3 PEs came") != NULL,
       "says how many came: %s", nvshmemx_error_string(nvshmem_error_check()));
    ok(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED, "nothing is left");
    ok(one_world("two", launcher_rank, 2, 5), "the two may start by themselves");
}

static void wrong_arguments(void)
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER, cut;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER, blank;
    int n = launcher_size;
    tap_start(launcher_rank);
    memset(&blank, 0, sizeof(blank));
    ok(nvshmemx_get_uniqueid(NULL) == NVSHMEMX_ERROR_INVALID_VALUE, "get_uniqueid(NULL)");
    ok(nvshmemx_set_attr_uniqueid_args(0, 1, &id, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "an id that was never got");
    nvshmemx_get_uniqueid(&id);
    ok(nvshmemx_set_attr_uniqueid_args(n, n, &id, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "a rank past the last");
    ok(nvshmemx_set_attr_uniqueid_args(-1, n, &id, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "a negative rank");
    ok(nvshmemx_set_attr_uniqueid_args(0, 0, &id, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "no ranks");
    ok(nvshmemx_set_attr_uniqueid_args(0, 1, NULL, &attr) == NVSHMEMX_ERROR_INVALID_VALUE, "no id");
    ok(nvshmemx_set_attr_uniqueid_args(0, 1, &id, NULL) == NVSHMEMX_ERROR_INVALID_VALUE,
       "no attributes");
    ok(nvshmemx_set_attr_uniqueid_args(0, 1, &id, &blank) == NVSHMEMX_ERROR_INVALID_VALUE,
       "attributes without version");
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, NULL) == NVSHMEMX_ERROR_INVALID_VALUE,
       "init without attributes");
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "init without an id");
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "no communicator");
    attr.mpi_comm = &id;
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "no MPI in the process");
    cut = id;
    nvshmemx_set_attr_uniqueid_args(launcher_rank, n, &cut, &attr);
    cut.internal[0] = 0;
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "a damaged id");
    nvshmemx_set_attr_uniqueid_args(launcher_rank, n + 1, &id, &attr);
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "more PEs than processes");
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID | NVSHMEMX_INIT_WITH_MPI_COMM, &attr) ==
           NVSHMEMX_ERROR_INVALID_VALUE,
       "both flags");
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_THREAD_PES, &attr) == NVSHMEMX_ERROR_NOT_SUPPORTED,
       "threads as PEs");
    ok(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_SHMEM, &attr) == NVSHMEMX_ERROR_NOT_SUPPORTED,
       "another SHMEM");
    ok(nvshmemx_init_attr(64, &attr) == NVSHMEMX_ERROR_INVALID_VALUE, "a flag that nobody knows");
    ok(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED, "nothing is left of all this");
    ok(nvshmemx_init_attr(0, NULL) == 0 && group_works(launcher_rank, n, 3),
       "and flags 0 start as nvshmem_init does");
    nvshmem_finalize();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"all", all_of_them},
                 {"some", some_of_them},
                 {"two", two_at_once},
                 {"missing", one_is_missing},
                 {"wrong", wrong_arguments}};
    if (argc != 3)
        return 2;
    launcher_rank = group_rank();
    launcher_size = atoi(argv[2]);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            cases[i].run();
    return tap_done();
}
