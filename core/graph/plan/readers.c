/* graph/plan/readers.c: which nodes read a value. The lists are made once, so that fusions take
 * time that is linear in the number of nodes. */
#include "graph/internal.h"

#include "base/mem.h"

int mf_readers_new(const mf_graph *g, mf_readers *ret)
{
    size_t all = 0;
    for (int i = 0; i < g->n_nodes; i++)
        all += (size_t)g->nodes[i]->n_in;
    *ret = (mf_readers){mf_alloc((size_t)g->n_tensors + 2, sizeof(int)),
                        mf_alloc(all + 1, sizeof(int)),
                        mf_alloc((size_t)g->n_tensors + 1, sizeof(bool))};
    if (!ret->first || !ret->node || !ret->fixed) return MF_ENOMEM;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->keep) ret->fixed[mf_owner(g->tensors[i])->id] = true;
    for (int pass = 0; pass < 2; pass++) { /* counts, then places, from the last node on */
        for (int i = g->n_nodes - 1; i >= 0; i--) {
            const mf_node *node = g->nodes[i];
            for (int j = 0; !node->dead && j < node->n_in; j++) {
                if (!node->in[j] || !(node->reads >> j & 1u)) continue;
                const int id = mf_owner(node->in[j])->id;
                if (pass == 0)
                    ret->first[id + 1]++;
                else
                    ret->node[--ret->first[id + 1]] = i;
            }
        }
        for (int i = 0; pass == 0 && i <= g->n_tensors; i++)
            ret->first[i + 1] += ret->first[i];
    }
    return MF_OK;
}

void mf_readers_free(mf_readers *r)
{
    mf_free(r->first);
    mf_free(r->node);
    mf_free(r->fixed);
}

mf_node *mf_reader(const mf_graph *g, const mf_readers *r, const mf_tensor *t, int *at)
{
    const int id = mf_owner(t)->id, from = r->first[id + 1], to = r->first[id + 2];
    for (int i = *at < 0 ? from : *at + 1; i < to; i++) {
        mf_node *node = g->nodes[r->node[i]];
        *at = i;
        if (node->op->flags & MF_OP_ALIAS && !node->backward) continue;
        if (!node->dead && mf_node_reads(node, mf_owner(t))) return node;
    }
    *at = to;
    return NULL;
}

mf_node *mf_only_reader(const mf_graph *g, const mf_readers *r, const mf_tensor *t, int *ret)
{
    int at = -1;
    mf_node *node = mf_reader(g, r, t, &at), *other = node;
    if (!node || r->fixed[mf_owner(t)->id]) return NULL;
    *ret = r->node[at];
    while (other == node) /* a node that reads t twice has two places */
        other = mf_reader(g, r, t, &at);
    return other ? NULL : node;
}
