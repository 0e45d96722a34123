/* train/parallel/tree.h: the tree in which the gradients of a step's micro-batches are summed.
 *
 * The micro-batches 0 .. n-1 are the leaves of one binary tree. A node with more than one leaf
 * is divided: the number of leaves of its left part is the largest power of two that is less
 * than the number of leaves of the node. The sum of the tree does not depend on which process
 * computes which part, so the gradient has the same bits for every number of processes. The
 * pieces of a range of leaves are the largest nodes that the range contains. */
#ifndef MF_TRAIN_TREE_H
#define MF_TRAIN_TREE_H

#include <stdint.h>

/* A node: leaves first .. end-1. */
typedef struct mf_piece {
    int64_t first, end;
} mf_piece;

/* Returns a number of nodes of the tree of n leaves. It counts nodes that contain the piece,
 * are larger, end where the piece ends and begin at `from` or later. These sums are complete
 * when the piece is complete, if the leaves from `from` on were summed before. */
int mf_tree_sums(int64_t n, int64_t from, mf_piece piece);
/* Writes the pieces of leaves first .. end-1 in order, and returns their number, at most
 * MF_TREE_PIECES. The leaves must be among 0 .. n-1. */
enum { MF_TREE_PIECES = 128 };
int mf_tree_pieces(int64_t n, int64_t first, int64_t end, mf_piece ret[MF_TREE_PIECES]);
/* Returns the leaves of process `rank` of `ranks`: contiguous, and at least one if ranks
 * <= n. */
mf_piece mf_tree_share(int64_t n, int rank, int ranks);

#endif
