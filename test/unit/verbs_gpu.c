/* SPDX-License-Identifier: BSD-3-Clause */
/* How GPU memory is registered: each refusal in the chain is provoked and the next way taken. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/transport/verbs/gpu.h"

enum step { EXPORT, REGISTER_DMABUF, FIND, REGISTER_DIRECT, STAGE, STEPS };

/* A pretend driver and device: which steps refuse, what was called, which descriptors are open. */
struct pretend {
    bool refuses[STEPS];
    int calls[STEPS], open_descriptors;
    uintptr_t address;
    size_t length;
};

static px_status step(struct pretend *self, enum step step, const char *words,
                      struct px_error *error)
{
    self->calls[step]++;
    return self->refuses[step] ? px_error_set(error, PX_ERR_UNSUPPORTED, "%s", words) : PX_OK;
}

static px_status export_dmabuf(void *arg, uintptr_t address, size_t length, int *fd,
                               uint64_t *offset, struct px_error *error)
{
    struct pretend *self = arg;
    px_status status = step(self, EXPORT, "the driver exports no dma-buf", error);
    if (status == PX_OK) {
        self->open_descriptors++;
        *fd = 33;
        *offset = address & 0xffff;
    }
    return status;
}

static px_status register_dmabuf(void *arg, int fd, uint64_t offset, size_t length,
                                 uintptr_t address, void **registration, struct px_error *error)
{
    struct pretend *self = arg;
    assert_int_equal(fd, 33);
    assert_int_equal(offset, address & 0xffff);
    self->address = address;
    self->length = length;
    *registration = "by dma-buf";
    return step(self, REGISTER_DMABUF, "ibv_reg_dmabuf_mr: Operation not supported", error);
}

static void close_dmabuf(void *arg, int fd)
{
    assert_int_equal(fd, 33);
    ((struct pretend *)arg)->open_descriptors--;
}

static px_status find_peermem(void *arg, char *name, size_t size, struct px_error *error)
{
    snprintf(name, size, "nvidia_peermem");
    return step(arg, FIND, "no peer memory module is loaded", error);
}

static px_status register_direct(void *arg, uintptr_t address, size_t length, void **registration,
                                 struct px_error *error)
{
    struct pretend *self = arg;
    self->address = address;
    self->length = length;
    *registration = "directly";
    return step(self, REGISTER_DIRECT, "ibv_reg_mr: Bad address", error);
}

static px_status make_staging(void *arg, size_t length, void **registration, struct px_error *error)
{
    *registration = "staged";
    return step(arg, STAGE, "no pinned memory", error);
}

static const struct px_gpu_ways ways = {
    .export_dmabuf = export_dmabuf,
    .register_dmabuf = register_dmabuf,
    .close_dmabuf = close_dmabuf,
    .find_peermem = find_peermem,
    .register_direct = register_direct,
    .make_staging = make_staging,
};

static px_status try(struct pretend *self, enum px_gpu_way forced, bool without_dmabuf,
                     struct px_gpu_choice *choice, struct px_error *error)
{
    px_status status = px_gpu_register(&ways, self, forced, without_dmabuf, 0x7f0000012000,
                                       0x200000, choice, error);
    assert_int_equal(self->open_descriptors, 0);
    return status;
}

/* Every set of refusals: the first way that is not refused is taken, and only as much is tried as needed. */
static void each_refusal_leads_to_the_next_way(void **state)
{
    for (unsigned refusals = 0; refusals < 1u << STEPS; refusals++) {
        struct pretend self = {.calls = {0}};
        struct px_gpu_choice choice = {.way = PX_GPU_ANY};
        struct px_error error = PX_ERROR_INIT;
        for (int i = 0; i < STEPS; i++)
            self.refuses[i] = refusals >> i & 1;
        enum px_gpu_way expected =
            !self.refuses[EXPORT] && !self.refuses[REGISTER_DMABUF] ? PX_GPU_DMABUF
            : !self.refuses[FIND] && !self.refuses[REGISTER_DIRECT] ? PX_GPU_PEERMEM
            : !self.refuses[STAGE]                                  ? PX_GPU_STAGING
                                                                    : PX_GPU_ANY;
        px_status status = try(&self, PX_GPU_ANY, false, &choice, &error);
        assert_int_equal(status, expected == PX_GPU_ANY ? PX_ERR_UNSUPPORTED : PX_OK);
        assert_int_equal(choice.way, expected);
        assert_int_equal(self.calls[STAGE], expected == PX_GPU_STAGING || expected == PX_GPU_ANY);
        if (expected == PX_GPU_DMABUF || expected == PX_GPU_PEERMEM) {
            assert_int_equal(self.address, 0x7f0000012000);
            assert_int_equal(self.length, 0x200000);
        }
    }
}

