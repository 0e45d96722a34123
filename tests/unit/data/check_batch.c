/* batch: a batch depends only on the step. Sequential windows and pieces of documents predict
 * each token except the first exactly once per pass, in any order of calls. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/batch.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *file(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    scratch_write(path, text, strlen(text));
    return path;
}

static mf_corpus *load(const char *path, mf_task task, double split)
{
    mf_corpus_spec s;
    mf_corpus *c;
    mf_corpus_defaults(&s);
    s.path = path;
    s.task = task;
    s.split = split;
    ck_assert_msg(mf_corpus_load(&s, &c) == MF_OK, "%s", mf_error_message());
    return c;
}

static mf_batcher *batcher(const mf_corpus *c, const mf_batch_spec *s)
{
    mf_batcher *b;
    ck_assert_msg(mf_batcher_new(c, s, &b) == MF_OK, "%s", mf_error_message());
    return b;
}

static mf_batch_spec spec_of(mf_task task, mf_batch_order order, int32_t rows, int32_t seq)
{
    mf_batch_spec s;
    mf_batch_defaults(&s);
    s.task = task;
    s.order = order;
    s.rows = rows;
    s.seq = seq;
    s.seed = 42;
    return s;
}

static bool same(const mf_batch *a, const mf_batch *b)
{
    size_t n = (size_t)a->rows * (size_t)a->seq * 4;
    return memcmp(a->tokens, b->tokens, n) == 0 && memcmp(a->targets, b->targets, n) == 0 &&
           memcmp(a->mask, b->mask, n) == 0 && memcmp(a->labels, b->labels, n) == 0 &&
           memcmp(a->positions, b->positions, n) == 0 &&
           memcmp(a->sequence, b->sequence, n) == 0 &&
           memcmp(a->classes, b->classes, (size_t)a->rows * 4) == 0 &&
           a->n_targets == b->n_targets && a->n_tokens == b->n_tokens &&
           a->n_bytes == b->n_bytes;
}

/* Checks counts and positions. The mask must be 1 at the tokens of an example and 0 at the
 * padding after them, where there are no targets and no labels. */
static void check_form(const mf_batch *b)
{
    int64_t tokens = 0, targets = 0;
    for (int32_t i = 0; i < b->rows * b->seq; i++) {
        ck_assert_int_eq(b->positions[i], i % b->seq);
        ck_assert_int_eq(b->sequence[i], i / b->seq);
        ck_assert(b->mask[i] == 0 || b->mask[i] == 1);
        ck_assert_int_ge(b->tokens[i], 0);
        if (i % b->seq > 0 && b->mask[i] == 1)
            ck_assert(b->mask[i - 1] == 1); /* padding is at the end */
        if (b->mask[i] == 0) ck_assert(b->targets[i] == -1 && b->labels[i] == -1);
        tokens += b->mask[i] == 1;
        targets += b->targets[i] >= 0;
    }
    for (int32_t i = 0; i < b->rows; i++)
        targets += b->classes[i] >= 0;
    ck_assert_int_eq(tokens, b->n_tokens);
    ck_assert_int_eq(targets, b->n_targets);
}

