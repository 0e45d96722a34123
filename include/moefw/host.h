/* moefw/host.h: the functions that the program offers to plugins.
 *
 * Before it calls any function of a plugin, the loader writes the address of this table into
 * the slot that the plugin's descriptor names. Therefore a plugin needs no symbol of moefw, and
 * does not link against it. Fields are only appended: check MF_HAS(mf, mf_host, field) before
 * using a field that is newer than the oldest moefw that the plugin supports.
 *
 * [init] may be called from init [build] may be called while a graph is built: from route,
 * forward, loss and apply; functions
 *         without an mf_ctx also from grad of an op
 * [step] may be called between steps: from on_step and after_step, and from start and adopt of
 *         an adapter
 * [any] may be called from all of these */
#ifndef MOEFW_HOST_H
#define MOEFW_HOST_H

#include <moefw/adapter.h>
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

    /* ---- parameters are trained and saved; buffers are saved and have no gradient ---- */
    /* Declare a parameter or buffer [init]. Its full name is the instance's path, a dot, and
     * name, which has 1 to 64 letters, digits, '_' and '.'. */
    int (*param)(mf_ctx *ctx, const char *name, mf_shape shape, mf_init init);
    int (*buffer)(mf_ctx *ctx, const char *name, mf_shape shape, mf_init init);
    /* Returns the parameter or buffer as a value in this graph [build]. name: a name of the
     * instance's own; or, with a leading '/', any full name: "/layers.3.router.weight". */
    mf_tensor *(*use)(mf_ctx *ctx, mf_graph *g, const char *name);
    /* Returns the elements of a parameter or buffer, *ret_count of them [step]. The instance
     * may write its own buffers, and a controller may also write those of others. An instance
     * may write its own parameters only in start and adopt. Any other result is a copy for
     * reading; if it is changed, the call of the plugin's function fails. NULL if there is no
     * such name. */
    float *(*data)(mf_ctx *ctx, const char *name, int64_t *ret_count);
    /* Returns the full name, with its leading '/', of the i-th parameter or buffer that matches
     * a pattern with '*' (the pattern may omit the '/'); NULL past the end [any]. The name is
     * valid as long as the instance. */
    const char *(*find)(mf_ctx *ctx, const char *pattern, int32_t i);

    /* ---- options ---- */
    /* Returns one of the plugin's own live options, as an f32 scalar that follows the option's
     * value [build]. */
    mf_tensor *(*live)(mf_ctx *ctx, mf_graph *g, const char *option);
    /* Sets any live option by its INI name, "router.temperature", "regularizer.balance.weight"
     * [step]. reason is written to metrics.jsonl with the change. MF_ENOTFOUND: no live option
     * has this name; MF_ECONFIG: the value is out of bounds. get_live returns the
     * present value. */
    int (*set_live)(mf_ctx *ctx, const char *option, double value, const char *reason);
    int (*get_live)(mf_ctx *ctx, const char *option, double *ret_value);

    /* ---- graph [build] ---- */
    /* Adds an op of core by its name; the inline functions of moefw/ops.h call this. ret_out
     * receives n_out handles (further outputs are dropped), and the first handle is returned.
     * After any failure, and after a NULL for an input that is not optional, this function and
     * all later functions that add ops return NULL; the graph keeps the first failure. */
    mf_tensor *(*op)(mf_graph *g, const char *name, int n_in, mf_tensor *const *in,
                     const mf_attr *attr, int n_out, mf_tensor **ret_out);
    /* Adds an op of the plugin; otherwise the same as `op`. The table def must live as long as
     * the plugin. */
    mf_tensor *(*custom)(mf_graph *g, const mf_opdef *def, int n_in, mf_tensor *const *in,
                         const mf_attr *attr, int n_out, mf_tensor **ret_out);
    /* Adds a constant; core copies the data. */
    mf_tensor *(*constant)(mf_graph *g, mf_dtype dtype, mf_shape shape, const void *data);
    int (*status)(const mf_graph *g); /* returns MF_OK, or the code of the first failure */
    mf_shape (*shape)(const mf_tensor *t);
    mf_dtype (*dtype)(const mf_tensor *t);
    bool (*training)(const mf_graph *g); /* returns true for graphs of training steps */
    /* Reports the mean of all elements as the metric PATH.NAME of metrics.jsonl [build]; the
     * graph computes it only in runs with metrics. */
    void (*metric)(mf_ctx *ctx, mf_graph *g, const char *name, mf_tensor *t);

    /* ---- between steps [step] ---- */
    /* Freezes or unfreezes all parameters that match a pattern (see find); reason is logged.
     * MF_ENOTFOUND: no parameter matches. */
    int (*freeze)(mf_ctx *ctx, const char *pattern, bool frozen, const char *reason);
    /* requests new graphs, because the model's structure has changed */
    int (*rebuild)(mf_ctx *ctx, const char *reason);
    /* Writes past values of a metric, newest first, and returns their number (<= n). Names are
     * those of metrics.jsonl: "loss", "val.loss", "moe.3.load_cv". */
    int32_t (*history)(mf_ctx *ctx, const char *metric, int32_t n, double *out);

    /* ---- drafts [any] ---- */
    /* Returns the interface "moefw.draft.NAME/1"; NULL if this moefw does not offer it. */
    const void *(*extension)(const char *id);

    /* ---- since 0.1: attention heads [step] ---- */
    /* max(0, loss without the head - loss) on the last training batch, divided by the largest
     * such value; out [layers heads], 0 for pruned heads. This takes one forward pass per head,
     * so call it rarely. Returns the number of values (<= n), 0 if heads cannot be switched
     * off. The next lines of metrics.jsonl also contain the values. */
    int32_t (*head_importance)(mf_ctx *ctx, int32_t n, float *out);

    /* ---- since 0.2: adapters [init] ---- */
    /* Declares what the adapter needs: flags MF_ADAPTER_HEADS, MF_ADAPTER_SEQUENCE
     * (moefw/adapter.h). */
    int (*want)(mf_ctx *ctx, uint32_t what);
    /* Requests the value at a point of the residual stream or of a branch (block_in, block_mid,
     * block_out, attention, ffn) of an earlier block, or at an earlier point of the same block.
     * apply receives it in in->tap, in the order of the calls. */
    int (*tap)(mf_ctx *ctx, int32_t layer, int32_t point);
    /* Returns the i-th linear layer that the section's `at` selects; NULL past the end. The
     * result is valid as long as the instance. */
    const mf_linear_site *(*site)(mf_ctx *ctx, int32_t i);
    /* Declares that one of the instance's parameters [H], declared before, contains the gates
     * of the layer's H heads. Core passes the gates to controllers, reports them, and lets them
     * be set as live options. form: mf_gate_form. */
    int (*head_gates)(mf_ctx *ctx, const char *param, int32_t form);

    /* ---- since 0.2: messages with a place in the source [build] ---- */
    /* Sets the line of the plugin's source in which the next ops are added, for messages about
     * these ops; the macros of moefw/ops.h call this. file must live as long as the plugin;
     * NULL: unknown. */
    void (*at)(mf_graph *g, const char *file, int32_t line);
    /* Writes shape, range and first elements of the value to the log in each run of the graph:
     * use mf_print of moefw/ops.h. */
    void (*print)(mf_graph *g, mf_tensor *t, const char *name);

    /* ---- since 0.2: live options that a plugin will need [init] ---- */
    /* Declares that on_step or after_step will read or set the live option. A run without an
     * option of this name is refused before any of its files is written. core copies the name.
     * The name may also be that of a training option, or of a plugin that is set up later. */
    int (*want_live)(mf_ctx *ctx, const char *option);

    /* ---- since 0.3: sums over a step ---- */
    /* Declares a tally of the instance [init]: numbers that core sums over all micro-batches,
     * ranks and devices of a training step. name: as for param, and not the name of a parameter
     * or buffer of the instance. flags: MF_TALLY_*. A tally is not saved: it is 0 when a step
     * begins. All tallies of a model together have at most 2^24 numbers. */
    int (*tally)(mf_ctx *ctx, const char *name, mf_shape shape, uint32_t flags);
    /* Adds `part` (f32, with the shape of the tally) to the tally in each run of this graph
     * [build]. No gradient flows into the part. In graphs that do not train this does
     * nothing. It may be called several times for a tally; instances that share a path share
     * the tally. */
    void (*count)(mf_ctx *ctx, mf_graph *g, const char *name, mf_tensor *part);
    /* Returns the sums of the last step [step], *ret_count of them, which are the same on every
     * rank; 0 if the step was skipped (mf_step.skipped). name: a name of the instance's own;
     * or, with a leading '/', any full name. NULL: there is no such tally. The sums are valid
     * until the call of the plugin's function returns. */
    const double *(*sum)(mf_ctx *ctx, const char *name, int64_t *ret_count);
    /* Requests a tally of core in each MoE layer [init]: /layers.N.moe.NAME, [E,bins]
     * (mf_score_count). Controllers may also request it, although they build no graph. */
    int (*count_scores)(mf_ctx *ctx, const char *name, const mf_score_count *what);

    /* ---- since 0.3: layers that differ [init] ---- */
    /* Fills in *ret with the dimensions of block `layer`, for instances of the whole model,
     * whose own dimensions are those of the first block with experts. The caller sets
     * ret->size. MF_ENOTFOUND: there is no such block, or the block has no experts. */
    int (*layer_dims)(mf_ctx *ctx, int32_t layer, mf_dims *ret);

    /* ---- since 0.3: experts that begin again [step] ---- */
    /* Copies a row of a parameter, from dimension 0, to another row, and sets the optimizer's
     * moments of the new row to 0. Only on_step of a controller may call it. name: a full name;
     * its leading '/' may be missing. noise: standard deviation of normal numbers that are
     * added, in units of the root mean square of the row; they depend on the name, the step and
     * `to` only. Moments that have another shape than the parameter (adafactor) stay as they
     * are. MF_ENOTFOUND: there is no such parameter, or it belongs to an expert without
     * MF_PARAM_BY_EXPERT. MF_ECONFIG: it is frozen, or ranks share the experts. */
    int (*copy_row)(mf_ctx *ctx, const char *name, int64_t to, int64_t from, double noise);
} mf_host;

/* All parts of the tally are integers of magnitude below 2^24. Then the sum is exact, in any
 * order and for any number of micro-batches. If a part is not such a number, core ends the run
 * (MF_EPLUGIN), unless the step is skipped. */
#define MF_TALLY_WHOLE 1u

/* The names of the functions in their order. Plugins contain this text. If a plugin's headers
 * are newer than moefw, moefw can therefore name a function that it does not have. */
#define MF_HOST_NAMES                                                                          \
    "moefw host: fail log param buffer use data find live set_live get_live op custom "        \
    "constant status shape dtype training metric freeze rebuild history extension "            \
    "head_importance want tap site head_gates at print want_live tally count sum "             \
    "count_scores layer_dims copy_row"

#ifdef __cplusplus
}
#endif
#endif
