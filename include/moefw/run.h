/* moefw/run.h: trains and runs Mixture-of-Experts transformers inside another program.
 *
 * A run is one model with everything that it needs: its configuration, its data, its trainer. A
 * program may open any number of runs. This example trains a preset:
 *
 *     moefw_run *run = moefw_run_new();
 *     if (moefw_run_configure(run, "default") || moefw_run_set(run, "train.steps", "200") ||
 *         moefw_run_start(run, "runs/first") || moefw_run_train(run))
 *         fprintf(stderr, "%s\n", moefw_run_message(run));
 *     moefw_run_free(run);
 *
 * A handle is in one of four states, in which these functions may be called:
 *     new         configure -> configured; open -> reading; resume -> training
 *     configured  configure, set, use_plugin; start, resume -> training; open -> reading
 *     training    step, train, save, finish; set of live options
 *     training, reading                evaluate, generate, routing, encode, info
 *     configured, training, reading    get, options
 *
 * Errors: a function that can fail returns MF_OK (0) or a negative mf_status, and stores code
 * and message in the handle. A function that is called in a wrong state returns MF_EUSAGE and
 * changes nothing. The comment of a function describes the state after any other failure.
 * moefw_run_free is always allowed.
 *
 * Threads: only one thread at a time may use a handle. Several threads may use different
 * handles at once. A call also computes in threads of its own (option train.threads; results
 * have the same bits at any number). They end with the thread that made the call, for which 256
 * KiB of stack are enough. A child of fork may call these functions only after exec.
 *
 * The process: no function here prints, handles or blocks signals, ends the process, changes
 * its environment, its folder or its locale, or starts another process. State that handles
 * share is fixed at first use (kernels for this processor, folders of plugins) or locked (the
 * list of plugins, which are never unloaded). The environment variables MOEFW_KERNELS,
 * MOEFW_ISA, MOEFW_GEMM, MOEFW_PLUGIN_PATH, OMP_NUM_THREADS and OMP_WAIT_POLICY have the same
 * effect as in the program moefw.
 *
 * Strings are UTF-8 and end with NUL unless a length is given. Pointers that a callback
 * receives are valid during the callback. A callback must not call functions of the same
 * handle: they return MF_EUSAGE, and moefw_run_free has no effect. A callback must return. If
 * an exception of C++ or a longjmp leaves the callback, the handle stays in use for ever and is
 * never freed, so catch exceptions within the callback. Structs begin with `size`. The side
 * that fills in a struct sets `size` to the struct's sizeof, because later versions
 * append fields. */
#ifndef MOEFW_RUN_H
#define MOEFW_RUN_H

#include <stddef.h>
#include <stdint.h>

#include <moefw/status.h>

#if !defined(MOEFW_API)
#if defined(__GNUC__)
#define MOEFW_API __attribute__((visibility("default")))
#else
#define MOEFW_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moefw_run moefw_run;

/* ---- version ---- */

/* Returns the version of the loaded library: as text, "0.2.1", and as 201 (10000 major + 100
 * minor + patch). The version of the headers is in moefw/version.h. */
MOEFW_API const char *moefw_version(void);
MOEFW_API int moefw_version_number(void);

/* ---- handles and errors ---- */

/* Makes a handle. NULL if there is not enough memory. */
MOEFW_API moefw_run *moefw_run_new(void);
/* Ends the run, releases its lock on a run directory and frees everything. Nothing is saved.
 * run may be NULL. */
MOEFW_API void moefw_run_free(moefw_run *run);

/* Return the code and the message of the last call with this handle that failed. The message is
 * one line that says what was expected and what was found. MF_OK and "" before the first
 * failure. Valid until the next call. If run is NULL, they are those of MF_ENOMEM. */
MOEFW_API int moefw_run_code(const moefw_run *run);
MOEFW_API const char *moefw_run_message(const moefw_run *run);

/* ---- log lines ---- */

