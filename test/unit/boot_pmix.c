/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx backend against a library that misbehaves on demand: the linker puts a fake in place of the PMIx calls. The
 * fake is a job of three PEs on two nodes, of which this process is PE 1; what it puts, the fake puts for the others too,
 * with the faults that a test asks for. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pmix.h>

#include "pmix/boot.h"
#include "pmix/record.h"

#define PES 3
#define ME  1

static struct px_error error;

/* ---- the fake ---- */

static struct {
    pmix_status_t init, put, commit, fence_call, fence_answer;
    bool init_hangs, fence_hangs, no_size, no_nodes, zero_size, late_facts, one_number;
    uint32_t rank;
    const char *damage; /* "zero", "short", "bit", "type", "rank", "view", "absent" */
    int inits, finalizes, aborts, abort_status;
    pmix_op_cbfunc_t late_fence;
    void *late_fence_arg;
    pmix_notification_fn_t handler;
} fake;

struct item {
    struct item *next;
    char key[64];
    size_t length;
    uint8_t bytes[512];
};
static struct item *items;

static void forget_items(void)
{
    for (struct item *item = items, *next; item; item = next) {
        next = item->next;
        free(item);
    }
    items = NULL;
}

pmix_status_t __wrap_PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t n);
pmix_status_t __wrap_PMIx_Finalize(const pmix_info_t info[], size_t n);
pmix_status_t __wrap_PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value);
pmix_status_t __wrap_PMIx_Commit(void);
pmix_status_t __wrap_PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                              size_t n, pmix_value_t **value);
pmix_status_t __wrap_PMIx_Get_nb(const pmix_proc_t *proc, const char key[],
                                 const pmix_info_t info[], size_t n, pmix_value_cbfunc_t done,
                                 void *arg);
pmix_status_t __wrap_PMIx_Fence_nb(const pmix_proc_t procs[], size_t n_procs,
                                   const pmix_info_t info[], size_t n, pmix_op_cbfunc_t done,
                                   void *arg);
void __wrap_PMIx_Register_event_handler(pmix_status_t codes[], size_t n_codes, pmix_info_t info[],
                                        size_t n, pmix_notification_fn_t handler,
                                        pmix_hdlr_reg_cbfunc_t done, void *arg);
pmix_status_t __wrap_PMIx_Abort(int status, const char message[], pmix_proc_t procs[], size_t n);

pmix_status_t __wrap_PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t n)
{
    fake.inits++;
    while (fake.init_hangs)
        sleep(1);
    memset(proc, 0, sizeof(*proc));
    strcpy(proc->nspace, "fake");
    proc->rank = fake.rank;
    return fake.init;
}

pmix_status_t __wrap_PMIx_Finalize(const pmix_info_t info[], size_t n)
{
    fake.finalizes++;
    return PMIX_SUCCESS;
}

pmix_status_t __wrap_PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    if (fake.put != PMIX_SUCCESS)
        return fake.put;
    struct item *item = calloc(1, sizeof(*item));
    snprintf(item->key, sizeof(item->key), "%s", key);
    item->length = value->data.bo.size;
    memcpy(item->bytes, value->data.bo.bytes, item->length);
    item->next = items;
    items = item;
    return PMIX_SUCCESS;
}

pmix_status_t __wrap_PMIx_Commit(void)
{
    return fake.commit;
}

static bool has_flag(const pmix_info_t *info, size_t n, const char *flag)
{
    return n == 1 && strcmp(info->key, flag) == 0 && info->value.data.flag;
}

pmix_status_t __wrap_PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                              size_t n, pmix_value_t **out)
{
    pmix_value_t value = {.type = PMIX_UINT32};
    if (fake.late_facts && has_flag(info, n, PMIX_OPTIONAL))
        return PMIX_ERR_NOT_FOUND;
    if (strcmp(key, PMIX_JOB_SIZE) == 0 && !fake.no_size) {
        value.data.uint32 = fake.zero_size ? 0 : PES;
    } else if (strcmp(key, PMIX_NODE_LIST) == 0 && !fake.no_nodes) {
        value.type = PMIX_STRING;
        value.data.string = strdup("east,west");
    } else if (strcmp(key, PMIX_HOSTNAME) == 0 && !fake.no_nodes) {
        value.type = PMIX_STRING;
        value.data.string = strdup(proc->rank == 0 ? "west" : "east");
    } else if (strcmp(key, PMIX_LOCAL_SIZE) == 0 && proc->rank == PMIX_RANK_WILDCARD) {
        value.data.uint32 = PES - 1;
    } else if (strcmp(key, PMIX_NODEID) == 0 && fake.one_number) {
        value.data.uint32 = 7;
    } else {
        return PMIX_ERR_NOT_FOUND;
    }
    *out = malloc(sizeof(value));
    **out = value;
    return PMIX_SUCCESS;
}

