/* stream: texts that become token files have the same tokens as in memory. A text may be cut
 * only where the tokenizer allows it. Also mapped token files, epochs without a list of
 * windows, and several documents in one sequence. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/batch.h"
#include "data/stream/cache.h"
#include "data/stream/id_parts.h"
#include "tests/lib/corpora.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mf_ids encode(const mf_tokenizer *t, const char *text, size_t n)
{
    mf_ids ids = {0};
    ck_assert_msg(mf_tokenizer_encode(t, "text", text, n, &ids) == MF_OK, "%s",
                  mf_error_message());
    return ids;
}

/* Cuts a text of 600 bytes after each prefix. Returns for how many prefixes a place to cut
 * was found. */
static int check_cuts(const mf_tokenizer *t, uint64_t seed)
{
    char *text = corpus_text(600, seed);
    const size_t n = strlen(text);
    const mf_ids whole = encode(t, text, n);
    int found = 0;
    for (size_t prefix = 1; prefix <= n; prefix++) {
        const size_t cut = t->ops->cut(t, text, prefix);
        ck_assert_uint_le(cut, prefix);
        if (cut == 0) continue;
        found++;
        mf_ids a = encode(t, text, cut), b = encode(t, text + cut, n - cut);
        ck_assert_msg(a.n + b.n == whole.n, "%s: cut at %zu: %zu + %zu tokens, not %zu",
                      t->ops->name, cut, a.n, b.n, whole.n);
        if (a.n > 0) ck_assert_mem_eq(a.id, whole.id, a.n * sizeof *a.id);
        if (b.n > 0) ck_assert_mem_eq(b.id, whole.id + a.n, b.n * sizeof *b.id);
        mf_ids_free(&a);
        mf_ids_free(&b);
    }
    mf_ids all = whole;
    mf_ids_free(&all);
    mf_free(text);
    return found;
}

START_TEST(cuts)
{
    static const char *const kinds[] = {"byte", "char", "bpe", "bpe_bytes", "wordpiece"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        mf_tokenizer *t;
        mf_tokenizer_options o = {.vocab_size = k >= 2 ? 320 : 0};
        char *text = corpus_text(20000, 1);
        ck_assert_msg(mf_tokenizer_train(kinds[k], "text", text, strlen(text), &o, &t) == MF_OK,
                      "%s", mf_error_message());
        mf_free(text);
        int found = 0;
        for (uint64_t seed = 2; seed < 10; seed++)
            found += check_cuts(t, seed);
        ck_assert_int_gt(found, 1000);
        mf_tokenizer_free(t);
    }
}
END_TEST

START_TEST(cuts_of_published_ones)
{
    static const char *const forms[] = {"gpt2", "neox", "qwen2", "deepseek", "o200k", "bert"};
    const char *source = getenv("srcdir");
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        mf_tokenizer *t;
        char *path = mf_strf("%s/tests/golden/pretrained/tokenizers/%s/tokenizer.json",
                             source ? source : ".", forms[k]);
        ck_assert_msg(mf_tokenizer_load(path, &t) == MF_OK, "%s", mf_error_message());
        int found = 0;
        for (uint64_t seed = 2; seed < 10; seed++)
            found += check_cuts(t, seed);
        ck_assert_msg(found > 1000, "%s: %d", forms[k], found);
        mf_tokenizer_free(t);
        mf_free(path);
    }
}
END_TEST

static int names_in(const char *folder)
{
    char **names;
    int n;
    ck_assert_int_eq(mf_list_dir(folder, &names, &n), MF_OK);
    mf_list_free(names, n);
    return n;
}

/* Writes n bytes of words. Only their end is a place at which the text may be cut. */
static void put_line(char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = "models "[i % 7];
    memcpy(at + n - 3, "a\nb", 3);
}

/* If a piece has no place to cut, it is read again with twice the length. So more text may
 * remain after the last cut than the next piece needs. */
START_TEST(long_lines)
{
    enum { FIRST = 9 << 20, SECOND = 8 << 20, REST = 12 << 20 };
    const char *path = scratch_path("lines.txt");
    char *text = mf_alloc(FIRST + SECOND + REST + 1, 1);
    ck_assert_ptr_nonnull(text);
    put_line(text, FIRST);
    put_line(text + FIRST, SECOND);
    put_line(text + FIRST + SECOND, REST);
    scratch_write(path, text, FIRST + SECOND + REST);
    mf_corpus_spec s;
    mf_corpus_defaults(&s);
    s.path = path;
    s.tokenizer = "bpe_bytes";
    s.split = 0.9999;
    mf_corpus *plain = corpus_load(&s);
    s.cache = scratch_path("lines-cache");
    mf_corpus *cached = corpus_load(&s);
    ck_assert_ptr_null(cached->ids);
    corpus_same(plain, cached);
    mf_corpus_free(cached);
    mf_corpus_free(plain);
    mf_free(text);
}
END_TEST