START_TEST(random_windows)
{
    mf_corpus *c = load("builtin:topics?bytes=4000", MF_TASK_LM, 0.9);
    mf_batch_spec s = spec_of(MF_TASK_LM, MF_ORDER_RANDOM, 8, 32);
    mf_batcher *a = batcher(c, &s), *b = batcher(c, &s);
    mf_batch *x, *y;
    ck_assert_int_eq(mf_batch_new(8, 32, &x), MF_OK);
    ck_assert_int_eq(mf_batch_new(8, 32, &y), MF_OK);
    ck_assert_int_eq(mf_batcher_count(a), (((3600 - 1 + 31) / 32) + 7) / 8);
    int64_t least = 4000, most = 0;
    for (int64_t step = 0; step < 300; step++) {
        mf_batcher_fill(a, step, x);
        check_form(x);
        ck_assert_int_eq(x->n_targets, 256);
        ck_assert_int_eq(x->n_bytes, 256);
        for (int32_t r = 0; r < 8; r++) {
            /* Finds a window of the training split by its text. */
            char window[33];
            for (int i = 0; i < 32; i++)
                window[i] = (char)x->tokens[r * 32 + i];
            window[32] = (char)x->targets[r * 32 + 31];
            const char *text = c->split[MF_SPLIT_TRAIN].topics->text;
            const char *at = memmem(text, 3600, window, 33);
            ck_assert_ptr_nonnull(at);
            least = at - text < least ? at - text : least;
            most = at - text > most ? at - text : most;
            for (int i = 0; i < 31; i++)
                ck_assert_int_eq(x->targets[r * 32 + i], x->tokens[r * 32 + i + 1]);
        }
    }
    ck_assert_int_lt(least, 20);
    ck_assert_int_gt(most, 3600 - 33 - 20);
    /* The batch of a step must be the same in any order of steps, and from any batcher. */
    static const int64_t steps[] = {299, 0, 7, 1000000007, 7};
    for (int i = 0; i < 5; i++) {
        mf_batcher_fill(b, steps[i], x);
        mf_batcher_fill(a, 3, y);
        ck_assert(!same(x, y));
        mf_batcher_fill(a, steps[i], y);
        ck_assert(same(x, y));
    }
    s.seed = 43;
    mf_batcher *other = batcher(c, &s);
    mf_batcher_fill(other, 7, x);
    ck_assert(!same(x, y));
    mf_batcher_free(a);
    mf_batcher_free(b);
    mf_batcher_free(other);
    mf_batch_free(x);
    mf_batch_free(y);
    mf_corpus_free(c);
}
END_TEST

/* Every token of the split except the first is predicted exactly once, with the
 * correct context. */
static void check_cover(const mf_corpus *c, int32_t rows, int32_t seq, int32_t context)
{
    mf_batch_spec s = spec_of(MF_TASK_LM, MF_ORDER_SEQUENTIAL, rows, seq);
    s.split = MF_SPLIT_VAL;
    s.context = context;
    mf_batcher *b = batcher(c, &s);
    mf_batch *x;
    ck_assert_int_eq(mf_batch_new(rows, seq, &x), MF_OK);
    const mf_split_range *r = &c->split[MF_SPLIT_VAL];
    int64_t next = r->begin + 1, bytes = 0, count = mf_batcher_count(b);
    for (int64_t step = 0; step < count; step++) {
        mf_batcher_fill(b, step, x);
        check_form(x);
        bytes += x->n_bytes;
        for (int32_t row = 0; row < rows; row++) {
            int32_t seen = 0;
            for (int32_t i = 0; i < seq; i++) {
                int32_t at = row * seq + i;
                if (x->targets[at] < 0) continue;
                ck_assert_int_eq(x->targets[at], mf_corpus_id(c, next));
                ck_assert_int_eq(x->tokens[at], mf_corpus_id(c, next - 1));
                if (c->labels) ck_assert_int_eq(x->labels[at], c->labels[next - 1]);
                if (next - r->begin > context)
                    ck_assert_int_ge(i, next == r->begin + 1 ? 0 : seen == 0 ? context : 0);
                seen++;
                next++;
            }
        }
    }
    ck_assert_int_eq(next, r->end);
    ck_assert_int_eq(bytes, (int64_t)r->bytes - 1);
    mf_batch *y; /* after the last batch the first batch follows */
    ck_assert_int_eq(mf_batch_new(rows, seq, &y), MF_OK);
    mf_batcher_fill(b, count, x);
    mf_batcher_fill(b, 0, y);
    ck_assert(same(x, y));
    mf_batch_free(x);
    mf_batch_free(y);
    mf_batcher_free(b);
}

/* The number of bytes of <unk> is not known, so a batch with such a target has no number
 * of bytes. */
