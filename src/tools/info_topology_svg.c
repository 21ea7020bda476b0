/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan as a picture: packages, NUMA nodes, host bridges and switches as nested boxes, GPUs and
 * NIC ports as tiles, and a coloured line from each PE's GPU to its NICs.
 *
 * Boxes are built from the places of the devices, bridges that hold one thing are left out, sizes
 * are computed from the leaves up and positions from the top down. */
#include "config.h"
#include "src/tools/info.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    BOX_NODE,
    BOX_PACKAGE,
    BOX_NUMA,
    BOX_HOST_BRIDGE,
    BOX_SWITCH,
    TILE_PE,
    TILE_GPU,
    TILE_PORT
};

#define TILE_W    136
#define TILE_H    46
#define GAP       14
#define ROW_GAP   40 /* room for the lines between GPUs and NICs */
#define LABEL_H   22
#define ROW_MAX_W 1500

struct box {
    enum kind kind;
    int key; /* what tells it from its siblings of one kind */
    int parent;
    bool hidden; /* passed over: its children count as its parent's */
    int x, y, w, h;
};

struct picture {
    const struct px_info_node *node;
    struct box *boxes;
    size_t n, room;
    int *gpu_box, *port_box, *pe_box;
};

static int add_box(struct picture *p, int parent, enum kind kind, int key)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->boxes[i].parent == parent && p->boxes[i].kind == kind && p->boxes[i].key == key)
            return (int)i;
    p->boxes[p->n] = (struct box){.kind = kind, .key = key, .parent = parent};
    return (int)p->n++;
}

static int add_place(struct picture *p, const struct px_topology_place *place)
{
    int at = 0;
    if (place->package >= 0)
        at = add_box(p, at, BOX_PACKAGE, place->package);
    if (place->numa >= 0)
        at = add_box(p, at, BOX_NUMA, place->numa);
    if (place->host_bridge >= 0)
        at = add_box(p, at, BOX_HOST_BRIDGE, place->host_bridge);
    for (size_t i = 0; i < place->n_bridges; i++)
        at = add_box(p, at, BOX_SWITCH, place->bridges[i]);
    return at;
}

/* The parent that is drawn. */
static int shown_parent(const struct picture *p, int i)
{
    int at = p->boxes[i].parent;
    while (at > 0 && p->boxes[at].hidden)
        at = p->boxes[at].parent;
    return at;
}

static size_t count_children(const struct picture *p, int parent)
{
    size_t n = 0;
    for (size_t i = 1; i < p->n; i++)
        n += !p->boxes[i].hidden && shown_parent(p, (int)i) == parent;
    return n;
}

/* Children come after their parents in the array, so going backwards looks at the leaves first. */
static void hide_single(struct picture *p)
{
    for (size_t i = p->n; i-- > 1;)
        if (p->boxes[i].kind == BOX_SWITCH && count_children(p, (int)i) < 2)
            p->boxes[i].hidden = true;
    for (size_t i = 1; i < p->n; i++) {
        size_t numas = 0;
        for (size_t j = 1; j < p->n; j++)
            numas += p->boxes[j].kind == BOX_NUMA && p->boxes[j].parent == p->boxes[i].parent;
        if (p->boxes[i].kind == BOX_NUMA && numas == 1)
            p->boxes[i].hidden = true;
    }
}

static void build(struct picture *p)
{
    const struct px_topology_machine *machine = p->node->machine;
    const struct px_topology_plan *plan = p->node->plan;
    p->boxes[p->n++] = (struct box){.kind = BOX_NODE, .parent = -1};
    for (size_t i = 0; i < machine->n_packages; i++)
        add_box(p, 0, BOX_PACKAGE, (int)i);
    for (size_t i = 0; i < machine->n_numas; i++)
        add_box(p,
                machine->numas[i].package < 0
                    ? 0
                    : add_box(p, 0, BOX_PACKAGE, machine->numas[i].package),
                BOX_NUMA, (int)i);
    for (size_t pe = 0; pe < plan->n_pes; pe++) {
        uint64_t mask = p->node->pes[pe].numa_mask;
        struct px_topology_place place = {.package = -1, .numa = -1, .host_bridge = -1};
        if (plan->pes[pe].gpu >= 0)
            continue;
        if (mask && (mask & (mask - 1)) == 0) {
            place.numa = __builtin_ctzll(mask);
            place.package = machine->numas[place.numa].package;
        }
        p->pe_box[pe] = add_box(p, add_place(p, &place), TILE_PE, (int)pe);
    }
    for (size_t i = 0; i < machine->n_gpus; i++)
        p->gpu_box[i] = add_box(p, add_place(p, &machine->gpus[i].place), TILE_GPU, (int)i);
    for (size_t i = 0; i < machine->n_ports; i++)
        p->port_box[i] = add_box(p, add_place(p, &machine->ports[i].place), TILE_PORT, (int)i);
    hide_single(p);
}

