#include "train/load.h"
#include "base/error.h"
#include "base/io.h"
#include "train/checkpoint.h"
#include "train/identity.h"
#include "train/rundir.h"

bool mf_load_is_run(const char *path)
{
    return mf_rundir_is(path);
}

int mf_load_run(const char *path, const mf_session_options *options, mf_session **ret,
                int64_t *ret_step)
{
    return mf_load_run_at(path, options, -1, ret, ret_step);
}

int mf_load_run_at(const char *path, const mf_session_options *options, int64_t step,
                   mf_session **ret, int64_t *ret_step)
{
    mf_rundir *dir = NULL;
    mf_config *config;
    mf_session *s = NULL;
    mf_model_facts facts;
    int rc = mf_rundir_read(path, &dir);
    if (rc == MF_OK) rc = mf_identity_read_facts(dir->manifest, &facts);
    if (rc == MF_OK) rc = mf_config_load(dir->config, 0, NULL, &config);
    if (rc == MF_OK) {
        mf_session_options o = *options;
        o.facts = &facts;
        o.tokenizer_file = mf_exists(dir->tokenizer) ? dir->tokenizer : NULL;
        rc = mf_session_open(config, &o, &s);
    }
    if (rc == MF_OK) rc = mf_ckpt_load(dir->ckpt, step, s->model->store, ret_step);
    mf_rundir_close(dir);
    if (rc != MF_OK) {
        mf_session_close(s);
        return mf_fail_context(rc, "%s", path);
    }
    *ret = s;
    return MF_OK;
}
