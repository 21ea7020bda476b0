/* SPDX-License-Identifier: BSD-3-Clause */
/* Which GPU, which NIC ports in which order and which processors for helper threads each PE of this
 * node should use, and why. Three steps, each usable alone: px_topology_read   hwloc and sysfs
 * become a plain struct, the machine px_topology_decide arithmetic on that struct and on what is
 * known of the node's PEs; gives a plan with its reasons px_topology_links  what joins each pair of
 * GPUs, asked of NVML or libcuda
 *
 * Every PE of the node computes the whole plan and all must get the same one without talking. They
 * do when what they pass about each PE is known to all (struct px_topology_pe says which fields
 * count): same machine, same plan, whatever the devices are called and in whatever order hwloc
 * lists them. PE numbers here are node-local, 0 to n_pes - 1.
 *
 * Nothing here reads the environment (hwloc itself obeys HWLOC_XMLFILE) and nothing runs before it
 * is called. */
#ifndef PX_TOPOLOGY_H
#define PX_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"
#include "src/diag/status.h"

#define PX_TOPOLOGY_CPUS_MAX    4096
#define PX_TOPOLOGY_GPUS_MAX    64
#define PX_TOPOLOGY_NUMAS_MAX   64
#define PX_TOPOLOGY_BRIDGES_MAX 16
#define PX_TOPOLOGY_NAME_MAX    64
#define PX_TOPOLOGY_REASON_MAX  512
#define PX_TOPOLOGY_VERDICT_MAX 128

/* A set of processors by operating-system number. */
struct px_topology_cpus {
    uint64_t word[PX_TOPOLOGY_CPUS_MAX / 64];
};

bool px_topology_cpus_empty(const struct px_topology_cpus *cpus);
size_t px_topology_cpus_count(const struct px_topology_cpus *cpus);
bool px_topology_cpus_has(const struct px_topology_cpus *cpus, size_t cpu);
void px_topology_cpus_add(struct px_topology_cpus *cpus, size_t cpu);
bool px_topology_cpus_within(const struct px_topology_cpus *inner,
                             const struct px_topology_cpus *outer);
bool px_topology_cpus_meet(const struct px_topology_cpus *a, const struct px_topology_cpus *b);

/* "0-3,8": text is always terminated, and ends in "..." when it does not fit. Parsing refuses
 * anything else. */
void px_topology_cpus_text(const struct px_topology_cpus *cpus, char *text, size_t size);
px_status px_topology_cpus_parse(const char *text, struct px_topology_cpus *cpus,
                                 struct px_error *error);

/* The processors this process may run on now. */
px_status px_topology_own_cpus(struct px_topology_cpus *cpus, struct px_error *error);

/* For helper threads of a PE that has one core and for which nobody has read the machine: the other
 * processors that this job may use, those of the same package if there are any. Left empty when it
 * has more than one core, when there are no others, or when the system does not tell. */
void px_topology_beside(const struct px_topology_cpus *own, struct px_topology_cpus *others);

/* Let the calling thread run on these only: for helper threads. An empty set leaves it as it is. */
px_status px_topology_bind_thread(const struct px_topology_cpus *cpus, struct px_error *error);

/* A PCI address packed so that numeric order is bus order. */
typedef uint64_t px_topology_pci;
#define PX_TOPOLOGY_PCI_NONE     UINT64_MAX
#define PX_TOPOLOGY_PCI_TEXT_MAX 24

px_status px_topology_pci_parse(const char *text, px_topology_pci *pci, struct px_error *error);
void px_topology_pci_text(px_topology_pci pci, char text[PX_TOPOLOGY_PCI_TEXT_MAX]);

/* How far two devices are apart, nearest first. */
enum px_topology_distance {
    PX_TOPOLOGY_SWITCH,      /* below one PCI switch */
    PX_TOPOLOGY_SWITCHES,    /* below several PCI switches that hang together */
    PX_TOPOLOGY_HOST_BRIDGE, /* below one host bridge */
    PX_TOPOLOGY_NUMA,        /* on one NUMA node */
    PX_TOPOLOGY_PACKAGE,     /* in one package */
    PX_TOPOLOGY_MACHINE,     /* in other packages, or nobody knows */
};

/* "same PCI switch" and so on; and PIX, PXB, PHB, NODE, SYS as nvidia-smi has them. */
const char *px_topology_distance_words(enum px_topology_distance distance);
const char *px_topology_distance_letters(enum px_topology_distance distance);