/* ---- layout ---- */

static bool holds_users(const struct picture *p, int box)
{
    for (size_t i = 1; i < p->n; i++) {
        if (p->boxes[i].kind != TILE_PE && p->boxes[i].kind != TILE_GPU)
            continue;
        for (int at = (int)i; at > 0; at = p->boxes[at].parent)
            if (at == box)
                return true;
    }
    return false;
}

/* Rows from the top: PEs without GPU, GPUs, boxes with either, NICs and boxes with nothing else: so
 * that lines go down. */
static int row_of(const struct picture *p, int box)
{
    switch (p->boxes[box].kind) {
    case TILE_PE:
        return 0;
    case TILE_GPU:
        return 1;
    case TILE_PORT:
        return 3;
    case BOX_PACKAGE:
    case BOX_NUMA:
        return 2;
    default:
        return holds_users(p, box) ? 2 : 3;
    }
}

static void lay_out(struct picture *p, int parent);

/* Put the children of one row side by side, in lines. Returns the height, widens the box. */
static int lay_out_row(struct picture *p, int parent, int row, int y)
{
    struct box *box = &p->boxes[parent];
    int x = GAP, line_h = 0, top = y;
    for (size_t i = 1; i < p->n; i++) {
        struct box *child = &p->boxes[i];
        if (child->hidden || shown_parent(p, (int)i) != parent || row_of(p, (int)i) != row)
            continue;
        lay_out(p, (int)i);
        if (x > GAP && x + child->w > ROW_MAX_W) {
            y += line_h + GAP;
            x = GAP;
            line_h = 0;
        }
        child->x = x;
        child->y = y;
        x += child->w + GAP;
        line_h = child->h > line_h ? child->h : line_h;
        box->w = x > box->w ? x : box->w;
    }
    return line_h ? y + line_h - top : 0;
}

static void lay_out(struct picture *p, int i)
{
    struct box *box = &p->boxes[i];
    int y = box->kind == BOX_NODE ? 0 : LABEL_H + GAP, filled = 0;
    box->w = box->kind >= TILE_PE       ? TILE_W
             : box->kind == BOX_PACKAGE ? 2 * TILE_W
                                        : TILE_W + 2 * GAP;
    box->h = TILE_H;
    if (box->kind >= TILE_PE)
        return;
    for (int row = 0; row < 4; row++) {
        int height = lay_out_row(p, i, row, filled ? y + ROW_GAP : y);
        y += height ? height + (filled ? ROW_GAP : 0) : 0;
        filled += height != 0;
    }
    box->h = y + GAP;
}

/* From relative to absolute; parents come first. */
static void place_all(struct picture *p)
{
    lay_out(p, 0);
    p->boxes[0].y = 2 * LABEL_H;
    for (size_t i = 1; i < p->n; i++) {
        if (p->boxes[i].hidden)
            continue;
        const struct box *parent = &p->boxes[shown_parent(p, (int)i)];
        p->boxes[i].x += parent->x;
        p->boxes[i].y += parent->y;
    }
}

/* ---- drawing ---- */

static void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, out);
    }
}

static void draw_text(FILE *out, int x, int y, const char *style, const char *text)
{
    fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, style);
    put_text(out, text);
    fputs("</text>\n", out);
}

/* Hues that stay apart however many there are: steps of the golden angle. */
static void colour_of(size_t pe, char colour[8])
{
    double hue = fmod(210 + (double)pe * 137.508, 360), c[3];
    for (int i = 0; i < 3; i++) {
        double k = fmod((i == 0 ? 0 : i == 1 ? 8 : 4) + hue / 30, 12);
        double ramp = fmax(-1, fmin(1, fmin(k - 3, 9 - k)));
        c[i] = 255 * (0.42 - 0.30 * ramp);
    }
    snprintf(colour, 8, "#%02x%02x%02x", (unsigned)c[0] & 0xff, (unsigned)c[1] & 0xff,
             (unsigned)c[2] & 0xff);
}

static void draw_rectangle(FILE *out, const struct box *box, const char *style)
{
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" class=\"%s\"/>\n",
            box->x, box->y, box->w, box->h, style);
}

