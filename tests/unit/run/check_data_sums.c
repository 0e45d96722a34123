/* data_sums: a sum of data depends only on their values, however they are stored. Also tests
 * the messages of a resumed run about a checkpoint with other sums. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/lib/scratch.h"
#include "run/checkpoint/checkpoint.h"
#include "run/folder/data_sums.h"

#include <stdio.h>
#include <string.h>

/* number of tokens, of which FIRST are in the first part */
enum { TOKENS = 600000, FIRST = 123457 };

/* Words of the given width with the ids at .. at+n-1. The id at index `other` is changed. */
static void *words(int width, int64_t at, int64_t n, int64_t other)
{
    unsigned char *bytes = mf_alloc((size_t)n, (size_t)width);
    ck_assert_ptr_nonnull(bytes);
    for (int64_t i = 0; i < n; i++)
        bytes[i * width] = (unsigned char)((at + i) * 7 % 251 + (at + i == other));
    return bytes;
}

static mf_id_part part_of(int width, int64_t at, int64_t n, int64_t other)
{
    void *own = words(width, at, n, other);
    return (mf_id_part){.n = n, .ids = own, .id_bytes = width, .own = own};
}

/* The sums of the same tokens, which are in memory (parts 0), or in one or two parts
 * of files. */
static mf_data_sums sums_of(int parts, int width, int64_t other)
{
    mf_corpus c = {.tokens = TOKENS, .id_bytes = width};
    mf_data_sums sums;
    if (parts == 0) {
        c.ids = words(width, 0, TOKENS, other); /* the machine must be little-endian */
    } else {
        const int64_t first = parts == 1 ? TOKENS : FIRST;
        mf_id_part a = part_of(width, 0, first, other),
                   b = part_of(4, first, TOKENS - first, other);
        ck_assert_int_eq(mf_id_parts_add(&c.stored, &a), MF_OK);
        if (parts == 2) ck_assert_int_eq(mf_id_parts_add(&c.stored, &b), MF_OK);
        if (parts == 1) mf_id_part_free(&b);
    }
    mf_data_sums_take(&c, &sums);
    mf_id_parts_free(&c.stored);
    mf_free(c.ids);
    return sums;
}

START_TEST(stored_as_they_may_be)
{
    const mf_data_sums first = sums_of(0, 1, -1);
    ck_assert_uint_eq(strlen(first.all), 32);
    ck_assert_str_eq(first.files, "");
    for (int parts = 0; parts <= 2; parts++)
        for (int width = 1; width <= 4; width *= 2) {
            const mf_data_sums same = sums_of(parts, width, -1);
            ck_assert_str_eq(same.all, first.all);
            const int64_t at[] = {0, 5000, FIRST - 1, FIRST, TOKENS - 1};
            for (size_t i = 0; i < sizeof at / sizeof *at; i++)
                ck_assert_str_ne(sums_of(parts, width, at[i]).all, first.all);
        }
    /* pieces of 1,024 tokens begin at each multiple of 2339 */
    ck_assert_str_eq(sums_of(1, 2, 5000 - 5000 % 2339 + 1024).pieces, sums_of(1, 2, -1).pieces);
    ck_assert_str_ne(sums_of(1, 2, 2339).pieces, sums_of(1, 2, -1).pieces);
}
END_TEST

/* Files of more than 16 MiB are read in sections. */
START_TEST(large_files)
{
    enum { MANY = (4 << 20) + 4321, WIDTH = 4 };
    mf_data_sums sums[3];
    for (int i = 0; i < 3; i++) {
        mf_corpus c = {.tokens = MANY, .id_bytes = WIDTH};
        mf_id_part p = part_of(WIDTH, 0, MANY, i == 2 ? MANY - 1 : -1);
        if (i == 0)
            c.ids = words(WIDTH, 0, MANY, -1);
        else
            ck_assert_int_eq(mf_id_parts_add(&c.stored, &p), MF_OK);
        mf_data_sums_take(&c, &sums[i]);
        if (i == 0) mf_id_part_free(&p);
        mf_id_parts_free(&c.stored);
        mf_free(c.ids);
    }
    ck_assert_str_eq(sums[1].all, sums[0].all);
    ck_assert_str_ne(sums[2].all, sums[0].all);
}
END_TEST