START_TEST(cached_texts)
{
    static const char *const kinds[] = {"byte", "char", "bpe_bytes"};
    const char *path = scratch_path("large.txt"), *folder = scratch_path("cache");
    char *text = corpus_text(9 << 20, 3); /* three pieces of the reader */
    scratch_write(path, text, strlen(text));
    scratch_write(scratch_path("val.txt"), text, 5001);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        mf_corpus_spec s;
        mf_corpus_defaults(&s);
        s.path = path;
        s.tokenizer = kinds[k];
        s.split = 0.7001;
        mf_corpus *plain = corpus_load(&s);
        ck_assert_ptr_nonnull(plain->ids);
        s.cache = folder;
        mf_corpus *cached = corpus_load(&s);
        ck_assert_ptr_null(cached->ids);
        corpus_same(plain, cached);
        const int files = k > 0 ? names_in(folder) : 0;
        mf_corpus *again = corpus_load(&s);
        corpus_same(plain, again);
        if (k > 0) ck_assert_int_eq(names_in(folder), files);
        mf_corpus_free(again);
        mf_corpus_free(cached);
        mf_corpus_free(plain);
    }
    mf_free(text);
}
END_TEST
START_TEST(several_texts)
{
    const char *folder = scratch_path("texts");
    ck_assert_int_eq(mf_mkdirs(folder), MF_OK);
    scratch_write(scratch_path("texts/a.txt"), "first part \xC3", 12);
    scratch_write(scratch_path("texts/b.txt"), "\xA9 and the second", 16);
    mf_corpus_spec s;
    mf_corpus_defaults(&s);
    s.path = folder;
    s.split = 0.45; /* the split is within the character that is divided between both files */
    mf_corpus *plain = corpus_load(&s), *cached, *none = NULL;
    s.cache = scratch_path("cache");
    cached = corpus_load(&s);
    ck_assert_int_eq(cached->stored.n_parts, 3);
    corpus_same(plain, cached);
    mf_corpus_free(cached);
    mf_corpus_free(plain);
    s.split = 0.75; /* the split is within the second file */
    s.cache = NULL;
    plain = corpus_load(&s);
    s.cache = scratch_path("cache");
    cached = corpus_load(&s);
    ck_assert_int_eq(cached->stored.n_parts, 3);
    corpus_same(plain, cached);
    mf_corpus_free(cached);
    mf_corpus_free(plain);
    s.tokenizer = "char";
    ck_assert_int_eq(mf_corpus_load(&s, &none), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "not learned from several large files"));
    scratch_write(scratch_path("texts/c.txt"), "", 0);
    s.tokenizer = NULL;
    ck_assert_int_eq(mf_corpus_load(&s, &none), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "texts/c.txt: the file is empty"));
}
END_TEST

/* A generated text stays in memory beside a mapped text, before or after it. */
START_TEST(mapped_beside_generated)
{
    const char *const topics = "builtin:topics?bytes=3000";
    const char *path = scratch_path("words.txt");
    char *text = corpus_text(5000, 4);
    scratch_write(path, text, strlen(text));
    for (int turn = 0; turn < 2; turn++) {
        mf_corpus_spec s;
        mf_corpus_defaults(&s);
        s.path = turn ? topics : path;
        s.val_path = turn ? path : topics;
        mf_corpus *plain = corpus_load(&s);
        s.cache = scratch_path("beside");
        mf_corpus *cached = corpus_load(&s);
        ck_assert_ptr_null(cached->ids);
        ck_assert_int_eq(cached->stored.n_parts, 2);
        ck_assert_int_eq(cached->stored.part[turn ? 0 : 1].own != NULL, 1);
        corpus_same(plain, cached);
        mf_corpus_free(cached);
        mf_corpus_free(plain);
    }
    mf_free(text);
}
END_TEST

