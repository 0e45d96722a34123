/* safetensors: files of the reference implementation, reading and writing them again, and every
 * kind of invalid file. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/resident.h"
#include "data/safetensors/safetensors.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes a file with this header (after its length, without padding) and `data` bytes
 * of data. */
static const char *make_file(const char *header, size_t data)
{
    const char *path = scratch_path("made.safetensors");
    size_t n = strlen(header);
    char *file = malloc(8 + n + data);
    for (int i = 0; i < 8; i++)
        file[i] = (char)((uint64_t)n >> (8 * i));
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < data; i++)
        file[8 + n + i] = (char)(i * 7);
    scratch_write(path, file, 8 + n + data);
    free(file);
    return path;
}

static void assert_refused(const char *path, const char *words)
{
    mf_st_file *f = NULL;
    int rc;
    fault_io(0, FAULT_ONCE, EIO);
    fault_alloc(0, FAULT_ONCE);
    rc = mf_st_open(path, &f);
    fault_off();
    ck_assert_msg(rc == MF_EINPUT, "accepted or other error (%d): %s", rc, words);
    ck_assert_ptr_null(f);
    ck_assert_int_eq(fault_alloc_live(), 0);
    ck_assert_int_eq(fault_io_open(), 0);
    ck_assert_msg(strstr(mf_error_message(), words) != NULL, "'%s' has no '%s'",
                  mf_error_message(), words);
    ck_assert_msg(strstr(mf_error_message(), path) != NULL, "'%s' has no path",
                  mf_error_message());
}

static mf_st_file *open_file(const char *path)
{
    mf_st_file *f = NULL;
    int rc = mf_st_open(path, &f);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return f;
}

START_TEST(types)
{
    static const struct {
        const char *name;
        mf_st_dtype dtype;
        size_t size;
    } table[] = {
        {"BOOL", MF_ST_BOOL, 1},       {"U8", MF_ST_U8, 1},           {"I8", MF_ST_I8, 1},
        {"F8_E5M2", MF_ST_F8_E5M2, 1}, {"F8_E4M3", MF_ST_F8_E4M3, 1}, {"I16", MF_ST_I16, 2},
        {"U16", MF_ST_U16, 2},         {"F16", MF_ST_F16, 2},         {"BF16", MF_ST_BF16, 2},
        {"I32", MF_ST_I32, 4},         {"U32", MF_ST_U32, 4},         {"F32", MF_ST_F32, 4},
        {"F64", MF_ST_F64, 8},         {"I64", MF_ST_I64, 8},         {"U64", MF_ST_U64, 8}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ck_assert_int_eq(mf_st_dtype_of(table[i].name), table[i].dtype);
        ck_assert_str_eq(mf_st_dtype_name(table[i].dtype), table[i].name);
        ck_assert_uint_eq(mf_st_dtype_size(table[i].dtype), table[i].size);
    }
    ck_assert_int_eq(mf_st_dtype_of("f32"), MF_ST_UNKNOWN);
    ck_assert_int_eq(mf_st_dtype_of("?"), MF_ST_UNKNOWN);
    ck_assert_uint_eq(mf_st_dtype_size(MF_ST_UNKNOWN), 0);
    ck_assert_uint_eq(mf_st_dtype_size((mf_st_dtype)99), 0);
    ck_assert_str_eq(mf_st_dtype_name((mf_st_dtype)99), "?");
}
END_TEST

/* Reads a file of the reference implementation and writes it again, with tensors added in the
 * opposite order. The bytes must be the same. */