START_TEST(unknown_characters_have_no_bytes)
{
    const char *path = scratch_path("unk.json");
    const mf_tokenizer_options o = {.specials = MF_SPECIAL_BIT(MF_SPECIAL_UNK)};
    mf_tokenizer *t;
    mf_corpus_spec c;
    mf_corpus *corpus;
    mf_batch *x;
    ck_assert_int_eq(mf_tokenizer_train("char", "test", "abc", 3, &o, &t), MF_OK);
    ck_assert_int_eq(mf_tokenizer_save(t, path), MF_OK);
    mf_corpus_defaults(&c);
    c.path = file("unk.txt", "abcabcabxbabcabcabcab");
    c.tokenizer = path;
    c.split = 0.5;
    ck_assert_msg(mf_corpus_load(&c, &corpus) == MF_OK, "%s", mf_error_message());
    mf_batch_spec s = spec_of(MF_TASK_LM, MF_ORDER_SEQUENTIAL, 1, 3);
    mf_batcher *b = batcher(corpus, &s);
    ck_assert_int_eq(mf_batch_new(1, 3, &x), MF_OK);
    /* x is the ninth character of the text, so it is the last target of step 2 */
    for (int64_t step = 0; step < 3; step++) {
        mf_batcher_fill(b, step, x);
        ck_assert_int_eq(x->n_targets, 3);
        ck_assert_int_eq(x->n_bytes, step == 2 ? -1 : 3);
    }
    mf_batch_free(x);
    mf_batcher_free(b);
    mf_corpus_free(corpus);
    mf_tokenizer_free(t);
}
END_TEST

/* The floor of the first n targets equals the floor of the text up to the last of them, in the
 * same windows. */
START_TEST(floor_of_what_was_evaluated)
{
    mf_corpus *c = load("builtin:topics?bytes=6000", MF_TASK_LM, 0.5);
    const mf_topics *topics = c->split[MF_SPLIT_VAL].topics;
    mf_batch_spec s = spec_of(MF_TASK_LM, MF_ORDER_SEQUENTIAL, 4, 32);
    double got, want, all;
    s.split = MF_SPLIT_VAL;
    s.context = 16;
    mf_batcher *b = batcher(c, &s);
    ck_assert_int_eq(mf_batcher_floor(b, 2999, &all), MF_OK);
    ck_assert_int_eq(mf_topics_floor(topics, MF_FLOOR_WINDOW, 3000, 6000, 32, 16, &want),
                     MF_OK);
    ck_assert_double_eq(all, want);
    mf_batch *x; /* two batches: 8 windows; the first window predicts 32 tokens, the
                  * others 16 */
    int64_t n = 0;
    ck_assert_int_eq(mf_batch_new(4, 32, &x), MF_OK);
    for (int64_t step = 0; step < 2; step++) {
        mf_batcher_fill(b, step, x);
        n += x->n_targets;
    }
    ck_assert_int_eq(n, 32 + 7 * 16);
    ck_assert_int_eq(mf_batcher_floor(b, n, &got), MF_OK);
    ck_assert_int_eq(
        mf_topics_floor(topics, MF_FLOOR_WINDOW, 3000, 3000 + 32 + 7 * 16 + 1, 32, 16, &want),
        MF_OK);
    ck_assert_double_eq(got, want);
    ck_assert_double_ne(got, all);
    /* no target, and one target too many */
    for (int64_t wrong = 0; wrong <= 3000; wrong += 3000) {
        ck_assert_int_eq(mf_batcher_floor(b, wrong, &got), MF_OK);
        ck_assert(isnan(got));
    }
    for (long nth = 1;; nth++) {
        fault_alloc(nth, FAULT_ONCE);
        const int rc = mf_batcher_floor(b, n, &got);
        const bool hit = fault_hit();
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        if (!hit) break;
    }
    mf_batcher_free(b);
    s.order = MF_ORDER_RANDOM;
    b = batcher(c, &s);
    ck_assert_int_eq(mf_batcher_floor(b, n, &got), MF_OK);
    ck_assert(isnan(got));
    mf_batcher_free(b);
    mf_batch_free(x);
    mf_corpus_free(c);
}
END_TEST

