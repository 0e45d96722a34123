/* run/start.c: reads initial values from another run. Adapters convert values that the two runs
 * store in different forms. */
#include "run/start.h"
#include "base/error.h"
#include "base/log.h"
#include "run/checkpoint/checkpoint.h"
#include "run/folder/provenance.h"
#include "run/folder/rundir.h"

/* Lets adapters convert values that the other run stores in another form. */
static int adopt(mf_model *m, const char *config)
{
    mf_config *from = NULL;
    int rc = mf_config_load(config, 0, NULL, &from);
    if (rc == MF_OK) {
        const mf_model_settings settings = mf_config_model(from);
        rc = mf_adapters_adopt(m, &settings);
    }
    mf_config_free(from);
    return rc;
}

int mf_start_from(mf_session *s)
{
    const char *path = s->config->train.from;
    mf_rundir *from = NULL;
    int64_t step = 0;
    int missing = 0;
    char id[MF_PROVENANCE_ID];
    bool found;
    int rc = mf_rundir_read(path, &from);
    if (rc == MF_OK) rc = mf_provenance_read_id(from->manifest, id, &found);
    if (rc == MF_OK) rc = mf_ckpt_start(from->ckpt, id, s->model->store, &step, &missing);
    if (rc == MF_OK) rc = adopt(s->model, from->config);
    mf_rundir_close(from);
    if (rc != MF_OK) return mf_fail_context(rc, "train.from");
    mf_log(MF_LOG_DEBUG, "begins with the weights of %s after %lld steps", path,
           (long long)step);
    s->from_step = step;
    s->from_missing = missing;
    return MF_OK;
}