/* Files that change after their sizes were read. Bytes keep their offsets. */
START_TEST(texts_that_change)
{
    char *path[] = {(char *)scratch_path("s.txt"), (char *)scratch_path("t.txt")};
    uint64_t end[] = {6, 10};
    const mf_source_files files = {path, 2, end};
    char out[8];
    scratch_write(path[0], "abcdef and more", 15);
    scratch_write(path[1], "ghij", 4);
    ck_assert_int_eq(mf_source_files_read(&files, 4, 4, out), MF_OK);
    ck_assert_mem_eq(out, "efgh", 4);
    ck_assert_int_eq(mf_source_files_read(&files, 8, 2, out), MF_OK);
    ck_assert_mem_eq(out, "ij", 2);
    scratch_write(path[1], "g", 1);
    ck_assert_int_eq(mf_source_files_read(&files, 4, 4, out), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "t.txt: shorter than it was"));
    scratch_write(path[0], "abc", 3);
    scratch_write(path[1], "ghij", 4);
    ck_assert_int_eq(mf_source_files_read(&files, 4, 2, out), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "s.txt: shorter than it was"));
}
END_TEST

/* If memory runs out for a part, the part is freed. */
START_TEST(a_part_without_memory)
{
    mf_id_parts parts = {0};
    fault_alloc(2, FAULT_ONCE);
    mf_id_part part = {.n = 1, .id_bytes = 1, .own = mf_alloc(1, 1)};
    ck_assert_int_eq(mf_id_parts_add(&parts, &part), MF_ENOMEM);
    ck_assert(fault_hit());
    ck_assert_int_eq(fault_alloc_live(), 0);
    fault_off();
    ck_assert_int_eq(parts.n_parts, 0);
}
END_TEST

/* A token file of 160 MB, nearly all of it a hole, is mapped. It is not scanned twice. */
START_TEST(mapped_ids)
{
    enum { N = 80 << 20 };
    const char *path = scratch_path("large.bin"), *folder = scratch_path("known");
    const uint16_t id[2] = {777, 5};
    scratch_write(path, id, sizeof id);
    ck_assert_int_eq(truncate(path, 2 * (off_t)N), 0);
    mf_corpus_spec s;
    mf_corpus_defaults(&s);
    s.path = path;
    s.cache = folder;
    for (int turn = 0; turn < 2; turn++) {
        mf_corpus *c = corpus_load(&s);
        ck_assert(mf_id_parts_mapped(&c->stored));
        ck_assert_int_eq(c->tokens, N);
        ck_assert_int_eq(c->vocab, 778);
        ck_assert_int_eq(mf_corpus_id(c, 0), 777);
        ck_assert_int_eq(mf_corpus_id(c, N - 1), 0);
        mf_id_parts_release(&c->stored);
        ck_assert_int_eq(mf_corpus_id(c, 0), 777);
        mf_corpus_free(c);
        ck_assert_int_eq(names_in(folder), 1);
    }
    /* A cache entry that does not belong to this file is not used. */
    char **names;
    int n;
    ck_assert_int_eq(mf_list_dir(folder, &names, &n), MF_OK);
    char *kept = mf_path_join(folder, names[0]);
    static const char wrong[] = "{\"largest\":3}\n";
    scratch_write(kept, wrong, sizeof wrong - 1);
    mf_corpus *fresh = corpus_load(&s);
    ck_assert_int_eq(fresh->vocab, 778);
    mf_corpus_free(fresh);
    mf_free(kept);
    mf_list_free(names, n);
    s.bin_bits = 32; /* cached separately from ids of 16 bits */
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->tokens, N / 2);
    ck_assert_int_eq(names_in(folder), 2);
    mf_corpus_free(c);
}
END_TEST

START_TEST(shuffled_numbers)
{
    static const uint64_t sizes[] = {1, 2, 3, 7, 64, 1000, 4097};
    static bool seen[4097];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int same = 0;
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < sizes[k]; i++) {
            const uint64_t at = mf_rng_shuffled(5, 6, 7, sizes[k], i);
            ck_assert_uint_lt(at, sizes[k]);
            ck_assert(!seen[at]);
            seen[at] = true;
            same += at == mf_rng_shuffled(5, 6, 8, sizes[k], i);
        }
        ck_assert(sizes[k] < 64 || same < (int)sizes[k] / 8);
    }
    ck_assert_uint_lt(mf_rng_shuffled(1, 2, 3, UINT64_MAX / 5, 12345), UINT64_MAX / 5);
    /* number of windows that are still neighbours */
    int near = 0;
    for (uint64_t i = 0; i + 1 < 1000; i++) {
        const int64_t a = (int64_t)mf_rng_shuffled(5, 6, 7, 1000, i),
                      b = (int64_t)mf_rng_shuffled(5, 6, 7, 1000, i + 1);
        near += llabs(a - b) < 10;
    }
    ck_assert_int_lt(near, 50); /* 19 are expected by chance */
}
END_TEST

