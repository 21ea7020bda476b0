/* SPDX-License-Identifier: BSD-3-Clause */
/* Choice of the backend. The rule that matters: a process that belongs to a larger job but finds no
 * server must not quietly become PE 0 of 1. */
#include "config.h"
#include "pmix/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const char *value_of(const char *name)
{
    const char *value = getenv(name); /* launcher identity, not an option of ours */
    return value ? value : "";
}

static unsigned long number_of(const char *name)
{
    return strtoul(value_of(name), NULL, 10);
}

/* A batch script and a salloc shell have SLURM_NTASKS and SLURM_PROCID too; only the tasks of a
 * step, started by srun, have the step's own number of tasks. */
static void slurm_hints(struct px_launch_hints *hints)
{
    static char step[64];
    if (!*value_of("SLURM_PROCID") || number_of("SLURM_STEP_NUM_TASKS") == 0)
        return;
    hints->tasks = number_of("SLURM_STEP_NUM_TASKS");
    snprintf(step, sizeof(step), "Slurm step %.20s.%.20s", value_of("SLURM_JOB_ID"),
             value_of("SLURM_STEP_ID"));
    hints->launcher = step;
}

void px_launch_hints_read(struct px_launch_hints *hints)
{
    *hints = (struct px_launch_hints){.launcher = "", .mpi_type = value_of("SLURM_MPI_TYPE")};
    hints->pmix = *value_of("PMIX_NAMESPACE") && *value_of("PMIX_RANK");
    hints->pmi2 = *value_of("PMI_FD") && *value_of("PMI_RANK");
    slurm_hints(hints);
    if (number_of("PMI_SIZE") > hints->tasks) {
        hints->tasks = number_of("PMI_SIZE");
        hints->launcher = "a PMI launcher";
    }
    if (number_of("OMPI_COMM_WORLD_SIZE") > hints->tasks) {
        hints->tasks = number_of("OMPI_COMM_WORLD_SIZE");
        hints->launcher = "Open MPI's mpirun";
    }
}

static px_status refuse_alone(const struct px_launch_hints *hints, struct px_error *error)
{
    return px_error_set(error, PX_ERR_UNREACHABLE,
                        "this process is one of %lu tasks of %s, but no PMIx or PMI-2 server is "
                        "there to join them%s%s%s: start it with srun --mpi=pmix (srun --mpi=list "
                        "shows what this site has) or with Open MPI's mpirun; to run every task as "
                        "a job of one on purpose, set NVSHMEM_ALLOW_SINGLETON=1",
                        hints->tasks, hints->launcher, *hints->mpi_type ? " (srun used --mpi=" : "",
                        hints->mpi_type, *hints->mpi_type ? ")" : "");
}

static px_status choose_named(const char *asked, const struct px_launch_hints *hints,
                              enum px_backend_kind *kind, struct px_error *error)
{
    bool there;
    if (strcasecmp(asked, "pmix") == 0) {
        *kind = PX_BACKEND_PMIX;
        there = hints->pmix;
    } else if (strcasecmp(asked, "pmi2") == 0 || strcasecmp(asked, "pmi-2") == 0) {
        *kind = PX_BACKEND_PMI2;
        there = hints->pmi2;
    } else {
        return px_error_set(error, PX_ERR_INVALID,
                            "there is no bootstrap \"%.40s\": use auto, pmix, pmi2 or alone",
                            asked);
    }
    if (!there)
        return px_error_set(error, PX_ERR_UNREACHABLE,
                            "bootstrap %s was asked for, but the launcher started no such server: "
                            "start the program with srun --mpi=%s%s",
                            asked, *kind == PX_BACKEND_PMIX ? "pmix" : "pmi2",
                            *kind == PX_BACKEND_PMIX ? " or with mpirun" : "");
    return PX_OK;
}

px_status px_backend_choose(const char *asked, bool allow_alone,
                            const struct px_launch_hints *hints, enum px_backend_kind *kind,
                            struct px_error *error)
{
    bool automatic = !*asked || strcasecmp(asked, "auto") == 0 || strcasecmp(asked, "pmi") == 0;
    if (strcasecmp(asked, "alone") == 0)
        *kind = PX_BACKEND_ALONE;
    else if (!automatic)
        return choose_named(asked, hints, kind, error);
    else if (hints->pmix)
        *kind = PX_BACKEND_PMIX;
    else if (hints->pmi2)
        *kind = PX_BACKEND_PMI2;
    else if (hints->tasks > 1 && !allow_alone)
        return refuse_alone(hints, error);
    else
        *kind = PX_BACKEND_ALONE;
    return PX_OK;
}
