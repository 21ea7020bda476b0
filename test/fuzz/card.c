/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes from another process: whatever they are, the decoders of records, cards and verdicts neither read beyond them nor
 * accept what they would not write again. For libFuzzer (`make fuzz`); without it, `make check` replays the corpus, every
 * truncation and single-bit change of it, and random bytes. The first byte chooses the decoder. */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/card.h"
#include "pmix/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void demand(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

static void try_record(const uint8_t *bytes, size_t size)
{
    struct px_record_label label = {.rank = 1, .epoch = 1, .sequence = 1, .key = "card"};
    struct px_record record;
    struct px_error error = PX_ERROR_INIT;
    if (px_record_open(&label, bytes, size, &record, &error) == PX_OK)
        demand(record.data == bytes + PX_RECORD_HEADER && record.length == size - PX_RECORD_HEADER,
               "a record's data lies outside of it");
    else
        demand(error.status == PX_ERR_PROTOCOL && error.text[0], "a refusal without a reason");
}

static void try_card(const uint8_t *bytes, size_t size)
{
    struct px_card card, again;
    uint8_t back[PX_CARD_MAX], twice[PX_CARD_MAX];
    size_t length = 0, second = 0;
    struct px_error error = PX_ERROR_INIT;
    if (px_card_decode(bytes, size, &card, &error) != PX_OK) {
        demand(error.text[0], "a refusal without a reason");
        return;
    }
    demand(px_card_encode(&card, back, &length, &error) == PX_OK, "a card that cannot be sent on");
    demand(px_card_decode(back, length, &again, &error) == PX_OK,
           "a card that cannot be read back");
    demand(px_card_encode(&again, twice, &second, &error) == PX_OK && second == length &&
               memcmp(back, twice, length) == 0,
           "a card that changes on its way");
}

static void try_verdict(const uint8_t *bytes, size_t size)
{
    struct px_verdict verdict, again;
    uint8_t back[PX_VERDICT_MAX];
    size_t length = 0;
    struct px_error error = PX_ERROR_INIT;
    if (px_verdict_decode(bytes, size, &verdict, &error) != PX_OK) {
        demand(error.text[0], "a refusal without a reason");
        return;
    }
    demand(memchr(verdict.text, '\0', sizeof(verdict.text)) != NULL, "a text without an end");
    demand(verdict.address_length <= PX_VERDICT_ADDRESS_MAX, "an address that is too long");
    demand(px_verdict_encode(&verdict, back, &length, &error) == PX_OK,
           "a verdict that cannot be sent on");
    demand(px_verdict_decode(back, length, &again, &error) == PX_OK &&
               strcmp(verdict.text, again.text) == 0 && verdict.status == again.status,
           "a verdict that changes on its way");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0)
        return 0;
    uint8_t *exact =
        malloc(size - 1 ? size - 1 : 1); /* so that a sanitizer sees the first byte beyond */
    if (!exact)
        return 0;
    memcpy(exact, bytes + 1, size - 1);
    if (bytes[0] == 'c')
        try_card(exact, size - 1);
    else if (bytes[0] == 'v')
        try_verdict(exact, size - 1);
    else
        try_record(exact, size - 1);
    free(exact);
    return 0;
}

#if !PX_LIBFUZZER

enum { RANDOM_INPUTS = 20000, INPUT_MAX = 2048 };

static void vary(uint8_t *bytes, size_t size)
{
    for (size_t cut = 0; cut <= size; cut++)
        LLVMFuzzerTestOneInput(bytes, cut);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        LLVMFuzzerTestOneInput(bytes, size);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static size_t sample(char kind, uint8_t *bytes)
{
    struct px_card card = {.pe = 1, .heap_bytes = 1 << 20, .seat.has_gpu = true};
    struct px_card choosing = {
        .pe = 1, .heap_bytes = 1 << 20, .choosing = true, .seat = {.n_visible = 3}};
    struct px_verdict verdict = {.status = PX_ERR_NO_MEMORY, .text = "why", .address_length = 9};
    struct px_record_label label = {.rank = 1, .epoch = 1, .sequence = 1, .key = "card"};
    struct px_error error = PX_ERROR_INIT;
    size_t length = 0;
    bytes[0] = (uint8_t)(kind == 'C' ? 'c' : kind);
    if (kind == 'c')
        demand(px_card_encode(&card, bytes + 1, &length, &error) == PX_OK, error.text);
    else if (kind == 'C')
        demand(px_card_encode(&choosing, bytes + 1, &length, &error) == PX_OK, error.text);
    else if (kind == 'v')
        demand(px_verdict_encode(&verdict, bytes + 1, &length, &error) == PX_OK, error.text);
    else
        length = px_record_seal(&label, "contents", 8, bytes + 1);
    return length + 1;
}

static void vary_samples(void)
{
    uint8_t bytes[INPUT_MAX];
    for (const char *kind = "cCvr"; *kind; kind++)
        vary(bytes, sample(*kind, bytes));
}

/* Random changes of several bytes at once; the seed can be given back. */
static void vary_randomly(unsigned seed)
{
    uint8_t bytes[INPUT_MAX];
    srand(seed);
    for (int i = 0; i < RANDOM_INPUTS; i++) {
        size_t size = sample("cCvr"[i % 4], bytes);
        for (int changes = 1 + rand() % 6; changes; changes--)
            bytes[1 + (size_t)rand() % (size - 1)] = (uint8_t)rand();
        size += (size_t)(rand() % 3);
        LLVMFuzzerTestOneInput(bytes, size);
    }
}

static int replay(const char *name)
{
    uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(name, "rb");
    if (!file) {
        perror(name);
        return 1;
    }
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    vary(bytes, size);
    return 0;
}

int main(int argc, char **argv)
{
    const char *given = getenv("FUZZ_SEED");
    unsigned seed = given ? (unsigned)atoi(given) : 1;
    int failed = 0, files = 0;
    for (; files + 1 < argc; files++)
        failed |= replay(argv[files + 1]);
    vary_samples();
    vary_randomly(seed);
    printf("1..1\nok 1 - %d files, every truncation and bit, %d random changes (FUZZ_SEED=%u)\n",
           files, RANDOM_INPUTS, seed);
    return failed;
}

#endif
