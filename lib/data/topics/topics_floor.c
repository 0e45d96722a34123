/* data/topics/topics_floor.c: the loss per byte of a predictor that knows the language, by
 * exact filtering. Byte by byte, the generator is a hidden Markov chain with the states
 *     (topic, node, prefix)  the word after `node` is incomplete, `prefix` of it is written;
 *     (topic, DOT)           the period is written.
 * A period, a blank or a complete word fixes class and node, so few states are possible at any
 * time: one per topic once the node is known. The forward algorithm over the possible states
 * computes P(byte | bytes before) exactly. Prefixes are nodes of a trie over all words. */
#include "base/error.h"
#include "base/mem.h"
#include "data/topics/topics.h"
#include "data/topics/topics_language.h"

#include <math.h>
#include <string.h>

enum { LETTERS = 26, DOT = MF_NODES, ROOT = 0 };
#define ONE ((double)MF_TOPICS_ONE)

typedef struct trie_node {
    int32_t child[LETTERS];
    int32_t word; /* the word that ends here, -1: none */
} trie_node;

typedef struct state {
    int32_t topic, node, prefix;
    double p;
} state;

typedef struct filter {
    const mf_topics *t;
    const mf_topics_language *l;
    mf_topics_floor_kind kind;
    trie_node *trie;
    int32_t n_trie;
    /* [topics][MF_WORD_CLASSES][n_trie] probability that a word of this topic and class has
     * this prefix */
    double *mass;
    double *change; /* [topics][topics] probability of the next topic */
    state *start;   /* every state with its weight at the start of a window: see build_start */
    int32_t n_start;
    state *now, *then; /* possible states before and after a byte */
    int32_t n_now;
} filter;

static double *mass_at(const filter *f, int32_t topic, int32_t class, int32_t prefix)
{
    return f->mass + ((size_t)topic * MF_WORD_CLASSES + (size_t) class) * (size_t)f->n_trie +
           prefix;
}

static int build_trie(filter *f)
{
    const mf_topics_language *l = f->l;
    size_t letters = 1;
    for (int32_t i = 0; i < l->n_words; i++)
        letters += l->words[i].length;
    f->trie = mf_alloc(letters, sizeof *f->trie);
    if (!f->trie) return MF_ENOMEM;
    f->n_trie = 1;
    f->trie[ROOT].word = -1;
    for (int32_t i = 0; i < l->n_words; i++) {
        int32_t at = ROOT;
        for (int32_t j = 0; j < l->words[i].length; j++) {
            int32_t *child = &f->trie[at].child[l->words[i].text[j] - 'a'];
            if (*child == 0) {
                *child = f->n_trie;
                f->trie[f->n_trie++].word = -1;
            }
            at = *child;
        }
        f->trie[at].word = i;
    }
    f->mass =
        mf_alloc((size_t)l->topics * MF_WORD_CLASSES * (size_t)f->n_trie, sizeof *f->mass);
    for (int32_t z = 0; f->mass && z < l->topics; z++)
        for (int32_t c = 0; c < MF_WORD_CLASSES; c++) {
            const mf_word_list *list = &l->lists[z][c];
            for (int32_t r = 0; r < list->n; r++) {
                const mf_word *w = &l->words[list->word[r]];
                int32_t at = ROOT;
                for (int32_t j = 0; j <= w->length; j++) {
                    *mass_at(f, z, c, at) += list->weight[r] / ONE;
                    if (j < w->length) at = f->trie[at].child[w->text[j] - 'a'];
                }
            }
        }
    return f->mass ? MF_OK : MF_ENOMEM;
}

static double next_part(const filter *f, int32_t topic, int32_t from, int32_t to)
{
    return f->l->next[topic][from][to] / ONE;
}

/* Probability that the walk continues from `node` and that the next word has the
 * prefix `prefix`. */
static double through(const filter *f, int32_t topic, int32_t node, int32_t prefix)
{
    double sum = 0;
    for (int32_t to = MF_NODE_START + 1; to < MF_NODE_END; to++)
        if (f->l->next[topic][node][to] > 0)
            sum += next_part(f, topic, node, to) *
                   *mass_at(f, topic, (int32_t)mf_node_class((mf_topics_node)to), prefix);
    return sum;
}

