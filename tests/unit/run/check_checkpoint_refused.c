/* checkpoint_refused: stores that cannot be saved in a checkpoint or do not fit it, and names
 * that the file system refuses. Existing checkpoints are kept, and messages name them. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/lib/expect.h"
#include "tests/lib/scratch.h"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/checkpoint_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const mf_provenance identity = {
    .version = "1.0", .abi = 1, .threads = 1, .kernels = "cpu", .cpu = "some", .blas = ""};

/* A store with one parameter. */
static mf_store *store_of(const char *name, bool moments, float value)
{
    const mf_init zero = {.kind = MF_INIT_ZERO};
    mf_store *s = mf_store_new();
    mf_param *p;
    ck_assert_int_eq(mf_store_declare(s, name, mf_shape1(4), zero, false, &p), MF_OK);
    ck_assert_int_eq(mf_store_seal(s, 1, moments), MF_OK);
    for (int i = 0; i < 4; i++)
        p->value[i] = value;
    return s;
}

static int save(const char *folder, int64_t step, float value)
{
    mf_store *s = store_of("w", true, value);
    mf_state *state = mf_state_new();
    const int rc = mf_ckpt_save(folder, step, s, NULL, state, &identity, 0);
    mf_state_free(state);
    mf_store_free(s);
    return rc;
}

static int resume(const char *folder, mf_store *s, int64_t *ret_step)
{
    mf_state *state = NULL;
    const int rc = mf_ckpt_resume(folder, s, &identity, &state, ret_step, NULL);
    mf_state_free(state);
    return rc;
}

/* Resumes from a checkpoint whose values are all `value`, and returns its step. */
static int64_t resumed(const char *folder, float value)
{
    mf_store *s = store_of("w", true, 0);
    int64_t step = -1;
    const int rc = resume(folder, s, &step);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(mf_store_at(s, 0)->value[i], value);
    mf_store_free(s);
    return step;
}

START_TEST(stores_that_do_not_fit)
{
    const char *folder = scratch_path("stores");
    mf_store *bare = store_of("w", false, 1), *other = store_of("v", true, 1);
    int64_t step;
    int missing;
    expect_failure(mf_ckpt_save(folder, 1, bare, NULL, NULL, &identity, 0), MF_EINVAL,
                   "a checkpoint of step 1 of a store without moments");
    expect_failure(save(folder, -1, 1), MF_EINVAL, "a checkpoint of step -1 of a store");
    ck_assert(!mf_exists(folder));
    ck_assert_int_eq(save(folder, 1, 1), MF_OK);
    expect_failure(resume(folder, bare, &step), MF_EINVAL,
                   "going on needs a store with moments");
    expect_failure(mf_ckpt_start(folder, NULL, other, &step, &missing), MF_ECHECKPOINT,
                   "step-1: no tensor of the model that the configuration describes");
    mf_store_free(bare);
    mf_store_free(other);
}
END_TEST

static int no_rename(const char *from, const char *to)
{
    (void)from, (void)to;
    errno = EACCES;
    return -1;
}

/* If a damaged checkpoint cannot be renamed because no name is free, resuming fails. It does
 * not use an older checkpoint instead. */
START_TEST(a_damaged_one_that_cannot_be_set_aside)
{
    const char *folder = scratch_path("aside");
    mf_io_table stuck = *mf_io_default();
    stuck.rename = no_rename;
    mf_store *s = store_of("w", true, 0);
    int64_t step;
    ck_assert_int_eq(save(folder, 1, 1), MF_OK);
    ck_assert_int_eq(save(folder, 2, 2), MF_OK);
    scratch_write(scratch_path("aside/step-2/MANIFEST.json"), "{}", 2);
    mf_io_set_table(&stuck);
    int rc = resume(folder, s, &step);
    mf_io_set_table(NULL);
    expect_failure(rc, MF_EIO, "step-2: cannot rename to ");
    for (int i = 1; i <= 1000; i++) {
        char path[640];
        const int n = snprintf(path, sizeof path, "%s/step-2.bad", folder);
        if (i > 1) snprintf(path + n, sizeof path - (size_t)n, "-%d", i);
        ck_assert_int_eq(mf_mkdir(path), MF_OK);
    }
    expect_failure(resume(folder, s, &step), MF_EIO,
                   "step-2: 1000 damaged checkpoints of this step");
    ck_assert_int_eq(mf_remove_tree(scratch_path("aside/step-2.bad-7")), MF_OK);
    ck_assert_int_eq(resumed(folder, 1), 1);
    mf_store_free(s);
}
END_TEST

/* A checkpoint that cannot be replaced is kept. After an interrupted replacement the old
 * checkpoint is kept even if it cannot be renamed back; a later resume gives it its
 * name back. */
START_TEST(one_that_cannot_be_replaced)
{
    const char *folder = scratch_path("replaced");
    mf_io_table stuck = *mf_io_default();
    stuck.rename = no_rename;
    ck_assert_int_eq(save(folder, 3, 3), MF_OK);
    mf_io_set_table(&stuck);
    int rc = save(folder, 3, 4);
    mf_io_set_table(NULL);
    expect_failure(rc, MF_EIO, "step-3: cannot rename");
    ck_assert_int_eq(resumed(folder, 3), 3);
    /* the state after a process was killed between the two renames */
    ck_assert_int_eq(
        rename(scratch_path("replaced/step-3"), scratch_path("replaced/step-3.old.tmp")), 0);
    mf_io_set_table(&stuck);
    rc = mf_ckpt_clean(folder);
    mf_io_set_table(NULL);
    expect_failure(rc, MF_EIO, "step-3.old.tmp: cannot rename");
    ck_assert_int_eq(resumed(folder, 3), 3);
}
END_TEST

START_TEST(names_of_checkpoints)
{
    static const char *const not_replaced[] = {
        "", ".old.tmp", "step-5", "step-5.tmp", "step-05.old.tmp", "step-.old.tmp"};
    char name[400];
    int64_t step = -1;
    for (size_t i = 0; i < sizeof not_replaced / sizeof *not_replaced; i++)
        ck_assert_msg(!mf_ckpt_is_replaced(not_replaced[i], &step), "%s", not_replaced[i]);
    for (size_t n = 1; n < 380; n++) { /* longer than the name of any step */
        memset(name, '1', n);
        snprintf(name + n, sizeof name - n, ".old.tmp");
        if (n > 5) memcpy(name, "step-", 5);
        const bool is = n > 5 && n <= 5 + 18;
        ck_assert_msg(mf_ckpt_is_replaced(name, &step) == is, "%d digits", (int)n - 5);
        name[n + 4] = '\0'; /* the name ".old" alone */
        ck_assert(!mf_ckpt_is_replaced(name, &step));
    }
    ck_assert(mf_ckpt_is_replaced("step-12.old.tmp", &step) && step == 12);
    ck_assert(mf_ckpt_is_leftover("step-12.old.tmp") && mf_ckpt_is_leftover("latest.tmp"));
    ck_assert(!mf_ckpt_is_leftover("step-12") && !mf_ckpt_is_leftover("other.tmp"));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("checkpoint_refused");
    TCase *c = tcase_create("checkpoint_refused");
    mf_log_set_level(MF_LOG_ERROR);
    tcase_add_test(c, stores_that_do_not_fit);
    tcase_add_test(c, a_damaged_one_that_cannot_be_set_aside);
    tcase_add_test(c, one_that_cannot_be_replaced);
    tcase_add_test(c, names_of_checkpoints);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
