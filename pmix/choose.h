/* SPDX-License-Identifier: BSD-3-Clause */
/* Which backend serves this process: a decision on plain values, so that it can be tested without
 * any launcher. */
#ifndef PX_PMIX_CHOOSE_H
#define PX_PMIX_CHOOSE_H

#include <stdbool.h>

#include "src/diag/error.h"

/* What the environment says about how this process was started. */
struct px_launch_hints {
    bool pmix;            /* a PMIx server is named, or PMIx runs already in this process */
    bool pmi2;            /* a PMI-2 server is named */
    unsigned long tasks;  /* of the step or job this process says it belongs to; 0 when none */
    const char *launcher; /* "Slurm step 7.0": who said so; "" when none */
    const char *mpi_type; /* Slurm's --mpi option, "" */
};

enum px_backend_kind { PX_BACKEND_PMIX, PX_BACKEND_PMI2, PX_BACKEND_ALONE };

void px_launch_hints_read(struct px_launch_hints *hints);

/* `asked` is the option's text, in any case: "", "auto" or "pmi" (whatever is there), "pmix",
 * "pmi2" or "pmi-2", "alone". */
px_status px_backend_choose(const char *asked, bool allow_alone,
                            const struct px_launch_hints *hints, enum px_backend_kind *kind,
                            struct px_error *error);

#endif
