/* SPDX-License-Identifier: BSD-3-Clause */
/* Where this PE sits: its GPU, its NIC ports and the processors for its helper threads, as topology/
 * decides them for all PEs of the node. Every PE decides from the cards of all, so all decide alike.
 *
 *   px_place_look     what this PE has to say of itself: its seat
 *      -- exchange of cards --
 *   px_place_decide   px_world.place
 *
 * A PE that can use several GPUs has to hear of the others before it takes one: px_place_undecided. Its
 * memory waits for that, and start-up for one exchange more. */
#ifndef PX_API_PLACE_H
#define PX_API_PLACE_H

#include "pmix/card.h"
#include "topology/topology.h"

struct px_place {
    char nics[1024]; /* for px_transport_setup; "" where there are none */
    /* For the threads that transports and proxies start; empty: as they come. */
    struct px_topology_cpus helpers;
    px_topology_pci gpu; /* for px_gpu_open; PX_TOPOLOGY_PCI_NONE where none is used */
    uint32_t gpu_share;  /* how many PEs before this one on the node were given the same */
};

/* `gpus` is the part of the seat that the driver knows. Decides at once, too, as if the other PEs
 * were like this one: final where there is none or nothing to choose, and good enough to see which
 * transports work. Errors are the user's lists. */
px_status px_place_look(const struct px_card_seat *gpus, bool undecided, struct px_error *error);
bool px_place_undecided(void);

/* For the card; what changes later is told here. */
const struct px_card_seat *px_place_seat(void);
void px_place_took_gpu(px_topology_pci gpu, const uint8_t uuid[16]);
void px_place_no_gpu(void);

/* From the cards of all PEs, none of which has failed; once, until px_place_no_gpu. */
px_status px_place_decide(const struct px_card *cards, struct px_error *error);
void px_place_forget(void);

/* Threads start where their creator may run: between these two that is where helpers belong. False:
 * nothing was changed, and there is nothing to undo. */
bool px_place_enter(void);
void px_place_leave(void);

#endif
