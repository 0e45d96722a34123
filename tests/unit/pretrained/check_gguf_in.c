/* gguf_in: files of GGUF that are read. Blocks of few bits are compared with values that
 * another program decoded (tests/golden/pretrained/gguf/blocks.py), headers with what the
 * writer was told, and damaged files are refused. tests/cli/pretrained/gguf.bats imports
 * whole models. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "pretrained/gguf/gguf_file.h"
#include "pretrained/gguf/gguf_in.h"
#include "tests/lib/scratch.h"

/* ---- blocks ---- */

enum { BLOCK_BYTES = 256, BLOCK_VALUES = 256 };

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Reads n bytes in hexadecimal, and returns what follows. */
static const char *bytes_of(const char *text, size_t n, unsigned char *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    return text + 2 * n;
}

START_TEST(blocks_have_the_values_of_another_program)
{
    char path[512], *text;
    size_t size;
    int lines = 0;
    const char *src = getenv("srcdir");
    snprintf(path, sizeof path, "%s/tests/golden/pretrained/gguf/blocks.txt", src ? src : ".");
    ck_assert_int_eq(mf_read_file(path, 0, &text, &size), MF_OK);
    for (const char *at = text; *at; lines++) {
        unsigned char block[BLOCK_BYTES];
        float given[BLOCK_VALUES], own[BLOCK_VALUES];
        char name[16];
        uint32_t type = 0;
        int64_t elements, bytes;
        ck_assert_int_eq(sscanf(at, "%15s", name), 1);
        while (!mf_gguf_type_name(type) || strcmp(mf_gguf_type_name(type), name) != 0)
            ck_assert_int_lt(++type, 64);
        ck_assert(mf_gguf_block(type, &elements, &bytes));
        at = bytes_of(at + strlen(name) + 1, (size_t)bytes, block);
        at = bytes_of(at + 1, (size_t)elements * sizeof *given, (unsigned char *)given);
        mf_gguf_decode(type, block, elements, own);
        for (int64_t i = 0; i < elements; i++) /* factors may be multiplied in another order */
            ck_assert_msg(fabsf(own[i] - given[i]) <= 2e-7F * fabsf(given[i]) + 1e-9F,
                          "%s %d: %.9g, not %.9g", name, (int)i, (double)own[i],
                          (double)given[i]);
        ck_assert_int_eq(*at++, '\n');
    }
    ck_assert_int_eq(lines, 27);
    mf_free(text);
}
END_TEST

/* ---- headers ---- */

static const float row[] = {1, 2, 3, 4, 5, 6};

/* Writes a file with keys of all kinds and two tensors, and returns its bytes. */
static char *write_file(size_t *ret_n)
{
    const char *path = scratch_path("small.gguf");
    const int64_t two[] = {2, 3}, one[] = {6};
    mf_gguf *w = mf_gguf_new();
    remove(path);
    mf_gguf_text(w, "general.architecture", "llama");
    mf_gguf_u32(w, "llama.block_count", 7);
    mf_gguf_f32(w, "llama.rope.freq_base", 5000.5F);
    mf_gguf_bool(w, "flag", true);
    mf_gguf_array(w, "texts", MF_GGUF_ITEM_TEXT, 2);
    mf_gguf_item_text(w, "a", 1);
    mf_gguf_item_text(w, "", 0);
    mf_gguf_array(w, "wholes", MF_GGUF_ITEM_I32, 2);
    mf_gguf_item_i32(w, -3);
    mf_gguf_item_i32(w, 4);
    mf_gguf_array(w, "reals", MF_GGUF_ITEM_F32, 1);
    mf_gguf_item_f32(w, .25F);
    mf_gguf_tensor(w, "b", MF_GGUF_F32, 2, two);
    mf_gguf_tensor(w, "a", MF_GGUF_F32, 1, one);
    ck_assert_int_eq(mf_gguf_begin(w, path), MF_OK);
    mf_gguf_put(w, row, sizeof row);
    mf_gguf_put(w, row, sizeof row);
    ck_assert_int_eq(mf_gguf_end(w), MF_OK);
    mf_gguf_free(w);
    return scratch_read(path, ret_n);
}

