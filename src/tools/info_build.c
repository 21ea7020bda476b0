/* SPDX-License-Identifier: BSD-3-Clause */
/* pxshmem-info about itself: the versions, what this build has, and the environment variables as a program started here
 * would read them. */
#include "config.h"
#include "src/tools/info.h"

#include <hwloc.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvshmem.h"
#include "src/env/env.h"

static int refuse_more(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        return px_info_fail(PX_INFO_USAGE, "\"%s\": %s takes no further option", argv[i], argv[1]);
    return PX_INFO_OK;
}

int px_info_version(int argc, char **argv)
{
    int status = refuse_more(argc, argv);
    if (status == PX_INFO_OK)
        printf("pxshmem %s, interface %d.%d\n", PACKAGE_VERSION, NVSHMEM_MAJOR_VERSION,
               NVSHMEM_MINOR_VERSION);
    return status;
}

/* PMIx puts its revision behind the number. */
static void print_pmix(void)
{
    const char *version = PMIx_Get_version();
    const char *server = getenv("PMIX_VERSION"); /* launcher identity */
    int length = (int)strcspn(version, "(,");
    while (length && version[length - 1] == ' ')
        length--;
    printf("PMIx          %.*s%s%s\n", length, version, server ? ", server of this job " : "",
           server ? server : "");
}

int px_info_build(int argc, char **argv)
{
    static const struct {
        const char *name;
        int there;
    } parts[] = {
        {"PMI-2", PX_HAVE_PMI2},
        {"libibverbs", PX_HAVE_LIBIBVERBS},
        {"libfabric", PX_HAVE_LIBFABRIC},
        {"nvcc", PX_HAVE_CUDA},
        {"trace", PX_TRACE},
    };
    int status = refuse_more(argc, argv);
    if (status != PX_INFO_OK)
        return status;
    unsigned hwloc = hwloc_get_api_version();
    printf("pxshmem       %s, interface %d.%d\n", PACKAGE_VERSION, NVSHMEM_MAJOR_VERSION,
           NVSHMEM_MINOR_VERSION);
    printf("compiler      %s\n", __VERSION__);
    print_pmix();
    printf("hwloc         %u.%u.%u\n", hwloc >> 16, hwloc >> 8 & 0xff, hwloc & 0xff);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        printf("%-13s %s\n", parts[i].name, parts[i].there ? "yes" : "no");
    return PX_INFO_OK;
}

static void say(const char *line)
{
    printf("note: %s\n", line);
}

int px_info_environment(int argc, char **argv)
{
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    const char *group = "";
    int status = refuse_more(argc, argv);
    if (status != PX_INFO_OK)
        return status;
    if (px_env_read(&env, &error) != PX_OK)
        status = px_info_fail(PX_INFO_FAILED, "%s", error.text);
    for (size_t i = 0; status == PX_INFO_OK && i < px_env_row_count; i++) {
        const struct px_env_row *row = &px_env_rows[i];
        char value[256];
        if (row->type == PX_ENV_FOREIGN)
            continue;
        if (strcmp(row->group, group) != 0)
            printf("# %s\n", group = row->group);
        printf("%s=%s (%s)\n", row->name, px_env_format(&env, row, value, sizeof(value)),
               px_env_origin(row));
    }
    if (px_env_review(say) && status == PX_INFO_OK && env.strict_env)
        status =
            px_info_fail(PX_INFO_FAILED, "an unknown variable is set and NVSHMEM_STRICT_ENV is on");
    px_env_free(&env);
    return status;
}
