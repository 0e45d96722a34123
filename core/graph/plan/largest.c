/* graph/plan/largest.c: names the values of a graph, or the parameters of a store, that need
 * most memory. Messages about missing memory use these names. */
#include "graph/internal.h"

#include <stdio.h>

#include "base/error.h"
#include "graph/store/store.h"

enum { SHOWN = 3 };

typedef struct large {
    const char *name, *scope;
    size_t bytes;
} large;

/* Keeps the largest entries, the largest first; entries of equal size keep their order. */
static void keep(large list[SHOWN], large one)
{
    for (int i = 0; i < SHOWN; i++)
        if (one.bytes > list[i].bytes) {
            const large smaller = list[i];
            list[i] = one;
            one = smaller;
        }
}

static void write_list(const large list[SHOWN], char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < SHOWN && list[i].bytes > 0 && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s%s%s%s %.1f MiB", i > 0 ? ", " : "",
                              list[i].name, *list[i].scope ? " (" : "", list[i].scope,
                              *list[i].scope ? ")" : "", (double)list[i].bytes / 1048576);
}

void mf_graph_largest(const mf_graph *g, char *text, size_t size)
{
    large list[SHOWN] = {0};
    for (int i = 0; i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        const char *scope = *node->scope ? node->scope : "";
        for (int k = 0; k < node->n_out && !node->dead; k++) {
            const mf_tensor *t = node->out[k];
            /* Gradients of parameters are not counted, because they are in memory of
             * the store. */
            if (t && !t->alias && t->kind == MF_TENSOR_VALUE)
                keep(list, (large){node->op->name, scope, mf_shape_bytes(t->shape, t->dtype)});
        }
        if (!node->dead)
            keep(list, (large){node->op->name, scope,
                               node->backward ? node->backward_work_bytes : node->work_bytes});
    }
    write_list(list, text, size);
}

int mf_store_judge_memory(const mf_store *s, int rc)
{
    large list[SHOWN] = {0};
    char text[256], why[384];
    int64_t n = 0;
    if (rc != MF_ENOMEM || mf_device_is_host(mf_store_device(s))) return rc;
    snprintf(why, sizeof why, "%s", mf_error_message());
    for (int i = 0; i < mf_store_count(s); i++) {
        const mf_param *p = mf_store_at(s, i);
        if (p->stored || p->buffer) continue;
        keep(list, (large){p->name, "", (size_t)p->count * sizeof(float)});
        n += p->count;
    }
    write_list(list, text, sizeof text);
    return mf_fail(rc,
                   "%s; a smaller model.dim, model.layers, moe.experts or expert.hidden, or "
                   "train.optimizer = lion or adafactor needs less; of %.1f M parameters, each "
                   "with a value, a gradient and moments, the largest are %s",
                   why, (double)n / 1e6, text);
}
