/* data/batch.c: batches of windows, of pieces of documents, and of examples. A batch depends
 * only on the corpus, the specification and the step. Therefore resuming a run needs no
 * other state. */
#include "data/batch.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/batch_pack.h"

#include <math.h>
#include <string.h>

/* The part of a document that one example contains: tokens begin .. begin+n-1 of the corpus.
 * For lm the last of these tokens is only a target. span: index of the document in the spans of
 * the corpus. */
typedef struct piece {
    int64_t begin;
    int32_t n;
    int32_t span;
} piece;

struct mf_batcher {
    const mf_corpus *c;
    mf_batch_spec spec;
    mf_split_range range;
    int64_t items;      /* number of windows, pieces or examples in one pass over the split */
    int64_t count;      /* number of batches in one pass over the split */
    piece *pieces;      /* NULL for a stream */
    mf_packing packing; /* packing of the pieces into examples if spec.packed; rows 0:
                         * no packing */
    int32_t *dealt;     /* [items] the windows that deal_windows gave to this split; NULL
                         * without deal */
    /* permutation of pieces or windows in epoch `epoch`. NULL: they follow the order of the
     * corpus, or windows are drawn anywhere. */
    int32_t *order;
    int64_t epoch;
    int64_t touched; /* bytes of mapped files that may have pages in memory */
    /* [vocab] bytes of text of each id; NULL: unknown */
    int32_t *piece_bytes;
    uint64_t windows, shuffle, hide, deal; /* random streams */
    int32_t pad, unk, cls, sep, mask_id;   /* special ids; if the tokenizer has no such token,
                                            * pad is 0 and the others are -1 */
};

void mf_batch_defaults(mf_batch_spec *ret)
{
    *ret = (mf_batch_spec){.mlm_share = 0.15, .rows = 1, .seq = 1, .document_end = -1};
}

/* ---- construction ---- */

static int check_spec(const mf_corpus *c, const mf_batch_spec *s)
{
    const char *split = mf_split_name(s->split);
    if ((unsigned)s->split >= MF_SPLITS || c->split[s->split].tokens == 0)
        return mf_fail(MF_ECONFIG, "the corpus has no %s split", split);
    if (s->rows < 1 || s->seq < 1 || (int64_t)s->rows * s->seq > INT32_MAX)
        return mf_fail(MF_ECONFIG, "batches of %d rows of %d tokens", (int)s->rows,
                       (int)s->seq);
    if (s->packed && s->task != MF_TASK_LM)
        return mf_fail(MF_ECONFIG, "data.packing: expected model.task = lm");
    if (s->packed && !c->spans && s->document_end < 0)
        return mf_fail(MF_ECONFIG,
                       "data.packing: nothing says where documents of a stream end: expected "
                       "data.document_end, or a tokenizer with <eos>");
    if (s->context < 0 || s->context >= s->seq)
        return mf_fail(MF_ECONFIG, "context of %d tokens in windows of %d: expected 0 to %d",
                       (int)s->context, (int)s->seq, (int)s->seq - 1);
    if (s->task == MF_TASK_CLASSIFY && (!c->spans || c->n_classes == 0))
        return mf_fail(MF_ECONFIG,
                       "task classify: the data have no classes: expected tsv, or jsonl "
                       "with \"label\"");
    if (s->task == MF_TASK_REGRESS && (!c->spans || !c->numbers))
        return mf_fail(MF_ECONFIG,
                       "task regress: the data have no numbers: expected tsv, or jsonl "
                       "with \"label\"");
    if (s->task == MF_TASK_MLM && (!c->tokenizer || c->tokenizer->special[MF_SPECIAL_MASK] < 0))
        return mf_fail(MF_ECONFIG, "task mlm: the tokenizer has no <mask>");
    if (s->task == MF_TASK_MLM && !(s->mlm_share > 0 && s->mlm_share <= 1))
        return mf_fail(MF_ECONFIG, "share of hidden tokens %g: expected more than 0, at most 1",
                       s->mlm_share);
    return MF_OK;
}

/* Whether a token may be a target. */
static bool counts(const mf_batcher *b, int64_t token)
{
    return !b->c->counted || b->c->counted[token];
}