static void fill_change(filter *f)
{
    const mf_topics_language *l = f->l;
    int32_t k = l->topics;
    for (int32_t z = 0; z < k; z++)
        for (int32_t y = 0; y < k; y++)
            f->change[z * k + y] =
                z == y ? l->stay / ONE : (ONE - l->stay) / ONE * (l->change[z * k + y] / ONE);
}

/* Computes the share of sentences of each topic in a long text. The iteration averages the
 * chain with the identity. The shares stay the same, and the iteration converges for every
 * value of stay. With stay = 1 the shares are those of the first sentence. */
static void shares_of_topics(const filter *f, double *share)
{
    int32_t k = f->l->topics;
    for (int32_t z = 0; z < k; z++)
        share[z] = f->l->first[z] / ONE;
    for (int32_t turn = 0; turn < 20000; turn++) {
        double next[MF_TOPICS_MAX], moved = 0;
        for (int32_t y = 0; y < k; y++) {
            next[y] = 0.5 * share[y];
            for (int32_t z = 0; z < k; z++)
                next[y] += 0.5 * share[z] * f->change[z * k + y];
        }
        for (int32_t y = 0; y < k; y++) {
            moved += fabs(next[y] - share[y]);
            share[y] = next[y];
        }
        if (moved < 1e-15) break;
    }
}

static void add_start(filter *f, int32_t topic, int32_t node, int32_t prefix, double p)
{
    if (p > 0) f->start[f->n_start++] = (state){topic, node, prefix, p};
}

/* Lists every state with its weight: the expected number of bytes of a sentence after which the
 * generator is in that state. */
static int build_start(filter *f)
{
    int32_t k = f->l->topics;
    f->start = mf_alloc((size_t)k * (MF_NODES + 1) * (size_t)f->n_trie, sizeof *f->start);
    if (!f->start) return MF_ENOMEM;
    double share[MF_TOPICS_MAX];
    shares_of_topics(f, share);
    for (int32_t z = 0; z < k; z++) {
        double visits[MF_NODES] = {[MF_NODE_START] = 1};
        for (double moved = 1; moved > 1e-15;) { /* conjunctions connect nodes in a loop */
            moved = 0;
            for (int32_t to = MF_NODE_START + 1; to < MF_NODE_END; to++) {
                double sum = 0;
                for (int32_t from = 0; from < MF_NODE_END; from++)
                    sum += visits[from] * next_part(f, z, from, to);
                moved += fabs(sum - visits[to]);
                visits[to] = sum;
            }
        }
        for (int32_t node = 0; node < MF_NODE_END; node++)
            for (int32_t t = 0; t < f->n_trie; t++)
                add_start(f, z, node, t, share[z] * visits[node] * through(f, z, node, t));
        add_start(f, z, DOT, ROOT, share[z]);
    }
    return MF_OK;
}

/* Whether the text before this state ends with the byte. Before the first word of a sentence
 * the byte may also be a newline. */
static bool ends_with(const filter *f, const state *s, const char *letters, char byte)
{
    (void)f;
    if (s->node == DOT) return byte == '.';
    if (s->prefix == ROOT) return byte == ' ' || (byte == '\n' && s->node == MF_NODE_START);
    return letters[s->prefix] == byte;
}

/* Makes one possible state for each (topic, node) whose weight in the table sum is positive. */
static void gather(filter *f, const double *sum, int32_t nodes)
{
    f->n_now = 0;
    for (int32_t z = 0; z < f->l->topics; z++)
        for (int32_t node = 0; node < nodes; node++)
            if (sum[z * nodes + node] > 0)
                f->now[f->n_now++] = (state){z, node, ROOT, sum[z * nodes + node]};
}

/* Processes the blank or newline after a period. The next sentence may have another topic.
 * blank: probability of this byte. next_label: topic of the next sentence, which only
 * MF_FLOOR_TOPIC uses. */
static void change_topic(filter *f, double blank, int32_t next_label)
{
    int32_t k = f->l->topics;
    double sum[MF_TOPICS_MAX] = {0};
    for (int32_t i = 0; i < f->n_now; i++) {
        if (f->now[i].node != DOT) continue;
        if (f->kind == MF_FLOOR_TOPIC)
            sum[next_label] += f->now[i].p * blank;
        else
            for (int32_t y = 0; y < k; y++)
                sum[y] += f->now[i].p * blank * f->change[f->now[i].topic * k + y];
    }
    gather(f, sum, 1);
}