START_TEST(sequential_windows)
{
    mf_corpus *c = load("builtin:topics?bytes=2003", MF_TASK_LM, 0.5);
    for (int32_t seq = 1; seq < 40; seq += 3)
        for (int32_t context = 0; context < seq; context += 1 + seq / 4)
            for (int32_t rows = 1; rows < 6; rows += 2)
                check_cover(c, rows, seq, context);
    check_cover(c, 2, 2000, 0); /* one short window */
    check_cover(c, 2, 2000, 1500);
    mf_corpus_free(c);
    for (int n = 4; n < 12; n++) { /* tiny splits */
        char text[16] = "abcdefghijkl";
        text[n] = 0;
        c = load(file("tiny.txt", text), MF_TASK_LM, 0.5);
        for (int32_t seq = 1; seq < 8; seq++)
            for (int32_t context = 0; context < seq; context++)
                check_cover(c, 2, seq, context);
        mf_corpus_free(c);
    }
}
END_TEST

/* jsonl: every token of a document except its first is predicted once per epoch, in
 * any order. */
START_TEST(documents)
{
    mf_corpus *c =
        load(file("d.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"cdefghijklm\"}\n"
                             "{\"text\":\"n\"}\n{\"text\":\"opqr\"}\n{\"text\":\"st\"}\n"),
             MF_TASK_LM, 1);
    for (int order = 0; order < 2; order++) {
        mf_batch_spec s = spec_of(MF_TASK_LM, (mf_batch_order)order, 2, 4);
        mf_batcher *b = batcher(c, &s), *again = batcher(c, &s);
        mf_batch *x, *y;
        ck_assert_int_eq(mf_batch_new(2, 4, &x), MF_OK);
        ck_assert_int_eq(mf_batch_new(2, 4, &y), MF_OK);
        ck_assert_int_eq(mf_batcher_count(b), 4); /* 1 + 3 + 1 + 1 + 1 examples, two in
                                                   * a batch */
        int seen[128] = {0};
        /* Epochs of 7 examples begin at examples 0, 7, 14: the first 28 examples are
         * four epochs. */
        int64_t steps = order == 0 ? 14 : 4;
        for (int64_t step = 0; step < steps; step++) {
            mf_batcher_fill(b, step, x);
            check_form(x);
            for (int i = 0; i < 8; i++)
                if (x->targets[i] >= 0) {
                    seen[x->targets[i]]++;
                    ck_assert_int_eq(x->targets[i], x->tokens[i] + 1);
                }
        }
        for (int ch = 'a'; ch <= 't'; ch++) {
            bool first = strchr("acnos", ch) != NULL;
            ck_assert_int_eq(seen[ch], first ? 0 : order == 0 ? 4 : 1);
        }
        /* in reverse order, the batches are the same */
        for (int64_t step = 13; step >= 0; step--) {
            mf_batcher_fill(b, step, x);
            mf_batcher_fill(again, 5, y);
            mf_batcher_fill(again, step, y);
            ck_assert(same(x, y));
        }
        mf_batch_free(x);
        mf_batch_free(y);
        mf_batcher_free(b);
        mf_batcher_free(again);
    }
    mf_corpus_free(c);
}
END_TEST

/* Returns an example as text. <cls> is shown as <, <sep> as |, <mask> as #, <pad> as _. */
static const char *row_text(const mf_corpus *c, const mf_batch *b, int32_t row)
{
    static char text[64];
    const int32_t *special = c->tokenizer->special;
    for (int32_t i = 0; i < b->seq; i++) {
        int32_t id = b->tokens[row * b->seq + i];
        text[i] = id == special[MF_SPECIAL_CLS]    ? '<'
                  : id == special[MF_SPECIAL_SEP]  ? '|'
                  : id == special[MF_SPECIAL_PAD]  ? '_'
                  : id == special[MF_SPECIAL_MASK] ? '#'
                                                   : (char)id;
    }
    text[b->seq] = 0;
    return text;
}