/* Number of tokens that a window needs beyond its inputs. A language model needs one more
 * token, the target of its last input. */
static int32_t ahead(const mf_batcher *b)
{
    return b->spec.task == MF_TASK_LM;
}

static int permute(mf_batcher *b, int64_t n, int32_t **ret)
{
    if (n > INT32_MAX)
        return mf_fail(MF_ECONFIG, "the %s split has %lld windows: at most %d",
                       mf_split_name(b->spec.split), (long long)n, INT32_MAX);
    *ret = mf_alloc((size_t)n, sizeof **ret);
    return *ret != NULL ? MF_OK : MF_ENOMEM;
}

/* Distributes the windows to train and val: val gets the first windows of a permutation. */
static int deal_windows(mf_batcher *b, int64_t n)
{
    int32_t *all = NULL;
    const int64_t val = (int64_t)((1 - b->spec.deal) * (double)n);
    const bool train = b->spec.split == MF_SPLIT_TRAIN;
    if (val < 1 || val >= n || (b->spec.split != MF_SPLIT_VAL && !train))
        return mf_fail(MF_ECONFIG, "%lld windows dealt by %g: none is left for a split",
                       (long long)n, b->spec.deal);
    b->items = train ? n - val : val;
    int rc = permute(b, n, &all);
    if (rc == MF_OK) rc = permute(b, b->items, &b->dealt);
    if (rc == MF_OK) {
        mf_rng_permutation(b->spec.seed, b->deal, 0, all, (size_t)n);
        memcpy(b->dealt, all + (train ? val : 0), (size_t)b->items * sizeof *all);
    }
    mf_free(all);
    return rc;
}

/* Returns the status for a split with too little text. A file is bad input, but the size of the
 * generated corpus is a setting. */
static int too_little(const mf_batcher *b)
{
    return b->range.topics ? MF_ECONFIG : MF_EINPUT;
}

/* Counts the windows that begin at every stride-th token, and prepares their order. */
static int list_windows(mf_batcher *b)
{
    const mf_split_range *r = b->c->split;
    if (b->spec.deal > 0) {
        b->range.begin = r[MF_SPLIT_TRAIN].begin;
        b->range.end = r[MF_SPLIT_VAL].end;
        b->range.tokens = r[MF_SPLIT_TRAIN].tokens + r[MF_SPLIT_VAL].tokens;
    }
    const int64_t room = b->range.tokens - b->spec.seq - ahead(b);
    if (room < 0)
        return mf_fail(too_little(b), "the %s split has %lld tokens: windows of %lld need %lld",
                       mf_split_name(b->spec.split), (long long)b->range.tokens,
                       (long long)b->spec.seq, (long long)(b->spec.seq + ahead(b)));
    b->items = room / b->spec.stride + 1;
    int rc = b->spec.deal > 0 ? deal_windows(b, b->items) : MF_OK;
    if (rc == MF_OK && b->spec.order == MF_ORDER_RANDOM && !b->spec.epochs) {
        rc = permute(b, b->items, &b->order);
        b->epoch = -1;
    }
    return rc;
}

static int count_windows(mf_batcher *b)
{
    int64_t n = b->range.tokens, seq = b->spec.seq, context = b->spec.context;
    bool lm = b->spec.task == MF_TASK_LM;
    if (b->spec.stride > 0 && (b->spec.order == MF_ORDER_RANDOM || b->spec.deal > 0))
        return list_windows(b);
    if (b->spec.order == MF_ORDER_RANDOM) {
        if (n < seq + ahead(b))
            return mf_fail(too_little(b),
                           "the %s split has %lld tokens: windows of %lld need %lld",
                           mf_split_name(b->spec.split), (long long)n, (long long)seq,
                           (long long)(seq + ahead(b)));
        b->items = (n - ahead(b) + seq - 1) / seq;
        return MF_OK;
    }
    if (lm && n < 2)
        return mf_fail(too_little(b), "the %s split has one token: nothing to predict",
                       mf_split_name(b->spec.split));
    b->items = (n + seq - 1) / seq;
    if (lm) /* every window except the first predicts at least one token after its context */
        b->items = n - 2 < context ? 1 : 1 + (n - 2 - context) / (seq - context);
    return MF_OK;
}