/* Where a device sits. Bridges are named by numbers that are good for comparing within one machine
 * only. */
struct px_topology_place {
    int package;     /* index into machine->packages, -1 when unknown */
    int numa;        /* index into machine->numas, -1 when unknown */
    int host_bridge; /* -1 when unknown */
    size_t n_bridges;
    int bridges[PX_TOPOLOGY_BRIDGES_MAX]; /* PCI bridges from the host bridge to the device */
};

enum px_topology_distance px_topology_distance(const struct px_topology_place *a,
                                               const struct px_topology_place *b);

struct px_topology_gpu {
    px_topology_pci pci;
    char name[PX_TOPOLOGY_NAME_MAX]; /* "" when nobody told */
    struct px_topology_place place;
};

enum px_topology_state { PX_TOPOLOGY_STATE_UNKNOWN, PX_TOPOLOGY_UP, PX_TOPOLOGY_DOWN };

enum px_topology_fabric {
    PX_TOPOLOGY_FABRIC_UNKNOWN,
    PX_TOPOLOGY_INFINIBAND,
    PX_TOPOLOGY_ROCE,
    PX_TOPOLOGY_EFA,
    PX_TOPOLOGY_SLINGSHOT,
};

const char *px_topology_fabric_words(enum px_topology_fabric fabric);

/* One port of an RDMA device. */
struct px_topology_port {
    char device[PX_TOPOLOGY_NAME_MAX];
    unsigned number;     /* from 1 */
    px_topology_pci pci; /* PX_TOPOLOGY_PCI_NONE for a device made of software */
    struct px_topology_place place;
    enum px_topology_state state;
    enum px_topology_fabric fabric;
    unsigned speed; /* Mb/s, 0 when unknown */
    bool virtual_function;
};

struct px_topology_numa {
    struct px_topology_cpus cpus;
    int package; /* -1 when it spans several */
    unsigned os_index;
};

/* The node, whole: also what this job may not use, so that all its PEs see one machine. */
struct px_topology_machine {
    struct px_topology_cpus cpus, allowed; /* all; those that this job's cpuset allows */
    struct px_topology_cpus *packages, *cores;
    struct px_topology_numa *numas; /* those with processors */
    struct px_topology_gpu *gpus;   /* by PCI address */
    struct px_topology_port *ports; /* by PCI address, device, number */
    size_t n_packages, n_cores, n_numas, n_gpus, n_ports;
    bool described; /* from a file, not from this system */
};

/* Libraries to ask; NULL is the system's own. */
struct px_topology_drivers {
    const char *nvml, *cuda;
};

/* GPUs as the driver reports them, up to PX_TOPOLOGY_GPUS_MAX: all of the node that NVML shows, or
 * those that libcuda lets this process use (CUDA_VISIBLE_DEVICES and Slurm leave some out). No GPU is
 * PX_OK with n_gpus 0, no driver PX_ERR_NOT_FOUND. */
px_status px_topology_driver_gpus(const struct px_topology_drivers *drivers, px_topology_pci *gpus,
                                  size_t *n_gpus, struct px_error *error);
px_status px_topology_visible_gpus(const struct px_topology_drivers *drivers, px_topology_pci *gpus,
                                   size_t *n_gpus, struct px_error *error);

struct px_topology_source {
    const char *xml_file; /* a described machine; NULL for this one */
    const char *
        sysfs; /* where sysfs is mounted; NULL: "/sys" for this machine, none for a described one */
    /* GPUs that the driver reports. They need not be in hwloc's tree; GPUs found only there are
     * kept, too. */
    const px_topology_pci *gpus;
    size_t n_gpus;
};

px_status px_topology_read(const struct px_topology_source *source,
                           struct px_topology_machine **machine, struct px_error *error);
void px_topology_free(struct px_topology_machine *machine);

/* GPUs that were heard of later, as source->gpus: the machine of all PEs holds those that any of
 * them sees. Indices of GPUs change. */
px_status px_topology_add_gpus(struct px_topology_machine *machine, const px_topology_pci *gpus,
                               size_t n_gpus, struct px_error *error);

/* Index of the GPU with that address, -1 if there is none. */
int px_topology_find_gpu(const struct px_topology_machine *machine, px_topology_pci pci);

/* The NUMA nodes that a binding touches, as bits: small enough to be sent to peers. 0 for a binding
 * to nothing. */
uint64_t px_topology_numa_mask(const struct px_topology_machine *machine,
                               const struct px_topology_cpus *cpus);

