/* launch.h: functions for the code that launches.awk generates. That code packs the arguments
 * of each launch, so that a kernel of another set can run with them later.
 *
 * A file that includes this header defines `launch`, which gets the packed arguments of each
 * launch through LAUNCH_TABLE. Before the kernel runs, a mover replaces each pointer in
 * the arguments. */
#ifndef TESTS_DEVICE_LAUNCH_H
#define TESTS_DEVICE_LAUNCH_H

#include <stdlib.h>
#include <string.h>
#include "kernels/kernel.h"

typedef struct mover {
    /* Returns the address that the kernel gets for p. argument: its name, for messages. */
    void *(*to)(const struct mover *m, const void *p, const char *argument);
    void *self;
    /* Returns a weight whose parts, and what they point to, are where the kernel reads them.
     * NULL: parts are read through `to`, and `room` gets the weight with a table of its parts,
     * which the caller frees after the launch. */
    const mf_stored *(*weight)(const struct mover *m, const mf_stored *w);
    struct moved_weight {
        mf_stored w;
        mf_stored_part *table;
    } * room;
} mover;

static inline void *moved(const mover *m, const void *p, const char *argument)
{
    return p ? m->to(m, p, argument) : NULL;
}

typedef struct launched_kernel {
    const char *name;
    void (*move)(const mover *m, void *args);
    void (*run)(const mf_kernels *k, const mf_kctx *x, void *args);
} launched_kernel;

/* Writes to `to` [groups, parts] the parts of w, read at `from`, with their pointers moved. */
static inline void move_parts(const mover *m, const mf_stored *w, const mf_stored_part *from,
                              mf_stored_part *to)
{
    for (int64_t i = 0; i < w->groups * w->parts; i++) {
        to[i] = from[i];
        to[i].data = moved(m, from[i].data, "data");
        to[i].scales = moved(m, from[i].scales, "scales");
        to[i].zeros = moved(m, from[i].zeros, "zeros");
        to[i].group_of = moved(m, from[i].group_of, "group_of");
    }
}

static inline const mf_stored *move_weight(const mover *m, const mf_stored *w)
{
    if (m->weight) return m->weight(m, w);
    const mf_stored_part *part = moved(m, w->part, "the parts of a weight");
    if (!part) return w; /* the device has found a fault, and does not launch */
    m->room->table = malloc((size_t)(w->groups * w->parts) * sizeof *part);
    if (!m->room->table) abort();
    move_parts(m, w, part, m->room->table);
    m->room->w = *w;
    m->room->w.part = m->room->table;
    return &m->room->w;
}

#define MOVE(field) a->field = moved(m, a->field, #field)

static inline void move_mf_gemm(const mover *m, mf_gemm *a)
{
    MOVE(a.data);
    MOVE(a.row);
    MOVE(b.data);
    MOVE(b.row);
    MOVE(c.data);
    MOVE(bias);
    MOVE(offset);
    MOVE(y.data);
    MOVE(gate);
}

static inline void move_mf_stored_gemm_args(const mover *m, mf_stored_gemm_args *a)
{
    a->w = move_weight(m, a->w);
    MOVE(x);
    MOVE(row);
    MOVE(offset);
    MOVE(bias);
    MOVE(y);
}

static inline void move_mf_stored_rows_args(const mover *m, mf_stored_rows_args *a)
{
    a->w = move_weight(m, a->w);
    MOVE(ids);
    MOVE(y);
}

static inline void move_mf_norm_args(const mover *m, mf_norm_args *a)
{
    MOVE(a);
    MOVE(w);
    MOVE(b);
    MOVE(y);
    MOVE(dy);
    MOVE(da);
    MOVE(dw);
    MOVE(db);
    MOVE(work);
    MOVE(offset);
}

static inline void move_mf_attention_args(const mover *m, mf_attention_args *a)
{
    MOVE(q);
    MOVE(k);
    MOVE(v);
    MOVE(mask);
    MOVE(kv_len);
    MOVE(reach);
    MOVE(since);
    MOVE(y);
    MOVE(lse);
    MOVE(dy);
    MOVE(dlse);
    MOVE(dq);
    MOVE(dk);
    MOVE(dv);
}

static inline void move_mf_rope_args(const mover *m, mf_rope_args *a)
{
    MOVE(position);
    MOVE(factor);
    MOVE(a);
    MOVE(y);
}

static inline void move_mf_grouped_attention_args(const mover *m, mf_grouped_attention_args *a)
{
    MOVE(offset);
    MOVE(token);
    MOVE(q);
    MOVE(kv);
    MOVE(mask);
    MOVE(y);
    MOVE(lse);
    MOVE(dy);
    MOVE(dq);
    MOVE(dkv);
    MOVE(work);
}

static inline void move_mf_linear_cross_entropy_args(const mover *m,
                                                     mf_linear_cross_entropy_args *a)
{
    if (a->stored) a->stored = move_weight(m, a->stored);
    MOVE(x);
    a->w = a->stored ? NULL : moved(m, a->w, "w");
    MOVE(bias);
    MOVE(target);
    MOVE(weight);
    MOVE(loss);
    MOVE(row_loss);
    MOVE(dx);
    MOVE(dw);
    MOVE(dbias);
    MOVE(work);
}

static inline void move_mf_update_args(const mover *m, mf_update_args *a)
{
    MOVE(now);
    MOVE(sumsq);
    MOVE(loss);
}

#endif