static void rewrite(const char *from, const char *to)
{
    mf_st_file *f = open_file(from);
    mf_st_writer *w = mf_st_writer_new();
    const mf_st_tensor *due;
    const char *key, *value;
    size_t n = mf_st_count(f), index;
    for (size_t i = n; i-- > 0;) {
        const mf_st_tensor *t = mf_st_at(f, i);
        ck_assert_int_eq(mf_st_writer_add(w, t->name, t->dtype, t->rank, t->shape), MF_OK);
    }
    for (size_t i = 0; mf_st_meta_at(f, i, &key, &value); i++)
        ck_assert_int_eq(mf_st_writer_meta(w, key, value), MF_OK);
    unlink(to);
    ck_assert_int_eq(mf_st_writer_begin(w, to), MF_OK);
    while ((due = mf_st_writer_due(w, &index))) {
        const mf_st_tensor *t = mf_st_at(f, n - 1 - index);
        unsigned char *data = malloc(t->bytes);
        ck_assert_str_eq(t->name, due->name);
        ck_assert_uint_eq(t->bytes, due->bytes);
        ck_assert_int_eq(mf_st_read(f, t, data, t->bytes), MF_OK);
        ck_assert_int_eq(mf_st_writer_put(w, data, t->bytes / 2), MF_OK); /* in two calls */
        ck_assert_int_eq(mf_st_writer_put(w, data + t->bytes / 2, t->bytes - t->bytes / 2),
                         MF_OK);
        free(data);
    }
    ck_assert_int_eq(mf_st_writer_end(w, true), MF_OK);
    mf_st_writer_free(w);
    mf_st_close(f);
}

START_TEST(same_bytes_as_the_reference)
{
    static const char *const names[] = {"dtypes", "ranks", "zero", "empty", "names"};
    const char *srcdir = getenv("srcdir");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[2048];
        const char *copy = scratch_path("copy.safetensors");
        size_t n, m;
        snprintf(path, sizeof path, "%s/tests/golden/safetensors/%s.safetensors",
                 srcdir ? srcdir : ".", names[i]);
        rewrite(path, copy);
        char *want = scratch_read(path, &n), *got = scratch_read(copy, &m);
        ck_assert_ptr_nonnull(want);
        ck_assert_uint_eq(n, m);
        ck_assert_msg(memcmp(want, got, n) == 0, "%s differs", names[i]);
        free(want);
        free(got);
    }
}
END_TEST

START_TEST(what_is_read)
{
    const char *srcdir = getenv("srcdir");
    char path[2048];
    unsigned char data[12], part[5];
    const char *key, *value;
    snprintf(path, sizeof path, "%s/tests/golden/safetensors/dtypes.safetensors",
             srcdir ? srcdir : ".");
    mf_st_file *f = open_file(path);
    ck_assert_str_eq(mf_st_path(f), path);
    ck_assert_uint_eq(mf_st_count(f), 15);
    ck_assert_ptr_null(mf_st_at(f, 15));
    ck_assert_str_eq(mf_st_at(f, 0)->name, "t.u64");
    const mf_st_tensor *t = mf_st_find(f, "t.bf16");
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->dtype, MF_ST_BF16);
    ck_assert_str_eq(t->dtype_name, "BF16");
    ck_assert_int_eq(t->rank, 2);
    ck_assert_int_eq(t->shape[0], 2);
    ck_assert_int_eq(t->shape[1], 3);
    ck_assert_uint_eq(t->count, 6);
    ck_assert_uint_eq(t->bytes, 12);
    ck_assert_uint_eq(t->offset, 216);
    ck_assert_int_eq(mf_st_read(f, t, data, 12), MF_OK);
    for (unsigned i = 0; i < 12; i++)
        /* the values that make.py writes for the type with number 8, counted from 0 */
        ck_assert_uint_eq(data[i], (8 + 7 * i) % 251);
    ck_assert_int_eq(mf_st_read_part(f, t, part, 5, 7), MF_OK);
    ck_assert_int_eq(memcmp(part, data + 7, 5), 0);
    ck_assert_int_eq(mf_st_read_part(f, t, part, 0, 12), MF_OK);
    ck_assert_int_eq(mf_st_read_part(f, t, part, 5, 8), MF_EINVAL);
    ck_assert_int_eq(mf_st_read_part(f, t, part, 1, UINT64_MAX), MF_EINVAL);
    ck_assert_int_eq(mf_st_read(f, t, data, 11), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "t.bf16"));
    ck_assert_ptr_null(mf_st_find(f, "t.bf1"));
    ck_assert_ptr_null(mf_st_find(f, ""));
    for (size_t i = 0; i < 15; i++)
        ck_assert_ptr_eq(mf_st_find(f, mf_st_at(f, i)->name), mf_st_at(f, i));
    ck_assert_uint_eq(mf_st_meta_count(f), 1);
    ck_assert_str_eq(mf_st_meta(f, "format"), "pt");
    ck_assert_ptr_null(mf_st_meta(f, "none"));
    ck_assert(mf_st_meta_at(f, 0, &key, &value));
    ck_assert_str_eq(key, "format");
    ck_assert_str_eq(value, "pt");
    ck_assert(!mf_st_meta_at(f, 1, &key, &value));
    mf_st_close(f);
    mf_st_close(NULL);
}
END_TEST