/* Number of pieces of a document. A piece has at most seq tokens (lm: targets). An example of
 * classify or regress is one piece of any length. */
static int64_t pieces_of(const mf_batcher *b, const mf_span *span)
{
    int64_t n = span->n - ahead(b);
    if (mf_task_by_row(b->spec.task) || n <= b->spec.seq) return 1;
    return (n + b->spec.seq - 1) / b->spec.seq;
}

/* Removes pieces in which no target counts. */
static int drop_idle(mf_batcher *b)
{
    int64_t n = 0;
    for (int64_t i = 0; i < b->items; i++) {
        bool any = false;
        for (int32_t j = 1; j < b->pieces[i].n && !any; j++)
            any = counts(b, b->pieces[i].begin + j);
        if (any) b->pieces[n++] = b->pieces[i];
    }
    b->items = n;
    return n > 0 ? MF_OK
                 : mf_fail(too_little(b), "the %s split has no answer to learn from",
                           mf_split_name(b->spec.split));
}

/* Packs the pieces into examples, and prepares the order of the examples. */
static int pack(mf_batcher *b)
{
    int64_t n = 0;
    int32_t *length = mf_alloc((size_t)b->items + 1, sizeof *length);
    if (!length) return MF_ENOMEM;
    for (int64_t i = 0; i < b->items; i++)
        if (b->pieces[i].n > 1) {
            b->pieces[n] = b->pieces[i];
            length[n++] = b->pieces[i].n - 1;
        }
    int rc = n > 0 ? mf_packing_new(length, n, b->spec.seq, b->spec.seed, &b->packing)
                   : mf_fail(too_little(b), "the %s split has no document of two tokens",
                             mf_split_name(b->spec.split));
    mf_free(length);
    b->items = b->packing.rows;
    return rc;
}

static int list_pieces(mf_batcher *b)
{
    int64_t n = 0;
    for (int64_t i = b->range.begin; i < b->range.end; i++)
        n += pieces_of(b, &b->c->spans[i]);
    if (n > INT32_MAX)
        return mf_fail(MF_ECONFIG, "%lld documents and pieces: at most %d", (long long)n,
                       INT32_MAX);
    b->items = n;
    b->pieces = mf_alloc((size_t)n, sizeof *b->pieces);
    if (!b->pieces) return MF_ENOMEM;
    piece *p = b->pieces;
    for (int64_t i = b->range.begin; i < b->range.end; i++) {
        const mf_span *span = &b->c->spans[i];
        int64_t parts = pieces_of(b, span);
        for (int64_t j = 0; j < parts; j++, p++) {
            int64_t from = j * b->spec.seq, left = span->n - from,
                    most = (int64_t)b->spec.seq + ahead(b);
            *p = (piece){span->begin + from, (int32_t)(parts > 1 && left > most ? most : left),
                         (int32_t)i};
        }
    }
    if (b->c->counted && b->spec.task == MF_TASK_LM) {
        const int rc = drop_idle(b);
        if (rc != MF_OK) return rc;
    }
    if (b->spec.packed) {
        const int rc = pack(b);
        if (rc != MF_OK) return rc;
    }
    if (b->spec.order == MF_ORDER_RANDOM) {
        b->order = mf_alloc((size_t)b->items, sizeof *b->order);
        b->epoch = -1;
    }
    return b->spec.order == MF_ORDER_RANDOM && !b->order ? MF_ENOMEM : MF_OK;
}

static int measure_pieces(mf_batcher *b)
{
    const mf_tokenizer *t = b->c->tokenizer;
    if (!t || (!t->lossless && !t->normal)) return MF_OK;
    b->piece_bytes = mf_alloc((size_t)t->vocab, sizeof *b->piece_bytes);
    if (!b->piece_bytes) return MF_ENOMEM;
    for (int32_t i = 0; i < t->vocab; i++) {
        size_t n;
        mf_tokenizer_piece(t, i, &n);
        b->piece_bytes[i] = (int32_t)n;
    }
    return MF_OK;
}