enum { MOEFW_LOG_ERROR, MOEFW_LOG_WARNING, MOEFW_LOG_INFO, MOEFW_LOG_DEBUG };
typedef void (*moefw_log_fn)(void *arg, int level, const char *line);
/* `line` is called for each log line of at most this level, in the thread that called the
 * library. NULL: no lines, as in a new handle. If an exception of C++ leaves `line`, the
 * process ends (std::terminate), so catch exceptions within `line`. */
MOEFW_API void moefw_run_on_log(moefw_run *run, int highest, moefw_log_fn line, void *arg);

/* ---- configuration ---- */

/* Reads a configuration: the name of a preset, an INI file, or a run directory; NULL: the
 * preset `default`. moefw.ini(5) explains the keys. Settings of system and user are read first,
 * as in the program; if the configuration is a run directory, only their settings of the
 * machine are read. Unlike the program, the library loads files of plugins that only the
 * configuration names. Check the keys `plugin` and parallel.comm first if another person wrote
 * the configuration. MF_ENOTFOUND, MF_ECONFIG. After a failure the handle is new. */
MOEFW_API int moefw_run_configure(moefw_run *run, const char *config);

/* Sets an option by its name, SECTION.KEY as in the INI file: ("train.lr", "3e-4"). In a
 * configured handle this may be any option; rules between options are checked when the run
 * starts or is opened. In training it may be a live option, between steps. MF_ECONFIG: in a
 * configured handle, there is no such option, or the option cannot have this value;
 * MF_ENOTFOUND: no live option or no plugin has this name. A failure changes nothing. */
MOEFW_API int moefw_run_set(moefw_run *run, const char *name, const char *value);

/* Returns the value of an option as text, NULL if there is no such option. For a run that
 * trains, it is the value at the start of the run, whatever was set since. Valid until the
 * next call. */
MOEFW_API const char *moefw_run_get(moefw_run *run, const char *name);

typedef struct moefw_option {
    size_t size;
    const char *name;     /* "train.lr" */
    const char *value;    /* the value that moefw_run_get returns */
    const char *usual;    /* the default; NULL: there is none */
    const char *help;     /* one line */
    const char *expected; /* "a number from 0 to 1"; "" if unknown */
    int live;             /* 1: may change between steps */
} moefw_option;
typedef int (*moefw_option_fn)(void *arg, const moefw_option *option);
/* Calls `option` for each option of the configuration, including options of its plugins, in the
 * order of moefw.ini(5). If `option` returns a value other than 0, the loop ends. */
MOEFW_API int moefw_run_options(moefw_run *run, moefw_option_fn option, void *arg);

/* ---- plugins ---- */

struct mf_plugin; /* moefw/plugin.h */

/* Adds a plugin to the configuration. A router or an expert replaces the present one; a plugin
 * of another kind is added. plugin: a name, or a file. A file is code that runs with the rights
 * of this process. It is checked before any of its functions is called, but, unlike in the
 * program moefw, it is not first tried in a child process. MF_ENOTFOUND, MF_EPLUGIN. */
MOEFW_API int moefw_run_use_plugin(moefw_run *run, const char *plugin);

/* Registers a plugin that is linked into the program. plugin: the address of the descriptor
 * that MF_PLUGIN_INIT makes. From then on its name selects it in all runs of the process, even
 * if a file with that name exists. The descriptor must live as long as the process; it may be
 * registered again. The handle only receives errors. MF_EPLUGIN: the plugin was refused, or
 * another registered plugin has the same kind and name. */
MOEFW_API int moefw_run_register_plugin(moefw_run *run, const struct mf_plugin *plugin);

/* ---- training ---- */

/* Loads data and plugins, and makes a model and its trainer. dir: the run directory, which is
 * created or must be empty (moefw-run(5)); with a '/' at its end, a folder in which the next
 * free NAME-N is created; NULL: nothing is written. With data.path = none there are no data:
 * the caller passes batches to each step, model.vocab must be set, and train.steps sets the
 * length of schedules. After a failure the handle is configured as before. MF_ERUN: another
 * handle or process writes to dir; MF_EUSAGE: dir is not empty. */
MOEFW_API int moefw_run_start(moefw_run *run, const char *dir);