#define T(name, dtype, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

START_TEST(bad_headers)
{
    static const struct {
        const char *header;
        size_t data;
        const char *words;
    } table[] = {
        {"", 0, "expected a header from '{' to '}'"},
        {"{", 0, "expected a header from '{' to '}'"},
        {" {}", 0, "expected a header from '{' to '}'"},
        {"{}\n", 0, "expected a header from '{' to '}'"},
        {"[]", 0, "expected a header from '{' to '}'"},
        {"{}x}", 0, "bad JSON"},
        {"{} {}", 0, "bad JSON"},
        {"{\"a\":}", 0, "bad JSON"},
        {"{\"\xFF\":1}", 0, "bad JSON"},
        {"{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2, "duplicate"},
        {"{\"a\":1}", 0, "tensor 'a': expected an object"},
        {"{\"a\":[]}", 0, "tensor 'a': expected an object"},
        {"{\"a\":{}}", 0, "tensor 'a': expected a dtype"},
        {"{\"a\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,1]}}", 1, "expected a dtype"},
        {"{\"a\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "expected a dtype"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"x\":0}}", 1,
         "expected dtype, shape and data_offsets only"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "expected an array as shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "two whole numbers as data_offsets"},
        {"{" T("a", "U8", "1", "[0,1]") "}", 1, "expected an array as shape"},
        {"{" T("a", "U8", "[1.0]", "[0,1]") "}", 1, "whole numbers as shape"},
        {"{" T("a", "U8", "[\"1\"]", "[0,1]") "}", 1, "whole numbers as shape"},
        {"{" T("a", "U8", "[-1]", "[0,1]") "}", 1, "dimension 0 is -1"},
        {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "rank 9: expected at most 8"},
        {"{" T("a", "U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "more elements"},
        {"{" T("a", "U8", "[9223372036854775807,2]", "[0,0]") "}", 0, "more elements"},
        {"{" T("a", "U8", "[9223372036854775807,2,0]", "[0,0]") "}", 0, "more elements"},
        {"{" T("a", "F64", "[2305843009213693952]", "[0,0]") "}", 0, "more bytes"},
        {"{" T("a", "F32", "[4611686018427387905]", "[0,4]") "}", 4, "more bytes"},
        {"{" T("a", "U8", "[99999999999999999999]", "[0,1]") "}", 1,
         "expected whole numbers as shape"},
        {"{" T("a", "F32", "[2]", "[0,7]") "}", 7, "span 7 bytes: its shape and F32 need 8"},
        {"{" T("a", "F32", "[2]", "[0,8]") "}", 7, "expected an extent within the 7 bytes"},
        {"{" T("a", "U8", "[2]", "[0,3]") "}", 3, "span 3 bytes: its shape and U8 need 2"},
        {"{" T("a", "U8", "[]", "[0,0]") "}", 0, "span 0 bytes: its shape and U8 need 1"},
        {"{" T("a", "U8", "[1]", "[1,0]") "}", 1, "expected an extent within"},
        {"{" T("a", "U8", "[1]", "[-1,0]") "}", 1, "expected an extent within"},
        {"{" T("a", "U8", "[1]", "[0,1,2]") "}", 1, "two whole numbers as data_offsets"},
        {"{" T("a", "U8", "[1]", "[0]") "}", 1, "two whole numbers as data_offsets"},
        {"{" T("a", "U8", "[1]", "{\"b\":0,\"e\":1}") "}", 1, "two whole numbers"},
        {"{" T("a", "U8", "[1]", "[0,1.0]") "}", 1, "two whole numbers as data_offsets"},
        {"{" T("a", "U8", "[1]", "[9223372036854775806,9223372036854775807]") "}", 1,
         "expected an extent within"},
        {"{" T("a", "U8", "[1]", "[1,2]") "}", 2, "there is a hole"},
        {"{" T("a", "U8", "[1]", "[0,1]") "," T("b", "U8", "[1]", "[2,3]") "}", 3,
         "tensor 'b': data begin at byte 2: expected 1, there is a hole"},
        {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[1,3]") "}", 3,
         "tensor 'b': data begin at byte 1: expected 2, it overlaps another"},
        {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[0,2]") "}", 2,
         "it overlaps another"},
        {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[0]", "[2,2]") "}", 4,
         "it overlaps another"},
        {"{" T("a", "U8", "[1]", "[0,1]") "}", 3, "2 bytes at the end belong to no tensor"},
        {"{}", 1, "1 bytes at the end belong to no tensor"},
        {"{" T("", "U8", "[1]", "[0,1]") "}", 1, "tensor name of 0 bytes"},
        {"{" T("a\\u001b[2J", "U8", "[1]", "[0,1]") "}", 1, "control character 0x1b"},
        {"{" T("a\\nb", "U8", "[1]", "[0,1]") "}", 1, "control character 0x0a"},
        {"{" T("a\\u0000b", "U8", "[1]", "[0,1]") "}", 1, "bad JSON"},
        {"{\"__metadata__\":1}", 0, "__metadata__: expected an object"},
        {"{\"__metadata__\":[]}", 0, "__metadata__: expected an object"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "__metadata__ 'k': expected text"},
        {"{\"__metadata__\":{\"k\":null}}", 0, "__metadata__ 'k': expected text"},
        {"{\"__metadata__\":{\"k\":{\"x\":\"y\"}}}", 0, "__metadata__ 'k': expected text"},
        {"{\"__metadata__\":{\"k\":\"a\\u0000b\"}}", 0, "__metadata__ 'k': expected text"},
        {"{\"__metadata__\":{\"k\":\"a\",\"k\":\"b\"}}", 0, "duplicate"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_refused(make_file(table[i].header, table[i].data), table[i].words);
}
END_TEST

START_TEST(good_headers)
{
    static const struct {
        const char *header;
        size_t data, tensors;
    } table[] = {
        {"{}", 0, 0},
        {"{}     ", 0, 0},
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"__metadata__\":null}", 0, 0},
        /* The format requires no alignment. */
        {"{" T("a", "BOOL", "[3]", "[0,3]") "," T("b", "F32", "[1]", "[3,7]") "}", 7, 2},
        {"{" T("a", "U8", "[1]", "[0,1]") "," T("b", "F64", "[1]", "[1,9]") "}", 9, 2},
        {"{" T("a", "U8", "[]", "[0,1]") "}", 1, 1},
        {"{" T("a", "U8", "[1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, 1},
        {"{" T("b", "F32", "[1]", "[4,8]") "," T("a", "F32", "[1]", "[0,4]") "}", 8, 2},
        /* Tensors without bytes, at both ends and in between. */
        {"{" T("a", "F32", "[0]", "[0,0]") "," T("b", "F32", "[1]", "[0,4]") "," T(
             "c", "F32", "[7,0]",
             "[4,4]") "," T("d", "F32", "[1]", "[4,8]") "," T("e", "F32", "[0,3]", "[8,8]") "}",
         8, 5},
        {"{\"a\":{\"data_offsets\":[0,2],\"shape\":[1],\"dtype\":\"F16\"}}", 2, 1},
        {"{ \"a\" : { \"dtype\" : \"F16\" ,\n\"shape\" : [ 1 ],\t\"data_offsets\":[0,2]} }", 2,
         1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mf_st_file *f = open_file(make_file(table[i].header, table[i].data));
        ck_assert_uint_eq(mf_st_count(f), table[i].tensors);
        mf_st_close(f);
    }
}
END_TEST

START_TEST(unknown_types_do_not_spoil_the_rest)
{
    unsigned char data[4];
    mf_st_file *f = open_file(make_file(
        "{" T("new", "F4_E2M1", "[6]", "[0,3]") "," T("old", "U8", "[4]", "[3,7]") "}", 7));
    const mf_st_tensor *t = mf_st_find(f, "new");
    ck_assert_int_eq(t->dtype, MF_ST_UNKNOWN);
    ck_assert_str_eq(t->dtype_name, "F4_E2M1");
    ck_assert_uint_eq(t->bytes, 3);
    ck_assert_uint_eq(t->count, 6);
    ck_assert_int_eq(mf_st_read(f, t, data, 3), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "'new': unknown dtype 'F4_E2M1'"));
    ck_assert_int_eq(mf_st_read(f, mf_st_find(f, "old"), data, 4), MF_OK);
    ck_assert_uint_eq(data[0], 21);
    mf_st_close(f);
}
END_TEST

/* Names at the limit, and one character longer. */
START_TEST(long_names)
{
    for (int n = 511; n <= 513; n++) {
        char header[1024], name[600];
        memset(name, 'n', sizeof name);
        name[n] = '\0';
        snprintf(header, sizeof header,
                 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],"
                 "\"data_offsets\":[0,1]}}",
                 name);
        if (n <= 512)
            mf_st_close(open_file(make_file(header, 1)));
        else
            assert_refused(make_file(header, 1), "tensor name of 513 bytes: expected 1 to 512");
    }
}
END_TEST

/* The first eight bytes are trusted only up to the size of the file. */
START_TEST(bad_lengths)
{
    static const char *const words[] = {"only 2 follow", "only 2 follow", "only 2 follow"};
    static const uint64_t lengths[] = {3, UINT64_MAX, UINT64_MAX - 7};
    const char *path = scratch_path("length.safetensors");
    for (size_t i = 0; i < 3; i++) {
        char file[10] = "........{}";
        for (int k = 0; k < 8; k++)
            file[k] = (char)(lengths[i] >> (8 * k));
        scratch_write(path, file, sizeof file);
        assert_refused(path, words[i]);
    }
    for (size_t n = 0; n < 8; n++) {
        scratch_write(path, "\2\0\0\0\0\0\0\0", n);
        assert_refused(path, "expected the length of a header");
    }
    scratch_write(path, "\0\0\0\0\0\0\0\0", 8);
    assert_refused(path, "expected a header from '{'");
    assert_refused(scratch_dir(), "found a directory");
    /* A sparse file whose header claims more than the limit. It must be refused before memory
     * is allocated. */
    char big[8] = {1, 0, 0, 4, 0, 0, 0, 0}; /* 64 MiB and 1 */
    scratch_write(path, big, 8);
    ck_assert_int_eq(truncate(path, 70 * 1024 * 1024), 0);
    assert_refused(path, "expected at most 67108864");
    mf_st_file *f = NULL;
    ck_assert_int_eq(mf_st_open(scratch_path("none"), &f), MF_ENOTFOUND);
}
END_TEST

/* Reading a file that is truncated while it is open is an error, and returns no stale bytes. */
START_TEST(cut_while_open)
{
    unsigned char data[8];
    const char *path = make_file("{" T("a", "U8", "[8]", "[0,8]") "}", 8);
    mf_st_file *f = open_file(path);
    ck_assert_int_eq(mf_st_read(f, mf_st_at(f, 0), data, 8), MF_OK);
    ck_assert_int_eq(truncate(path, 60), 0);
    ck_assert_int_eq(mf_st_read(f, mf_st_at(f, 0), data, 8), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "tensor 'a'"));
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "cut short"));
    mf_st_close(f);
}
END_TEST