int mf_batcher_new(const mf_corpus *c, const mf_batch_spec *spec, mf_batcher **ret)
{
    *ret = NULL;
    int rc = check_spec(c, spec);
    if (rc != MF_OK) return rc;
    mf_batcher *b = mf_alloc(1, sizeof *b);
    if (!b) return MF_ENOMEM;
    b->c = c;
    b->spec = *spec;
    if (spec->epochs && spec->stride == 0 && spec->order == MF_ORDER_RANDOM)
        b->spec.stride = spec->seq;
    b->range = c->split[spec->split];
    b->windows = mf_rng_stream("data.window");
    b->shuffle = mf_rng_stream("data.shuffle");
    b->hide = mf_rng_stream("data.hide");
    b->deal = mf_rng_stream("data.deal");
    const int32_t *special = c->tokenizer ? c->tokenizer->special : NULL;
    b->pad = special && special[MF_SPECIAL_PAD] >= 0 ? special[MF_SPECIAL_PAD] : 0;
    b->unk = special ? special[MF_SPECIAL_UNK] : -1;
    b->cls = special ? special[MF_SPECIAL_CLS] : -1;
    b->sep = special ? special[MF_SPECIAL_SEP] : -1;
    b->mask_id = special ? special[MF_SPECIAL_MASK] : -1;
    rc = c->spans ? list_pieces(b) : count_windows(b);
    if (rc == MF_OK) rc = measure_pieces(b);
    if (rc != MF_OK) {
        const char *file = c->file[spec->split];
        mf_batcher_free(b);
        return rc == MF_EINPUT && file ? mf_fail_context(rc, "%s", file) : rc;
    }
    b->count = (b->items + spec->rows - 1) / spec->rows;
    if (!b->pieces && b->order && b->items >= spec->rows)
        b->count = b->items / spec->rows; /* whole batches only */
    *ret = b;
    return MF_OK;
}

void mf_batcher_free(mf_batcher *b)
{
    if (!b) return;
    mf_free(b->pieces);
    mf_packing_free(&b->packing);
    mf_free(b->dealt);
    mf_free(b->order);
    mf_free(b->piece_bytes);
    mf_free(b);
}

int64_t mf_batcher_count(const mf_batcher *b)
{
    return b->count;
}

int mf_batcher_floor(const mf_batcher *b, int64_t n, double *ret)
{
    const mf_batch_spec *s = &b->spec;
    *ret = NAN;
    if (s->task != MF_TASK_LM || s->order != MF_ORDER_SEQUENTIAL || b->dealt || n < 1)
        return MF_OK;
    return mf_corpus_floor(b->c, s->split, MF_FLOOR_WINDOW, n + 1, s->seq, s->context, ret);
}

/* ---- filling ---- */

static void put_token(const mf_batcher *b, mf_batch *out, int64_t at, int64_t token)
{
    out->tokens[at] = mf_corpus_id(b->c, token);
    const int32_t label = b->c->labels ? b->c->labels[token] : MF_NO_LABEL;
    out->labels[at] = label == MF_NO_LABEL ? -1 : label;
    out->mask[at] = 1;
    out->n_tokens++;
}

static void put_special(mf_batch *out, int64_t at, int32_t id)
{
    out->tokens[at] = id;
    out->mask[at] = 1;
    out->n_tokens++;
}

static void put_target(const mf_batcher *b, mf_batch *out, int64_t at, int32_t id)
{
    out->targets[at] = id;
    out->n_targets++;
    if (b->piece_bytes && out->n_bytes >= 0)
        out->n_bytes = id == b->unk ? -1 : out->n_bytes + b->piece_bytes[id];
}

/* Fills an example from position `at` on. The inputs are tokens begin .. begin+n-1, and the
 * target of each input is the token after it. The first `skip` positions have no target. */
static void fill_lm_at(const mf_batcher *b, mf_batch *out, int64_t at, int64_t begin, int64_t n,
                       int64_t skip)
{
    for (int64_t i = 0; i < n; i++) {
        put_token(b, out, at + i, begin + i);
        if (i >= skip && counts(b, begin + i + 1))
            put_target(b, out, at + i, mf_corpus_id(b->c, begin + i + 1));
    }
}

static void fill_lm(const mf_batcher *b, mf_batch *out, int32_t row, int64_t begin, int64_t n,
                    int64_t skip)
{
    fill_lm_at(b, out, (int64_t)row * out->seq, begin, n, skip);
}

/* Records a document that begins at position `from` of an example and ends before
 * position `to`. */