/* Continues the run in dir from its newest checkpoint, with the same bits as if the run had
 * never stopped. A new handle uses the run's own configuration. If the handle was configured
 * with dir, the options set since then are also used, and they are written to the run's
 * config.ini. Options that would change the model or the optimizer are refused (MF_ECONFIG). A
 * run that ended before its first checkpoint begins again at step 0. MF_EINPUT: dir is not a
 * run; MF_ECHECKPOINT: there was a checkpoint, but none verifies; MF_ERUN: another handle or
 * process writes to dir. After a failure the handle is new, or configured if it has read
 * a configuration. */
MOEFW_API int moefw_run_resume(moefw_run *run, const char *dir);

/* A batch of the caller, for language models: rows = train.batch examples of width = model.seq
 * positions. Arrays have rows * width elements, example after example; they are read only
 * during the call. */
typedef struct moefw_batch {
    size_t size;
    int32_t rows, width;
    const int32_t *tokens;  /* ids 0 .. vocab-1; at padding any such id */
    const int32_t *targets; /* the token to predict at each position; -1: none */
    const float *mask;      /* 1: a token, 0: padding; NULL: no padding */
} moefw_batch;

/* The result of one optimizer step. */
typedef struct moefw_step {
    size_t size;
    int64_t step;           /* number of optimizer steps including this one */
    double loss, task_loss; /* nats per token; loss includes regularizers */
    double grad_norm, lr;
    double tokens_per_s;
    /* 1: parameters were not changed, because a value was not finite (train.nan_policy) */
    int skipped;
} moefw_step;

/* Does one optimizer step, with controllers, metrics, evaluations and checkpoints when they are
 * due. batches: train.accumulate batches, or NULL for the next batches of the run's data. *ret
 * is filled in only if the step was done; ret may be NULL. Errors: MF_EUSAGE: all steps are
 * done, there are neither batches nor data, or the model is a classifier, which accepts no
 * batches. MF_EINVAL: a batch has another shape, or tokens or targets outside the vocabulary,
 * and nothing was changed; or the step was done, but ret->size is wrong. MF_ELIMIT:
 * train.time_limit is over; MF_ESIGNAL: moefw_run_ask_stop was called. With MF_ELIMIT and
 * MF_ESIGNAL the step was done, and a checkpoint was saved if there is a run directory.
 * MF_ENONFINITE: the loss diverged. After MF_ENONFINITE, or an error that is not listed here,
 * only moefw_run_free may be called. */
MOEFW_API int moefw_run_step(moefw_run *run, const moefw_batch *batches, moefw_step *ret);
/* Returns 1 if all steps are done, else 0. */
MOEFW_API int moefw_run_done(const moefw_run *run);
/* Does the last evaluation and writes files and pictures. Call this after the last step. A
 * second call has no effect, and moefw_run_step then returns MF_EUSAGE. */
MOEFW_API int moefw_run_finish(moefw_run *run);
/* Does all remaining steps, then calls moefw_run_finish. Errors: those of moefw_run_step. */
MOEFW_API int moefw_run_train(moefw_run *run);
/* moefw_run_ask_stop requests that training stops after the present step. moefw_run_step then
 * saves a checkpoint and returns MF_ESIGNAL, unless this was the last step. signal: a number
 * for the message, not 0. moefw_run_ask_save requests a checkpoint after the present step. Any
 * thread and any signal handler may call these two functions at any time. */
MOEFW_API void moefw_run_ask_stop(moefw_run *run, int signal);
MOEFW_API void moefw_run_ask_save(moefw_run *run);
/* Saves a checkpoint into the run directory. MF_EUSAGE: there is no run directory. */
MOEFW_API int moefw_run_save(moefw_run *run);

/* ---- metrics and evaluation ---- */

