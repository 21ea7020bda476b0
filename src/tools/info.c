/* SPDX-License-Identifier: BSD-3-Clause */
/* pxshmem-info: finds the subject that the command line is about and leaves all else to its file. A
 * subject is added as a row below, a file info_SUBJECT.c and a paragraph of the man page. */
#include "config.h"
#include "src/tools/info.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The first option of a row that is on the command line decides; several may lead to one subject.
 */
static const struct {
    const char *option;
    int (*run)(int argc, char **argv);
    const char *help;
} subjects[] = {
    {"--topology", px_info_topology, "which GPU and NICs each PE of a node uses, and why"},
    {"--matrix", px_info_topology, "distances between the GPUs and NICs of a node"},
    {"--json", px_info_topology, "the same for programs"},
    {"--svg", px_info_topology, "a picture of the node"},
    {"--check", px_info_check, "what could go wrong on this node, and what to do"},
    {"--transports", px_info_transports, "which ways to other nodes work here, and why not"},
    {"--environment", px_info_environment, "every variable, the value in force, where it is from"},
    {"--build", px_info_build, "what this build has"},
    {"--version", px_info_version, "the version"},
};

#define N_SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

int px_info_fail(int exit_status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("pxshmem-info: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return exit_status;
}

static void usage(FILE *out)
{
    fputs("usage: pxshmem-info SUBJECT [option ...]\n", out);
    for (size_t i = 0; i < N_SUBJECTS; i++)
        fprintf(out, "  %-13s %s\n", subjects[i].option, subjects[i].help);
    fputs("pxshmem-info SUBJECT --help lists the options of a subject; see pxshmem-info(1).\n",
          out);
}

static bool names(const char *argument, const char *option)
{
    size_t length = strlen(option);
    return strncmp(argument, option, length) == 0 &&
           (argument[length] == '\0' || argument[length] == '=');
}

/* What did not reach standard output is a failure, however well it was found. */
static int written(int result)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return result;
    return px_info_fail(PX_INFO_FAILED, "standard output: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        for (size_t s = 0; s < N_SUBJECTS; s++)
            if (names(argv[i], subjects[s].option))
                return written(subjects[s].run(argc, argv));
    if (argc == 2 && (names(argv[1], "--help") || strcmp(argv[1], "-h") == 0)) {
        usage(stdout);
        return PX_INFO_OK;
    }
    usage(stderr);
    return PX_INFO_USAGE;
}
