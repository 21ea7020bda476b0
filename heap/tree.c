/* SPDX-License-Identifier: BSD-3-Clause */
/* AVL: the heights of two siblings differ by at most one, so the depth stays below 1.45 log2(n).
 * Recursion follows that depth (fewer than 100 levels for any number of nodes that fits into
 * memory). */
#include "config.h"
#include "heap/tree.h"

static int height(const struct px_node *node)
{
    return node ? node->height : 0;
}

static void measure(struct px_node *node)
{
    int a = height(node->child[0]), b = height(node->child[1]);
    node->height = 1 + (a > b ? a : b);
}

/* The child on `side` becomes the root of this subtree. */
static struct px_node *rotate(struct px_node *node, int side)
{
    struct px_node *up = node->child[side];
    node->child[side] = up->child[!side];
    up->child[!side] = node;
    measure(node);
    measure(up);
    return up;
}

static struct px_node *balance(struct px_node *node)
{
    int lean = height(node->child[1]) - height(node->child[0]);
    if (lean >= -1 && lean <= 1) {
        measure(node);
        return node;
    }
    int side = lean > 0;
    struct px_node *heavy = node->child[side];
    if (height(heavy->child[!side]) > height(heavy->child[side]))
        node->child[side] = rotate(heavy, !side);
    return rotate(node, side);
}

static struct px_node *insert(struct px_node *at, struct px_node *node, px_tree_order_fn *order)
{
    if (!at)
        return node;
    int side = order(node, at) > 0;
    at->child[side] = insert(at->child[side], node, order);
    return balance(at);
}

void px_tree_insert(struct px_node **root, struct px_node *node, px_tree_order_fn *order)
{
    *node = (struct px_node){.height = 1};
    *root = insert(*root, node, order);
}

/* Take the smallest node out of a subtree. */
static struct px_node *take_first(struct px_node *at, struct px_node **first)
{
    if (!at->child[0]) {
        *first = at;
        return at->child[1];
    }
    at->child[0] = take_first(at->child[0], first);
    return balance(at);
}

static struct px_node *replacement(struct px_node *gone)
{
    if (!gone->child[1])
        return gone->child[0];
    struct px_node *next;
    struct px_node *rest = take_first(gone->child[1], &next);
    next->child[0] = gone->child[0];
    next->child[1] = rest;
    return balance(next);
}

static struct px_node *take(struct px_node *at, struct px_node *node, px_tree_order_fn *order)
{
    if (at == node)
        return replacement(node);
    int side = order(node, at) > 0;
    at->child[side] = take(at->child[side], node, order);
    return balance(at);
}

void px_tree_remove(struct px_node **root, struct px_node *node, px_tree_order_fn *order)
{
    *root = take(*root, node, order);
}

struct px_node *px_tree_at_least(struct px_node *root, const struct px_node *key,
                                 px_tree_order_fn *order)
{
    struct px_node *best = NULL;
    while (root) {
        int c = order(root, key);
        if (c == 0)
            return root;
        if (c > 0)
            best = root;
        root = root->child[c < 0];
    }
    return best;
}

struct px_node *px_tree_at_most(struct px_node *root, const struct px_node *key,
                                px_tree_order_fn *order)
{
    struct px_node *best = NULL;
    while (root) {
        int c = order(root, key);
        if (c == 0)
            return root;
        if (c < 0)
            best = root;
        root = root->child[c < 0];
    }
    return best;
}

struct px_node *px_tree_last(struct px_node *root)
{
    while (root && root->child[1])
        root = root->child[1];
    return root;
}