/* What another PE would have put under the same key: the same contents in its own envelope. */
static size_t translate(const struct item *mine, uint32_t rank, uint8_t *bytes)
{
    unsigned run, epoch;
    char key[64];
    uint32_t sequence = mine->bytes[12], view = 0;
    if (sscanf(mine->key, "px%u.%u.%63s", &run, &epoch, key) != 3)
        return 0;
    memcpy(&view, mine->bytes + 20, 4);
    if (fake.damage && strcmp(fake.damage, "view") == 0 && view)
        view++;
    struct px_record_label label = {
        .rank = rank, .epoch = epoch, .sequence = sequence, .key = key, .salt = rank, .view = view};
    if (fake.damage && strcmp(fake.damage, "rank") == 0)
        label.rank = 0x77;
    return px_record_seal(&label, mine->bytes + PX_RECORD_HEADER, mine->length - PX_RECORD_HEADER,
                          bytes);
}

static size_t damaged(uint8_t *bytes, size_t length)
{
    if (!fake.damage)
        return length;
    if (strcmp(fake.damage, "zero") == 0)
        memset(bytes, 0, length);
    if (strcmp(fake.damage, "bit") == 0)
        bytes[length - 1] ^= 1;
    return strcmp(fake.damage, "short") == 0 ? length / 2 : length;
}

pmix_status_t __wrap_PMIx_Get_nb(const pmix_proc_t *proc, const char key[],
                                 const pmix_info_t info[], size_t n, pmix_value_cbfunc_t done,
                                 void *arg)
{
    const struct item *item = items;
    uint8_t bytes[1024];
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    while (item && strcmp(item->key, key) != 0)
        item = item->next;
    bool absent = fake.damage && strcmp(fake.damage, "absent") == 0 && proc->rank == 2;
    if (!item || absent) {
        done(PMIX_ERR_NOT_FOUND, NULL, arg);
        return PMIX_SUCCESS;
    }
    size_t length = item->length;
    memcpy(bytes, item->bytes, length);
    if (proc->rank != ME)
        length = damaged(bytes, translate(item, proc->rank, bytes));
    value.data.bo.bytes = (char *)bytes;
    value.data.bo.size = length;
    if (fake.damage && strcmp(fake.damage, "type") == 0)
        value.type = PMIX_UINT32;
    done(PMIX_SUCCESS, &value, arg);
    return PMIX_SUCCESS;
}

pmix_status_t __wrap_PMIx_Fence_nb(const pmix_proc_t procs[], size_t n_procs,
                                   const pmix_info_t info[], size_t n, pmix_op_cbfunc_t done,
                                   void *arg)
{
    /* Slurm takes any other fence for one of the node alone. */
    assert_int_equal(n, 1);
    assert_string_equal(info[0].key, PMIX_COLLECT_DATA);
    assert_true(info[0].value.data.flag);
    if (fake.fence_hangs) {
        fake.late_fence = done;
        fake.late_fence_arg = arg;
        return PMIX_SUCCESS;
    }
    if (fake.fence_call == PMIX_SUCCESS)
        done(fake.fence_answer, arg);
    return fake.fence_call;
}

void __wrap_PMIx_Register_event_handler(pmix_status_t codes[], size_t n_codes, pmix_info_t info[],
                                        size_t n, pmix_notification_fn_t handler,
                                        pmix_hdlr_reg_cbfunc_t done, void *arg)
{
    fake.handler = handler;
    done(PMIX_SUCCESS, 1, arg);
}

pmix_status_t __wrap_PMIx_Abort(int status, const char message[], pmix_proc_t procs[], size_t n)
{
    fake.aborts++;
    fake.abort_status = status;
    return PMIX_SUCCESS;
}

/* ---- the tests ---- */

static pmix_notification_fn_t registered;