/* One line of metrics.jsonl. NaN: there is no value. */
typedef struct moefw_metrics {
    size_t size;
    int64_t step;
    const char *split;      /* "train", "val", "test" */
    double loss, task_loss; /* nats per token (for a classifier per example) */
    double perplexity, accuracy;
    double lr, grad_norm;
    /* evaluations: lowest expected loss (nats per token) that the data allow a model with this
     * window; it is known for builtin:topics with one token per byte. NaN: unknown, as in
     * records of training steps */
    double floor;
    double tokens_per_s;
    int64_t tokens;   /* train: number of tokens trained on so far; other splits: number of
                       * tokens evaluated */
    const char *json; /* the whole record as one JSON object: see moefw-run(5) */
} moefw_metrics;
typedef void (*moefw_metrics_fn)(void *arg, const moefw_metrics *metrics);
/* `metrics` is called for each record of training (train.log_every) and each evaluation of a
 * run that trains, in the thread that called the library; NULL: no calls. Set it before the
 * first step to get all records. */
MOEFW_API int moefw_run_on_metrics(moefw_run *run, moefw_metrics_fn metrics, void *arg);

/* Evaluates the model on a split of the run's data, "train", "val" or "test" (NULL: "val"), on
 * at most `batches` batches (0: all). *ret is filled in unless ret is NULL; its pointers are
 * valid until the next call. A run that trains can only evaluate "val", and writes a record of
 * this evaluation. MF_EUSAGE: there are no data, another split was requested from a run that
 * trains, or the run was opened with generate_only. */
MOEFW_API int moefw_run_evaluate(moefw_run *run, const char *split, int64_t batches,
                                 moefw_metrics *ret);

/* Evaluates one batch of the caller, with any number of examples and at most model.seq
 * positions. *ret_loss: mean loss over the targets, in nats per token. MF_EUSAGE: the model is
 * a classifier, or the run was opened with generate_only; MF_EINVAL: a shape, token or target
 * is wrong. */
MOEFW_API int moefw_run_evaluate_batch(moefw_run *run, const moefw_batch *batch,
                                       double *ret_loss);

/* ---- reading a run ---- */

typedef struct moefw_open_options {
    size_t size;
    int64_t step;      /* step of the weights; -1: those of the newest checkpoint */
    const char *dtype; /* type of the inputs of gemms, "f32" or "bf16"; NULL: as in training */
    int data;          /* 1: also load the data, for moefw_run_evaluate */
    const char *path;  /* with data: evaluate on all of this file instead of the run's split */
    int gradients;     /* 1: keep the values that are needed to measure gradients */
    /* 1: weights are packed for generation; evaluation and routing are then refused */
    int generate_only;
    int threads;        /* 0: as configured; a new handle uses all cores, or OMP_NUM_THREADS */
    const char *device; /* device of the model: cpu, cuda, cuda:N; NULL: as configured */
} moefw_open_options;
#define MOEFW_OPEN_OPTIONS_INIT                                                                \
    {                                                                                          \
        sizeof(moefw_open_options), -1, NULL, 0, NULL, 0, 0, 0, NULL                           \
    }

/* Opens the run in dir for reading: RUN, a checkpoint RUN/ckpt/step-N, or RUN/best, with the
 * run's own configuration. The directory is not locked. options: NULL for the newest weights
 * without data. If the handle is configured and dir is NULL, the configuration's model is
 * opened with its initial values. After a failure the handle is in the same state as before.
 * MF_EINPUT, MF_ECHECKPOINT. */
MOEFW_API int moefw_run_open(moefw_run *run, const char *dir,
                             const moefw_open_options *options);

typedef struct moefw_info {
    size_t size;
    int64_t params, params_active; /* number of all parameters; number of parameters that one
                                    * token uses */
    int64_t step, steps;           /* optimizer steps so far, and planned */
    int32_t vocab, seq;            /* token ids are 0 .. vocab-1; longest sequence */
    int32_t layers, moe_layers;    /* number of blocks; number of those with experts */
    /* the largest number of experts of a layer; number of experts per token, of the first
     * layer with experts */
    int32_t experts, top_k;
    int32_t batch, accumulate; /* shape of the batches of moefw_run_step */
    const char *directory;     /* path of the run directory; NULL: none */
    /* Since 0.3: [layers] number of experts of each block, 0 for a block without; valid while
     * the handle trains or reads. */
    const int32_t *layer_experts;
} moefw_info;
/* Fills in *ret while the handle trains or reads. The caller sets ret->size. */
MOEFW_API int moefw_run_info(moefw_run *run, moefw_info *ret);

