/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the device may touch: chunks of the window with the keys of peers, and bounce buffers
 * for private memory. Chunks appear on every PE in the same order, so a chunk's number means the
 * same everywhere; keys of the first few travel with the greeting, those of later ones are asked
 * for at first use and remembered. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/diag/log.h"
#include "src/env/env.h"

static struct ibv_mr *register_for(const struct px_verbs *self, const struct px_verbs_nic *nic,
                                   void *start, size_t length, int access, const char *what,
                                   struct px_error *error)
{
    char limits[640];
    struct ibv_mr *mr = self->ibv->ibv_reg_mr(nic->pd, start, length, access);
    if (mr)
        return mr;
    int errnum = errno;
    px_error_errno(error, errnum, "%s: registering %s, %zu bytes at %p", nic->name, what, length,
                   start);
    if (errnum == ENOMEM && error) {
        px_verbs_memlock_text(length, limits, sizeof(limits));
        struct px_error whole = PX_ERROR_INIT;
        px_error_set(&whole, PX_ERR_NO_MEMORY, "%s%s", error->text, limits);
        *error = whole;
    }
    return NULL;
}

struct ibv_mr *px_verbs_register(const struct px_verbs *self, const struct px_verbs_nic *nic,
                                 void *start, size_t length, const char *what,
                                 struct px_error *error)
{
    return register_for(self, nic, start, length, IBV_ACCESS_LOCAL_WRITE, what, error);
}

static bool on_demand(const struct px_verbs *self)
{
    return self->setup.env->ib_on_demand_paging;
}

static px_status make_space(struct px_verbs *self, struct px_error *error)
{
    if (self->n_chunks < self->chunk_capacity)
        return PX_OK;
    uint32_t capacity = self->chunk_capacity ? self->chunk_capacity * 2 : 16;
    struct px_verbs_chunk *chunks = realloc(self->chunks, capacity * sizeof(*chunks));
    if (!chunks)
        return px_error_set(error, PX_ERR_NO_MEMORY, "table of %u registered chunks", capacity);
    self->chunks = chunks;
    self->chunk_capacity = capacity;
    return PX_OK;
}

static void release_chunk(struct px_verbs *self, struct px_verbs_chunk *chunk)
{
    for (uint32_t i = 0; i < self->n_nics; i++)
        if (chunk->mr[i])
            self->ibv->ibv_dereg_mr(chunk->mr[i]);
}

px_status px_verbs_add_chunk(struct px_verbs *self, size_t offset, size_t length,
                             struct px_error *error)
{
    struct px_verbs_chunk chunk = {.offset = offset, .length = length};
    int access = PX_VERBS_REMOTE_ACCESS | (on_demand(self) ? IBV_ACCESS_ON_DEMAND : 0);
    for (uint32_t i = 0; i < self->n_nics; i++) {
        chunk.mr[i] = register_for(self, &self->nics[i], (void *)(self->setup.base + offset),
                                   length, access, "symmetric memory", error);
        if (!chunk.mr[i]) {
            release_chunk(self, &chunk);
            return error ? error->status : PX_ERR_NO_MEMORY;
        }
    }
    return px_verbs_append_chunk(self, &chunk, error);
}

px_status px_verbs_append_chunk(struct px_verbs *self, const struct px_verbs_chunk *chunk,
                                struct px_error *error)
{
    struct px_verbs_chunk mine = *chunk;
    px_status status = make_space(self, error);
    if (status == PX_OK)
        self->chunks[self->n_chunks++] = mine;
    else
        release_chunk(self, &mine);
    return status;
}

void px_verbs_drop_chunks(struct px_verbs *self, size_t offset)
{
    while (self->n_chunks && self->chunks[self->n_chunks - 1].offset >= offset)
        release_chunk(self, &self->chunks[--self->n_chunks]);
    self->epoch++;
    for (uint32_t pe = 0; pe < self->setup.size; pe++) {
        struct px_verbs_peer *peer = self->peers[pe];
        for (uint32_t i = self->n_chunks; peer && i < peer->key_capacity; i++)
            peer->key_known[i] = false;
    }
}