START_TEST(keys_and_tensors)
{
    size_t n;
    char *bytes = write_file(&n);
    mf_gguf_in *f;
    mf_gguf_str text;
    const mf_gguf_str *texts;
    const int64_t *wholes;
    const float *reals;
    int64_t whole, items;
    double real;
    bool flag = false;
    ck_assert_int_eq(mf_gguf_open(scratch_path("small.gguf"), &f), MF_OK);
    ck_assert(mf_gguf_get_str(f, "general.architecture", &text) && text.n == 5);
    ck_assert(mf_gguf_get_int(f, "llama.block_count", &whole) && whole == 7);
    ck_assert(mf_gguf_get_real(f, "llama.rope.freq_base", &real) && real == 5000.5);
    ck_assert(mf_gguf_get_bool(f, "flag", &flag) && flag);
    ck_assert(mf_gguf_get_strs(f, "texts", &texts, &items) && items == 2 && texts[0].n == 1);
    ck_assert(mf_gguf_get_ints(f, "wholes", &wholes, &items) && items == 2 && wholes[0] == -3);
    ck_assert(mf_gguf_get_reals(f, "reals", &reals, &items) && items == 1 && reals[0] == .25F);
    /* a key of another type, and none */
    ck_assert(!mf_gguf_get_int(f, "flag", &whole) && !mf_gguf_get_str(f, "flags", &text));
    ck_assert_int_eq(mf_gguf_tensors(f), 2);
    const mf_gguf_in_tensor *t = mf_gguf_tensor_find(f, "b");
    ck_assert(t && t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 3 && t->bytes == 24);
    ck_assert(memcmp(t->data, row, sizeof row) == 0);
    ck_assert_str_eq(mf_gguf_tensor_at(f, 0)->name, "a");
    ck_assert_ptr_null(mf_gguf_tensor_find(f, "c"));
    mf_gguf_close(f);
    free(bytes);
}
END_TEST

/* A file that ends early is refused wherever it ends. */
START_TEST(cut_files)
{
    size_t n;
    char *bytes = write_file(&n);
    mf_gguf_in *f;
    const size_t padding = MF_GGUF_ALIGNMENT - sizeof row; /* behind the last tensor */
    for (size_t cut = 0; cut < n - padding; cut++) {
        char *part = malloc(cut + 1); /* so that the sanitizer sees a read behind it */
        memcpy(part, bytes, cut);
        ck_assert_int_eq(mf_gguf_parse("cut", part, cut, &f), MF_EINPUT);
        ck_assert_msg(strncmp(mf_error_message(), "cut: ", 5) == 0, "%s", mf_error_message());
        free(part);
    }
    free(bytes);
}
END_TEST

static void refused(const char *bytes, size_t n, const char *why)
{
    mf_gguf_in *f;
    ck_assert_int_eq(mf_gguf_parse("bad", bytes, n, &f), MF_EINPUT);
    ck_assert_msg(strstr(mf_error_message(), why), "%s", mf_error_message());
}

START_TEST(damaged_files)
{
    size_t n;
    char *bytes = write_file(&n);
    bytes[4] = 1;
    refused(bytes, n, "expected version 2 or 3");
    bytes[4] = 0, bytes[7] = 3;
    refused(bytes, n, "little-endian");
    bytes[4] = 3, bytes[7] = 0;
    bytes[15] = 1; /* 2^56 tensors */
    refused(bytes, n, "more keys and tensors");
    bytes[15] = 0;
    /* the line of tensor "a": its name is before its rank, size, type and offset */
    char *a = NULL;
    for (char *at = bytes; at < bytes + n - 9 && !a; at++)
        if (memcmp(at, "\1\0\0\0\0\0\0\0a\1\0\0\0", 13) == 0) a = at + 8;
    ck_assert_ptr_nonnull(a);
    a[0] = 'b';
    refused(bytes, n, "tensor 'b' occurs twice");
    a[0] = 'a';
    a[13] = 23;
    refused(bytes, n, "tensor 'a' has the type IQ4_XS, which is not read");
    a[13] = 12;
    refused(bytes, n, "no whole number of blocks");
    a[13] = 0, a[18] = 1;
    refused(bytes, n, "data of tensor 'a' are outside");
    free(bytes);
}
END_TEST

START_TEST(architectures)
{
    size_t n;
    char *bytes = write_file(&n), *text;
    mf_gguf_in *f;
    const mf_family_rule *rules;
    bool tied;
    ck_assert_int_eq(mf_gguf_parse("file", bytes, n, &f), MF_OK);
    ck_assert_int_eq(mf_gguf_config(f, &text, &rules, &tied), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "token_embd.weight"));
    mf_gguf_close(f);
    char *name = bytes;
    while (memcmp(name, "llama", 5) != 0) /* the first one is the value of the key */
        name++;
    name[1] = 'x';
    ck_assert_int_eq(mf_gguf_parse("file", bytes, n, &f), MF_OK);
    ck_assert_int_eq(mf_gguf_config(f, &text, &rules, &tied), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "architecture 'lxama' is not imported"));
    mf_gguf_close(f);
    free(bytes);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gguf_in");
    TCase *t = tcase_create("gguf_in");
    tcase_add_test(t, blocks_have_the_values_of_another_program);
    tcase_add_test(t, keys_and_tensors);
    tcase_add_test(t, cut_files);
    tcase_add_test(t, damaged_files);
    tcase_add_test(t, architectures);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