/* Processes a blank or a period after a complete word. */
static void end_word(filter *f, bool period)
{
    double sum[MF_TOPICS_MAX][MF_NODES] = {{0}};
    double dots[MF_TOPICS_MAX] = {0};
    for (int32_t i = 0; i < f->n_now; i++) {
        const state *s = &f->now[i];
        int32_t word = s->node != DOT && s->prefix != ROOT ? f->trie[s->prefix].word : -1;
        if (word < 0) continue;
        int32_t class = f->l->words[word].class;
        double whole = *mass_at(f, s->topic, class, s->prefix);
        for (int32_t j = 0; j < LETTERS; j++)
            if (f->trie[s->prefix].child[j] != 0)
                whole -= *mass_at(f, s->topic, class, f->trie[s->prefix].child[j]);
        if (whole <= 0) continue;
        for (int32_t to = MF_NODE_START + 1; to < MF_NODE_END; to++) {
            if ((int32_t)mf_node_class((mf_topics_node)to) != class ||
                f->l->next[s->topic][s->node][to] == 0)
                continue;
            double p = s->p * next_part(f, s->topic, s->node, to) * whole /
                       through(f, s->topic, s->node, s->prefix);
            double end = next_part(f, s->topic, to, MF_NODE_END);
            if (period)
                dots[s->topic] += p * end;
            else
                sum[s->topic][to] += p * (1 - end);
        }
    }
    if (!period) {
        gather(f, &sum[0][0], MF_NODES);
        return;
    }
    gather(f, dots, 1);
    for (int32_t i = 0; i < f->n_now; i++)
        f->now[i].node = DOT;
}

static void spell(filter *f, char letter)
{
    int32_t n = 0;
    for (int32_t i = 0; i < f->n_now; i++) {
        const state *s = &f->now[i];
        int32_t child = s->node == DOT ? 0 : f->trie[s->prefix].child[letter - 'a'];
        if (child == 0) continue;
        double p = s->p * through(f, s->topic, s->node, child) /
                   through(f, s->topic, s->node, s->prefix);
        if (p > 0) f->then[n++] = (state){s->topic, s->node, child, p};
    }
    state *swap = f->now;
    f->now = f->then;
    f->then = swap;
    f->n_now = n;
}

/* Processes the byte at `at` and returns its probability. Afterwards the weights of the
 * possible states sum to 1. */
static double take(filter *f, size_t at)
{
    const mf_topics *t = f->t;
    char byte = t->text[at];
    bool dot = f->n_now > 0 && f->now[0].node == DOT; /* if one state is DOT, all are */
    if (byte >= 'a' && byte <= 'z') {
        spell(f, byte);
    } else if (dot) {
        double newline = MF_TOPICS_NEWLINE / ONE;
        int32_t next = at + 1 < t->size ? t->labels[at + 1] : t->labels[at];
        change_topic(f, byte == '\n' ? newline : 1 - newline, next);
    } else {
        end_word(f, byte == '.');
    }
    double sum = 0;
    for (int32_t i = 0; i < f->n_now; i++)
        sum += f->now[i].p;
    for (int32_t i = 0; i < f->n_now && sum > 0; i++)
        f->now[i].p /= sum;
    return sum;
}

/* Begins a window: only the byte at `at` is known. */
static void open_window(filter *f, const char *letters, size_t at)
{
    double sum = 0;
    f->n_now = 0;
    for (int32_t i = 0; i < f->n_start; i++)
        if (ends_with(f, &f->start[i], letters, f->t->text[at])) {
            f->now[f->n_now++] = f->start[i];
            sum += f->start[i].p;
        }
    for (int32_t i = 0; i < f->n_now; i++)
        f->now[i].p /= sum;
}

static void open_text(filter *f)
{
    f->n_now = 0;
    for (int32_t z = 0; z < f->l->topics; z++) {
        double p = f->l->first[z] / ONE;
        if (f->kind == MF_FLOOR_TOPIC) p = z == f->t->labels[0];
        if (p > 0) f->now[f->n_now++] = (state){z, MF_NODE_START, ROOT, p};
    }
}

