/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of processors, PCI addresses and other plain values: how they are compared, written and
 * read. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_WORDS (PX_TOPOLOGY_CPUS_MAX / 64)

bool px_topology_cpus_empty(const struct px_topology_cpus *cpus)
{
    return px_topology_cpus_count(cpus) == 0;
}

size_t px_topology_cpus_count(const struct px_topology_cpus *cpus)
{
    size_t count = 0;
    for (size_t i = 0; i < N_WORDS; i++)
        count += (size_t)__builtin_popcountll(cpus->word[i]);
    return count;
}

bool px_topology_cpus_has(const struct px_topology_cpus *cpus, size_t cpu)
{
    return cpu < PX_TOPOLOGY_CPUS_MAX && (cpus->word[cpu / 64] >> cpu % 64 & 1);
}

void px_topology_cpus_add(struct px_topology_cpus *cpus, size_t cpu)
{
    if (cpu < PX_TOPOLOGY_CPUS_MAX)
        cpus->word[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

bool px_topology_cpus_within(const struct px_topology_cpus *inner,
                             const struct px_topology_cpus *outer)
{
    for (size_t i = 0; i < N_WORDS; i++)
        if (inner->word[i] & ~outer->word[i])
            return false;
    return true;
}

bool px_topology_cpus_meet(const struct px_topology_cpus *a, const struct px_topology_cpus *b)
{
    for (size_t i = 0; i < N_WORDS; i++)
        if (a->word[i] & b->word[i])
            return true;
    return false;
}

void px_topology_say(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text + used, size - used, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length >= size - used && size > 4)
        memcpy(text + size - 4, "...", 4);
}

void px_topology_cpus_text(const struct px_topology_cpus *cpus, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t cpu = 0; cpu < PX_TOPOLOGY_CPUS_MAX; cpu++) {
        if (!px_topology_cpus_has(cpus, cpu))
            continue;
        size_t last = cpu;
        while (px_topology_cpus_has(cpus, last + 1))
            last++;
        px_topology_say(text, size, last > cpu ? "%s%zu-%zu" : "%s%zu", text[0] ? "," : "", cpu,
                        last);
        cpu = last;
    }
}

/* A decimal number below PX_TOPOLOGY_CPUS_MAX. */
static bool parse_cpu(const char **at, size_t *cpu)
{
    if (!isdigit((unsigned char)**at))
        return false;
    char *end;
    unsigned long value = strtoul(*at, &end, 10);
    if (value >= PX_TOPOLOGY_CPUS_MAX)
        return false;
    *cpu = value;
    *at = end;
    return true;
}

px_status px_topology_cpus_parse(const char *text, struct px_topology_cpus *cpus,
                                 struct px_error *error)
{
    struct px_topology_cpus result = {{0}};
    for (const char *at = text;;) {
        size_t first, last;
        if (!parse_cpu(&at, &first))
            goto refuse;
        last = first;
        if (*at == '-' && (at++, !parse_cpu(&at, &last) || last < first))
            goto refuse;
        while (first <= last)
            px_topology_cpus_add(&result, first++);
        if (*at == '\0')
            break;
        if (*at++ != ',')
            goto refuse;
    }
    *cpus = result;
    return PX_OK;
refuse:
    return px_error_set(error, PX_ERR_INVALID,
                        "\"%s\" is not a list of processors (as 0-3,8; numbers below %d)", text,
                        PX_TOPOLOGY_CPUS_MAX);
}

px_status px_topology_own_cpus(struct px_topology_cpus *cpus, struct px_error *error)
{
    size_t size = CPU_ALLOC_SIZE(PX_TOPOLOGY_CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(PX_TOPOLOGY_CPUS_MAX);
    if (!set)
        return px_error_errno(error, ENOMEM, "reading the processor binding");
    if (sched_getaffinity(0, size, set) != 0) {
        int errnum = errno;
        CPU_FREE(set);
        return px_error_errno(error, errnum, "sched_getaffinity");
    }
    *cpus = (struct px_topology_cpus){{0}};
    for (size_t cpu = 0; cpu < PX_TOPOLOGY_CPUS_MAX; cpu++)
        if (CPU_ISSET_S(cpu, size, set))
            px_topology_cpus_add(cpus, cpu);
    CPU_FREE(set);
    return PX_OK;
}

px_status px_topology_bind_thread(const struct px_topology_cpus *cpus, struct px_error *error)
{
    if (px_topology_cpus_empty(cpus))
        return PX_OK;
    size_t size = CPU_ALLOC_SIZE(PX_TOPOLOGY_CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(PX_TOPOLOGY_CPUS_MAX);
    if (!set)
        return px_error_errno(error, ENOMEM, "binding a helper thread");
    CPU_ZERO_S(size, set);
    for (size_t cpu = 0; cpu < PX_TOPOLOGY_CPUS_MAX; cpu++)
        if (px_topology_cpus_has(cpus, cpu))
            CPU_SET_S(cpu, size, set);
    int failed = sched_setaffinity(0, size, set), errnum = errno;
    CPU_FREE(set);
    if (!failed)
        return PX_OK;
    char text[128];
    px_topology_cpus_text(cpus, text, sizeof(text));
    return px_error_errno(error, errnum, "binding a helper thread to processors %s", text);
}

px_status px_topology_pci_parse(const char *text, px_topology_pci *pci, struct px_error *error)
{
    unsigned domain = 0, bus, device, function;
    int used = -1;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4 ||
        used < 0 || text[used]) {
        domain = 0;
        used = -1;
        if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &used) != 3 || used < 0 ||
            text[used])
            used = -1;
    }
    if (used < 0 || bus > 255 || device > 31 || function > 7)
        return px_error_set(error, PX_ERR_INVALID, "\"%s\" is not a PCI address (as 0000:3b:00.0)",
                            text);
    *pci = (uint64_t)domain << 16 | bus << 8 | device << 3 | function;
    return PX_OK;
}

void px_topology_pci_text(px_topology_pci pci, char text[PX_TOPOLOGY_PCI_TEXT_MAX])
{
    if (pci == PX_TOPOLOGY_PCI_NONE)
        snprintf(text, PX_TOPOLOGY_PCI_TEXT_MAX, "none");
    else
        snprintf(text, PX_TOPOLOGY_PCI_TEXT_MAX, "%04x:%02x:%02x.%x", (unsigned)(pci >> 16),
                 (unsigned)(pci >> 8 & 0xff), (unsigned)(pci >> 3 & 0x1f), (unsigned)(pci & 7));
}
