/* cache: token files whose content does not match their names are written again. A draft is
 * locked while it is written. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/corpus.h"
#include "data/stream/cache.h"
#include "tests/lib/corpora.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The only token file of the folder. */
static char *token_file_in(const char *folder)
{
    char **names, *path = NULL;
    int n;
    ck_assert_int_eq(mf_list_dir(folder, &names, &n), MF_OK);
    for (int i = 0; i < n; i++) {
        char *one = mf_path_join(folder, names[i]);
        char *text = one ? scratch_read(one, &(size_t){0}) : NULL;
        if (!path && text && strstr(names[i], "text-") == names[i])
            path = one;
        else
            mf_free(one);
        free(text);
    }
    mf_list_free(names, n);
    ck_assert_ptr_nonnull(path);
    return path;
}

/* Damages a token file in way k. other: a token file of the same size for another text. */
static void damage(const char *path, const char *other, int k)
{
    size_t n, m;
    char *text = scratch_read(path, &n), *another = scratch_read(other, &m);
    ck_assert(text && another && n > 4096);
    if (k == 0) {
        ck_assert_int_eq(truncate(path, (off_t)(n / 2)), 0);
    } else if (k == 1) {
        text[n / 3] ^= 1;
        scratch_write(path, text, n);
    } else if (k == 2) {
        scratch_write(path, another, m);
    } else if (k == 3) {
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(symlink(other, path), 0);
    } else if (k == 4) {
        ck_assert_int_eq(truncate(path, 0), 0);
    } else { /* without its last line, as written by an earlier version */
        ck_assert_int_eq(truncate(path, (off_t)(n - 110)), 0);
    }
    free(text);
    free(another);
}

START_TEST(damaged_token_files)
{
    const char *path = scratch_path("text.txt"), *folder = scratch_path("damaged"),
               *elsewhere = scratch_path("elsewhere");
    char *text = corpus_text(5 << 20, 5);
    mf_corpus_spec s;
    mf_corpus_defaults(&s);
    s.path = path;
    s.tokenizer = "char";
    s.split = 1;
    scratch_write(path, text, strlen(text));
    s.cache = elsewhere;
    *strchr(text, 'e') = 'a';
    scratch_write(scratch_path("other.txt"), text, strlen(text));
    s.path = scratch_path("other.txt");
    mf_corpus_free(corpus_load(&s));
    char *other = token_file_in(elsewhere);
    s.path = path;
    s.cache = NULL;
    mf_corpus *plain = corpus_load(&s);
    s.cache = folder;
    mf_corpus_free(corpus_load(&s));
    char *file = token_file_in(folder);
    for (int k = 0; k < 6; k++) {
        damage(file, other, k);
        mf_corpus *c = corpus_load(&s);
        corpus_same(plain, c);
        mf_corpus_free(c);
        struct stat st;
        ck_assert(lstat(file, &st) == 0 && S_ISREG(st.st_mode));
    }
    size_t n;
    char *kept = scratch_read(other, &n); /* the file was not written through the link */
    ck_assert_ptr_nonnull(kept);
    free(kept);
    mf_corpus_free(plain);
    mf_free(file);
    mf_free(other);
    mf_free(text);
}
END_TEST

/* Draft names that are in use, or whose files another process removes, are skipped. */
START_TEST(drafts)
{
    enum { TRIES = 1000 };
    const char *path = scratch_path("drafts/d.bin");
    char name[TRIES][40];
    mf_cache_draft d;
    size_t n;
    ck_assert_int_eq(mf_cache_draft_open(&d, path), MF_EIO); /* the folder does not exist */
    ck_assert_ptr_null(d.name);
    ck_assert_int_eq(mf_mkdirs(scratch_path("drafts")), MF_OK);
    for (int i = 0; i < TRIES; i++) {
        snprintf(name[i], sizeof name[i], "drafts/d.bin.%ld-%d.tmp", (long)getpid(), i);
        if (i != 2 && i != 3) scratch_write(scratch_path(name[i]), "", 0);
    }
    fault_io(2, FAULT_ONCE, ENOENT); /* the file is removed after it was created, and before it
                                      * is locked */
    ck_assert_int_eq(mf_cache_draft_open(&d, path), MF_OK);
    ck_assert(fault_hit());
    fault_off();
    ck_assert_str_eq(d.name, scratch_path(name[3]));
    ck_assert(!mf_exists(scratch_path(name[2])));
    mf_writer_put(&d.out, "ids", 3);
    ck_assert_int_eq(mf_cache_draft_close(&d, path, MF_OK), MF_OK);
    ck_assert(!mf_exists(scratch_path(name[3])));
    char *text = scratch_read(path, &n);
    ck_assert(text && n == 3 && memcmp(text, "ids", 3) == 0);
    free(text);
    /* a folder already has this name */
    ck_assert_int_eq(mf_cache_draft_open(&d, path), MF_OK);
    ck_assert_int_eq(mf_cache_draft_close(&d, scratch_path("drafts"), MF_OK), MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "drafts: cannot rename into place"));
    ck_assert(!mf_exists(scratch_path(name[2])));
    scratch_write(scratch_path(name[2]), "", 0);
    scratch_write(scratch_path(name[3]), "", 0);
    ck_assert_int_eq(mf_cache_draft_open(&d, path), MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "d.bin: 1000 files beside it are being"));
    ck_assert_ptr_null(d.name);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("cache");
    TCase *t = tcase_create("cache");
    tcase_add_test(t, damaged_token_files);
    tcase_add_test(t, drafts);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