static void reasons_are_kept(void **state)
{
    struct pretend self = {.refuses = {[EXPORT] = true, [REGISTER_DIRECT] = true}};
    struct px_gpu_choice choice;
    assert_int_equal(try(&self, PX_GPU_ANY, false, &choice, NULL), PX_OK);
    assert_int_equal(choice.way, PX_GPU_STAGING);
    assert_string_equal(choice.registration, "staged");
    assert_string_equal(choice.refused[PX_GPU_DMABUF], "the driver exports no dma-buf");
    assert_string_equal(choice.refused[PX_GPU_PEERMEM], "ibv_reg_mr: Bad address");
    assert_string_equal(choice.refused[PX_GPU_STAGING], "");
}

static void when_all_refuse_the_error_has_every_reason(void **state)
{
    struct pretend self = {.refuses = {[REGISTER_DMABUF] = true, [FIND] = true, [STAGE] = true}};
    struct px_gpu_choice choice;
    struct px_error error = PX_ERROR_INIT;
    assert_int_equal(try(&self, PX_GPU_ANY, false, &choice, &error), PX_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "dma-buf: ibv_reg_dmabuf_mr: Operation not supported"));
    assert_non_null(strstr(error.text, "nvidia-peermem: no peer memory module is loaded"));
    assert_non_null(strstr(error.text, "staging: no pinned memory"));
}

static void a_way_can_be_forced(void **state)
{
    for (enum px_gpu_way way = PX_GPU_DMABUF; way < PX_GPU_WAYS; way++) {
        struct pretend self = {.calls = {0}}, broken = {.refuses = {true, true, true, true, true}};
        struct px_gpu_choice choice;
        assert_int_equal(try(&self, way, false, &choice, NULL), PX_OK);
        assert_int_equal(choice.way, way);
        assert_int_equal(try(&broken, way, false, &choice, NULL), PX_ERR_UNSUPPORTED);
        assert_int_equal(broken.calls[EXPORT] + broken.calls[FIND] + broken.calls[STAGE], 1);
    }
}

static void dmabuf_can_be_left_out(void **state)
{
    struct pretend self = {.calls = {0}};
    struct px_gpu_choice choice;
    assert_int_equal(try(&self, PX_GPU_ANY, true, &choice, NULL), PX_OK);
    assert_int_equal(choice.way, PX_GPU_PEERMEM);
    assert_string_equal(choice.module, "nvidia_peermem");
    assert_int_equal(self.calls[EXPORT], 0);
    assert_string_equal(choice.refused[PX_GPU_DMABUF], "NVSHMEM_IB_DISABLE_DMABUF is set");
    assert_int_equal(try(&self, PX_GPU_DMABUF, true, &choice, NULL), PX_ERR_UNSUPPORTED);
}

static void make_folders(char *path)
{
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, 0700); /* may exist; the last one is checked by what follows */
            *at = '/';
        }
    assert_int_equal(mkdir(path, 0700), 0);
}

static void the_module_is_found_under_each_name(void **state)
{
    static const char *const places[][2] = {
        {"/sys/module/nvidia_peermem", "nvidia_peermem"},
        {"/sys/module/nv_peer_mem", "nv_peer_mem"},
        {"/sys/module/nv_peermem", "nv_peermem"},
        {"/sys/kernel/mm/memory_peers/nv_mem/version", "nv_mem"}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char root[] = "peermem.XXXXXX", path[256], name[32] = "", clean[300];
        struct px_error error = PX_ERROR_INIT;
        assert_non_null(mkdtemp(root));
        assert_int_equal(px_gpu_find_peermem(root, name, sizeof(name), &error), PX_ERR_NOT_FOUND);
        assert_non_null(strstr(error.text, "modprobe nvidia-peermem"));
        snprintf(path, sizeof(path), "%s%s", root, places[i][0]);
        make_folders(path);
        assert_int_equal(px_gpu_find_peermem(root, name, sizeof(name), NULL), PX_OK);
        assert_string_equal(name, places[i][1]);
        snprintf(clean, sizeof(clean), "rm -r %s", root);
        assert_int_equal(system(clean), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_leads_to_the_next_way),
        cmocka_unit_test(reasons_are_kept),
        cmocka_unit_test(when_all_refuse_the_error_has_every_reason),
        cmocka_unit_test(a_way_can_be_forced),
        cmocka_unit_test(dmabuf_can_be_left_out),
        cmocka_unit_test(the_module_is_found_under_each_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