/* Bits of the GPUs that CUDA_VISIBLE_DEVICES leaves when the devices count in PCI order: for a
 * described machine; on a live one libcuda has applied it already. */
px_status px_topology_visible_mask(const struct px_topology_machine *machine,
                                   const char *cuda_visible_devices, uint64_t *mask,
                                   struct px_error *error);

/* The user's wishes. NULL or "" is none. */
struct px_topology_options {
    bool nic_pe_mapping;        /* NVSHMEM_ENABLE_NIC_PE_MAPPING */
    const char *hca_list;       /* NVSHMEM_HCA_LIST */
    const char *hca_pe_mapping; /* NVSHMEM_HCA_PE_MAPPING */
    const char *hca_prefix;     /* NVSHMEM_HCA_PREFIX if the user set it; its default must not hide
                                   other names */
    const char *helper_cpus;    /* processors for helper threads: a list as "0-3,8", or "any" */
};

enum { PX_TOPOLOGY_CHOOSE = -1, PX_TOPOLOGY_NO_GPU = -2 };

/* What is known of one PE of the node. All but cpus decide and must be the same in
 * every PE's call: pass what the PEs have told each other, or leave them unknown for all. */
struct px_topology_pe {
    int gpu;            /* the one it uses already, or PX_TOPOLOGY_CHOOSE, or PX_TOPOLOGY_NO_GPU */
    uint64_t gpu_mask;  /* GPUs it can see; 0 when unknown */
    /* The number of each in the PE's own count, where `ordered`: a program that follows that count
     * after init finds the same GPU. Otherwise they count in PCI order. */
    bool ordered;
    uint8_t gpu_number[PX_TOPOLOGY_GPUS_MAX];
    uint64_t numa_mask; /* of its binding; 0 when unknown */
    /* Its binding itself, NULL when unknown: only for its helper threads. */
    const struct px_topology_cpus *cpus;
};

struct px_topology_nic {
    size_t port; /* index into machine->ports */
    enum px_topology_distance distance;
};

struct px_topology_choice {
    int gpu;                      /* index into machine->gpus, -1 for none */
    struct px_topology_nic *nics; /* the one to use first is first */
    size_t n_nics;
    struct px_topology_cpus helpers; /* empty: leave helper threads unbound */
    char reason[PX_TOPOLOGY_REASON_MAX];
};

struct px_topology_verdict {
    bool usable;
    char reason[PX_TOPOLOGY_VERDICT_MAX]; /* why not, or why no PE has it; "" for one that is given
                                             to a PE */
};

struct px_topology_plan {
    struct px_topology_choice *pes;
    size_t n_pes;
    struct px_topology_verdict *ports; /* one for each of machine->ports */
    char *warnings;                    /* lines for the user; "" if there are none */
};

px_status px_topology_decide(const struct px_topology_machine *machine,
                             const struct px_topology_options *options,
                             const struct px_topology_pe *pes, size_t n_pes,
                             struct px_topology_plan **plan, struct px_error *error);
void px_topology_plan_free(struct px_topology_plan *plan);

/* The ports of a PE, first one first, as the transports take them: "mlx5_0:1,mlx5_1:1". Returns the
 * length that all of them need, as snprintf does; only whole names are written. */
size_t px_topology_nics_text(const struct px_topology_machine *machine,
                             const struct px_topology_choice *choice, char *text, size_t size);

/* Advice about GPUs of peers that are not visible here: hidden[pe] is the address of the one that a
 * local PE uses, PX_TOPOLOGY_PCI_NONE where it is visible. Names each once with the first PE, and
 * the srun option. Returns how many are hidden; 0 leaves advice empty. */
size_t px_topology_hidden_gpus(const px_topology_pci *hidden, size_t n_pes, char *advice,
                               size_t size);

enum px_topology_link {
    PX_TOPOLOGY_LINK_UNKNOWN,
    PX_TOPOLOGY_LINK_NONE,
    PX_TOPOLOGY_LINK_PCIE,
    PX_TOPOLOGY_LINK_NVLINK
};

const char *px_topology_link_words(enum px_topology_link link);

/* Fill links[n_gpus * n_gpus], a row per GPU. Returns PX_ERR_NOT_FOUND, all unknown, where no
 * driver answers. */
px_status px_topology_links(const struct px_topology_machine *machine,
                            const struct px_topology_drivers *drivers, enum px_topology_link *links,
                            struct px_error *error);

#endif