static void draw_container(FILE *out, const struct picture *p, const struct box *box)
{
    static const char *const styles[] = {[BOX_NODE] = "node",
                                         [BOX_PACKAGE] = "package",
                                         [BOX_NUMA] = "numa",
                                         [BOX_HOST_BRIDGE] = "bridge",
                                         [BOX_SWITCH] = "switch"};
    const struct px_topology_machine *machine = p->node->machine;
    char label[128], cpus[64];
    if (box->kind == BOX_NODE)
        return;
    snprintf(label, sizeof(label), "%s", box->kind == BOX_SWITCH ? "PCI switch" : "host bridge");
    if (box->kind == BOX_PACKAGE) {
        px_topology_cpus_text(&machine->packages[box->key], cpus, sizeof(cpus));
        snprintf(label, sizeof(label), "Package %d, processors %s", box->key, cpus);
    }
    if (box->kind == BOX_NUMA) {
        px_topology_cpus_text(&machine->numas[box->key].cpus, cpus, sizeof(cpus));
        snprintf(label, sizeof(label), "NUMA node %u, processors %s",
                 machine->numas[box->key].os_index, cpus);
    }
    draw_rectangle(out, box, styles[box->kind]);
    draw_text(out, box->x + 8, box->y + 16, "label", label);
}

static void draw_pill(FILE *out, int x, int y, size_t pe)
{
    char colour[8], text[32];
    colour_of(pe, colour);
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"42\" height=\"16\" rx=\"8\" fill=\"%s\"/>\n", x,
            y, colour);
    snprintf(text, sizeof(text), "PE %zu", pe);
    draw_text(out, x + 21, y + 12, "pill", text);
}

/* The PEs that use a GPU, on the upper edge of its tile. */
static void draw_users(FILE *out, const struct picture *p, const struct box *box)
{
    int n = 0;
    char more[32];
    for (size_t pe = 0; pe < p->node->plan->n_pes; pe++)
        if (p->node->plan->pes[pe].gpu == box->key && n++ < 2)
            draw_pill(out, box->x + 4 + 44 * (n - 1), box->y - 9, pe);
    snprintf(more, sizeof(more), "+ %d", n - 2);
    if (n > 2)
        draw_text(out, box->x + 96, box->y - 3, "label", more);
}

static void draw_gpu(FILE *out, const struct picture *p, const struct box *box)
{
    char text[64], address[PX_TOPOLOGY_PCI_TEXT_MAX];
    snprintf(text, sizeof(text), "GPU %d", box->key);
    px_topology_pci_text(p->node->machine->gpus[box->key].pci, address);
    draw_rectangle(out, box, "gpu");
    draw_text(out, box->x + box->w / 2, box->y + 22, "name", text);
    draw_text(out, box->x + box->w / 2, box->y + 38, "detail", address);
    draw_users(out, p, box);
}

static void draw_port(FILE *out, const struct picture *p, const struct box *box)
{
    const struct px_topology_port *port = &p->node->machine->ports[box->key];
    const struct px_topology_verdict *verdict = &p->node->plan->ports[box->key];
    char name[80], detail[64];
    snprintf(name, sizeof(name), "%.40s:%u", port->device, port->number);
    const char *fabric = port->fabric ? px_topology_fabric_words(port->fabric) : "";
    if (port->speed)
        snprintf(detail, sizeof(detail), "%g Gb/s %s", port->speed / 1e3, fabric);
    else
        snprintf(detail, sizeof(detail), "%s", fabric);
    draw_rectangle(out, box,
                   !verdict->usable                                         ? "unused"
                   : px_info_port_is_given(p->node->plan, (size_t)box->key) ? "port"
                                                                            : "idle");
    if (!verdict->usable) {
        fputs("<title>", out);
        put_text(out, verdict->reason);
        fputs("</title>\n", out);
    }
    draw_text(out, box->x + box->w / 2, box->y + 19, "name", name);
    draw_text(out, box->x + box->w / 2, box->y + 36, "detail",
              verdict->usable                   ? detail
              : port->state == PX_TOPOLOGY_DOWN ? "down"
                                                : "not used");
}

static void draw_pe(FILE *out, const struct box *box)
{
    char text[32];
    snprintf(text, sizeof(text), "PE %d", box->key);
    draw_rectangle(out, box, "pe");
    draw_text(out, box->x + box->w / 2, box->y + 22, "name", text);
    draw_text(out, box->x + box->w / 2, box->y + 38, "detail", "host memory");
}

static void draw_tile(FILE *out, const struct picture *p, const struct box *box)
{
    if (box->kind == TILE_GPU)
        draw_gpu(out, p, box);
    else if (box->kind == TILE_PORT)
        draw_port(out, p, box);
    else
        draw_pe(out, box);
}

