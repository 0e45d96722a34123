/* topics: the same bytes on every machine; labels, chain and grammar as documented. The entropy
 * floor is compared with sums that are computed in another way. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/topics/topics.h"
#include "data/topics/topics_language.h"
#include "tests/lib/fault.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static mf_topics *make(const char *path)
{
    mf_topics_spec spec;
    mf_topics *t;
    ck_assert_msg(mf_topics_parse(path, &spec) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_topics_make(&spec, &t), MF_OK);
    return t;
}

static bool message_has(const char *part)
{
    return strstr(mf_error_message(), part) != NULL;
}

static void check_hash(const char *path, const char *text, const char *labels)
{
    char hash[33];
    mf_topics *t = make(path);
    mf_hash_bytes(t->text, t->size, hash);
    ck_assert_msg(strcmp(hash, text) == 0, "%s: text %s", path, hash);
    mf_hash_bytes(t->labels, t->size, hash);
    ck_assert_msg(strcmp(hash, labels) == 0, "%s: labels %s", path, hash);
    mf_topics_free(t);
}

/* If these values change, results on builtin:topics are no longer comparable with
 * earlier ones. */
START_TEST(golden)
{
    check_hash("builtin:topics", "d233320f851558c0f479ed3a60f845a3",
               "668e5f8d2b20fe7a57c7dfbfeae2e4f7");
    check_hash(
        "builtin:topics?topics=12&overlap=0.37&stay=0.5&imbalance=0.8&seed=5&bytes=300000",
        "17d5006546656234fd5216b7d61b1c3e", "55875f573c0dad232aea592d51cc89d5");
}
END_TEST

START_TEST(a_prefix_is_a_prefix)
{
    mf_topics *a = make("builtin:topics?bytes=5000"), *b = make("builtin:topics?bytes=12345");
    mf_topics *c = make("builtin:topics?bytes=5000&seed=1"),
              *one = make("builtin:topics?bytes=1");
    ck_assert_int_eq(memcmp(a->text, b->text, 5000), 0);
    ck_assert_int_eq(memcmp(a->labels, b->labels, 5000), 0);
    ck_assert_int_ne(memcmp(a->text, c->text, 5000), 0);
    ck_assert_uint_eq(one->size, 1);
    ck_assert_int_eq(one->text[0], a->text[0]);
    ck_assert_int_eq(a->text[5000], 0);
    mf_topics_free(a);
    mf_topics_free(b);
    mf_topics_free(c);
    mf_topics_free(one);
}
END_TEST

START_TEST(alphabet)
{
    mf_topics *t = make("builtin:topics?topics=64&bytes=400000");
    for (size_t i = 0; i < t->size; i++) {
        char c = t->text[i];
        ck_assert((c >= 'a' && c <= 'z') || c == ' ' || c == '.' || c == '\n');
        ck_assert_int_lt(t->labels[i], 64);
    }
    mf_topics_free(t);
}
END_TEST

START_TEST(a_word_has_one_class)
{
    mf_topics *t = make("builtin:topics?topics=64&bytes=1&overlap=0.5");
    const mf_topics_language *l = t->language;
    for (int32_t i = 0; i < l->n_words; i++) {
        ck_assert_uint_eq(strlen(l->words[i].text), l->words[i].length);
        for (int32_t j = 0; j < i; j++)
            ck_assert_str_ne(l->words[i].text, l->words[j].text);
    }
    for (int32_t z = 0; z < 64; z++) {
        for (int32_t c = 0; c < MF_WORD_CLASSES; c++) {
            uint32_t sum = 0;
            for (int32_t r = 0; r < l->lists[z][c].n; r++) {
                ck_assert_int_eq(l->words[l->lists[z][c].word[r]].class, c);
                sum += l->lists[z][c].weight[r];
            }
            ck_assert_uint_eq(sum, MF_TOPICS_ONE);
        }
        for (int32_t from = 0; from < MF_NODE_END; from++) {
            uint32_t sum = 0, classes = 0;
            for (int32_t to = 0; to < MF_NODES; to++) {
                sum += l->next[z][from][to];
                if (l->next[z][from][to] == 0 || to == MF_NODE_END) continue;
                uint32_t bit = 1u << mf_node_class((mf_topics_node)to);
                ck_assert_uint_eq(classes & bit, 0); /* successors have distinct classes */
                classes |= bit;
            }
            ck_assert_uint_eq(sum, MF_TOPICS_ONE);
        }
    }
    mf_topics_free(t);
}
END_TEST

