/* train/parallel/tree.c: walks the tree of micro-batches. The tree is never stored: a node
 * follows from the number of leaves. */
#include "train/parallel/tree.h"

static int64_t left_part(int64_t n)
{
    int64_t part = 1;
    while (2 * part < n)
        part *= 2;
    return part;
}

int mf_tree_sums(int64_t n, int64_t from, mf_piece piece)
{
    mf_piece node = {0, n};
    int sums = 0;
    while (node.end - node.first > 1) {
        const int64_t middle = node.first + left_part(node.end - node.first);
        sums += node.end == piece.end && node.first >= from && node.first < piece.first;
        if (piece.end <= middle)
            node.end = middle;
        else
            node.first = middle;
    }
    return sums;
}

int mf_tree_pieces(int64_t n, int64_t first, int64_t end, mf_piece ret[MF_TREE_PIECES])
{
    int top = 0;
    for (int64_t at = first; at < end;) {
        /* the largest node that begins at this leaf and ends in the range */
        mf_piece node = {0, n};
        while (node.first < at || node.end > end) {
            const int64_t middle = node.first + left_part(node.end - node.first);
            if (at < middle)
                node.end = middle;
            else
                node.first = middle;
        }
        ret[top++] = node;
        at = node.end;
    }
    return top;
}

mf_piece mf_tree_share(int64_t n, int rank, int ranks)
{
    const int64_t each = n / ranks, more = n % ranks;
    const int64_t first = rank * each + (rank < more ? rank : more);
    return (mf_piece){first, first + each + (rank < more)};
}
