/* SPDX-License-Identifier: BSD-3-Clause */
/* A balanced tree (AVL) whose nodes live inside the things it orders: no memory of its own, nothing
 * can fail, every operation takes O(log n) steps. The order must be strict: no two nodes in a tree
 * compare as equal. */
#ifndef PX_HEAP_TREE_H
#define PX_HEAP_TREE_H

#include <stddef.h>

struct px_node {
    struct px_node *child[2]; /* smaller, larger */
    int height;               /* of the subtree: 1 for a leaf */
};

/* Negative, 0 or positive as a is before, equal to or behind b. */
typedef int px_tree_order_fn(const struct px_node *a, const struct px_node *b);

void px_tree_insert(struct px_node **root, struct px_node *node, px_tree_order_fn *order);
void px_tree_remove(struct px_node **root, struct px_node *node, px_tree_order_fn *order);

/* The first node not before the key, the last node not behind it; NULL when there is none. */
struct px_node *px_tree_at_least(struct px_node *root, const struct px_node *key,
                                 px_tree_order_fn *order);
struct px_node *px_tree_at_most(struct px_node *root, const struct px_node *key,
                                px_tree_order_fn *order);
struct px_node *px_tree_last(struct px_node *root);

#endif