/* Counts how often the next sentence has the same topic, and how often each topic follows
 * a change. */
typedef struct chain {
    double sentences, stays, starts[MF_TOPICS_MAX];
} chain;

static chain chain_of(const mf_topics *t)
{
    chain c = {0};
    for (size_t i = 0; i < t->size; i++) {
        /* A period and the byte after it end a sentence; the topic changes nowhere else. */
        bool start = i < 2 ? i == 0 : t->text[i - 2] == '.';
        if (!start) ck_assert(i == 0 || t->labels[i] == t->labels[i - 1]);
        if (start && i > 0) {
            c.sentences++;
            c.stays += t->labels[i] == t->labels[i - 1];
            if (t->labels[i] != t->labels[i - 1]) c.starts[t->labels[i]]++;
        }
    }
    return c;
}

START_TEST(topics_stay_and_change)
{
    mf_topics *t = make("builtin:topics?bytes=8M");
    chain c = chain_of(t);
    ck_assert_double_gt(c.sentences, 100000);
    ck_assert_double_eq_tol(c.stays / c.sentences, 0.95, 4 * sqrt(0.95 * 0.05 / c.sentences));
    for (int z = 0; z < 8; z++)
        ck_assert_double_eq_tol(c.starts[z] / (c.sentences - c.stays), 1 / 8.0, 0.02);
    mf_topics_free(t);

    t = make("builtin:topics?bytes=4M&stay=0.5&imbalance=1&topics=4");
    c = chain_of(t);
    ck_assert_double_eq_tol(c.stays / c.sentences, 0.5, 0.01);
    for (int z = 0; z < 3; z++)
        ck_assert_double_gt(c.starts[z], 1.15 * c.starts[z + 1]);
    mf_topics_free(t);

    t = make("builtin:topics?topics=1&stay=0&bytes=100000");
    c = chain_of(t);
    ck_assert_double_eq(c.stays, c.sentences);
    mf_topics_free(t);
}
END_TEST

static double floor_of(const mf_topics *t, mf_topics_floor_kind kind, size_t begin, size_t end,
                       int32_t window, int32_t context)
{
    double nats;
    int rc = mf_topics_floor(t, kind, begin, end, window, context, &nats);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return nats;
}

/* ---- the same values computed from whole sentences, read word by word ---- */

static int32_t find_word(const mf_topics_language *l, const char *text, size_t n)
{
    for (int32_t i = 0; i < l->n_words; i++)
        if (l->words[i].length == n && memcmp(l->words[i].text, text, n) == 0) return i;
    ck_abort_msg("no word %.*s", (int)n, text);
}

static double word_weight(const mf_word_list *list, int32_t word)
{
    for (int32_t r = 0; r < list->n; r++)
        if (list->word[r] == word) return list->weight[r] / 65536.0;
    return 0;
}

/* P(sentence | topic), and the sentence's length with the blank after it; 0 for an
 * incomplete sentence. */
static double sentence_p(const mf_topics *t, size_t at, int32_t topic, size_t *ret_n)
{
    const mf_topics_language *l = t->language;
    const char *text = t->text + at;
    int32_t node = MF_NODE_START;
    double p = 1;
    for (;;) {
        size_t n = strcspn(text, " .");
        if (text[n] == 0) return 0;
        int32_t word = find_word(l, text, n), next = 0;
        for (int32_t to = 1; to < MF_NODE_END; to++)
            if (l->next[0][node][to] > 0 &&
                (int)mf_node_class((mf_topics_node)to) == l->words[word].class)
                next = to;
        ck_assert_int_gt(next, 0);
        p *= l->next[topic][node][next] / 65536.0 *
             word_weight(&l->lists[topic][l->words[word].class], word);
        node = next;
        text += n + 1;
        if (text[-1] == '.') break;
    }
    p *= l->next[topic][node][MF_NODE_END] / 65536.0;
    if (*text == 0) return 0;
    p *= *text == '\n' ? 0.25 : 0.75;
    *ret_n = (size_t)(text + 1 - (t->text + at));
    return p;
}

/* Returns the sum of -ln P over all complete sentences, given their topics if topic_known.
 * *ret_end: the offset at which these sentences end. */
