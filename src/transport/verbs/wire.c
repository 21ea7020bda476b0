/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of bytes that came from another process. */
#include "config.h"
#include "src/transport/verbs/wire.h"

#include <string.h>

#include "src/transport/transport.h"

_Static_assert(sizeof(struct px_verbs_card) <= PX_TRANSPORT_ADDRESS_MAX,
               "the card has no room for the address");
_Static_assert(sizeof(struct px_verbs_greeting) <= 1024,
               "must fit a datagram of the smallest usual packet size");
_Static_assert(sizeof(struct px_verbs_message) <= 64, "sent inline by every device");

static px_status check_head(uint32_t magic, unsigned version, unsigned size, size_t expected,
                            struct px_error *error)
{
    if (magic == __builtin_bswap32(PX_VERBS_MAGIC))
        return px_error_set(error, PX_ERR_PROTOCOL, "the other PE has another byte order");
    if (magic != PX_VERBS_MAGIC)
        return px_error_set(error, PX_ERR_PROTOCOL, "not a verbs record (magic %#x)", magic);
    if (version != PX_VERBS_VERSION || size != expected)
        return px_error_set(error, PX_ERR_PROTOCOL,
                            "written by another release: version %u of %u bytes, here %d of %zu: "
                            "use one release on all nodes",
                            version, size, PX_VERBS_VERSION, expected);
    return PX_OK;
}

static px_status check_address(const struct px_verbs_address *address, struct px_error *error)
{
    if (address->mtu < 1 || address->mtu > 5 || address->port < 1 || address->ethernet > 1 ||
        address->gid_type > 3)
        return px_error_set(error, PX_ERR_PROTOCOL,
                            "port address out of range (mtu code %u, port %u)", address->mtu,
                            address->port);
    return PX_OK;
}

px_status px_verbs_check_card(const void *bytes, size_t length, struct px_verbs_card *card,
                              struct px_error *error)
{
    struct px_verbs_card seen;
    if (length != sizeof(seen))
        return px_error_set(error, PX_ERR_PROTOCOL, "verbs address of %zu bytes, expected %zu",
                            length, sizeof(seen));
    memcpy(&seen, bytes, sizeof(seen));
    px_status status = check_head(seen.magic, seen.version, seen.size, sizeof(seen), error);
    if (status == PX_OK)
        status = check_address(&seen.address, error);
    if (status == PX_OK && seen.qpn > 0xffffff)
        status =
            px_error_set(error, PX_ERR_PROTOCOL, "queue pair number %#x out of range", seen.qpn);
    if (status == PX_OK)
        *card = seen;
    return status;
}

px_status px_verbs_check_greeting(const void *bytes, size_t length, uint32_t n_pes,
                                  struct px_verbs_greeting *greeting, struct px_error *error)
{
    struct px_verbs_greeting seen;
    if (length != sizeof(seen))
        return px_error_set(error, PX_ERR_PROTOCOL, "greeting of %zu bytes, expected %zu", length,
                            sizeof(seen));
    memcpy(&seen, bytes, sizeof(seen));
    px_status status = check_head(seen.magic, seen.version, seen.size, sizeof(seen), error);
    if (status != PX_OK)
        return status;
    if (seen.from >= n_pes || seen.level < PX_LEVEL_OFFERED || seen.level > PX_LEVEL_READY ||
        seen.n_nics < 1 || seen.n_nics > PX_VERBS_NICS_MAX || seen.n_lanes < seen.n_nics ||
        seen.n_lanes > PX_VERBS_LANES_MAX || seen.n_keys > PX_VERBS_EARLY_KEYS || seen.reads < 1 ||
        seen.reads > 255)
        return px_error_set(
            error, PX_ERR_PROTOCOL,
            "greeting out of range: PE %u of %u, level %u, %u ports, %u lanes, %u keys", seen.from,
            n_pes, seen.level, seen.n_nics, seen.n_lanes, seen.n_keys);
    for (uint32_t i = 0; i < seen.n_nics && status == PX_OK; i++)
        status = check_address(&seen.nics[i], error);
    for (uint32_t i = 0; i < seen.n_lanes && status == PX_OK; i++)
        if (seen.qpn[i] > 0xffffff || seen.psn[i] > 0xffffff)
            status =
                px_error_set(error, PX_ERR_PROTOCOL, "queue pair number %#x or %#x out of range",
                             seen.qpn[i], seen.psn[i]);
    if (status == PX_OK)
        *greeting = seen;
    return status;
}

px_status px_verbs_check_message(const void *bytes, size_t length, struct px_verbs_message *message,
                                 struct px_error *error)
{
    struct px_verbs_message seen;
    if (length != sizeof(seen))
        return px_error_set(error, PX_ERR_PROTOCOL, "message of %zu bytes, expected %zu", length,
                            sizeof(seen));
    memcpy(&seen, bytes, sizeof(seen));
    bool ok = seen.kind >= PX_MESSAGE_AMO && seen.kind <= PX_MESSAGE_KEYS_REPLY;
    if (seen.kind == PX_MESSAGE_AMO)
        ok = seen.op < PX_AMO_COUNT && (seen.width == 4 || seen.width == 8);
    if (!ok)
        return px_error_set(error, PX_ERR_PROTOCOL, "message kind %u, operation %u, width %u",
                            seen.kind, seen.op, seen.width);
    *message = seen;
    return PX_OK;
}