START_TEST(examples)
{
    mf_corpus *c = load(file("p.tsv", "abc\tde\tyes\nabcdefgh\tij\tno\nab\tcdefghij\tyes\n"
                                      "abcdef\tghijkl\tno\n"),
                        MF_TASK_CLASSIFY, 1);
    mf_batch_spec s = spec_of(MF_TASK_CLASSIFY, MF_ORDER_SEQUENTIAL, 5, 10);
    mf_batcher *b = batcher(c, &s);
    mf_batch *x;
    static const char *const rows[] = {"<abc|de|__", "<abcde|ij|", "<ab|cdefg|", "<abcd|ghi|",
                                       "__________"};
    static const int32_t classes[] = {1, 0, 1, 0, -1};
    ck_assert_int_eq(mf_batch_new(5, 10, &x), MF_OK);
    mf_batcher_fill(b, 0, x);
    check_form(x);
    for (int r = 0; r < 5; r++) {
        ck_assert_str_eq(row_text(c, x, r), rows[r]);
        ck_assert_int_eq(x->classes[r], classes[r]);
    }
    ck_assert_int_eq(x->n_targets, 4);
    mf_batch_free(x);
    mf_batcher_free(b);
    /* Every epoch contains every example once, and the order differs between epochs. */
    s.order = MF_ORDER_RANDOM;
    s.rows = 4;
    b = batcher(c, &s);
    ck_assert_int_eq(mf_batch_new(4, 10, &x), MF_OK);
    int first[4] = {0};
    for (int64_t step = 0; step < 200; step++) {
        int seen = 0;
        mf_batcher_fill(b, step, x);
        for (int r = 0; r < 4; r++)
            for (int k = 0; k < 4; k++)
                if (strcmp(row_text(c, x, r), rows[k]) == 0) {
                    seen |= 1 << k;
                    first[k] += r == 0;
                }
        ck_assert_int_eq(seen, 15);
    }
    for (int k = 0; k < 4; k++)
        ck_assert(first[k] > 25 && first[k] < 75);
    mf_batch_free(x);
    mf_batcher_free(b);
    mf_corpus_free(c);

    c = load(file("s.tsv", "abc\t1\nabcdefghijk\t0\n"), MF_TASK_CLASSIFY, 1);
    s = spec_of(MF_TASK_CLASSIFY, MF_ORDER_SEQUENTIAL, 2, 6);
    b = batcher(c, &s);
    ck_assert_int_eq(mf_batch_new(2, 6, &x), MF_OK);
    mf_batcher_fill(b, 0, x);
    ck_assert_str_eq(row_text(c, x, 0), "<abc|_");
    ck_assert_str_eq(row_text(c, x, 1), "<abcd|");
    mf_batch_free(x);
    mf_batcher_free(b);
    mf_corpus_free(c);
}
END_TEST