static int add(mf_st_writer *w, const char *name, mf_st_dtype dtype, int64_t n)
{
    return mf_st_writer_add(w, name, dtype, 1, &n);
}

START_TEST(golden_bytes)
{
    static const char want[] =
        "\x90\0\0\0\0\0\0\0{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\"},"
        "\"w\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[4,5]}}      \1\0\2\0\7";
    const char *path = scratch_path("golden.safetensors");
    mf_st_writer *w = mf_st_writer_new();
    size_t n, index = 99;
    unlink(path);
    ck_assert_int_eq(mf_st_writer_meta(w, "b", "2"), MF_OK);
    ck_assert_int_eq(mf_st_writer_add(w, "x", MF_ST_U8, 0, NULL), MF_OK);
    ck_assert_int_eq(add(w, "w", MF_ST_I16, 2), MF_OK);
    ck_assert_int_eq(mf_st_writer_meta(w, "a", "1"), MF_OK);
    ck_assert_ptr_null(mf_st_writer_due(w, &index));
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_OK);
    ck_assert_str_eq(mf_st_writer_due(w, &index)->name, "w");
    ck_assert_uint_eq(index, 1);
    ck_assert_int_eq(mf_st_writer_put(w, "\1\0\2\0", 4), MF_OK);
    ck_assert_str_eq(mf_st_writer_due(w, &index)->name, "x");
    ck_assert_uint_eq(index, 0);
    ck_assert_int_eq(mf_st_writer_put(w, "\7", 1), MF_OK);
    ck_assert_ptr_null(mf_st_writer_due(w, &index));
    ck_assert_int_eq(mf_st_writer_end(w, true), MF_OK);
    mf_st_writer_free(w);
    char *got = scratch_read(path, &n);
    ck_assert_uint_eq(n, sizeof want - 1);
    ck_assert_int_eq(memcmp(got, want, n), 0);
    free(got);
}
END_TEST