static double nats_by_sentences(const mf_topics *t, bool topic_known, size_t *ret_end)
{
    int32_t k = t->spec.topics;
    double belief[MF_TOPICS_MAX], sum = 0;
    for (int32_t z = 0; z < k; z++)
        belief[z] = t->language->first[z] / 65536.0;
    size_t at = 0, n = 0;
    for (;; at += n) {
        double p[MF_TOPICS_MAX], all = 0;
        for (int32_t z = 0; z < k; z++)
            p[z] = sentence_p(t, at, z, &n);
        if (topic_known)
            all = p[t->labels[at]];
        else
            for (int32_t z = 0; z < k; z++)
                all += belief[z] * p[z];
        if (all == 0) break;
        sum -= log(all);
        double next[MF_TOPICS_MAX] = {0}, stay = t->language->stay / 65536.0;
        for (int32_t z = 0; z < k; z++)
            for (int32_t y = 0; y < k; y++)
                next[y] +=
                    belief[z] * p[z] / all *
                    (y == z ? stay : (1 - stay) * (t->language->change[z * k + y] / 65536.0));
        memcpy(belief, next, sizeof belief);
    }
    *ret_end = at;
    return sum;
}

static void compare_floors(const char *path)
{
    mf_topics *t = make(path);
    size_t end;
    double past = nats_by_sentences(t, false, &end);
    ck_assert_uint_gt(end, t->size - 400);
    double got = floor_of(t, MF_FLOOR_PAST, 0, end, 0, 0) * (double)end;
    ck_assert_msg(fabs(got - past) < 1e-9 * past, "%s: %.12g, by sentences %.12g", path, got,
                  past);
    double topic = nats_by_sentences(t, true, &end);
    got = floor_of(t, MF_FLOOR_TOPIC, 0, end, 0, 0) * (double)end;
    ck_assert_msg(fabs(got - topic) < 1e-9 * topic, "%s: topic %.12g, by sentences %.12g", path,
                  got, topic);
    ck_assert_double_le(topic, past + 1e-9 * past);
    mf_topics_free(t);
}

START_TEST(floors_by_sentences)
{
    compare_floors("builtin:topics?bytes=100000");
    compare_floors("builtin:topics?bytes=100000&overlap=0.5&imbalance=1&stay=0.7&seed=3");
    compare_floors("builtin:topics?bytes=60000&overlap=1");
    compare_floors("builtin:topics?bytes=60000&topics=12&stay=0");
}
END_TEST

/* Checks the floor with known topic by counting: the text is parsed with its true topics, and
 * the plug-in entropy of words, steps and newlines must come within 0.1 % of the floor. */
START_TEST(floor_by_counting)
{
    mf_topics *t = make("builtin:topics?bytes=4M&topics=2");
    const mf_topics_language *l = t->language;
    static double words[2][MF_WORD_CLASSES][512], steps[2][MF_NODES][MF_NODES], newlines[2];
    double nats = 0;
    size_t end = 0;
    for (size_t at = 0; at < t->size;) {
        size_t n = strcspn(t->text + at, ".");
        if (at + n + 2 > t->size) break;
        int32_t z = t->labels[at], node = MF_NODE_START;
        for (size_t i = at; i < at + n;) {
            size_t length = strcspn(t->text + i, " .");
            int32_t word = find_word(l, t->text + i, length), class = l->words[word].class,
                    next = 0;
            for (int32_t to = 1; to < MF_NODE_END; to++)
                if (l->next[0][node][to] > 0 && (int)mf_node_class((mf_topics_node)to) == class)
                    next = to;
            words[z][class][word]++;
            steps[z][node][next]++;
            node = next;
            i += length + 1;
        }
        steps[z][node][MF_NODE_END]++;
        newlines[t->text[at + n + 1] == '\n']++;
        at += n + 2;
        end = at;
    }
    for (int z = 0; z < 2; z++) {
        for (int c = 0; c < MF_WORD_CLASSES; c++) {
            double sum = 0;
            for (int w = 0; w < 512; w++)
                sum += words[z][c][w];
            for (int w = 0; w < 512; w++)
                if (words[z][c][w] > 0) nats -= words[z][c][w] * log(words[z][c][w] / sum);
        }
        for (int from = 0; from < MF_NODE_END; from++) {
            double sum = 0;
            for (int to = 0; to < MF_NODES; to++)
                sum += steps[z][from][to];
            for (int to = 0; to < MF_NODES; to++)
                if (steps[z][from][to] > 0)
                    nats -= steps[z][from][to] * log(steps[z][from][to] / sum);
        }
    }
    for (int i = 0; i < 2; i++)
        nats -= newlines[i] * log(newlines[i] / (newlines[0] + newlines[1]));
    double floor = floor_of(t, MF_FLOOR_TOPIC, 0, end, 0, 0);
    ck_assert_double_eq_tol(nats / (double)end, floor, 0.001 * floor);
    mf_topics_free(t);
}
END_TEST

