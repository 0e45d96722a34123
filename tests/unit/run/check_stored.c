/* stored: weights in files outside the run. A file that differs from the recorded one is
 * refused, and the message names it. A list is written completely or not at all. */
#include "check_main.h"

#include "base/error.h"
#include "tests/lib/expect.h"
#include "tests/lib/scratch.h"
#include "run/folder/stored_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* While `lost` is set, the system does not report the path of a folder. */
static bool lost;

static char *look_up(const char *path, char *to)
{
    if (lost) errno = EIO;
    if (lost) return NULL;
    return to ? strcpy(to, path) : strdup(path); /* paths of this test contain no links */
}

char *realpath(const char *restrict path, char *restrict to)
{
    return look_up(path, to);
}

/* The C library calls this function instead if it checks calls (_FORTIFY_SOURCE). */
char *__realpath_chk(const char *path, char *to, size_t room);
char *__realpath_chk(const char *path, char *to, size_t room)
{
    (void)room;
    return look_up(path, to);
}

/* Packed weights of 4 bits with eight inputs and outputs, in two groups of inputs. */
typedef struct packed {
    int32_t data[8], zeros[2], group_of[8];
    uint16_t scales[2 * 8];
} packed;

START_TEST(groups_of_inputs)
{
    packed all = {.group_of = {0, 1, 0, 1, 2, 0, 0, 0}};
    mf_stored_files *f = mf_stored_files_new();
    const char *path = scratch_path("packed");
    mf_stored_part part = {
        .type = MF_STORED_GPTQ4, .rows = 8, .ld = 8, .groups = 2, .group_size = 4};
    const mf_stored w = {.groups = 1, .out = 8, .in = 8, .parts = 1, .part = &part};
    for (int i = 0; i < 3; i++) {
        int at;
        all.group_of[4] = i == 0 ? 2 : i == 1 ? -1 : 1;
        scratch_write(path, &all, sizeof all);
        ck_assert_msg(mf_stored_files_add(f, path, &at) == MF_OK, "%s", mf_error_message());
        const packed *in = mf_stored_files_at(f, at, 0, sizeof all, 4);
        ck_assert_ptr_nonnull(in);
        part.data = in->data;
        part.zeros = in->zeros;
        part.scales = in->scales;
        part.group_of = in->group_of;
        const int rc = mf_stored_files_put(f, "layers.0.w", &w);
        if (i == 0)
            expect_failure(rc, MF_EINPUT,
                           "layers.0.w: expected groups of inputs from 0 to 1, found 2");
        if (i == 1)
            expect_failure(rc, MF_EINPUT,
                           "layers.0.w: expected groups of inputs from 0 to 1, found -1");
        if (i == 2) ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
        path = scratch_path(i == 0 ? "packed2" : "packed3");
    }
    mf_stored_files_free(f);
}
END_TEST

static mf_store *store_of(int64_t rows)
{
    const mf_init zero = {.kind = MF_INIT_ZERO};
    mf_store *s = mf_store_new();
    mf_param *p;
    ck_assert_int_eq(mf_store_declare(s, "w", mf_shape2(rows, 2), zero, false, &p), MF_OK);
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_OK);
    return s;
}

/* Copies the values of a file into a parameter that is not bound to the file, and writes the
 * list of bound weights. */
START_TEST(values_of_a_file)
{
    static const float values[] = {1, 2, 3, 4, 5, 6};
    mf_stored_files *f = mf_stored_files_new();
    int at;
    scratch_write(scratch_path("values"), values, sizeof values);
    ck_assert_int_eq(mf_stored_files_add(f, scratch_path("values"), &at), MF_OK);
    const mf_stored_part part = {.type = MF_STORED_F32,
                                 .rows = 3,
                                 .ld = 2,
                                 .data = mf_stored_files_at(f, at, 0, sizeof values, 4)};
    const mf_stored w = {.groups = 1, .out = 3, .in = 2, .parts = 1, .part = &part};
    ck_assert_msg(mf_stored_files_put(f, "w", &w) == MF_OK, "%s", mf_error_message());
    mf_store *right = store_of(3), *wrong = store_of(4);
    ck_assert_int_eq(mf_stored_files_fill(f, right), MF_OK);
    ck_assert(mf_store_at(right, 0)->given);
    ck_assert_mem_eq(mf_store_at(right, 0)->value, values, sizeof values);
    expect_failure(mf_stored_files_fill(f, wrong), MF_EINPUT,
                   "stored.json: w has another shape");
    ck_assert(!mf_store_at(wrong, 0)->given);
    /* Without the path of its folder, the list could not name files relative to the run. */
    lost = true;
    const int rc = mf_stored_files_write(f, right, scratch_path("run/stored.json"));
    lost = false;
    expect_failure(rc, MF_EIO, "run/stored.json: cannot write: ");
    mf_store_free(right);
    mf_store_free(wrong);
    mf_stored_files_free(f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stored");
    TCase *c = tcase_create("stored");
    tcase_add_test(c, groups_of_inputs);
    tcase_add_test(c, values_of_a_file);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
