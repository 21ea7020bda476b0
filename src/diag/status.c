/* SPDX-License-Identifier: BSD-3-Clause */
/* Words for px_status. */
#include "config.h"
#include "src/diag/status.h"

const char *px_status_string(px_status status)
{
    switch (status) {
    case PX_OK:
        return "success";
    case PX_ERR_INVALID:
        return "invalid argument";
    case PX_ERR_NO_MEMORY:
        return "out of memory";
    case PX_ERR_UNSUPPORTED:
        return "not supported";
    case PX_ERR_TIMEOUT:
        return "timed out";
    case PX_ERR_UNREACHABLE:
        return "unreachable";
    case PX_ERR_PEER:
        return "another PE failed";
    case PX_ERR_SYSTEM:
        return "system error";
    case PX_ERR_PROTOCOL:
        return "malformed data";
    case PX_ERR_NOT_FOUND:
        return "not found";
    case PX_ERR_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}