/* The floors of parts add up, and the floor of windows is between its bounds. */
START_TEST(floors_of_parts_and_windows)
{
    mf_topics *t = make("builtin:topics?bytes=200000&stay=0"); /* stay=0: topics change often */
    double all = floor_of(t, MF_FLOOR_PAST, 0, 200000, 0, 0);
    double head = floor_of(t, MF_FLOOR_PAST, 0, 77777, 0, 0);
    double tail = floor_of(t, MF_FLOOR_PAST, 77777, 200000, 0, 0);
    ck_assert_double_eq_tol(head * 77777 + tail * 122223, all * 200000, 1e-6);

    double w32 = floor_of(t, MF_FLOOR_WINDOW, 100000, 200000, 32, 0);
    double w128 = floor_of(t, MF_FLOOR_WINDOW, 100000, 200000, 128, 0);
    double with_context = floor_of(t, MF_FLOOR_WINDOW, 100000, 200000, 128, 64);
    double past = floor_of(t, MF_FLOOR_PAST, 100001, 200000, 0, 0);
    ck_assert_double_gt(w32, w128);
    ck_assert_double_gt(w128, with_context);
    ck_assert_double_gt(with_context, past - 1e-3);
    ck_assert_double_lt(with_context, past + 1e-3);
    /* One predictor knows only letter frequencies; a second predictor also sees the
     * previous byte. */
    double letters = 0, pairs = 0, count[128] = {0}, pair[128][128] = {{0}};
    for (size_t i = 1; i < t->size; i++) {
        count[(int)t->text[i]]++;
        pair[(int)t->text[i - 1]][(int)t->text[i]]++;
    }
    for (int a = 0; a < 128; a++) {
        double row = 0;
        letters -= count[a] > 0 ? count[a] * log(count[a] / 199999) : 0;
        for (int b = 0; b < 128; b++)
            row += pair[a][b];
        for (int b = 0; b < 128; b++)
            pairs -= pair[a][b] > 0 ? pair[a][b] * log(pair[a][b] / row) : 0;
    }
    double w1 = floor_of(t, MF_FLOOR_WINDOW, 0, 200000, 1, 0);
    ck_assert_double_lt(w1, letters / 199999);
    /* The floor of windows with one prediction is the conditional entropy given one byte. */
    ck_assert_double_eq_tol(w1, pairs / 199999, 0.004);
    mf_topics_free(t);
}
END_TEST

/* A negative control: if topics are not visible in the text, knowing them does not lower
 * the floor. */
START_TEST(overlap_hides_topics)
{
    mf_topics *t = make("builtin:topics?overlap=1&bytes=100000");
    double past = floor_of(t, MF_FLOOR_PAST, 0, 100000, 0, 0);
    double topic = floor_of(t, MF_FLOOR_TOPIC, 0, 100000, 0, 0);
    ck_assert_double_eq_tol(past, topic, 1e-9);
    mf_topics_free(t);
    t = make("builtin:topics?bytes=100000");
    past = floor_of(t, MF_FLOOR_PAST, 0, 100000, 0, 0);
    topic = floor_of(t, MF_FLOOR_TOPIC, 0, 100000, 0, 0);
    ck_assert_double_gt(past - topic, 0.003);
    mf_topics_free(t);
}
END_TEST