int64_t px_verbs_chunk_of(const struct px_verbs *self, uintptr_t address)
{
    size_t offset = address - self->setup.base; /* huge when below */
    uint32_t low = 0, high = self->n_chunks;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (self->chunks[middle].offset + self->chunks[middle].length <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < self->n_chunks && offset >= self->chunks[low].offset ? (int64_t)low : -1;
}

bool px_verbs_covers(const struct px_verbs *self, uintptr_t address, size_t bytes)
{
    int64_t i = px_verbs_chunk_of(self, address);
    if (i < 0)
        return false;
    size_t end = address - self->setup.base + bytes;
    for (; (uint32_t)i < self->n_chunks; i++) {
        const struct px_verbs_chunk *chunk = &self->chunks[i];
        if (chunk->offset + chunk->length >= end)
            return true;
        if ((uint32_t)i + 1 < self->n_chunks && chunk[1].offset != chunk->offset + chunk->length)
            return false;
    }
    return false;
}

void px_verbs_keys_of(const struct px_verbs *self, uint32_t chunk, uint32_t keys[PX_VERBS_NICS_MAX])
{
    for (uint32_t i = 0; i < PX_VERBS_NICS_MAX; i++)
        keys[i] = i < self->n_nics ? self->chunks[chunk].mr[i]->rkey : 0;
}

static void grow_keys(struct px_verbs_peer *peer, uint32_t needed)
{
    uint32_t capacity = peer->key_capacity ? peer->key_capacity : 8;
    while (capacity < needed)
        capacity *= 2;
    void *keys = realloc(peer->keys, capacity * sizeof(*peer->keys));
    if (keys)
        peer->keys = keys;
    void *known = realloc(peer->key_known, capacity * sizeof(*peer->key_known));
    if (known)
        peer->key_known = known;
    if (!keys || !known)
        px_fatal(1, "verbs: out of memory for the keys of PE %u (%u chunks)", peer->pe, capacity);
    memset(peer->key_known + peer->key_capacity, 0,
           (capacity - peer->key_capacity) * sizeof(*peer->key_known));
    peer->key_capacity = capacity;
}

void px_verbs_note_keys(struct px_verbs *self, struct px_verbs_peer *peer, uint32_t chunk,
                        uint32_t epoch, const uint32_t keys[PX_VERBS_NICS_MAX])
{
    if (epoch != self->epoch || chunk >= self->n_chunks)
        return; /* of memory that is no longer, or not yet, known here: asked for when it is needed
                 */
    if (chunk >= peer->key_capacity)
        grow_keys(peer, chunk + 1);
    memcpy(peer->keys[chunk], keys, sizeof(peer->keys[chunk]));
    peer->key_known[chunk] = true;
}

bool px_verbs_keys_known(struct px_verbs *self, struct px_verbs_peer *peer, uint32_t chunk)
{
    if (__builtin_expect(chunk < peer->key_capacity && peer->key_known[chunk], 1))
        return true;
    if (peer->keys_asked)
        return false;
    struct px_verbs_message ask = {.kind = PX_MESSAGE_KEYS,
                                   .keys = {.epoch = self->epoch, .chunk = chunk}};
    if (px_verbs_send_message(self, peer, &ask, NULL, NULL, false))
        peer->keys_asked = ask.number;
    return false;
}

px_status px_verbs_open_bounces(struct px_verbs *self, struct px_error *error)
{
    size_t bytes = (size_t)PX_VERBS_BOUNCES * PX_VERBS_BOUNCE;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return px_error_errno(error, errno, "bounce buffers, %zu bytes", bytes);
    self->bounces = memory;
    for (uint32_t i = 0; i < self->n_nics; i++) {
        self->nics[i].bounce_mr =
            px_verbs_register(self, &self->nics[i], memory, bytes, "bounce buffers", error);
        if (!self->nics[i].bounce_mr)
            return error ? error->status : PX_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < PX_VERBS_BOUNCES; i++)
        self->free_bounces[self->n_free_bounces++] = PX_VERBS_BOUNCES - 1 - i;
    return PX_OK;
}

void px_verbs_close_memory(struct px_verbs *self)
{
    while (self->n_chunks)
        release_chunk(self, &self->chunks[--self->n_chunks]);
    free(self->chunks);
    for (uint32_t i = 0; i < self->n_nics; i++)
        if (self->nics[i].bounce_mr)
            self->ibv->ibv_dereg_mr(self->nics[i].bounce_mr);
    if (self->bounces)
        munmap(self->bounces, (size_t)PX_VERBS_BOUNCES * PX_VERBS_BOUNCE);
}