START_TEST(hidden_tokens)
{
    mf_corpus *c = load("builtin:topics?bytes=20000", MF_TASK_MLM, 0.5);
    mf_batch_spec s = spec_of(MF_TASK_MLM, MF_ORDER_SEQUENTIAL, 4, 50);
    mf_batcher *b = batcher(c, &s);
    mf_batch *x;
    ck_assert_int_eq(mf_batch_new(4, 50, &x), MF_OK);
    double hidden = 0, masked = 0, left = 0, tokens = 0;
    int64_t at = 0;
    ck_assert_int_eq(mf_batcher_count(b), 50);
    for (int64_t step = 0; step < 50; step++) {
        mf_batcher_fill(b, step, x);
        check_form(x);
        for (int i = 0; i < 200; i++, at++) {
            tokens++;
            if (x->targets[i] < 0) {
                ck_assert_int_eq(x->tokens[i], mf_corpus_id(c, at));
                continue;
            }
            ck_assert_int_eq(x->targets[i], mf_corpus_id(c, at));
            hidden++;
            masked += x->tokens[i] == c->tokenizer->special[MF_SPECIAL_MASK];
            left += x->tokens[i] == x->targets[i];
        }
    }
    ck_assert_int_eq(at, 10000);
    ck_assert_double_eq_tol(hidden / tokens, 0.15, 0.015);
    ck_assert_double_eq_tol(masked / hidden, 0.8, 0.05);
    ck_assert_double_eq_tol(left / hidden, 0.1, 0.04);
    mf_batch_free(x);
    mf_batcher_free(b);
    mf_corpus_free(c);

    /* The same for documents: with a share of 1, each token is a target. */
    c = load(file("m.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"cdefg\"}\n"), MF_TASK_MLM, 1);
    s = spec_of(MF_TASK_MLM, MF_ORDER_SEQUENTIAL, 2, 4);
    s.mlm_share = 1;
    b = batcher(c, &s);
    ck_assert_int_eq(mf_batch_new(2, 4, &x), MF_OK);
    static const char *const pieces[] = {"ab", "cdef", "g", ""};
    ck_assert_int_eq(mf_batcher_count(b), 2);
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) mf_batcher_fill(b, i / 2, x);
        const int32_t n = (int32_t)strlen(pieces[i]), *targets = x->targets + i % 2 * 4;
        for (int32_t k = 0; k < 4; k++)
            ck_assert_int_eq(targets[k], k < n ? pieces[i][k] : -1);
    }
    mf_batch_free(x);
    mf_batcher_free(b);
    mf_corpus_free(c);
}
END_TEST

static void refuse_as(const mf_corpus *c, const mf_batch_spec *s, int rc, const char *says)
{
    mf_batcher *b = (mf_batcher *)&b;
    ck_assert_int_eq(mf_batcher_new(c, s, &b), rc);
    ck_assert_ptr_null(b);
    ck_assert_msg(strstr(mf_error_message(), says) != NULL, "%s", mf_error_message());
}

static void refuse(const mf_corpus *c, const mf_batch_spec *s, const char *says)
{
    refuse_as(c, s, MF_ECONFIG, says);
}

START_TEST(refusals)
{
    mf_corpus *c = load(file("r.txt", "0123456789"), MF_TASK_LM, 0.8);
    mf_batch_spec s = spec_of(MF_TASK_LM, MF_ORDER_RANDOM, 2, 8);
    refuse_as(c, &s, MF_EINPUT, "r.txt: the train split has 8 tokens: windows of 8 need 9");
    s.seq = 7;
    mf_batcher_free(batcher(c, &s));
    s.split = MF_SPLIT_TEST;
    refuse(c, &s, "no test split");
    s.split = MF_SPLIT_TRAIN;
    s.task = MF_TASK_CLASSIFY;
    refuse(c, &s, "no classes");
    s.task = MF_TASK_MLM;
    refuse(c, &s, "no <mask>");
    s.task = MF_TASK_LM;
    s.order = MF_ORDER_SEQUENTIAL;
    s.context = 7;
    refuse(c, &s, "expected 0 to 6");
    s.context = 0;
    s.rows = 0;
    refuse(c, &s, "0 rows");
    mf_batch *b;
    ck_assert_int_eq(mf_batch_new(1 << 20, 1 << 20, &b), MF_EINVAL);
    s = spec_of(MF_TASK_LM, MF_ORDER_RANDOM, 2, 8);
    s.stride = 1;
    refuse_as(c, &s, MF_EINPUT, "r.txt: the train split has 8 tokens: windows of 8 need 9");
    c->split[MF_SPLIT_TRAIN].tokens = (INT64_C(1) << 31) + 8;
    refuse(c, &s, "the train split has 2147483648 windows: at most 2147483647");
    mf_corpus_free(c);
    c = load(file("r.txt", "ab"), MF_TASK_LM, 0.5);
    s = spec_of(MF_TASK_LM, MF_ORDER_SEQUENTIAL, 1, 1);
    refuse_as(c, &s, MF_EINPUT, "r.txt: the train split has one token: nothing to predict");
    mf_corpus_free(c);
    c = load("builtin:topics?bytes=100", MF_TASK_MLM, 0.5);
    s = spec_of(MF_TASK_MLM, MF_ORDER_SEQUENTIAL, 1, 1);
    for (s.mlm_share = 0; s.mlm_share < 2; s.mlm_share += 1.5)
        refuse(c, &s, "expected more than 0, at most 1");
    mf_corpus_free(c);
    c = load(file("r.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"cd\"}\n"), MF_TASK_LM, 1);
    s = spec_of(MF_TASK_LM, MF_ORDER_SEQUENTIAL, 1, 1);
    c->spans[0].n = c->spans[1].n = (1 << 30) + 1; /* each document has 2^30 targets */
    refuse(c, &s, "2147483648 documents and pieces: at most 2147483647");
    mf_corpus_free(c);
}
END_TEST

