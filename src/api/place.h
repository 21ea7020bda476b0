/* SPDX-License-Identifier: BSD-3-Clause */
/* Between start-up and topology/. */
#ifndef PX_API_PLACE_H
#define PX_API_PLACE_H

#include "topology/topology.h"

struct px_place {
    char nics[1024]; /* for px_transport_setup; "" where there are none */
    struct px_topology_cpus
        helpers; /* for the threads that a transport starts; empty: as they come */
};

/* Local, the same decision on every PE of the node. Errors are the user's lists. */
px_status px_place_find(struct px_place *place, struct px_error *error);

#endif