START_TEST(writer_misuse)
{
    const char *path = scratch_path("misuse.safetensors");
    const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, minus[1] = {-1};
    const int64_t huge[2] = {INT64_MAX, 3};
    char name[600];
    mf_st_writer *w = mf_st_writer_new();
    unlink(path);
    memset(name, 'n', sizeof name);
    name[513] = '\0';
    ck_assert_int_eq(add(w, "", MF_ST_U8, 1), MF_EINPUT);
    ck_assert_int_eq(add(w, name, MF_ST_U8, 1), MF_EINPUT);
    ck_assert_int_eq(add(w, "a\nb", MF_ST_U8, 1), MF_EINPUT);
    ck_assert_int_eq(add(w, "\xFF", MF_ST_U8, 1), MF_EINVAL);
    ck_assert_int_eq(add(w, "__metadata__", MF_ST_U8, 1), MF_EINVAL);
    ck_assert_int_eq(add(w, "a", MF_ST_UNKNOWN, 1), MF_EINVAL);
    ck_assert_int_eq(mf_st_writer_add(w, "a", MF_ST_U8, 9, nine), MF_EINPUT);
    ck_assert_int_eq(mf_st_writer_add(w, "a", MF_ST_U8, -1, nine), MF_EINPUT);
    ck_assert_int_eq(mf_st_writer_add(w, "a", MF_ST_U8, 1, minus), MF_EINPUT);
    ck_assert_int_eq(mf_st_writer_add(w, "a", MF_ST_U8, 2, huge), MF_EINPUT);
    ck_assert_int_eq(mf_st_writer_meta(w, "k", "\xC3"), MF_EINVAL);
    ck_assert_int_eq(mf_st_writer_end(w, false), MF_EINVAL); /* not begun yet */
    ck_assert_int_eq(mf_st_writer_put(w, "x", 1), MF_EINVAL);
    ck_assert_int_eq(add(w, "a", MF_ST_U8, 4), MF_OK);
    ck_assert_int_eq(add(w, "a", MF_ST_U8, 4), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "'a' is added twice"));
    mf_st_writer_free(w);
    w = mf_st_writer_new();
    ck_assert_int_eq(mf_st_writer_meta(w, "k", "1"), MF_OK);
    ck_assert_int_eq(mf_st_writer_meta(w, "k", "2"), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "'k' is given twice"));
    mf_st_writer_free(w);
    ck_assert(!mf_exists(path)); /* all are refused before the file is created */
    w = mf_st_writer_new();
    ck_assert_int_eq(add(w, "a", MF_ST_U8, INT64_MAX), MF_OK);
    ck_assert_int_eq(add(w, "b", MF_ST_U8, INT64_MAX), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_EINVAL);
    mf_st_writer_free(w);
    w = mf_st_writer_new();
    ck_assert_int_eq(add(w, "a", MF_ST_U8, 4), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_EINVAL);
    ck_assert_int_eq(add(w, "b", MF_ST_U8, 4), MF_EINVAL);
    ck_assert_int_eq(mf_st_writer_meta(w, "k", "v"), MF_EINVAL);
    ck_assert_int_eq(mf_st_writer_put(w, "12345", 5), MF_EINVAL);
    ck_assert_int_eq(mf_st_writer_put(w, "123", 3), MF_OK);
    ck_assert_int_eq(mf_st_writer_end(w, false), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "'a' are still due"));
    ck_assert_int_eq(mf_st_writer_put(w, "4", 1), MF_OK);
    ck_assert_int_eq(mf_st_writer_put(w, "5", 1), MF_EINVAL);
    ck_assert_int_eq(mf_st_writer_end(w, false), MF_OK);
    mf_st_writer_free(w);
    mf_st_writer_free(NULL);
    w = mf_st_writer_new();
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_EIO); /* the file exists already */
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "File exists"));
    mf_st_writer_free(w);
    mf_st_close(open_file(path));
}
END_TEST