START_TEST(what_is_beside_the_tokens)
{
    mf_span spans[2] = {{0, 3, 3, 0, 0}, {3, 2, 2, 1, 0}};
    uint8_t ids[5] = {1, 2, 3, 4, 5}, counted[5] = {1, 1, 0, 1, 1};
    mf_corpus c = {.ids = ids, .id_bytes = 1, .tokens = 5, .spans = spans, .n_spans = 2};
    mf_data_sums before, now;
    mf_data_sums_take(&c, &before);
    spans[1].label = 0;
    mf_data_sums_take(&c, &now);
    ck_assert_str_ne(now.all, before.all);
    spans[1].label = 1;
    c.split[0].end = 1;
    mf_data_sums_take(&c, &now);
    ck_assert_str_ne(now.all, before.all);
    c.split[0].end = 0;
    c.counted = counted;
    mf_data_sums_take(&c, &now);
    ck_assert_str_ne(now.all, before.all);
    c.counted = NULL;
    mf_data_sums_take(&c, &now);
    ck_assert_str_eq(now.all, before.all);
}
END_TEST

/* ---- messages of a resume ---- */

static char logged[1024];

static void keep_line(void *arg, mf_log_level level, const char *text)
{
    (void)arg, (void)level;
    snprintf(logged, sizeof logged, "%s", text);
}

static mf_store *make_store(void)
{
    const mf_init normal = {.kind = MF_INIT_NORMAL, .a = 1};
    mf_param *p;
    mf_store *s = mf_store_new();
    ck_assert_int_eq(mf_store_declare(s, "w", mf_shape1(3), normal, false, &p), MF_OK);
    ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
    return s;
}

/* The message of a resume about the data if the checkpoint contains the sums of `before`. */
static const char *said(mf_provenance before, mf_provenance now)
{
    const mf_log_sink sink = {.highest = MF_LOG_INFO, .line = keep_line};
    const char *folder = scratch_path("ckpt");
    mf_store *store = make_store();
    mf_state *state = mf_state_new();
    int64_t step;
    ck_assert_int_eq(mf_remove_tree(folder), MF_OK);
    ck_assert_int_eq(mf_ckpt_save(folder, 1, store, NULL, state, &before, 1), MF_OK);
    mf_state_free(state);
    logged[0] = '\0';
    const mf_log_sink *outer = mf_log_redirect(&sink);
    ck_assert_int_eq(mf_ckpt_resume(folder, store, &now, &state, &step, NULL), MF_OK);
    mf_log_redirect(outer);
    mf_state_free(state);
    mf_store_free(store);
    return strstr(logged, "other data") ? "other"
           : strstr(logged, "written")  ? "written"
                                        : logged;
}

START_TEST(checkpoints_of_all_versions)
{
    const mf_provenance none = {.version = "1", .kernels = "cpu", .cpu = "", .blas = ""};
    mf_provenance a = none, b = none;
    a.data = b.data = "pieces";
    ck_assert_str_eq(said(none, a), ""); /* an early checkpoint contains no sums */
    b.data_all = "all";
    ck_assert_str_eq(said(a, b), ""); /* an earlier checkpoint contains the sum of pieces */
    b.data = "other pieces";
    ck_assert_str_eq(said(a, b), "other");
    a.data_all = "all";
    ck_assert_str_eq(said(a, b), ""); /* the same tokens in another storage */
    a.data_files = b.data_files = "files";
    ck_assert_str_eq(said(a, b), "");
    b.data_files = "other files";
    ck_assert_str_eq(said(a, b), "written");
    b.data_all = "other";
    ck_assert_str_eq(said(a, b), "other");
    b.data_all = NULL;
    ck_assert_str_eq(said(a, b), "other");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("data_sums");
    TCase *t = tcase_create("data_sums");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, stored_as_they_may_be);
    tcase_add_test(t, large_files);
    tcase_add_test(t, what_is_beside_the_tokens);
    tcase_add_test(t, checkpoints_of_all_versions);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
