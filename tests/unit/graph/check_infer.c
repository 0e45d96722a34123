/* infer: the measurement of inference (mf_speed_infer). If memory runs out, it must return an
 * error and leak nothing. */
#include "check_main.h"

#include "base/error.h"
#include "lab/bench/speed.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

#include <stdio.h>
#include <string.h>

enum { SEQ = 128 };

/* Opens a session whose batches use graphs for their lengths, which are built when
 * first needed. */
static mf_session *open_session(void)
{
    static const char text[] = "sentence\tlabel\na b\t1\nc d\t0\nb a\t1\nd c\t0\n";
    static char path[512];
    snprintf(path, sizeof path, "data.path=%s", scratch_path("infer.tsv"));
    scratch_write(scratch_path("infer.tsv"), text, strlen(text));
    const char *const set[] = {path,
                               "data.format=tsv",
                               "data.padding=batch",
                               "data.split=0.5",
                               "model.task=classify",
                               "model.classes=2",
                               "model.layers=1",
                               "model.dim=16",
                               "model.heads=2",
                               "model.seq=128",
                               "model.vocab=260",
                               "train.batch=2",
                               "expert.hidden=8",
                               "moe.experts=2"};
    const mf_session_options options = {0};
    mf_config *config = NULL;
    mf_session *s = NULL;
    int rc = mf_config_load("default", sizeof set / sizeof *set, set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &options, &s);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return s;
}

START_TEST(memory_fails)
{
    const mf_timing_how how = {.repetitions = 2};
    mf_session *s = open_session();
    mf_speed speed;
    ck_assert_msg(mf_speed_infer(s, 2, SEQ, &how, &speed) == MF_OK, "%s", mf_error_message());
    ck_assert(speed.real_data);
    ck_assert_double_gt(speed.tokens_per_s, 0);
    for (long nth = 1;; nth++) {
        mf_error_clear();
        fault_alloc(nth, FAULT_ONCE);
        const int rc = mf_speed_infer(s, 2, SEQ, &how, &speed);
        const bool hit = fault_hit();
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        ck_assert_msg(hit || rc == MF_OK, "call %ld: %s", nth, mf_error_message());
        ck_assert_msg(rc == MF_OK || rc == MF_ENOMEM, "call %ld: %d", nth, rc);
        if (!hit) break;
    }
    mf_session_close(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("infer");
    TCase *c = tcase_create("infer");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, memory_fails);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