static const unsigned char some_data[300000];

static int write_work(const char *path)
{
    mf_st_writer *w = mf_st_writer_new();
    const mf_st_tensor *t;
    int rc = w ? MF_OK : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < 70; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        rc = add(w, name, MF_ST_F32, i == 0 ? 75000 : 10);
        if (rc == MF_OK) rc = mf_st_writer_meta(w, name, "value");
    }
    if (rc == MF_OK) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && (t = mf_st_writer_due(w, NULL)))
        rc = mf_st_writer_put(w, some_data, t->bytes);
    if (rc == MF_OK) rc = mf_st_writer_end(w, true);
    mf_st_writer_free(w);
    return rc;
}

static int read_work(const char *path)
{
    mf_st_file *f = NULL;
    int rc = mf_st_open(path, &f);
    if (rc == MF_OK) {
        void *data = mf_alloc_raw(40);
        rc = data ? mf_st_read(f, mf_st_find(f, "t69"), data, 40) : MF_ENOMEM;
        mf_free(data);
    }
    mf_st_close(f);
    return rc;
}

/* One tensor more than the maximum, in reading and in writing. */
START_TEST(too_many_tensors)
{
    enum { ENTRY = 16 };
    char *text = malloc(((size_t)MF_ST_TENSORS_MAX + 4) * ENTRY), *at = text;
    ck_assert_ptr_nonnull(text);
    at += sprintf(at, "{\"__metadata__\":0");
    for (int i = 0; i <= MF_ST_TENSORS_MAX; i++)
        at += sprintf(at, ",\"%x\":0", (unsigned)i);
    strcpy(at, "}");
    assert_refused(make_file(text, 0), "1048577 tensors: expected at most 1048576");
    free(text);
    mf_st_writer *w = mf_st_writer_new();
    for (int i = 0; i < MF_ST_TENSORS_MAX; i++)
        if (mf_st_writer_add(w, "a", MF_ST_U8, 0, NULL) != MF_OK) ck_abort_msg("%d", i);
    ck_assert_int_eq(add(w, "one more", MF_ST_U8, 1), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "more than 1048576 tensors"));
    mf_st_writer_free(w);
}
END_TEST