START_TEST(specs)
{
    mf_topics_spec s;
    ck_assert(mf_topics_is("builtin:topics") && mf_topics_is("builtin:topics?seed=1"));
    ck_assert(!mf_topics_is("builtin:topicsx") && !mf_topics_is("topics"));
    ck_assert_int_eq(mf_topics_parse("builtin:topics?topics=3&overlap=.25&stay=1&bytes=2k", &s),
                     MF_OK);
    ck_assert(s.topics == 3 && s.overlap == 0.25 && s.stay == 1 && s.bytes == 2000 &&
              s.seed == 0);
    static const struct {
        const char *path, *says;
    } bad[] = {
        {"builtin:topics?topics=0", "1 to 64"},
        {"builtin:topics?topics=65", "1 to 64"},
        {"builtin:topics?topics=2.5", "whole"},
        {"builtin:topics?overlap=1.5", "0 to 1"},
        {"builtin:topics?stay=-1", "0 to 1"},
        {"builtin:topics?stay=x", "number"},
        {"builtin:topics?bytes=0", "bytes"},
        {"builtin:topics?bytes=2G", "bytes"},
        {"builtin:topics?seed=-1", "seed"},
        {"builtin:topics?seeds=1", "did you mean seed"},
        {"builtin:topics?seed", "KEY=VALUE"},
        {"builtin:topics?=1", "KEY=VALUE"},
        {"builtin:topics?", "KEY=VALUE"},
        {"builtin:topic", "builtin:topics?KEY"},
        {"builtin:topics?seed=1&", "KEY=VALUE"},
        {"builtin:topics?imbalance=nan", "number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(mf_topics_parse(bad[i].path, &s) == MF_ECONFIG, "%s", bad[i].path);
        ck_assert_msg(message_has(bad[i].says), "%s: %s", bad[i].path, mf_error_message());
    }
    char name[MF_TOPICS_NAME];
    ck_assert_str_eq(mf_topics_name(0, name), "sea");
    ck_assert_str_eq(mf_topics_name(63, name), "topic 63");
}
END_TEST

START_TEST(bad_floors)
{
    static const struct {
        mf_topics_floor_kind kind;
        size_t begin, end;
        int32_t window, context;
        const char *says;
    } bad[] = {
        {MF_FLOOR_PAST, 0, 1001, 0, 0, "floor of bytes 0 to 1001 of 1000"},
        {MF_FLOOR_PAST, 7, 7, 0, 0, "floor of bytes 7 to 7 of 1000"},
        {MF_FLOOR_WINDOW, 0, 9, 0, 0, "floor of windows of 0 with context 0 on 9 bytes"},
        {MF_FLOOR_WINDOW, 0, 9, 4, -1, "windows of 4 with context -1"},
        {MF_FLOOR_WINDOW, 0, 9, 4, 4, "windows of 4 with context 4"},
        {MF_FLOOR_WINDOW, 8, 9, 4, 0, "on 1 bytes"},
        /* for the text as changed below: an empty sentence, a period without a blank */
        {MF_FLOOR_PAST, 0, 9, 0, 0, "byte 0 (0x2e) cannot follow in this language"},
        {MF_FLOOR_WINDOW, 0, 9, 4, 0, "byte 1 (0x"},
    };
    mf_topics *t = make("builtin:topics?bytes=1000");
    double nats;
    t->text[0] = '.';
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(mf_topics_floor(t, bad[i].kind, bad[i].begin, bad[i].end,
                                         bad[i].window, bad[i].context, &nats),
                         MF_EINVAL);
        ck_assert_msg(message_has(bad[i].says), "%s", mf_error_message());
    }
    mf_topics_free(t);
}
END_TEST

START_TEST(memory_fails)
{
    mf_topics_spec s;
    mf_topics_defaults(&s);
    s.bytes = 1000;
    for (long nth = 1;; nth++) {
        mf_topics *t;
        double nats;
        fault_alloc(nth, FAULT_ONCE);
        int rc = mf_topics_make(&s, &t);
        if (rc == MF_OK) rc = mf_topics_floor(t, MF_FLOOR_WINDOW, 0, 1000, 16, 0, &nats);
        bool hit = fault_hit();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        mf_topics_free(t);
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        if (!hit) break;
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("topics");
    TCase *t = tcase_create("topics");
    tcase_add_test(t, golden);
    tcase_add_test(t, a_prefix_is_a_prefix);
    tcase_add_test(t, alphabet);
    tcase_add_test(t, a_word_has_one_class);
    tcase_add_test(t, topics_stay_and_change);
    tcase_add_test(t, floors_by_sentences);
    tcase_add_test(t, floor_by_counting);
    tcase_add_test(t, floors_of_parts_and_windows);
    tcase_add_test(t, overlap_hides_topics);
    tcase_add_test(t, specs);
    tcase_add_test(t, bad_floors);
    tcase_add_test(t, memory_fails);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