/* ---- text ---- */

/* Converts a text of n bytes to token ids with the run's tokenizer. Writes at most `room` ids;
 * *ret_n is the number of all ids. MF_EUSAGE: the run has no tokenizer; MF_EINPUT: the
 * tokenizer has no token for a character. */
MOEFW_API int moefw_run_encode(moefw_run *run, const char *text, size_t n, int32_t *tokens,
                               size_t room, size_t *ret_n);
/* Returns the bytes of a token, which may be a part of a character. NULL if there are none.
 * They are valid as long as the run. */
MOEFW_API const char *moefw_run_token_text(moefw_run *run, int32_t token, size_t *ret_n);

typedef struct moefw_sampling {
    size_t size;
    int64_t tokens;     /* greatest number of tokens to generate */
    double temperature; /* 0: always the likeliest token */
    int64_t top_k;      /* draw from this many likeliest tokens; 0: draw from all */
    /* draw from the likeliest tokens whose probabilities reach this sum */
    double top_p;
    double repeat_penalty; /* above 1: tokens of the text so far become less likely */
    uint64_t seed;         /* the same seed generates the same text */
    /* 1: continue after the text of the previous call, 0: begin a new text */
    int keep;
    /* 1: run the whole text again for each token. The first call decides this for all calls
     * until the next step */
    int no_cache;
} moefw_sampling;
#define MOEFW_SAMPLING_INIT                                                                    \
    {                                                                                          \
        sizeof(moefw_sampling), 200, 0.8, 40, 0.95, 1.0, 0, 0, 0                               \
    }

/* Receives a piece of text, which consists of whole characters (n may be 0), and the token that
 * completed it. The token is -1 for a remaining text at the end. A result other than 0 ends
 * the text. */
typedef int (*moefw_piece_fn)(void *arg, const char *text, size_t n, int32_t token);
/* Continues a text of n bytes, or n tokens. sampling: NULL for MOEFW_SAMPLING_INIT. It is not
 * an error if the callback ends the text. MF_ECONFIG: the model is a classifier; MF_EUSAGE: the
 * prompt is empty, or it is a text and the run has no tokenizer; MF_EINPUT: a character or
 * token is not in the vocabulary; MF_EINVAL: a number of sampling is out of range;
 * MF_ENONFINITE: no logit is finite. */
MOEFW_API int moefw_run_generate(moefw_run *run, const char *prompt, size_t n,
                                 const moefw_sampling *sampling, moefw_piece_fn piece,
                                 void *arg);
MOEFW_API int moefw_run_generate_tokens(moefw_run *run, const int32_t *tokens, size_t n,
                                        const moefw_sampling *sampling, moefw_piece_fn piece,
                                        void *arg);

/* ---- routing ---- */

/* How one MoE layer routes a sequence of tokens. */
typedef struct moefw_routing {
    size_t size;
    int32_t layer;  /* index of the block */
    int32_t tokens; /* T, the number of tokens */
    int32_t experts, top_k;
    const int32_t *chosen; /* [T][top_k] the expert of each assignment; -1: none */
    /* [T][top_k] the expert that computes the assignment after capacity; -1: dropped */
    const int32_t *admitted;
    const float *gate; /* [T][top_k] gate of the expert's output; 0 if there is none */
    const float *prob; /* [T][experts] the router's probabilities; NULL: the router has none */
} moefw_routing;
typedef int (*moefw_routing_fn)(void *arg, const moefw_routing *layer);
/* Runs n tokens (1 .. model.seq) as one sequence and calls layer for each MoE layer, in
 * order. If experts choose tokens, top_k is the largest number of experts that any of these
 * tokens has. If `layer` returns a value other than 0, the loop ends. MF_EUSAGE: the run was
 * opened with generate_only; MF_EINVAL: n is out of range; MF_EINPUT: a token outside
 * the vocabulary. */
MOEFW_API int moefw_run_routing(moefw_run *run, const int32_t *tokens, size_t n,
                                moefw_routing_fn layer, void *arg);

#ifdef __cplusplus
}
#endif
#endif