START_TEST(filling_does_not_allocate)
{
    mf_corpus *c =
        load(file("d.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"cdefghijklm\"}\n"), MF_TASK_LM, 1);
    mf_batch_spec s = spec_of(MF_TASK_LM, MF_ORDER_RANDOM, 3, 4);
    for (long nth = 1;; nth++) {
        mf_batcher *b = NULL;
        mf_batch *x = NULL;
        fault_alloc(nth, FAULT_ONCE);
        int rc = mf_batcher_new(c, &s, &b);
        if (rc == MF_OK) rc = mf_batch_new(3, 4, &x);
        bool hit = fault_hit();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        long calls = fault_alloc_calls();
        for (int64_t step = 0; rc == MF_OK && step < 20; step++)
            mf_batcher_fill(b, step, x);
        ck_assert_int_eq(fault_alloc_calls(), calls);
        mf_batcher_free(b);
        mf_batch_free(x);
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        if (!hit) break;
    }
    mf_corpus_free(c);
}
END_TEST

/* Counts the windows of pass `epoch` by their first token. Token i of the corpus has id i. */
static void count_starts(mf_batcher *b, mf_batch *x, int64_t epoch, int *seen, int n)
{
    const int64_t steps = mf_batcher_count(b);
    memset(seen, 0, (size_t)n * sizeof *seen);
    for (int64_t step = 0; step < steps; step++) {
        mf_batcher_fill(b, epoch * steps + step, x);
        check_form(x);
        for (int32_t r = 0; r < x->rows; r++) {
            if (x->mask[r * x->seq] == 0) continue;
            const int begin = x->tokens[r * x->seq];
            ck_assert_int_lt(begin, n);
            seen[begin]++;
            for (int32_t i = 0; i < x->seq; i++)
                ck_assert_int_eq(x->targets[r * x->seq + i], begin + i + 1);
        }
    }
}

static mf_corpus *numbers(int32_t n, double split)
{
    uint8_t bytes[2 * 512];
    for (int32_t i = 0; i < n; i++) {
        bytes[2 * i] = (uint8_t)(i & 255);
        bytes[2 * i + 1] = (uint8_t)(i >> 8);
    }
    const char *path = scratch_path("numbers.bin");
    scratch_write(path, (const char *)bytes, 2 * (size_t)n);
    mf_corpus_spec s;
    mf_corpus *c;
    mf_corpus_defaults(&s);
    s.path = path;
    s.format = "bin";
    s.bin_bits = 16;
    s.split = split;
    ck_assert_msg(mf_corpus_load(&s, &c) == MF_OK, "%s", mf_error_message());
    return c;
}

