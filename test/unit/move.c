/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of moving that need no peer: the processor's atomics, the list of transports, the
 * refusals. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "src/diag/log.h"
#include "src/transport/control.h"
#include "src/transport/dynlib.h"
#include "src/transport/move.h"

static uint64_t expected(enum px_amo_op op, uint64_t old, uint64_t operand, uint64_t compare)
{
    switch (op) {
    case PX_AMO_FETCH:
        return old;
    case PX_AMO_SET:
    case PX_AMO_SWAP:
        return operand;
    case PX_AMO_COMPARE_SWAP:
        return old == compare ? operand : old;
    case PX_AMO_ADD:
        return old + operand;
    case PX_AMO_AND:
        return old & operand;
    case PX_AMO_OR:
        return old | operand;
    case PX_AMO_XOR:
        return old ^ operand;
    case PX_AMO_COUNT:
        break;
    }
    fail();
    return 0;
}

static void every_atomic_in_both_widths(void **state)
{
    (void)state;
    const uint64_t values[] = {0, 1, 0xffffffff, 0x80000000, 0x123456789abcdef0, UINT64_MAX};
    for (int op = 0; op < PX_AMO_COUNT; op++)
        for (int a = 0; a < 6; a++)
            for (int b = 0; b < 6; b++)
                for (int same = 0; same < 2; same++) {
                    uint64_t compare = same ? values[a] : 77, word = values[a];
                    uint32_t half[2] = {(uint32_t)values[a], 0x5a5a5a5a};
                    struct px_amo amo = {.op = (enum px_amo_op)op,
                                         .width = 8,
                                         .fetching = true,
                                         .operand = values[b],
                                         .compare = compare};
                    assert_int_equal(px_amo_apply(&word, &amo), values[a]);
                    assert_int_equal(word, expected(amo.op, values[a], values[b], compare));
                    amo.width = 4;
                    assert_int_equal(px_amo_apply(half, &amo), (uint32_t)values[a]);
                    assert_int_equal(half[0],
                                     (uint32_t)expected(amo.op, (uint32_t)values[a],
                                                        (uint32_t)values[b], (uint32_t)compare));
                    assert_int_equal(half[1], 0x5a5a5a5a);
                }
}

static void put_signal_to_a_mapped_peer(void **state)
{
    (void)state;
    static struct px_control control;
    intptr_t delta[1] = {0};
    uint64_t signal = 5;
    char data[3000], dest[3000] = {0};
    memset(data, 7, sizeof(data));
    px_peers.delta = px_peers.control_delta = delta;
    px_peers.control = &control;
    atomic_store(&control.sleeping, 1);
    px_put_signal(0, dest, data, sizeof(data), &signal, 3, PX_AMO_ADD, false);
    assert_int_equal(signal, 8);
    assert_memory_equal(dest, data, sizeof(data));
    assert_int_equal(atomic_load(&control.sleeping), 0);
    px_put_signal(0, dest, data, 0, &signal, 3, PX_AMO_SET, true);
    assert_int_equal(signal, 3);
    px_peers.control = NULL;
    px_peers.delta = px_peers.control_delta = NULL;
}

static void transports_by_name_and_alias(void **state)
{
    (void)state;
    size_t count = 0;
    for (; px_transports[count]; count++)
        assert_ptr_equal(px_transport_by_name(px_transports[count]->name), px_transports[count]);
    assert_ptr_equal(px_transports[count - 1], &px_transport_none);
    assert_ptr_equal(px_transport_by_name("libfabric"), px_transport_by_name("ofi"));
    assert_ptr_equal(px_transport_by_name("IBRC"), px_transport_by_name("verbs"));
    assert_null(px_transport_by_name("pigeon"));
    assert_null(px_transport_by_name(""));
}

static void no_function_of_a_transport_is_missing(void **state)
{
    (void)state;
    for (size_t i = 0; px_transports[i]; i++) {
        const char *first = (const char *)&px_transports[i]->probe;
        const char *end = (const char *)(px_transports[i] + 1);
        for (; first < end; first += sizeof(void *))
            assert_non_null(*(void *const *)first);
    }
}

static void none_refuses_by_name_of_the_pe(void **state)
{
    (void)state;
    int ends[2], status = 0;
    char text[1000] = "";
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        px_transport_none.put(NULL, 5, NULL, NULL, 8);
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_not_equal(status, 0);
    assert_non_null(strstr(text, "PE 5"));
    assert_non_null(strstr(text, "NVSHMEM_REMOTE_TRANSPORT"));
}

#define CALLS(X) X(double, cos, (double)) X(double, no_such_call, (double))
struct calls {
    PX_DYNLIB_FIELDS(CALLS)
};

static void a_missing_library_or_call_is_named(void **state)
{
    (void)state;
    static const struct px_dynlib_call names[] = {
        {"cos", offsetof(struct calls, cos)},
        {"no_such_call", offsetof(struct calls, no_such_call)}};
    struct calls calls = {0};
    struct px_error error = PX_ERROR_INIT;
    assert_int_equal(px_dynlib_open("libno-such.so.9", "install it", names, 1, &calls, &error),
                     PX_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "libno-such.so.9"));
    assert_non_null(strstr(error.text, "install it"));
    assert_int_equal(px_dynlib_open("libm.so.6", "install it", names, 2, &calls, &error),
                     PX_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "no_such_call"));
    assert_null(calls.cos);
    assert_int_equal(px_dynlib_open("libm.so.6", "install it", names, 1, &calls, &error), PX_OK);
    assert_true(calls.cos(0) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_atomic_in_both_widths),
        cmocka_unit_test(put_signal_to_a_mapped_peer),
        cmocka_unit_test(transports_by_name_and_alias),
        cmocka_unit_test(no_function_of_a_transport_is_missing),
        cmocka_unit_test(none_refuses_by_name_of_the_pe),
        cmocka_unit_test(a_missing_library_or_call_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