static void begin_document(mf_batch *out, int32_t row, int32_t from, int32_t to)
{
    const int64_t at = (int64_t)row * out->seq;
    for (int32_t i = from; i < to; i++) {
        out->positions[at + i] = i - from;
        out->since[at + i] = from;
    }
}

/* Cuts an example of a stream after each token that ends a document. */
static void cut_documents(const mf_batcher *b, mf_batch *out, int32_t row)
{
    const int32_t end = b->spec.document_end;
    const int64_t at = (int64_t)row * out->seq;
    int32_t from = 0;
    for (int32_t i = 0; i < out->seq && out->mask[at + i] != 0; i++) {
        if (out->tokens[at + i] != end) continue;
        begin_document(out, row, from, i + 1);
        from = i + 1;
        if (out->targets[at + i] < 0) continue;
        if (b->piece_bytes && out->n_bytes >= 0)
            out->n_bytes -= b->piece_bytes[out->targets[at + i]];
        out->targets[at + i] = -1;
        out->n_targets--;
    }
    begin_document(out, row, from, out->seq);
}

/* Returns the optimizer step of a batch. The random numbers of an example depend on this
 * step and on the example's number in the step, not on the micro-batches into which the step
 * is cut. */
static uint64_t step_of(const mf_batcher *b, int64_t batch)
{
    return (uint64_t)(b->spec.parts > 1 ? batch / b->spec.parts : batch);
}

static int64_t example_of(const mf_batcher *b, int64_t batch, int32_t row)
{
    return b->spec.parts > 1 ? batch % b->spec.parts * b->spec.rows + row : row;
}

/* Fills an example with tokens begin .. begin+n-1, and masks a share of them. */
static void fill_mlm(const mf_batcher *b, mf_batch *out, int64_t step, int32_t row,
                     int64_t begin, int64_t n)
{
    const int64_t at = (int64_t)row * out->seq,
                  drawn =
                      example_of(b, step, row) * (b->spec.parts > 1 ? b->spec.seq : out->seq);
    uint32_t share = (uint32_t)(b->spec.mlm_share * 4294967295.0);
    for (int64_t i = 0; i < n; i++) {
        uint32_t r[4];
        mf_rng_block(b->spec.seed, b->hide, step_of(b, step), (uint64_t)(drawn + i), r);
        put_token(b, out, at + i, begin + i);
        if (r[0] > share) continue;
        put_target(b, out, at + i, mf_corpus_id(b->c, begin + i));
        uint32_t tenth = (uint32_t)((uint64_t)r[1] * 10 >> 32);
        if (tenth < 8)
            out->tokens[at + i] = b->mask_id;
        else if (tenth == 8)
            out->tokens[at + i] =
                (int32_t)((uint64_t)r[2] * (uint64_t)b->c->tokenizer->pieces >> 32);
    }
}

/* Shortens a pair of a and b tokens to `room` tokens: first the longer sentence, then both. */
static void cut_pair(int32_t room, int32_t *a, int32_t *b)
{
    int32_t over = *a + *b - room;
    if (over <= 0) return;
    int32_t *longer = *a > *b ? a : b, difference = *a > *b ? *a - *b : *b - *a;
    int32_t cut = over < difference ? over : difference;
    *longer -= cut;
    over -= cut;
    *b -= (over + 1) / 2;
    *a -= over / 2;
}

/* Number of special tokens in an example; 0 if seq tokens leave no space for text. */
static int32_t specials_of(const mf_batcher *b, const mf_span *span, int32_t seq)
{
    const int32_t n = (b->cls >= 0) + (b->sep >= 0) * (span->n > span->first ? 2 : 1);
    return n < seq ? n : 0; /* if special tokens and text do not both fit, the text is kept */
}