START_TEST(strided_windows)
{
    mf_corpus *c = numbers(400, 0.75);
    mf_batch_spec s = spec_of(MF_TASK_LM, MF_ORDER_RANDOM, 4, 10);
    mf_batch *x;
    int first[400], second[400];
    s.stride = 1;
    mf_batcher *b = batcher(c, &s);
    ck_assert_int_eq(mf_batch_new(4, 10, &x), MF_OK);
    ck_assert_int_eq(mf_batcher_count(b), (300 - 10) / 4); /* 290 windows; only whole
                                                            * batches count */
    count_starts(b, x, 0, first, 400);
    int n = 0;
    for (int i = 0; i < 400; i++) {
        ck_assert_int_le(first[i], i < 290 ? 1 : 0);
        n += first[i];
    }
    ck_assert_int_eq(n, 288);
    count_starts(b, x, 1, second, 400); /* the second pass has another order */
    mf_batcher_fill(b, 3, x);
    const int32_t at = x->tokens[0];
    mf_batcher_fill(b, 3 + mf_batcher_count(b), x);
    ck_assert_int_ne(at, x->tokens[0]);
    mf_batcher_free(b);
    s.stride = 7;
    b = batcher(c, &s);
    count_starts(b, x, 2, first, 400);
    for (int i = 0; i < 400; i++)
        ck_assert_int_le(first[i], i % 7 == 0 && i < 290 ? 1 : 0);
    mf_batcher_free(b);
    mf_batch_free(x);
    mf_corpus_free(c);
}
END_TEST

START_TEST(dealt_windows)
{
    mf_corpus *c = numbers(400, 0.75);
    mf_batch_spec s = spec_of(MF_TASK_LM, MF_ORDER_RANDOM, 1, 10);
    mf_batch *x, *y;
    mf_batcher *b;
    int train[400], val[400], n = 0;
    s.stride = 1;
    s.deal = 0.75;
    ck_assert_int_eq(mf_batch_new(1, 10, &x), MF_OK);
    ck_assert_int_eq(mf_batch_new(4, 10, &y), MF_OK);
    b = batcher(c, &s);
    ck_assert_int_eq(mf_batcher_count(b), 390 - 97); /* 97: a quarter of 390, rounded down */
    count_starts(b, x, 0, train, 400);
    mf_batcher_free(b);
    s.split = MF_SPLIT_VAL;
    s.order = MF_ORDER_SEQUENTIAL;
    s.rows = 4;
    b = batcher(c, &s);
    ck_assert_int_eq(mf_batcher_count(b), 25);
    count_starts(b, y, 0, val, 400);
    int late = 0;
    for (int i = 0; i < 400; i++) {
        /* each window is in exactly one of the splits */
        ck_assert_int_eq(train[i] + val[i], i < 390 ? 1 : 0);
        n += val[i];
        late += val[i] && i >= 300;
    }
    ck_assert_int_eq(n, 97);
    ck_assert_int_gt(n - late, 20); /* the windows come from all parts of the text */
    ck_assert_int_gt(late, 5);
    mf_batcher_free(b);
    s.deal = 0.9999;
    ck_assert_int_eq(mf_batcher_new(c, &s, &b), MF_ECONFIG);
    mf_batch_free(x);
    mf_batch_free(y);
    mf_corpus_free(c);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("batch");
    TCase *t = tcase_create("batch");
    tcase_add_test(t, random_windows);
    tcase_add_test(t, floor_of_what_was_evaluated);
    tcase_add_test(t, sequential_windows);
    tcase_add_test(t, unknown_characters_have_no_bytes);
    tcase_add_test(t, strided_windows);
    tcase_add_test(t, dealt_windows);
    tcase_add_test(t, documents);
    tcase_add_test(t, examples);
    tcase_add_test(t, hidden_tokens);
    tcase_add_test(t, refusals);
    tcase_add_test(t, filling_does_not_allocate);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
