/* train/run/session.h: what every command that computes begins with: configuration -> data ->
 * model.
 *
 * A session made for a run that exists takes tokenizer and sizes from the run, so that the same
 * text gives the same ids.
 */
#ifndef MF_TRAIN_SESSION_H
#define MF_TRAIN_SESSION_H

#include "data/batch.h"
#include "data/corpus.h"
#include "model/model.h"
#include "train/run_config.h"

typedef struct mf_session {
    mf_config *config;
    mf_corpus *corpus;             /* NULL when opened without data */
    const mf_tokenizer *tokenizer; /* the corpus's, or the run's own; may be NULL (bin) */
    mf_tokenizer *own_tokenizer;   /* read from tokenizer_file, else NULL */
    struct mf_device *device;      /* where the model lives; NULL: the host */
    mf_model *model;
    int64_t steps;     /* optimizer steps of the whole run */
    mf_batcher *train; /* NULL without training or data */
    double floor;      /* see mf_session_floor */
    bool floor_known;
    bool other_data; /* options.data was given */
    char *no_data; /* why the data could not be read, where a spare did (options); else NULL */
} mf_session;

typedef struct mf_names {
    const char **name; /* NULL: not known */
    int32_t n;
} mf_names;

typedef struct mf_session_options {
    bool training;  /* gradients, moments, training batches; without data (no_data) the
                       trainer takes batches of its caller only */
    bool gradients; /* these alone: nothing is trained */
    bool bare;      /* sizes only (model.h): nothing can run */
    bool no_data;   /* model and tokenizer only: to generate, or to train with own batches */
    /* To go on with, without data, where these cannot be read; NULL: an error. */
    const mf_model_dims *spare;
    const char *tokenizer_file;     /* the run's own; NULL: made from the data */
    const char *data;               /* replaces data.path; all of it is the val split */
    const char *const *class_names; /* the run's own, in order; NULL: those of the data */
    int32_t n_class_names;
    const struct mf_names *more_names; /* of [task.NAME] in order; NULL: those of the data */
    const mf_model_dims *dims; /* the run's own vocabulary, labels, classes; NULL: counted */
} mf_session_options;

/* What [train] decides about the model. training: it gets gradients and moments. */
void mf_session_model_options(const mf_config *config, bool training, mf_model_options *ret);
/* Takes the configuration over, also when it fails. */
int mf_session_open(mf_config *config, const mf_session_options *options, mf_session **ret);
void mf_session_close(mf_session *s);

/* Entropy floor of the validation split (data/topics/topics.h, all earlier text known), nats
 * per token; NaN if the corpus has none. Computed once. */
double mf_session_floor(mf_session *s);

/* Batches of a split as the configuration has them: random for training, else in order. */
void mf_session_batch_spec(const mf_session *s, mf_split split, mf_batch_spec *ret);

/* Can batches have padding that training must not see? */
bool mf_session_masked(const mf_session *s);

/* Copies a batch into the inputs of a graph of the same shape. */
void mf_session_feed(const mf_batch *batch, mf_model_graph *mg);

#endif
