/* Which document a token is of. A document of a corpus of documents may be cut into several
 * examples, which follow one another. In a stream, the token that ends a document belongs to
 * it. A stream without such tokens has no documents: each window is a cluster. */
#include "lab/probe/probe_parts.h"

/* Positions of one example of a stream, from window to window. */
static void take_stream(mf_probe_texts *t, const mf_batch *b, int64_t from, int32_t *cluster)
{
    for (int64_t i = from; i < from + b->seq; i++) {
        cluster[i] = (int32_t)t->n - 1;
        if (b->targets[i] >= 0 && b->targets[i] == t->end) t->n++;
    }
}

void mf_probe_texts_take(mf_probe_texts *t, int64_t number, const mf_batch *b, int32_t *cluster)
{
    const bool stream = mf_batcher_document(t->batcher, number, 0) == MF_BATCH_STREAM;
    const bool gap = t->n == 0 || number != t->batch + 1;
    t->batch = number;
    if (stream && !t->windows && gap) t->n++;
    for (int32_t row = 0; row < b->rows; row++) {
        const int64_t from = (int64_t)row * b->seq;
        if (stream && !t->windows) {
            take_stream(t, b, from, cluster);
            continue;
        }
        const int64_t document = mf_batcher_document(t->batcher, number, row);
        if (stream || t->n == 0 || document != t->document) t->n++;
        t->document = document;
        for (int64_t i = 0; i < (t->by_row ? 1 : b->seq); i++)
            cluster[t->by_row ? row : from + i] = (int32_t)t->n - 1;
    }
}
