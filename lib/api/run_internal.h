/* api/run_internal.h: the handle behind moefw/run.h, for the files of this folder and for
 * tools/cli, which shows more of a run than other programs may read.
 *
 * Each public function that does more than set or read a field calls mf_run_enter, does its
 * work, and calls mf_run_leave. Between these two calls, the calling thread uses the handle's
 * log sink and number of threads. mf_run_leave restores those of the thread, and copies the
 * code and the message of an error into the handle. */
#ifndef MF_API_INTERNAL_H
#define MF_API_INTERNAL_H

#include <moefw/run.h>
#include <stdatomic.h>
#include "base/log.h"
#include "generate/generator.h"
#include "generate/generation.h"
#include "run/evaluate.h"
#include "run/training.h"

typedef enum mf_run_state {
    MF_RUN_NEW,
    MF_RUN_CONFIGURED,
    MF_RUN_TRAINING,
    MF_RUN_READING
} mf_run_state;

/* size of a message in bytes, equal to the longest message of base/error.h */
#define MF_RUN_MESSAGE 2048

struct moefw_run {
    mf_run_state state;
    atomic_bool busy; /* true while a call uses the handle */
    int code;
    char message[MF_RUN_MESSAGE];
    mf_log_sink sink;
    moefw_log_fn log;
    void *log_arg;
    moefw_metrics_fn metrics;
    void *metrics_arg;
    int threads; /* number of threads, as requested; 0: see mf_parallel_set_threads */

    /* ---- configured ---- */
    mf_arena *texts;            /* owner of the strings below */
    const char *config_name;    /* NULL: the default preset */
    mf_assignment *assignments; /* [n_assignments] in order */
    int n_assignments, cap_assignments;
    mf_config *config; /* configuration with these assignments */
    mf_ini *resolved;  /* all options with their values; NULL until requested */

    /* ---- training, reading ---- */
    mf_session *session;
    mf_rundir *dir;  /* training: the locked directory; NULL: none */
    char *directory; /* path of the run directory, also if the run is only read; NULL: none */
    /* set by tools/cli: training joins the ranks that a launcher has started; false after
     * the join */
    bool joins;
    mf_world *world; /* NULL: one process */
    bool alone;      /* the ranks could not be joined, and there was no other error */
    bool keeps;      /* with several ranks: rank 0 has a run directory */
    mf_trainer *trainer;
    mf_batch **batches;    /* [accumulate] copies of the caller's batches; NULL until needed */
    atomic_int stop, save; /* requests by any thread or signal handler */
    bool finished, failed;
    bool reported;           /* finish wrote report.html */
    int64_t step;            /* only for reading: step of the weights */
    mf_evaluator *evaluator; /* only for reading: evaluator of the split `evaluated`;
                              * NULL: none */
    mf_split evaluated;
    mf_metrics_record record; /* last evaluation */
    mf_jw *json;              /* last record as text */
    mf_model_graph *own;      /* graph for a batch of the caller; NULL until needed */

    /* ---- generation ---- */
    /* The weights are packed for generation, so no other graph may read them. */
    bool generate_only;
    mf_generator *generator;
    mf_sampler *sampler;
    int64_t drawn;       /* number of tokens generated for this text */
    mf_generation usual; /* generation settings of an imported run */
};

typedef struct mf_run_scope {
    const mf_log_sink *outer;
    int threads;
} mf_run_scope;

/* MF_EINVAL without a handle. MF_EUSAGE if a call is already using the handle: a call of
 * another thread, or the call that runs this callback. The same error follows a callback that
 * threw an exception and therefore never returned. After MF_EUSAGE nothing was entered, and the
 * handle has the message. */
int mf_run_enter(moefw_run *run, mf_run_scope *scope);
/* Enters the handle, or returns the expression `failed`, which may read the status code_. */
#define MF_RUN_ENTER(run, scope, failed)                                                       \
    do {                                                                                       \
        const int code_ = mf_run_enter(run, scope);                                            \
        if (code_ != MF_OK) return failed;                                                     \
    } while (0)
/* Restores the thread's state and returns rc. On failure the message of base/error.h is copied
 * into the handle, without a prefix "(set): ". */
int mf_run_leave(moefw_run *run, mf_run_scope *scope, int rc);

/* Reports MF_EINVAL: the argument `what` of the function `call` is NULL. */
int mf_run_null(const char *call, const char *what);

/* MF_EUSAGE if the handle is in none of the given states (a set of MF_RUN_IS bits), or if its
 * training has failed. what: the name of the call, for the message. */
