/* launch.h: separates launches from their execution: a kernel of another set can run later with
 * the arguments, which may have other addresses by then.
 *
 * A file that includes this header defines `launch`, which receives the arguments of each
 * launch of the set `launching`. Before the kernel runs, a mover replaces each pointer in the
 * arguments, with functions that launches.awk generates. */
#ifndef TESTS_DEVICE_LAUNCH_H
#define TESTS_DEVICE_LAUNCH_H

#include <stdlib.h>
#include <string.h>
#include "kernels/kernel.h"

typedef struct mover {
    /* Returns the address that replaces p for the kernel. argument: its name, for messages. */
    void *(*to)(const struct mover *m, const void *p, const char *argument);
    void *self;
    /* Returns a weight whose parts, and everything they point to, are in memory that the kernel
     * reads. NULL: parts are read through `to`. Then `room` receives the weight with a table of
     * its parts, which the caller frees after the launch. */
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

/* Copies the parts of w, read at `from`, to `to` [groups, parts], and moves their pointers. */
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
    if (!part) return w; /* the device has recorded a fault, and does not launch */
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
    MOVE(from);
    MOVE(place);
    MOVE(norm_w);
    MOVE(norm_b);
}

static inline void move_mf_update_args(const mover *m, mf_update_args *a)
{
    MOVE(now);
    MOVE(sumsq);
    MOVE(loss);
}

#undef MOVE

#include "launches.h"

/* The functions that launches.awk generates for each kernel NAME: move_NAME; run_NAME, which
 * calls the kernel of a set; launch_NAME, which passes its arguments to launch(). */
static void launch(const mf_kctx *x, int kernel, const void *args, size_t bytes);

enum {
#define MF_KERNEL(fn, ...) KERNEL_##fn,
#include "kernels/kernels.def"
    KERNELS
};

#define LAUNCHED(fn, args)                                                                     \
    static void move_##fn(const mover *m, void *a)                                             \
    {                                                                                          \
        move_##args(m, a);                                                                     \
    }                                                                                          \
    static void run_##fn(const mf_kernels *k, const mf_kctx *x, void *a)                       \
    {                                                                                          \
        k->fn(x, a);                                                                           \
    }                                                                                          \
    static void launch_##fn(const mf_kctx *x, const mf_##fn##_args *a)                         \
    {                                                                                          \
        launch(x, KERNEL_##fn, a, sizeof *a);                                                  \
    }
#define MF_KERNEL(fn, ...)          LAUNCHED(fn, mf_##fn##_args)
#define MF_KERNEL_AS(fn, args, ...) LAUNCHED(fn, args)
#include "kernels/kernels.def"

static const launched_kernel launched[KERNELS] = {
#define MF_KERNEL(fn, ...) {#fn, move_##fn, run_##fn},
#include "kernels/kernels.def"
};

/* A kernel set whose kernels call launch(). */
static const mf_kernels launching = {
#define MF_KERNEL(fn, ...) .fn = launch_##fn,
#include "kernels/kernels.def"
};

#endif
