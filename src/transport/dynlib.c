/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a library and looking up a table of its functions. */
#include "config.h"
#include "src/transport/dynlib.h"

#include <dlfcn.h>
#include <string.h>

px_status px_dynlib_open(const char *library, const char *remedy,
                         const struct px_dynlib_call *calls, size_t count, void *table,
                         struct px_error *error)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return px_error_set(error, PX_ERR_NOT_FOUND, "%s cannot be opened: %s (%s)", library,
                            dlerror(), remedy);
    for (size_t i = 0; i < count; i++) {
        if (!dlsym(handle, calls[i].name)) {
            dlclose(handle);
            return px_error_set(error, PX_ERR_UNSUPPORTED,
                                "%s has no %s: it is too old or another library (%s)", library,
                                calls[i].name, remedy);
        }
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, calls[i].name);
        memcpy((char *)table + calls[i].offset, &symbol, sizeof(symbol));
    }
    return PX_OK;
}