int mf_run_expect(const moefw_run *run, const char *what, unsigned states);
/* Reads the settings in generation_config.json of an imported run, or of the imported run from
 * which this run started. For other runs nothing is read. MF_EINPUT, MF_EIO, MF_ENOMEM. */
int mf_run_usual(const char *dir, mf_generation *ret);
#define MF_RUN_IS(state) (1u << (state))

/* ---- for tools/cli, whose assignments have an origin for messages ("--steps") ---- */
/* The same as moefw_run_configure, with these assignments. */
int mf_run_configure(moefw_run *run, const char *config, int n,
                     const mf_assignment *assignments);

/* Starts training. dir: the run directory. parent: a folder in which NAME-N is created. Both
 * NULL: nothing is written. */
int mf_run_start(moefw_run *run, const char *dir, const char *parent);
/* If run->joins: opens the world, agrees with the other ranks on the status rc of the work
 * before this call, and checks that the ranks have the same configuration. A second call
 * does nothing. */
int mf_run_join(moefw_run *run, int rc);
/* Tells the other ranks whether rank 0 has opened a run directory, and agrees with them on the
 * status rc. */
int mf_run_share_dir(moefw_run *run, int rc);
/* Resumes the run in dir. A new handle uses the run's own configuration with these assignments.
 * A configured handle keeps its configuration, and the assignments have no effect. Differences
 * from the run's config.ini are then written into the run directory (run/folder/changes.h). */
int mf_run_resume(moefw_run *run, const char *dir, int n, const mf_assignment *assignments);
/* Converts a prompt to ids, which the caller frees. The run must have a tokenizer. begins:
 * the prompt begins a text, so the ids start with the tokens that the tokenizer puts before
 * a text. */
int mf_run_encode(const moefw_run *run, const char *text, size_t n, bool begins, mf_ids *ids);
/* Makes run->generator and run->sampler if they are missing, and sets the options of
 * the sampler. */
int mf_run_generator(moefw_run *run, const moefw_sampling *s);
/* Whether a token ends a text. An imported run uses the end tokens in the files of the
 * import. If there are none, and the files did not decide this, it is the end token of
 * the tokenizer. */
bool mf_run_ends(const moefw_run *run, int32_t id);
/* Continues the text with n tokens, which must be in the vocabulary, and then with generated
 * tokens, as moefw_run_generate_tokens does. MF_EUSAGE if n is 0. */
int mf_run_continue(moefw_run *run, const int32_t *tokens, size_t n, const moefw_sampling *s,
                    moefw_piece_fn piece, void *arg);

/* ---- shared by the files of this folder ---- */
/* Reads the configuration with the present assignments again, for a session. The session will
 * own *ret. */
int mf_run_config(const moefw_run *run, mf_config **ret);
/* Frees the generator and the graph for the caller's batches. Call this before weights or live
 * options change. */
void mf_run_forget(moefw_run *run);
/* Frees everything except the configuration. Afterwards the handle is configured, or new if it
 * had no configuration. */
void mf_run_close(moefw_run *run);
/* Converts r to the struct of the API. The handle owns the text of json, which is valid until
 * the next call of this function. */
int mf_run_metrics(moefw_run *run, const mf_metrics_record *r, moefw_metrics *ret);
/* Copies a struct of `known` bytes into the caller's struct. The caller's `size` limits the
 * copy and is not changed. Bytes of the caller's struct beyond `known` become 0. to NULL: no
 * effect. MF_EINVAL if `size` is less than sizeof(size_t) or over 65536. */
int mf_run_fill(void *to, const void *from, size_t known);
/* Checks ids against the vocabulary. MF_EINPUT if an id is outside of the vocabulary. */
int mf_run_judge_tokens(const moefw_run *run, const int32_t *tokens, size_t n);
/* Copies the caller's arrays into b, which has the same shape. */
void mf_run_copy_batch(mf_batch *b, const moefw_batch *from);
/* Checks a batch except for its shape. MF_EUSAGE unless the model is a language model;
 * MF_EINVAL if arrays are missing, or if tokens or targets are outside of the vocabulary. */
int mf_run_judge_batch(const moefw_run *run, const moefw_batch *b);

/* Writes the HTML page of the given runs at the end of training (report/report.h); NULL: no
 * page is written. The program sets this pointer before it opens a run. */
extern int (*mf_run_report)(int n, const char *const *runs, const char *out);

#endif
