/* run/session.h: a configuration with its data and its model, for all code that computes.
 *
 * A session for an existing run takes tokenizer and dimensions from the run, so that the same
 * text gives the same ids. */
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
    mf_corpus *corpus; /* NULL if opened without data */
    /* tokenizer of the run or of the corpus; NULL if neither has one, as for files of
     * token ids */
    const mf_tokenizer *tokenizer;
    mf_tokenizer *own_tokenizer; /* read from the file of a run, else NULL */
    /* weights in files outside the run (stored_files.h), or NULL */
    struct mf_stored_files *stored;
    bool stored_given;        /* `stored` is the caller's */
    struct mf_device *device; /* where the model lives; NULL: the host */
    mf_model *model;
    int64_t steps;     /* optimizer steps of the whole run; 0: not planned */
    mf_batcher *train; /* NULL without training or data */
    bool other_data;   /* options.data was given */
    /* with train.from, once it was read: the step of its weights, and the number of parameters
     * that it lacks */
    int64_t from_step;
    int from_missing;
    /* why the data could not be read, if options.spare replaced them; else NULL */
    char *no_data;
    char run_id[33];   /* set by mf_provenance_name or _recall; "": not known */
    mf_data_sums data; /* the same */
} mf_session;

typedef struct mf_names {
    const char **name; /* NULL: unknown */
    int32_t n;
} mf_names;

/* Which parameters read weights from files outside the run as they are; the others convert them
 * to f32. */
typedef enum mf_bind {
    MF_BIND_FITTING, /* all of a model that is not trained, frozen ones of one that is */
    MF_BIND_ALL,
    MF_BIND_NONE
} mf_bind;

typedef struct mf_session_options {
    /* allocate gradients and moments, make training batches; without data (no_data) the trainer
     * takes only batches of its caller */
    bool training;
    bool no_controllers; /* controllers do not run: options that they need may be missing */
    bool gradients;      /* allocate gradients, but no moments, and make no training batches */
    bool bare;           /* sizes only (model.h); graphs cannot run */
    /* model and tokenizer only: to generate, or to train with batches of the caller */
    bool no_data;
    /* Dimensions for a session without data, if the data cannot be read; NULL: then
     * opening fails. */
    const mf_model_dims *spare;
    /* tokenizer file of the run; NULL: that of train.from, or of the data */
    const char *tokenizer_file;
    /* Weights in files outside the run: the caller's list, which must outlive the session; or
     * the list of the run, which may be missing. If both are NULL, the list of the run in
     * train.from is used, if it has one. `bind` says which parameters read them as they are. */
    struct mf_stored_files *stored;
    const char *stored_file;
    mf_bind bind;
    const char *bind_but; /* not those whose names contain this text; NULL: none */
    const char *data;     /* replaces data.path; the whole file is the val split */
    /* class names of the run, in order; NULL: those of the data */
    const char *const *class_names;
    int32_t n_class_names;
    /* the same for [task.NAME], in order; NULL: those of the data */
    const struct mf_names *more_names;
    const mf_model_dims *dims; /* vocabulary, labels, classes of the run; NULL: from the data */
    /* this process and those that share the experts with it; 0 or 1: none */
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
 * nearest option and the place of the section that needs it. */
int mf_session_judge_live(const mf_session *s);

/* Whether batches of training hold several documents in a sequence (data.packing). */
bool mf_session_packed(const mf_session *s);
/* The configured batches of a split: random order for training, else in order; not packed. */
void mf_session_batch_spec(const mf_session *s, mf_split split, mf_batch_spec *ret);
/* The batches over which a split is evaluated, in order, with train.eval_context: every loss
 * that is called that of a split is measured on these. */
void mf_session_eval_spec(const mf_session *s, mf_split split, mf_batch_spec *ret);

/* Whether batches may have padding. */
bool mf_session_masked(const mf_session *s);

/* Whether batches are padded to their longest example (data.padding), so that shorter graphs
 * run short ones (train/length_buckets.h): only documents and examples are. */
bool mf_session_by_length(const mf_session *s);

#endif
