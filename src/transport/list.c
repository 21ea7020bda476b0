/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transports this build has, in order of preference, and the names they go by. */
#include "config.h"
#include "src/transport/transport.h"

#include <strings.h>

extern const struct px_transport_ops px_transport_verbs, px_transport_ofi, px_transport_shuffle;

const struct px_transport_ops *const px_transports[] = {
#if PX_HAVE_LIBIBVERBS
    &px_transport_verbs,
#endif
#if PX_HAVE_LIBFABRIC
    &px_transport_ofi,
#endif
    &px_transport_shuffle,
    &px_transport_none,
    NULL,
};

static const struct {
    const char *alias, *name;
} aliases[] = {
    {"ibrc", "verbs"},
    {"libfabric", "ofi"},
};

const struct px_transport_ops *px_transport_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcasecmp(name, aliases[i].alias) == 0)
            name = aliases[i].name;
    for (size_t i = 0; px_transports[i]; i++)
        if (strcasecmp(name, px_transports[i]->name) == 0)
            return px_transports[i];
    return NULL;
}
