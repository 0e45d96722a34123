/* scaffold: a folder that cannot be written is removed. The message is that of the first
 * failure, even if the folder cannot be removed. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/paths.h"
#include "base/mem.h"
#include "lab/scaffold.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <stdio.h>

/* Makes the folder with a fault at IO call n, and copies the message. Returns true if a
 * call failed. */
static bool make(long n, fault_form form, const char *folder, char message[1024])
{
    char *made = NULL;
    fault_io(n, form, ENOSPC);
    const int rc = mf_scaffold("router", "mine", folder, false, &made);
    const bool hit = fault_hit();
    fault_off();
    snprintf(message, 1024, "%s", rc == MF_OK ? "" : mf_error_message());
    mf_free(made);
    return hit;
}

START_TEST(the_first_failure_is_told)
{
    char once[1024], from[1024], folder[64];
    long n = 1;
    bool hit = true;
    mf_paths_template(); /* looks up the folders once, before calls fail */
    for (; hit && n < 200; n++) {
        snprintf(folder, sizeof folder, "once%ld", n);
        hit = make(n, FAULT_ONCE, scratch_path(folder), once);
        if (!hit || !once[0]) continue;
        ck_assert_msg(!mf_exists(scratch_path(folder)), "call %ld: %s is left", n, folder);
        char *at = strstr(once, folder);
        snprintf(folder, sizeof folder, "from%ld", n);
        make(n, FAULT_FROM, scratch_path(folder), from);
        /* only the name of the folder differs between the messages */
        if (at) memcpy(at, "from", 4);
        ck_assert_msg(strncmp(from, once, strlen(once)) == 0,
                      "call %ld: expected \"%s\", found \"%s\"", n, once, from);
    }
    ck_assert_int_gt(n, 4);
    ck_assert(!hit);
}
END_TEST

/* Only the template for ops can have a kernel for GPUs. */
START_TEST(cuda_is_for_ops)
{
    char *made = NULL;
    ck_assert_int_eq(mf_scaffold("router", "mine", scratch_path("cuda"), true, &made),
                     MF_EUSAGE);
    ck_assert_ptr_nonnull(
        strstr(mf_error_message(), "--cuda: expected kind op, found 'router'"));
    ck_assert_ptr_null(made);
    ck_assert(!mf_exists(scratch_path("cuda")));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("scaffold");
    TCase *t = tcase_create("scaffold");
    tcase_add_test(t, the_first_failure_is_told);
    tcase_add_test(t, cuda_is_for_ops);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
