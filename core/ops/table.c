/* ops/table.c: the ops of core by name and by role, and the host table with which core builds
 * graphs. The list of ops comes from ops.def, and is sorted by name at the first search. */
#include "ops/ops.h"

#include <pthread.h>
#include <string.h>

#define MF_OP(name) +1
enum {
    N_OPS = 0
#include "ops/ops.def"
};
#undef MF_OP

static const mf_opdef *const listed[] = {
#define MF_OP(name) &mf_op_##name,
#include "ops/ops.def"
#undef MF_OP
};

/* The lists below are filled at the first use, which several threads may reach at the
 * same time. */
static const mf_opdef *sorted[N_OPS];
static const char *names[N_OPS + 1];

static void sort(void)
{
    for (int n = 0; n < N_OPS; n++) {
        int at = n;
        for (; at > 0 && strcmp(sorted[at - 1]->name, listed[n]->name) > 0; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = listed[n];
    }
    for (int i = 0; i < N_OPS; i++)
        names[i] = sorted[i]->name;
}

static void sort_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, sort);
}

const mf_opdef *mf_op_find(const char *name)
{
    int low = 0, high = N_OPS;
    sort_once();
    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(name, names[middle]);
        if (order == 0) return sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const mf_opdef *mf_op_at(int i)
{
    sort_once();
    return i >= 0 && i < N_OPS ? sorted[i] : NULL;
}

const mf_opdef *mf_op_of_role(mf_op_role role)
{
    for (int i = 0; i < N_OPS; i++)
        if (listed[i]->role == (uint32_t)role) return listed[i];
    return NULL;
}

const char *const *mf_op_names(void)
{
    sort_once();
    return names;
}

mf_graph *mf_graph_new(const mf_graph_options *options)
{
    static const mf_op_table ops = {mf_op_find, mf_op_of_role, mf_op_names};
    return mf_graph_make(options, &ops);
}

/* ---- the host table ---- */

static mf_shape shape_of(const mf_tensor *t)
{
    /* t is NULL only in a graph that has failed, whose shapes no longer matter */
    return t ? t->shape : mf_shape0();
}

static mf_dtype dtype_of(const mf_tensor *t)
{
    return t ? t->dtype : MF_F32;
}

const mf_host mf_core_graph_host = {
    .size = sizeof mf_core_graph_host,
    .op = mf_graph_op_named,
    .custom = mf_graph_op,
    .constant = mf_graph_const,
    .status = mf_graph_status,
    .shape = shape_of,
    .dtype = dtype_of,
    .training = mf_graph_training,
};
