/* moefw/host.h: what the program offers to plugins.
 *
 * The loader puts the address of this table into the slot that the plugin's descriptor names,
 * before it calls anything. A plugin so has no undefined symbols and links against nothing. The
 * table is append-only: check MF_HAS(mf, mf_host, field) before using a field that is newer
 * than the oldest moefw you want to run under.
 *
 * [build] callable from init, route, forward, loss, grad: while a graph is being built
 * [step]  callable from on_step and after_step: between steps, on the main thread
 * [any]   both
 */
#ifndef MOEFW_HOST_H
#define MOEFW_HOST_H

#include <moefw/op.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_host {
    uint32_t size;
    uint32_t abi;

    /* ---- messages [any] ---- */
    /* Records the message, with plugin and layer named, and returns code. */
    int (*fail)(mf_ctx *ctx, int code, const char *fmt, ...);
    /* level: 0 error, 1 warning, 2 information, 3 debugging */
    void (*log)(mf_ctx *ctx, int level, const char *fmt, ...);

    /* ---- parameters: trained and saved; buffers: saved, touched by no gradient ---- */
    /* Declares in init [build]. The full name is the instance's path, a dot, and name. */
    int (*param)(mf_ctx *ctx, const char *name, mf_shape shape, mf_init init);
    int (*buffer)(mf_ctx *ctx, const char *name, mf_shape shape, mf_init init);
    /* The parameter or buffer as a value in this graph [build]. name: one's own; or, with a
     * leading '/', a full name of anybody's: "/layers.3.router.weight". */
    mf_tensor *(*use)(mf_ctx *ctx, mf_graph *g, const char *name);
    /* Its numbers, for reading and (buffers) writing between steps [step]; NULL if unknown. */
    float *(*data)(mf_ctx *ctx, const char *name, int64_t *ret_count);
    /* Full name, with its leading '/', of the i-th parameter or buffer matching a pattern with
     * '*' (of full names, the '/' may be left out); NULL past the end [any]. */
    const char *(*find)(mf_ctx *ctx, const char *pattern, int32_t i);

    /* ---- options ---- */
    /* One of the plugin's own live number options as a scalar value that follows it [build]. */
    mf_tensor *(*live)(mf_ctx *ctx, mf_graph *g, const char *option);
    /* Any live option by its INI name, "router.temperature", "regularizer.balance.weight"
     * [step]. reason goes to metrics.jsonl with the turn. MF_ENOTFOUND, MF_ECONFIG (bounds, not
     * live). */
    int (*set_live)(mf_ctx *ctx, const char *option, double value, const char *reason);
    int (*get_live)(mf_ctx *ctx, const char *option, double *ret_value);

    /* ---- graph [build] ---- */
    /* Adds an op of core, by name; the inline functions of moefw/ops.h are the usual way.
     * ret_out gets n_out handles (further outputs are dropped) and the first is returned. A
     * NULL input that the op does not call optional, or any failure, poisons the graph: NULL
     * comes back here and from all further ops, and the first failure is kept. */
    mf_tensor *(*op)(mf_graph *g, const char *name, int n_in, mf_tensor *const *in,
                     const mf_attr *attr, int n_out, mf_tensor **ret_out);
    /* The same for an op of one's own. The table must live as long as the plugin. */
    mf_tensor *(*custom)(mf_graph *g, const mf_opdef *def, int n_in, mf_tensor *const *in,
                         const mf_attr *attr, int n_out, mf_tensor **ret_out);
    mf_tensor *(*constant)(mf_graph *g, mf_dtype dtype, mf_shape shape, const void *data);
    int (*status)(const mf_graph *g); /* MF_OK or the first failure */
    mf_shape (*shape)(const mf_tensor *t);
    mf_dtype (*dtype)(const mf_tensor *t);
    bool (*training)(const mf_graph *g); /* a graph for training steps? */
    /* Keeps the value readable after the run and reports its mean as a metric [build]. */
    void (*metric)(mf_ctx *ctx, mf_graph *g, const char *name, mf_tensor *t);

    /* ---- between steps [step] ---- */
    int (*freeze)(mf_ctx *ctx, const char *pattern, bool frozen, const char *reason);
    int (*rebuild)(mf_ctx *ctx, const char *reason); /* structure changed: build graphs anew */
    /* Past values of a metric, newest first; returns how many there are (<= n). Names as in
     * metrics.jsonl: "loss", "val.loss", "moe.3.load_cv". */
    int32_t (*history)(mf_ctx *ctx, const char *metric, int32_t n, double *out);

    /* ---- drafts [any] ---- */
    const void *(*extension)(const char *id); /* "moefw.draft.NAME/1", NULL if not offered */

    /* ---- since 0.1: attention heads [step] ---- */
    /* max(0, loss with the head left out - loss) on the last training batch, divided by the
     * largest such value; out [layers heads], 0 for heads that are pruned. One run forward a
     * head: ask rarely. Returns how many there are (<= n), 0 where heads are not gated. What is
     * found is in the next lines of metrics.jsonl as well. */
    int32_t (*head_importance)(mf_ctx *ctx, int32_t n, float *out);
} mf_host;

#ifdef __cplusplus
}
#endif
#endif