START_TEST(epochs)
{
    enum { N = 403, SEQ = 8, ROWS = 5 };
    uint16_t ids[N];
    for (int i = 0; i < N; i++)
        ids[i] = (uint16_t)i;
    scratch_write(scratch_path("n.bin"), ids, sizeof ids);
    mf_corpus_spec s;
    mf_corpus_defaults(&s);
    s.path = scratch_path("n.bin");
    s.split = 1;
    mf_corpus *c = corpus_load(&s);
    mf_batch_spec spec;
    mf_batch_defaults(&spec);
    spec.rows = ROWS;
    spec.seq = SEQ;
    spec.seed = 3;
    spec.epochs = true;
    mf_batcher *b, *other;
    mf_batch *x;
    ck_assert_int_eq(mf_batcher_new(c, &spec, &b), MF_OK);
    ck_assert_int_eq(mf_batcher_new(c, &spec, &other), MF_OK);
    ck_assert_int_eq(mf_batch_new(ROWS, SEQ, &x), MF_OK);
    const int windows = (N - SEQ - 1) / SEQ + 1; /* 50 */
    ck_assert_int_eq(mf_batcher_count(b), (windows + ROWS - 1) / ROWS);
    int seen[N] = {0}, first[2] = {0};
    for (int64_t step = 0; step < 3 * windows / ROWS; step++) { /* three epochs */
        mf_batcher_fill(b, step, x);
        for (int row = 0; row < ROWS; row++) {
            const int at = x->tokens[row * SEQ];
            ck_assert_int_eq(at % SEQ, 0);
            ck_assert_int_eq(x->targets[row * SEQ + SEQ - 1], at + SEQ);
            seen[at]++;
            ck_assert_int_le(seen[at], (int)(step * ROWS / windows) + 1);
        }
        if (step % (windows / ROWS) == 0 && step > 0)
            first[step / (windows / ROWS) - 1] = x->tokens[0];
    }
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(seen[i], i % SEQ == 0 && i < windows * SEQ ? 3 : 0);
    ck_assert_int_ne(first[0], first[1]); /* the order differs in each epoch */
    /* a batch does not depend on the batches before it */
    mf_batcher_fill(b, 27, x);
    const int32_t token = x->tokens[SEQ];
    mf_batcher_fill(other, 27, x);
    ck_assert_int_eq(x->tokens[SEQ], token);
    mf_batch_free(x);
    mf_batcher_free(other);
    mf_batcher_free(b);
    mf_corpus_free(c);
}
END_TEST

/* Documents of 2 to 13 tokens, and one of a single token, which has no target. Each token
 * identifies its document and its position. */
START_TEST(packed_documents)
{
    enum { N = 60, SEQ = 12, ROWS = 3 };
    char text[N * 64], *at = text;
    int length[N], seen[N] = {0};
    for (int i = 0; i < N; i++) {
        length[i] = i == 7 ? 1 : 2 + i * 5 % 12;
        at += sprintf(at, "{\"text\":\"");
        for (int j = 0; j < length[i]; j++)
            *at++ = j == 0 ? (char)('0' + i) == '"' || (char)('0' + i) == '\\' ? 'z'
                                                                               : (char)('0' + i)
                           : (char)('a' + j);
        at += sprintf(at, "\"}\n");
    }
    scratch_write(scratch_path("packed.jsonl"), text, strlen(text));
    mf_corpus_spec spec;
    mf_corpus_defaults(&spec);
    spec.path = scratch_path("packed.jsonl");
    spec.split = 1;
    mf_corpus *c = corpus_load(&spec);
    mf_batch_spec s;
    mf_batch_defaults(&s);
    s.rows = ROWS;
    s.seq = SEQ;
    mf_batch *x;
    s.packed = true;
    mf_batcher *b;
    ck_assert_int_eq(mf_batcher_new(c, &s, &b), MF_OK);
    ck_assert_int_eq(mf_batch_new(ROWS, SEQ, &x), MF_OK);
    int64_t targets = 0, all = 0;
    for (int i = 0; i < N; i++)
        all += length[i] - 1;
    const int64_t steps = mf_batcher_count(b);
    ck_assert_int_le(steps * ROWS * SEQ, all + all / 10 + ROWS * SEQ); /* nearly full */
    for (int64_t step = 0; step < 2 * steps; step++) {
        mf_batcher_fill(b, step, x);
        for (int row = 0; row < ROWS; row++) {
            int32_t since = -1;
            for (int i = 0; i < SEQ; i++) {
                const int32_t k = row * SEQ + i;
                ck_assert_int_ge(x->since[k], since);
                ck_assert_int_le(x->since[k], i);
                ck_assert_int_eq(x->positions[k], i - x->since[k]);
                since = x->since[k];
                if (x->mask[k] == 0) continue;
                /* the target is the next token of the same document */
                ck_assert_int_eq(x->targets[k], 'a' + x->positions[k] + 1);
                targets++;
                if (x->positions[k] == 0 && x->tokens[k] != 'z') seen[x->tokens[k] - '0']++;
            }
        }
    }
    ck_assert_int_ge(targets, 2 * all);
    for (int i = 0; i < N; i++)
        if ('0' + i != '"' && '0' + i != '\\' && i != 'z' - '0')
            ck_assert_msg(i == 7 ? seen[i] == 0 : seen[i] == 2 || seen[i] == 3, "%d: %d", i,
                          seen[i]);
    mf_batcher_free(b);
    s.task = MF_TASK_MLM;
    ck_assert_int_eq(mf_batcher_new(c, &s, &b), MF_ECONFIG);
    mf_batch_free(x);
    mf_corpus_free(c);
}
END_TEST