/* A header that is too long. Escaping each byte of the text makes the text six times
 * as long. */
START_TEST(long_header)
{
    enum { N = MF_ST_HEADER_MAX / 6 };
    const char *path = scratch_path("large.safetensors");
    char *text = malloc(N + 1);
    ck_assert_ptr_nonnull(text);
    memset(text, '\1', N);
    text[N] = '\0';
    mf_st_writer *w = mf_st_writer_new();
    ck_assert_int_eq(mf_st_writer_meta(w, "k", text), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_EINVAL);
    ck_assert_ptr_nonnull(
        strstr(mf_error_message(), "header of 67108888 bytes: expected at most 67108864"));
    ck_assert(!mf_exists(path));
    mf_st_writer_free(w);
    free(text);
}
END_TEST

/* If the n-th allocation or IO call fails, the result must be an error, never a crash, a leak
 * or a false success. */
START_TEST(with_faults)
{
    const char *path = scratch_path("faults.safetensors");
    for (int what = 0; what < 8; what++) {
        bool memory = what & 1, reads = what & 2;
        fault_form form = what & 4 ? FAULT_FROM : FAULT_ONCE;
        for (long n = 1;; n++) {
            if (!reads) unlink(path);
            fault_alloc(memory ? n : 0, form);
            fault_io(memory ? 0 : n, form, EIO);
            if (memory) fault_alloc(n, form);
            int rc = reads ? read_work(path) : write_work(path);
            bool hit = fault_hit();
            fault_off();
            ck_assert_int_eq(fault_alloc_live(), 0);
            ck_assert_int_eq(fault_io_open(), 0);
            bool close_of_read = reads && strcmp(fault_hit_call(), "close") == 0;
            if (hit && !close_of_read)
                ck_assert_int_eq(rc, memory ? MF_ENOMEM : MF_EIO);
            else
                ck_assert_int_eq(rc, MF_OK);
            if (!hit) {
                ck_assert_int_gt(n, 4);
                ck_assert_int_eq(read_work(path), MF_OK);
                break;
            }
        }
    }
}
END_TEST

