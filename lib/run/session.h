/* run/session.h: a configuration with its data and its model, for all code that computes.
 *
 * A session for an existing run uses tokenizer and dimensions of the run, so that the same text
 * has the same ids. */
#ifndef MF_RUN_SESSION_H
#define MF_RUN_SESSION_H

#include "data/batch.h"
#include "data/corpus.h"
#include "model/model.h"
#include "run/folder/data_sums.h"
#include "run/run_config.h"

struct mf_stored_files;

typedef struct mf_session {
    mf_config *config;
    mf_corpus *corpus; /* NULL if the session was opened without data */
    /* tokenizer of the run or of the corpus; NULL if neither has a tokenizer, as for files of
     * token ids */
    const mf_tokenizer *tokenizer;
    mf_tokenizer *own_tokenizer; /* tokenizer that was read from the file of a run, else NULL */
    /* weights in files outside the run (stored_files.h), or NULL */
    struct mf_stored_files *stored;
    bool stored_given;        /* the caller owns `stored` */
    struct mf_device *device; /* device on which the model is; NULL: the host */
    mf_model *model;
    int64_t steps;     /* number of optimizer steps of the whole run; 0: not planned */
    mf_batcher *train; /* NULL without training or data */
    bool other_data;   /* options.data was given */
    int32_t eval_seq;  /* positions of a window over which a split is evaluated; 0: model.seq */
    /* with train.from, after it was read: the step of its weights, and the number of parameters
     * that it does not contain */
    int64_t from_step;
    int from_missing;
    /* the reason why the data could not be read, if options.spare was used instead;
     * else NULL */
    char *no_data;
    char run_id[33];   /* set by mf_provenance_name or mf_provenance_recall; "": unknown */
    mf_data_sums data; /* set by the same functions */
} mf_session;

typedef struct mf_names {
    const char **name; /* NULL: unknown */
    int32_t n;
} mf_names;

/* Which parameters read weights from files outside the run in the type of the file. The other
 * parameters convert the weights to f32. */
typedef enum mf_bind {
    MF_BIND_FITTING, /* all parameters if the model is not trained, otherwise the
                      * frozen parameters */
    MF_BIND_ALL,
    MF_BIND_NONE
} mf_bind;

typedef struct mf_session_options {
    /* allocate gradients and moments, make training batches; without data (no_data) the trainer
     * accepts only batches of its caller */
    bool training;
    bool no_controllers; /* controllers do not run; options that they need may be missing */
    bool gradients;      /* allocate gradients, but no moments, and make no training batches */
    bool bare;           /* only compute sizes (model.h); graphs cannot run */
    /* open only model and tokenizer: to generate, or to train with batches of the caller */
    bool no_data;
    /* Dimensions for a session without data, used if the data cannot be read. NULL: opening
     * then fails. */
    const mf_model_dims *spare;
    /* tokenizer file of the run; NULL: the tokenizer of train.from, or of the data */
    const char *tokenizer_file;
    /* Weights in files outside the run: the caller's list, which must outlive the session; or
     * the list of the run, which may be missing. If both are NULL, the list of the run in
     * train.from is used, if it exists. `bind` says which parameters read these
     * weights unconverted. */
    struct mf_stored_files *stored;
    const char *stored_file;
    mf_bind bind;
    const char *bind_but; /* parameters whose names contain this text are excluded;
                           * NULL: none */
    const char *data;     /* replaces data.path; the whole file is the val split */
    /* replaces data.labels; NULL: that of the run, which other data (`data`) need not have */
    const char *labels;
    /* class names of the run, in order; NULL: those of the data */
    const char *const *class_names;
    int32_t n_class_names;
    /* names of the labels of tokens of the run, in order; NULL: those of the data */
    const char *const *label_names;
    int32_t n_label_names;
    /* class names of each [task.NAME], in order; NULL: those of the data */
    const struct mf_names *more_names;
    const mf_model_dims *dims; /* vocabulary, labels, classes of the run; NULL: from the data */
    /* index of this process among the processes that share the experts, and their number; 0 or
     * 1: not shared */
    int expert_rank, expert_ranks;
} mf_session_options;

/* Writes the options of the model that follow from [train], except the device. training: with
 * gradients and moments. */
void mf_session_model_options(const mf_config *config, bool training, mf_model_options *ret);
/* Opens a session. The session owns the configuration from now on, which is freed even if this
 * call fails. */
int mf_session_open(mf_config *config, const mf_session_options *options, mf_session **ret);
void mf_session_close(mf_session *s);

/* Checks that the live options exist which plugins of the model need. MF_ECONFIG, with the
 * nearest option and the position of the section that needs the option. */
int mf_session_judge_live(const mf_session *s);

/* Whether training batches hold several documents in a sequence (data.packing). */
bool mf_session_packed(const mf_session *s);
/* Writes the specification of the configured batches of a split: random order for training,
 * else in order; not packed. */
void mf_session_batch_spec(const mf_session *s, mf_split split, mf_batch_spec *ret);
/* Writes the specification of the batches over which a split is evaluated, in order, with
 * train.eval_context and eval_seq. Every loss that is reported for a split is measured on
 * these batches. */
void mf_session_eval_spec(const mf_session *s, mf_split split, mf_batch_spec *ret);

/* Whether batches may contain padding. */
bool mf_session_masked(const mf_session *s);

/* Whether batches are padded to their longest example (data.padding), so that shorter graphs
 * run short batches (train/length_buckets.h). This applies only to documents and examples. */
bool mf_session_by_length(const mf_session *s);

#endif