static int fresh(void **state)
{
    forget_items();
    if (fake.handler)
        registered = fake.handler;
    memset(&fake, 0, sizeof(fake));
    fake.rank = ME;
    error = (struct px_error)PX_ERROR_INIT;
    setenv("PMIX_NAMESPACE", "fake", 1);
    setenv("PMIX_RANK", "1", 1);
    setenv("PMIX_VERSION", "9.8.7", 1);
    return 0;
}

static px_status try_open(struct px_boot **boot, unsigned timeout_s)
{
    struct px_boot_options options = {.backend = "pmix", .timeout_s = timeout_s};
    return px_boot_open(&options, boot, &error);
}

static struct px_boot *open_fake(unsigned timeout_s)
{
    struct px_boot *boot = NULL;
    if (try_open(&boot, timeout_s) != PX_OK)
        fail_msg("%s", error.text);
    return boot;
}

static void assert_says(const char *word)
{
    if (!strstr(error.text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, error.text);
}

/* These come first: once PMIx has started it is kept. */
static void a_refused_start_lists_what_is_seen(void **state)
{
    struct px_boot *boot = NULL;
    fake.init = PMIX_ERR_UNREACH;
    setenv("PMIX_SERVER_URI4", "server;tcp4://127.0.0.1:1", 1);
    setenv("PMIX_SERVER_TMPDIR", "/no/such/place", 1);
    setenv("PMIX_MCA_psec", "nosuch", 1);
    setenv("PMIX_SECURITY_MODE", "native", 1);
    assert_int_equal(try_open(&boot, 5), PX_ERR_UNREACHABLE);
    assert_null(boot);
    assert_says(
        "server;tcp4://127.0.0.1:1, which cannot be reached from here (Connection refused)");
    assert_says("/no/such/place (PMIX_SERVER_TMPDIR) is not visible");
    assert_says("\"nosuch\" is asked for (PMIX_MCA_psec), the server offers \"native\"");
    assert_says("client OpenPMIx ");
    assert_says("server PMIx 9.8.7");
    unsetenv("PMIX_SERVER_URI4");
    unsetenv("PMIX_MCA_psec");
    setenv("PMIX_SERVER_TMPDIR", "/tmp", 1);
    setenv("PMIX_SECURITY_MODE", "munge,native", 1);
    assert_int_equal(try_open(&boot, 5), PX_ERR_UNREACHABLE);
    assert_says("no PMIX_SERVER_URI* names a server");
    assert_says("directory /tmp is there");
    assert_says("set PMIX_MCA_psec=native");
    unsetenv("PMIX_SERVER_TMPDIR");
    unsetenv("PMIX_SECURITY_MODE");
}

static void a_start_that_hangs_has_an_end(void **state)
{
    struct px_boot *boot = NULL;
    fake.init_hangs = true;
    assert_int_equal(try_open(&boot, 1), PX_ERR_TIMEOUT);
    assert_says("PMIx_Init has not come back after 1 s");
    fake.init_hangs = false;
}

static void facts_that_cannot_be_are_refused(void **state)
{
    struct px_boot *boot = NULL;
    fake.no_size = true;
    assert_int_equal(try_open(&boot, 5), PX_ERR_PROTOCOL);
    assert_says("how many PEs");
    fake.no_size = false;
    fake.zero_size = true;
    assert_int_equal(try_open(&boot, 5), PX_ERR_PROTOCOL);
    assert_says("rank 1 in a job of 0");
    fake.zero_size = false;
    fake.no_nodes = true;
    assert_int_equal(try_open(&boot, 5), PX_ERR_NOT_FOUND);
    assert_says("on which node");
    fake.no_nodes = false;
    px_boot_close(open_fake(5)); /* and the same process may try again */
}

/* What a PMIx 5 client makes of the numbers of a server that has them for the PEs of its node only. */
static void the_asking_pes_node_is_not_everybodys(void **state)
{
    fake.one_number = true;
    struct px_boot *boot = open_fake(5);
    const struct px_boot_facts *facts = px_boot_facts(boot);
    assert_int_equal(facts->nodes, 2);
    assert_memory_equal(facts->node_of, ((uint32_t[]){1, 0, 0}), sizeof(uint32_t) * PES);
    px_boot_close(boot);
}

static void facts_come_from_the_servers_keys(void **state)
{
    struct px_boot *boot = open_fake(5);
    const struct px_boot_facts *facts = px_boot_facts(boot);
    assert_int_equal(fake.inits, 0); /* PMIx was kept from the test before */
    assert_int_equal(facts->rank, ME);
    assert_int_equal(facts->size, PES);
    assert_int_equal(facts->nodes, 2);
    assert_int_equal(facts->node, 0); /* "east" is first in the launcher's list */
    assert_memory_equal(facts->node_of, ((uint32_t[]){1, 0, 0}), sizeof(uint32_t) * PES);
    assert_string_equal(px_boot_host(boot, 1), "west");
    assert_string_equal(facts->server_version, "PMIx 9.8.7");
    px_boot_close(boot);
    assert_int_equal(fake.finalizes, 0);
}

static px_status exchange_and_read(struct px_boot *boot, const char *key, uint32_t rank)
{
    char text[16];
    size_t length = 0;
    if (px_boot_publish(boot, key, "contents", 9, &error) != PX_OK ||
        px_boot_exchange(boot, &error) != PX_OK)
        return error.status;
    px_status status = px_boot_lookup(boot, rank, key, text, sizeof(text), &length, &error);
    if (status == PX_OK)
        assert_string_equal(text, "contents");
    return status;
}

static void good_records_arrive(void **state)
{
    struct px_boot *boot = open_fake(5);
    for (uint32_t rank = 0; rank < PES; rank++) {
        char key[8];
        snprintf(key, sizeof(key), "k%u", rank);
        if (exchange_and_read(boot, key, rank) != PX_OK)
            fail_msg("%s", error.text);
    }
    px_boot_close(boot);
}

static void bad_records_are_refused_with_pe_and_field(void **state)
{
    static const struct {
        const char *damage, *word;
        px_status status;
    } cases[] = {
        {"zero", "not ours", PX_ERR_PROTOCOL},
        {"short", "not ours", PX_ERR_PROTOCOL},
        {"bit", "checksum", PX_ERR_PROTOCOL},
        {"type", "instead of bytes", PX_ERR_PROTOCOL},
        {"rank", "PE number 119", PX_ERR_PROTOCOL},
        {"absent", "its process has ended", PX_ERR_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct px_boot *boot = open_fake(5);
        fake.damage = cases[i].damage;
        error = (struct px_error)PX_ERROR_INIT;
        assert_int_equal(exchange_and_read(boot, "card", 2), cases[i].status);
        assert_says(cases[i].word);
        assert_says("PE 2 on east");
        assert_says("client OpenPMIx ");
        fake.damage = NULL;
        px_boot_close(boot);
    }
}

static void read_all(struct px_boot *boot, const char *key, px_status expected)
{
    char text[16];
    size_t length;
    for (uint32_t rank = 0; rank < PES; rank++)
        assert_int_equal(px_boot_lookup(boot, rank, key, text, sizeof(text), &length, &error),
                         rank == ME ? PX_OK : expected);
}

static void records_of_another_program_are_found_out(void **state)
{
    struct px_boot *boot = open_fake(5);
    assert_int_equal(px_boot_publish(boot, "one", "contents", 9, &error), PX_OK);
    assert_int_equal(px_boot_exchange(boot, &error), PX_OK);
    read_all(boot, "one", PX_OK);
    assert_int_equal(px_boot_publish(boot, "two", "contents", 9, &error), PX_OK);
    assert_int_equal(px_boot_exchange(boot, &error), PX_OK);
    read_all(boot, "two", PX_OK);
    assert_int_equal(px_boot_publish(boot, "three", "contents", 9, &error), PX_OK);
    assert_int_equal(px_boot_exchange(boot, &error), PX_OK);
    fake.damage = "view"; /* the others saw something else in the second exchange */
    read_all(boot, "three", PX_ERR_PROTOCOL);
    assert_says("was given other records than this PE");
    px_boot_close(boot);
}

static void failing_calls_are_named(void **state)
{
    struct px_boot *boot = open_fake(5);
    fake.put = PMIX_ERR_NOMEM;
    assert_int_equal(px_boot_publish(boot, "k", "", 1, &error), PX_ERR_NO_MEMORY);
    assert_says("PMIx_Put");
    fake.put = PMIX_SUCCESS;
    fake.commit = PMIX_ERR_UNREACH;
    assert_int_equal(px_boot_exchange(boot, &error), PX_ERR_UNREACHABLE);
    assert_says("PMIx_Commit");
    fake.commit = PMIX_SUCCESS;
    fake.fence_answer = PMIX_ERR_UNREACH;
    assert_int_equal(px_boot_barrier(boot, &error), PX_ERR_UNREACHABLE);
    assert_says("PMIx_Fence");
    fake.fence_call = PMIX_ERR_NOT_SUPPORTED;
    assert_int_equal(px_boot_barrier(boot, &error), PX_ERR_UNSUPPORTED);
    fake.fence_call = PMIX_OPERATION_SUCCEEDED;
    assert_int_equal(px_boot_barrier(boot, &error), PX_OK);
    px_boot_close(boot);
}

static void a_reported_failure_ends_the_wait(void **state)
{
    struct px_boot *boot = open_fake(0); /* no limit: only the event can end it */
    pmix_proc_t source = {.nspace = "server"}, affected = {.nspace = "fake", .rank = 2};
    pmix_info_t info = {.key = PMIX_EVENT_AFFECTED_PROC};
    info.value.type = PMIX_PROC;
    info.value.data.proc = &affected;
    fake.fence_hangs = true;
    registered(1, PMIX_ERR_PROC_REQUESTED_ABORT, &source, &info, 1, NULL, 0, NULL, NULL);
    assert_int_equal(px_boot_barrier(boot, &error), PX_ERR_PEER);
    assert_says("PE 2 on east failed: the launcher reports");
    fake.late_fence(PMIX_SUCCESS, fake.late_fence_arg); /* the answer comes late and hurts nobody */
    px_boot_close(boot);
}

static void abort_carries_the_status(void **state)
{
    struct px_boot *boot = open_fake(5);
    px_boot_abort(boot, 42, "why");
    assert_int_equal(fake.aborts, 1);
    assert_int_equal(fake.abort_status, 42);
    px_boot_close(boot);
}

static void a_meeting_that_does_not_happen_names_the_missing(void **state)
{
    struct px_boot *boot = open_fake(1);
    struct px_boot *other = NULL;
    fake.fence_hangs = true;
    fake.damage = "absent"; /* PE 2 has left no mark */
    assert_int_equal(px_boot_publish(boot, "card", "", 1, &error), PX_OK);
    assert_int_equal(px_boot_exchange(boot, &error), PX_ERR_TIMEOUT);
    assert_says("missing: PE 2 on east");
    assert_says("within 1 s");
    assert_null(strstr(error.text, "PE 0"));
    px_boot_close(boot);
    assert_int_equal(try_open(&other, 1), PX_ERR_UNSUPPORTED); /* PMIx still holds that fence */
    assert_says("never ended");
    fake.late_fence(PMIX_SUCCESS, fake.late_fence_arg);
    fake.damage = NULL;
    px_boot_close(open_fake(1)); /* now it does not */
}

/* The last one: the news is told by a thread of its own, which must not meet the bootstrap of another test. */
static void an_event_without_a_bootstrap_hurts_nobody(void **state)
{
    pmix_proc_t source = {.nspace = "server"};
    registered(1, PMIX_ERR_PROC_REQUESTED_ABORT, &source, NULL, 0, NULL, 0, NULL, NULL);
    assert_int_equal(fake.aborts, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_refused_start_lists_what_is_seen, fresh),
        cmocka_unit_test_setup(a_start_that_hangs_has_an_end, fresh),
        cmocka_unit_test_setup(facts_that_cannot_be_are_refused, fresh),
        cmocka_unit_test_setup(facts_come_from_the_servers_keys, fresh),
        cmocka_unit_test_setup(the_asking_pes_node_is_not_everybodys, fresh),
        cmocka_unit_test_setup(good_records_arrive, fresh),
        cmocka_unit_test_setup(bad_records_are_refused_with_pe_and_field, fresh),
        cmocka_unit_test_setup(records_of_another_program_are_found_out, fresh),
        cmocka_unit_test_setup(failing_calls_are_named, fresh),
        cmocka_unit_test_setup(a_reported_failure_ends_the_wait, fresh),
        cmocka_unit_test_setup(abort_carries_the_status, fresh),
        cmocka_unit_test_setup(a_meeting_that_does_not_happen_names_the_missing, fresh),
        cmocka_unit_test_setup(an_event_without_a_bootstrap_hurts_nobody, fresh),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_items();
    return failed;
}