static void fill_example(const mf_batcher *b, mf_batch *out, int32_t row, const mf_span *span)
{
    int32_t first = span->first, second = span->n - span->first;
    const int32_t specials = specials_of(b, span, out->seq);
    cut_pair(out->seq - specials, &first, &second);
    int64_t at = (int64_t)row * out->seq;
    if (specials > 0 && b->cls >= 0) put_special(out, at++, b->cls);
    for (int32_t i = 0; i < first; i++)
        put_token(b, out, at++, span->begin + i);
    if (specials > 0 && b->sep >= 0) put_special(out, at++, b->sep);
    for (int32_t i = 0; i < second; i++)
        put_token(b, out, at++, span->begin + span->first + i);
    if (specials > 0 && b->sep >= 0 && span->n > span->first) put_special(out, at++, b->sep);
    out->classes[row] = span->label;
    out->values[row] = span->value;
    for (int k = 0; k < b->c->n_more; k++) {
        const mf_corpus_answers *a = &b->c->more[k];
        if (a->number)
            out->more_values[k][row] = a->value[span - b->c->spans];
        else
            out->more_classes[k][row] = a->label[span - b->c->spans];
    }
    out->n_targets++;
}

static void clear(const mf_batcher *b, mf_batch *out)
{
    int64_t n = (int64_t)out->rows * out->seq;
    for (int64_t i = 0; i < n; i++) {
        out->tokens[i] = b->pad;
        out->targets[i] = -1;
        out->labels[i] = -1;
        out->mask[i] = 0;
        out->positions[i] = (int32_t)(i % out->seq);
        out->sequence[i] = (int32_t)(i / out->seq);
        out->since[i] = 0;
    }
    for (int32_t row = 0; row < out->rows; row++) {
        out->classes[row] = -1;
        out->values[row] = NAN;
        for (int k = 0; k < b->c->n_more; k++) {
            out->more_classes[k][row] = -1;
            out->more_values[k][row] = NAN;
        }
    }
    out->n_targets = out->n_tokens = out->n_bytes = 0;
}

/* Whether windows of a stream come in the order of mf_rng_shuffled. */
static bool by_epochs(const mf_batcher *b)
{
    return b->spec.epochs && b->spec.order == MF_ORDER_RANDOM && !b->pieces;
}

/* The item at index `place` of the epoch's permutation. */
static int64_t shuffled(mf_batcher *b, int64_t place, int64_t epoch)
{
    if (epoch != b->epoch) {
        mf_rng_permutation(b->spec.seed, b->shuffle, (uint64_t)epoch, b->order,
                           (size_t)b->items);
        b->epoch = epoch;
    }
    return b->order[place];
}

/* Returns the window of example `row` in this step, if list_windows counted the windows.
 * Returns -1 after the last window. */
static int64_t listed_window(mf_batcher *b, int64_t step, int32_t row)
{
    int64_t place = step % b->count * b->spec.rows + row;
    if (by_epochs(b)) {
        const int64_t n = step * b->spec.rows + row;
        place = (int64_t)mf_rng_shuffled(b->spec.seed, b->shuffle, (uint64_t)(n / b->items),
                                         (uint64_t)b->items, (uint64_t)(n % b->items));
    } else if (b->order)
        place = shuffled(b, place % b->items, step / b->count);
    else if (place >= b->items)
        return -1;
    return b->dealt ? b->dealt[place] : place;
}

static void fill_window(mf_batcher *b, int64_t step, int32_t row, mf_batch *out)
{
    int64_t seq = b->spec.seq, context = b->spec.context, end = b->range.end, begin, skip = 0;
    if (b->order || b->dealt || by_epochs(b)) {
        const int64_t window = listed_window(b, step, row);
        if (window < 0) return;
        begin = b->range.begin + window * b->spec.stride;
    } else if (b->spec.order == MF_ORDER_RANDOM) {
        uint64_t starts = (uint64_t)(b->range.tokens - seq - ahead(b) + 1);
        begin =
            b->range.begin + (int64_t)mf_rng_below(b->spec.seed, b->windows, step_of(b, step),
                                                   (uint64_t)example_of(b, step, row), starts);
    } else {
        int64_t window = step * b->spec.rows + row;
        if (window >= b->items) return;
        if (b->spec.task != MF_TASK_LM) context = 0;
        begin = b->range.begin + window * (seq - context);
        skip = window > 0 ? context : 0;
    }
    int64_t left = end - begin - ahead(b), n = left < seq ? left : seq;
    if (b->spec.task == MF_TASK_LM) fill_lm(b, out, row, begin, n, skip);
    if (b->spec.packed) cut_documents(b, out, row);
    if (b->spec.task != MF_TASK_LM) fill_mlm(b, out, step, row, begin, n);
}