/* A sum of logarithms that multiplies many factors before it takes one logarithm. */
typedef struct log_sum {
    double factors, sum;
} log_sum;

static void log_add(log_sum *s, double p)
{
    s->factors *= p;
    if (s->factors < 1e-200) {
        s->sum += log(s->factors);
        s->factors = 1;
    }
}

static int impossible(const filter *f, size_t at)
{
    return mf_fail(MF_EINVAL, "%s: byte %zu (0x%02x) cannot follow in this language",
                   MF_TOPICS_PREFIX, at, (unsigned char)f->t->text[at]);
}

static int floor_of_text(filter *f, size_t begin, size_t end, double *ret)
{
    log_sum s = {1, 0};
    open_text(f);
    for (size_t at = 0; at < end; at++) {
        double p = take(f, at);
        if (!(p > 0)) return impossible(f, at);
        if (at >= begin) log_add(&s, p);
    }
    *ret = -(s.sum + log(s.factors)) / (double)(end - begin);
    return MF_OK;
}

static int floor_of_windows(filter *f, const char *letters, size_t begin, size_t end,
                            size_t window, size_t context, double *ret)
{
    log_sum s = {1, 0};
    for (size_t from = begin; from + 1 < end; from += window - context) {
        size_t skip = from == begin ? 0 : context;
        if (from + 1 + skip >= end) break;
        open_window(f, letters, from);
        for (size_t i = 1; i <= window && from + i < end; i++) {
            double p = take(f, from + i);
            if (!(p > 0)) return impossible(f, from + i);
            if (i > skip) log_add(&s, p);
        }
    }
    *ret = -(s.sum + log(s.factors)) / (double)(end - begin - 1);
    return MF_OK;
}

static void close_filter(filter *f)
{
    mf_free(f->trie);
    mf_free(f->mass);
    mf_free(f->change);
    mf_free(f->start);
    mf_free(f->now);
    mf_free(f->then);
}

static int run(filter *f, size_t begin, size_t end, int32_t window, int32_t context,
               double *ret)
{
    int32_t k = f->l->topics;
    f->change = mf_alloc((size_t)k * (size_t)k, sizeof *f->change);
    if (!f->change || build_trie(f) != MF_OK) return MF_ENOMEM;
    fill_change(f);
    bool windows = f->kind == MF_FLOOR_WINDOW;
    if (windows && build_start(f) != MF_OK) return MF_ENOMEM;
    size_t room = (size_t)f->n_start + (size_t)k * MF_NODES;
    f->now = mf_alloc(room, sizeof *f->now);
    f->then = mf_alloc(room, sizeof *f->then);
    char *letters = mf_alloc((size_t)f->n_trie, 1); /* last letter of each prefix */
    if (!f->now || !f->then || !letters) {
        mf_free(letters);
        return MF_ENOMEM;
    }
    for (int32_t t = 0; t < f->n_trie; t++)
        for (int32_t j = 0; j < LETTERS; j++)
            if (f->trie[t].child[j] != 0) letters[f->trie[t].child[j]] = (char)('a' + j);
    int rc =
        windows ? floor_of_windows(f, letters, begin, end, (size_t)window, (size_t)context, ret)
                : floor_of_text(f, begin, end, ret);
    mf_free(letters);
    return rc;
}

int mf_topics_floor(const mf_topics *t, mf_topics_floor_kind kind, size_t begin, size_t end,
                    int32_t window, int32_t context, double *ret_nats_per_byte)
{
    if (end > t->size || begin >= end)
        return mf_fail(MF_EINVAL, "%s: floor of bytes %zu to %zu of %zu", MF_TOPICS_PREFIX,
                       begin, end, t->size);
    if (kind == MF_FLOOR_WINDOW &&
        (window < 1 || context < 0 || context >= window || end - begin < 2))
        return mf_fail(MF_EINVAL, "%s: floor of windows of %d with context %d on %zu bytes",
                       MF_TOPICS_PREFIX, (int)window, (int)context, end - begin);
    filter f = {.t = t, .l = t->language, .kind = kind};
    int rc = run(&f, begin, end, window, context, ret_nats_per_byte);
    close_filter(&f);
    return rc;
}
