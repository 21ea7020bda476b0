/* SPDX-License-Identifier: BSD-3-Clause */
/* pxshmem-info about transports: each is asked, as at start-up, whether it would work on this node, and says why not. */
#include "config.h"
#include "src/tools/info.h"

#include <stdio.h>
#include <string.h>

#include "src/env/env.h"
#include "src/transport/transport.h"

static void ask(const struct px_transport_ops *ops, const struct px_env *env)
{
    const struct px_transport_setup setup = {
        .size = 2,
        .threads = 1,
        .demanded = px_transport_by_name(env->remote_transport) == ops,
        .env = env,
    };
    struct px_error error = PX_ERROR_INIT;
    if (ops->probe(&setup, &error) == PX_OK)
        printf("%-8s usable\n", ops->name);
    else
        printf("%-8s not usable: %s\n", ops->name, error.text);
}

int px_info_transports(int argc, char **argv)
{
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    for (int i = 2; i < argc; i++)
        return px_info_fail(PX_INFO_USAGE, "\"%s\": %s takes no further option", argv[i], argv[1]);
    if (px_env_read(&env, &error) != PX_OK) {
        px_env_free(&env);
        return px_info_fail(PX_INFO_FAILED, "%s", error.text);
    }
    printf("mapped   usable: load and store between the PEs of a node%s\n",
           env.disable_p2p ? ", switched off by NVSHMEM_DISABLE_P2P" : "");
    for (size_t i = 0; px_transports[i]; i++)
        if (!px_transports[i]->only_by_name && px_transports[i] != &px_transport_none)
            ask(px_transports[i], &env);
    printf("in force NVSHMEM_REMOTE_TRANSPORT=%s: %s\n", env.remote_transport,
           strcmp(env.remote_transport, "auto") == 0 ? "the first above that is usable on all nodes"
                                                     : "only this one");
    px_env_free(&env);
    return PX_INFO_OK;
}