static void draw_lines(FILE *out, const struct picture *p, size_t pe)
{
    const struct px_topology_choice *choice = &p->node->plan->pes[pe];
    const struct box *from = &p->boxes[choice->gpu >= 0 ? p->gpu_box[choice->gpu] : p->pe_box[pe]];
    char colour[8];
    colour_of(pe, colour);
    int sharer = 0;
    for (size_t other = 0; other < pe && choice->gpu >= 0; other++)
        sharer += p->node->plan->pes[other].gpu == choice->gpu;
    int x = from->x + TILE_W / 2 + sharer % 8 * 6, y = from->y + TILE_H;
    for (size_t k = 0; k < choice->n_nics; k++) {
        const struct box *to = &p->boxes[p->port_box[choice->nics[k].port]];
        int end = to->x + TILE_W / 2, bend = abs(to->y - y) / 2 + 12;
        fprintf(out,
                "<path d=\"M%d %d C%d %d %d %d %d %d\" fill=\"none\" stroke=\"%s\" "
                "stroke-width=\"%s\"%s/>\n"
                "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"%s\"/>\n",
                x, y, x, y + bend, end, to->y - bend, end, to->y, colour, k ? "1.5" : "3",
                k ? " stroke-dasharray=\"5 3\"" : "", end, to->y, colour);
    }
}

static const char style[] = "<style>\n"
                            "text{font-family:sans-serif;font-size:12px;fill:#222}\n"
                            ".title{font-size:16px;font-weight:bold}\n"
                            ".label{font-size:11px;fill:#555}\n"
                            ".name{font-weight:bold;text-anchor:middle}\n"
                            ".detail{font-size:11px;text-anchor:middle;fill:#333}\n"
                            ".pill{font-size:11px;font-weight:bold;text-anchor:middle;fill:#fff}\n"
                            "rect.package{fill:#f4f4f1;stroke:#9a9a90}\n"
                            "rect.numa{fill:#ecebe6;stroke:#b5b3a8}\n"
                            "rect.bridge{fill:#fff;stroke:#aab}\n"
                            "rect.switch{fill:#eef1f8;stroke:#8c98b8}\n"
                            "rect.gpu{fill:#d5ecd0;stroke:#4e9a3c}\n"
                            "rect.port{fill:#cfe2f7;stroke:#3a74b5}\n"
                            "rect.idle{fill:#f6f9fd;stroke:#9fb8d4}\n"
                            "rect.unused{fill:#e6e6e6;stroke:#aaa;stroke-dasharray:4 3}\n"
                            "rect.pe{fill:#fbeecb;stroke:#c09a35}\n"
                            "</style>\n";

static void draw(FILE *out, const struct picture *p)
{
    int width = p->boxes[0].w > 640 ? p->boxes[0].w : 640,
        height = p->boxes[0].y + p->boxes[0].h + 2 * LABEL_H;
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\">\n%s"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height, style);
    draw_text(out, GAP, 28, "title", p->node->title);
    /* Lines pass below tiles, so that these can be read. */
    for (size_t i = 0; i < p->n; i++)
        if (!p->boxes[i].hidden && p->boxes[i].kind < TILE_PE)
            draw_container(out, p, &p->boxes[i]);
    for (size_t pe = 0; pe < p->node->plan->n_pes; pe++)
        draw_lines(out, p, pe);
    for (size_t i = 0; i < p->n; i++)
        if (!p->boxes[i].hidden && p->boxes[i].kind >= TILE_PE)
            draw_tile(out, p, &p->boxes[i]);
    draw_text(
        out, GAP, height - LABEL_H + 4, "label",
        "Thick line: the NIC that a PE uses first. Broken line: further NICs of the same PE. Pale: "
        "idle. Grey: not usable.");
    fputs("</svg>\n", out);
}

void px_info_topology_svg(FILE *out, const struct px_info_node *node)
{
    const struct px_topology_machine *machine = node->machine;
    size_t leaves = machine->n_gpus + machine->n_ports + node->plan->n_pes;
    struct picture p = {.node = node};
    /* Each leaf brings at most its bridges, a host bridge, a NUMA node and a package. */
    p.room = 1 + machine->n_packages + machine->n_numas + leaves * (PX_TOPOLOGY_BRIDGES_MAX + 4);
    p.boxes = calloc(p.room, sizeof(*p.boxes));
    p.gpu_box = calloc(machine->n_gpus + 1, sizeof(int));
    p.port_box = calloc(machine->n_ports + 1, sizeof(int));
    p.pe_box = calloc(node->plan->n_pes + 1, sizeof(int));
    if (p.boxes && p.gpu_box && p.port_box && p.pe_box) {
        build(&p);
        place_all(&p);
        draw(out, &p);
    }
    free(p.pe_box);
    free(p.port_box);
    free(p.gpu_box);
    free(p.boxes);
}
