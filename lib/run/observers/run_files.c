/* run/observers/run_files.c: writes the first files of a new run directory: config.ini, the
 * distribution of initial weights, the manifest, the tokenizer. A resumed run already has
 * these files. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "run/checkpoint/weights.h"
#include "run/observers/observers.h"
#include "run/folder/provenance.h"
#include "run/folder/stored_files.h"

/* Writes the distribution of the initial weights, which cannot be computed later. */
static int write_weights(const mf_store *store, const char *path)
{
    mf_inventory *v = NULL;
    mf_weights w;
    int rc = mf_inventory_of_store(store, &v);
    if (rc == MF_OK) rc = mf_weights_of(v, &w);
    mf_inventory_free(v);
    return rc == MF_OK ? mf_weights_write(path, &w) : rc;
}

int mf_run_files_write(mf_session *s, const mf_rundir *dir)
{
    char *config = NULL;
    size_t n;
    int rc = mf_config_text(s->config, dir->config, &config, &n);
    if (rc == MF_OK) rc = mf_write_file_atomic(dir->config, config, n);
    if (rc == MF_OK && mf_store_bound(s->model->store) > 0)
        rc = mf_stored_files_write(s->stored, s->model->store, dir->stored);
    if (rc == MF_OK) rc = write_weights(s->model->store, dir->weights);
    if (rc == MF_OK) rc = mf_provenance_name(s, dir->config, dir->weights);
    if (rc == MF_OK && s->tokenizer) rc = mf_tokenizer_save(s->tokenizer, dir->tokenizer);
    if (rc == MF_OK) rc = mf_provenance_write(dir->manifest, s, config);
    mf_free(config);
    return rc;
}

static int begin(void *self, mf_trainer *t)
{
    (void)self;
    if (mf_training_resumed(t)) return MF_OK;
    const int rc = mf_run_files_write(mf_training_session(t), mf_training_dir(t));
    if (rc == MF_OK) mf_rundir_expect(mf_training_dir(t));
    return rc;
}

int mf_observe_run_files(mf_trainer *t)
{
    static const mf_observer ops = {.name = "run files", .begin = begin};
    return mf_training_dir(t) ? mf_trainer_observe(t, &ops, NULL) : MF_OK;
}
