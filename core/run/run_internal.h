/* run/run_internal.h: the handle behind moefw/run.h, for the files of this folder, and for
 * core/cli, which shows more of a run than programs may see.
 *
 * Each public function has one form: mf_run_enter, the work, mf_run_leave. In between the
 * handle's log sink and number of threads are in force in the calling thread; leave puts back
 * what was there, and copies the message of a failure into the handle.
 */
#ifndef MF_RUN_INTERNAL_H
#define MF_RUN_INTERNAL_H

#include <moefw/run.h>
#include <stdatomic.h>
#include "base/log.h"
#include "generate/generator.h"
#include "train/evaluate.h"
#include "train/trainer.h"

typedef enum mf_run_state {
    MF_RUN_NEW,
    MF_RUN_CONFIGURED,
    MF_RUN_TRAINING,
    MF_RUN_READING
} mf_run_state;

/* Text of a page-sized message: as long as the longest of base/error.h. */
#define MF_RUN_MESSAGE 2048

struct moefw_run {
    mf_run_state state;
    int code;
    char message[MF_RUN_MESSAGE];
    mf_log_sink sink;
    moefw_log_fn log;
    void *log_arg;
    moefw_metrics_fn metrics;
    void *metrics_arg;
    int threads; /* as asked for; 0: all */

    /* ---- configured ---- */
    mf_arena *texts;            /* of what follows */
    const char *config_name;    /* NULL: the default preset */
    mf_assignment *assignments; /* [n_assignments] in order */
    int n_assignments, cap_assignments;
    mf_config *config; /* of these */
    mf_ini *resolved;  /* every option with its value; NULL until somebody asks */

    /* ---- training, reading ---- */
    mf_session *session;
    mf_rundir *dir;  /* training: locked; NULL: none */
    char *directory; /* its path, or that which is read; NULL: none */
    mf_trainer *trainer;
    mf_batch **batches;    /* [accumulate] copies of the caller's; NULL until needed */
    atomic_int stop, save; /* asked for, by any thread or a signal handler */
    bool finished, failed;
    bool reported;           /* finish wrote report.html */
    int64_t step;            /* reading: of the weights */
    mf_evaluator *evaluator; /* reading; of evaluated */
    mf_split evaluated;
    mf_metrics_record record; /* of the last evaluation */
    mf_jw *json;              /* the last record as text */
    mf_model_graph *own;      /* evaluates a batch of the caller */

    /* ---- generating ---- */
    bool generate_only; /* weights are packed: nothing else can read them */
    mf_generator *generator;
    mf_sampler *sampler;
    int64_t drawn; /* tokens of this text */
};

typedef struct mf_run_scope {
    const mf_log_sink *outer;
    int threads;
} mf_run_scope;

void mf_run_enter(moefw_run *run, mf_run_scope *scope);
/* Returns rc. The message is that of base/error.h, whose prefix "(set): " is taken off. */
int mf_run_leave(moefw_run *run, mf_run_scope *scope, int rc);

/* MF_EUSAGE unless the handle is in one of the states (bits 1 << state). what: "step". */
int mf_run_expect(const moefw_run *run, const char *what, unsigned states);
#define MF_RUN_IS(state) (1u << (state))

/* ---- for core/cli: the same with an origin for messages ("--steps") ---- */
/* config: as in moefw_run_configure, with these assignments. */
int mf_run_configure(moefw_run *run, const char *config, int n,
                     const mf_assignment *assignments);

/* dir: as it is; parent: a folder in which NAME-N is made; both NULL: nothing is written. */
int mf_run_start(moefw_run *run, const char *dir, const char *parent);
/* In a new handle with the run's own configuration and these assignments. */
int mf_run_resume(moefw_run *run, const char *dir, int n, const mf_assignment *assignments);
/* Ids of a prompt. */
int mf_run_encode(const moefw_run *run, const char *text, size_t n, mf_ids *ids);
/* Makes run->generator and run->sampler, or gives the sampler other settings. */
int mf_run_generator(moefw_run *run, const moefw_sampling *s);
int mf_run_continue(moefw_run *run, const int32_t *tokens, size_t n, const moefw_sampling *s,
                    moefw_piece_fn piece, void *arg);

/* ---- shared by the files of this folder ---- */
/* The configuration anew, for a session to take over. */
int mf_run_config(const moefw_run *run, mf_config **ret);
/* A trained model changed: what was computed with it is forgotten. */
void mf_run_forget(moefw_run *run);
/* Everything but the configuration. */
void mf_run_close(moefw_run *run);
/* r in the shape of the API. The text of json is the handle's. */
int mf_run_metrics(moefw_run *run, const mf_metrics_record *r, moefw_metrics *ret);
/* Copies the first `size` bytes of what is known into the caller's struct, whose size field
 * says how large it is. MF_EINVAL: smaller than its first version. */
int mf_run_fill(void *to, const void *from, size_t known);
/* Checks ids against the vocabulary. */
int mf_run_judge_tokens(const moefw_run *run, const int32_t *tokens, size_t n);
/* b's fields from the caller's arrays; b has their shape. */
void mf_run_copy_batch(mf_batch *b, const moefw_batch *from);
int mf_run_judge_batch(const moefw_run *run, const moefw_batch *b);

#endif