/* A stream is cut after each token 256, so no window crosses this token. */
START_TEST(cut_streams)
{
    uint16_t ids[400];
    for (int i = 0; i < 400; i++)
        ids[i] = (uint16_t)i;
    scratch_write(scratch_path("n.bin"), ids, sizeof ids);
    mf_corpus_spec spec;
    mf_corpus_defaults(&spec);
    spec.path = scratch_path("n.bin");
    spec.split = 1;
    mf_corpus *c = corpus_load(&spec);
    mf_batch_spec s;
    mf_batch_defaults(&s);
    s.order = MF_ORDER_SEQUENTIAL;
    s.seq = 10;
    mf_batch *x;
    mf_batcher *b;
    s.packed = true;
    ck_assert_int_eq(mf_batcher_new(c, &s, &b), MF_ECONFIG);
    s.document_end = 256;
    ck_assert_int_eq(mf_batcher_new(c, &s, &b), MF_OK);
    ck_assert_int_eq(mf_batch_new(1, 10, &x), MF_OK);
    mf_batcher_fill(b, 25, x); /* tokens 250 .. 259 */
    ck_assert_int_eq(x->n_targets, 9);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(x->tokens[i], 250 + i);
        ck_assert_int_eq(x->targets[i], i == 6 ? -1 : 251 + i);
        ck_assert_int_eq(x->since[i], i < 7 ? 0 : 7);
        ck_assert_int_eq(x->positions[i], i < 7 ? i : i - 7);
    }
    mf_batcher_fill(b, 3, x);
    ck_assert_int_eq(x->n_targets, 10);
    ck_assert_int_eq(x->since[9], 0);
    mf_batcher_free(b);
    mf_corpus_free(c);
    /* The same for text. The bytes are counted for the remaining targets. */
    scratch_write(scratch_path("ends.txt"), "one\ntwo\nthree", 13);
    spec.path = scratch_path("ends.txt");
    c = corpus_load(&spec);
    s.document_end = '\n';
    ck_assert_int_eq(mf_batcher_new(c, &s, &b), MF_OK);
    mf_batcher_fill(b, 0, x); /* the text is "one\ntwo\nth"; its targets are "ne\nwo\nhr" */
    ck_assert_int_eq(x->n_targets, 8);
    ck_assert_int_eq(x->n_bytes, 8);
    ck_assert_int_eq(x->targets[3], -1);
    ck_assert_int_eq(x->targets[7], -1);
    mf_batch_free(x);
    mf_batcher_free(b);
    mf_corpus_free(c);
}
END_TEST

static Suite *suite(void)
{
    mf_log_set_level(MF_LOG_ERROR);
    Suite *s = suite_create("stream");
    TCase *t = tcase_create("stream");
    tcase_add_test(t, cuts);
    tcase_add_test(t, cuts_of_published_ones);
    tcase_add_test(t, long_lines);
    tcase_add_test(t, cached_texts);
    tcase_add_test(t, several_texts);
    tcase_add_test(t, mapped_beside_generated);
    tcase_add_test(t, texts_that_change);
    tcase_add_test(t, a_part_without_memory);
    tcase_add_test(t, mapped_ids);
    tcase_add_test(t, shuffled_numbers);
    tcase_add_test(t, epochs);
    tcase_add_test(t, packed_documents);
    tcase_add_test(t, cut_streams);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