/* Whether a sanitizer runs. Its own memory is added to the measured memory. */
static bool sanitized(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return true;
#elif defined __has_feature
    return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
    return false;
#endif
}

/* With many tensors, time and memory grow only with the size of the file. An open file with a
 * header of ten megabytes needs less than twenty times the size of the header. */
START_TEST(many_tensors)
{
    enum { N = 100000, MIB = 1 << 20 };
    const char *path = scratch_path("many.safetensors");
    mf_st_writer *w = mf_st_writer_new();
    char name[64];
    unlink(path);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.weight", i / 100, i % 100);
        ck_assert_int_eq(add(w, name, MF_ST_BF16, 2), MF_OK);
    }
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_OK);
    for (const mf_st_tensor *t; (t = mf_st_writer_due(w, NULL));)
        ck_assert_int_eq(mf_st_writer_put(w, "abcd", 4), MF_OK);
    ck_assert_int_eq(mf_st_writer_end(w, false), MF_OK);
    mf_st_writer_free(w);
    mf_resident_trim();
    const size_t before = mf_resident_read().now;
    mf_st_file *f = open_file(path);
    const size_t now = mf_resident_read().now;
    ck_assert_msg(sanitized() || now < before + (size_t)200 * MIB, "%zu MiB for the header",
                  (now - before) / MIB);
    ck_assert_uint_eq(mf_st_count(f), N);
    for (int i = 0; i < N; i += 7) {
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.weight", i / 100, i % 100);
        ck_assert_ptr_nonnull(mf_st_find(f, name));
    }
    mf_st_close(f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("safetensors");
    TCase *c = tcase_create("safetensors");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, types);
    tcase_add_test(c, same_bytes_as_the_reference);
    tcase_add_test(c, what_is_read);
    tcase_add_test(c, bad_headers);
    tcase_add_test(c, good_headers);
    tcase_add_test(c, unknown_types_do_not_spoil_the_rest);
    tcase_add_test(c, long_names);
    tcase_add_test(c, bad_lengths);
    tcase_add_test(c, cut_while_open);
    tcase_add_test(c, golden_bytes);
    tcase_add_test(c, writer_misuse);
    tcase_add_test(c, too_many_tensors);
    tcase_add_test(c, long_header);
    tcase_add_test(c, with_faults);
    tcase_add_test(c, many_tensors);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
