/* lib/small.c: opens the objects for a test of training, from a list of settings. The session
 * takes ownership of the configuration. The caller frees trainer, session and run folder in
 * this order. */
#include "tests/lib/small.h"

#include <check.h>
#include <string.h>

#include "base/error.h"
#include "tests/lib/scratch.h"

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

mf_config *small_config(int n_base, const char *const *base, int n, const char *const *more)
{
    enum { MOST = 32 };
    const char *set[MOST];
    mf_config *config = NULL;
    ck_assert_int_le(n_base + n, MOST);
    memcpy(set, base, (size_t)n_base * sizeof *set);
    for (int i = 0; i < n; i++)
        set[n_base + i] = more[i];
    must(mf_config_load("default", n_base + n, set, &config));
    return config;
}

mf_session *small_session(mf_config *config, const mf_session_options *options)
{
    static const mf_session_options training = {.training = true};
    mf_session *s = NULL;
    must(mf_session_open(config, options ? options : &training, &s));
    return s;
}

mf_trainer *small_trainer(mf_session *s, const mf_training_options *options)
{
    mf_trainer *t = NULL;
    must(mf_training_new(s, options, &t));
    return t;
}

mf_rundir *small_rundir(const char *name)
{
    mf_rundir *dir = NULL;
    must(mf_rundir_create_at(scratch_path(name), &dir));
    return dir;
}