static const piece *piece_at(mf_batcher *b, int64_t place)
{
    if (!b->order) return place < b->items ? &b->pieces[place] : NULL;
    return &b->pieces[shuffled(b, place % b->items, place / b->items)];
}

/* Fills an example with the documents that are packed in it. */
static void fill_packed(mf_batcher *b, int64_t step, int32_t row, mf_batch *out)
{
    const int64_t place = step * b->spec.rows + row;
    if (!b->order && place >= b->items) return;
    const int64_t example = b->order ? shuffled(b, place % b->items, place / b->items) : place;
    int32_t at = 0;
    for (int64_t i = b->packing.begin[example]; i < b->packing.begin[example + 1]; i++) {
        const piece *p = &b->pieces[b->packing.item[i]];
        fill_lm_at(b, out, (int64_t)row * out->seq + at, p->begin, p->n - 1, 0);
        begin_document(out, row, at, at + p->n - 1);
        at += p->n - 1;
    }
    begin_document(out, row, at, out->seq);
}

static void fill_piece(mf_batcher *b, int64_t step, int32_t row, mf_batch *out)
{
    if (b->packing.rows > 0) {
        fill_packed(b, step, row, out);
        return;
    }
    const piece *p = piece_at(b, step * b->spec.rows + row);
    if (!p) return;
    if (mf_task_by_row(b->spec.task))
        fill_example(b, out, row, &b->c->spans[p->span]);
    else if (b->spec.task == MF_TASK_LM)
        fill_lm(b, out, row, p->begin, p->n - 1, 0);
    else
        fill_mlm(b, out, step, row, p->begin, p->n);
    for (int32_t i = 0; b->spec.pad_counts && i < out->seq; i++)
        out->mask[(int64_t)row * out->seq + i] = 1;
}

static int32_t longest(void *self, int64_t step)
{
    mf_batcher *b = self;
    int32_t longest = 1;
    if (!b->pieces || b->packing.rows > 0) return b->spec.seq;
    if (b->spec.order == MF_ORDER_SEQUENTIAL) step %= b->count;
    for (int32_t row = 0; row < b->spec.rows; row++) {
        const piece *p = piece_at(b, step * b->spec.rows + row);
        if (!p) continue;
        int32_t n = p->n - ahead(b);
        if (mf_task_by_row(b->spec.task))
            n += specials_of(b, &b->c->spans[p->span], b->spec.seq);
        if (n > longest) longest = n;
    }
    return longest < b->spec.seq ? longest : b->spec.seq;
}

/* Releases pages of mapped files before there are too many. For each page that a window reads,
 * the system also maps the pages around it. */
static void release(mf_batcher *b, const mf_batch *out)
{
    enum { AROUND = 1 << 16, MOST = 32 << 20 };
    b->touched += (int64_t)out->rows * (AROUND + 4 * out->seq);
    if (b->touched < MOST) return;
    b->touched = 0;
    mf_id_parts_release(&b->c->stored);
}

void mf_batcher_fill(mf_batcher *b, int64_t step, mf_batch *out)
{
    if (b->spec.order == MF_ORDER_SEQUENTIAL) step %= b->count;
    clear(b, out);
    for (int32_t row = 0; row < out->rows; row++) {
        if (!b->pieces)
            fill_window(b, step, row, out);
        else
            fill_piece(b, step, row, out);
    }
    mf_batch_segments(out, b->sep);
    release(b, out);
}

int64_t mf_batcher_document(const mf_batcher *b, int64_t step, int32_t row)
{
    if (!b->pieces) return MF_BATCH_STREAM;
    const int64_t place =
        (b->spec.order == MF_ORDER_SEQUENTIAL ? step % b->count : step) * b->spec.rows + row;
    if (place >= b->items) return -1;
    const int64_t at = b->packing.rows > 0 ? b->packing.item[b->packing.begin[place]] : place;
    return b->pieces[at].span;
}

static void fill(void *self, int64_t number, mf_batch *out)
{
    mf_batcher_fill(self, number, out);
}

mf_batch_source mf_batcher_source(mf_batcher *b)
{
    return b ? (mf_batch_source){b, fill, longest} : (mf_batch_source){0};
}
