/* train/batch.c: allocates batches, and copies them into a graph. A graph has only those inputs
 * that its nodes read. */
#include "train/batch.h"
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"

int mf_batch_new(int32_t rows, int32_t seq, mf_batch **ret)
{
    *ret = NULL;
    if (rows < 1 || seq < 1 || (int64_t)rows * seq > INT32_MAX)
        return mf_fail(MF_EINVAL, "a batch of %d rows of %d tokens", (int)rows, (int)seq);
    /* Each array of rows * seq elements begins on a cache line. */
    size_t n = ((size_t)rows * (size_t)seq + 15) / 16 * 16;
    size_t head = (sizeof(mf_batch) + 63) / 64 * 64;
    char *block = mf_alloc(head + n * 8 * 4 + (size_t)rows * 4 * 2 * (1 + MF_TASKS_MAX), 1);
    if (!block) return MF_ENOMEM;
    mf_batch *b = (mf_batch *)(void *)block;
    int32_t *at = (int32_t *)(void *)(block + head);
    *b = (mf_batch){.rows = rows, .seq = seq};
    b->tokens = at;
    b->targets = at + n;
    b->positions = at + 2 * n;
    b->sequence = at + 3 * n;
    b->labels = at + 4 * n;
    b->mask = (float *)(void *)(at + 5 * n);
    b->segments = at + 6 * n;
    b->since = at + 7 * n;
    at += 8 * n;
    b->classes = at;
    b->values = (float *)(void *)(at += rows);
    for (int k = 0; k < MF_TASKS_MAX; k++) {
        b->more_classes[k] = at += rows;
        b->more_values[k] = (float *)(void *)(at += rows);
    }
    *ret = b;
    return MF_OK;
}

void mf_batch_free(mf_batch *b)
{
    mf_free(b);
}

void mf_batch_segments(mf_batch *b, int32_t separator)
{
    for (int64_t i = 0; i < (int64_t)b->rows * b->seq; i++) {
        const bool first = i % b->seq == 0, real = b->mask[i] != 0;
        const bool ended = !first && separator >= 0 && b->tokens[i - 1] == separator;
        b->segments[i] = first || !real ? 0 : b->segments[i - 1] + ended;
    }
}

static void copy(mf_tensor *to, const void *from, int64_t n)
{
    void *data = to ? mf_tensor_input(to) : NULL;
    if (data) memcpy(data, from, (size_t)n * 4);
}

static void feed_numbers(const float *from, int32_t rows, const mf_model_task *t)
{
    float *value = mf_tensor_input(t->values), *counted = mf_tensor_input(t->counted);
    for (int32_t i = 0; value && counted && i < rows; i++) {
        counted[i] = isnan(from[i]) ? 0.0f : 1.0f;
        value[i] = isnan(from[i]) ? 0.0f : from[i];
    }
}

void mf_batch_feed(const mf_batch *b, mf_model_graph *mg)
{
    const int64_t n = (int64_t)b->rows * b->seq;
    copy(mg->tokens, b->tokens, n);
    copy(mg->positions, b->positions, n);
    copy(mg->sequence_ids, b->sequence, n);
    copy(mg->segments, b->segments, n);
    copy(mg->since, b->since, n);
    if (!mg->by_row) copy(mg->targets, b->targets, n);
    for (int i = 0; i < mg->n_tasks; i++) {
        const mf_model_task *t = &mg->tasks[i];
        copy(t->targets, i == 0 ? b->classes : b->more_classes[i - 1], b->rows);
        if (t->values) feed_numbers(i == 0 ? b->values : b->more_values[i - 1], b->rows, t);
    }
    copy(mg->mask, b->mask, n);
    copy(mg->labels, b->labels, n);
    if (mg->shape.given) mg->shape.given->fill(mg->shape.given->self, b, mg);
}

static double weight_of_positions(const mf_batch *b, bool masked)
{
    double sum = 0;
    for (int64_t i = 0; i < (int64_t)b->rows * b->seq; i++)
        if (b->targets[i] >= 0) sum += masked ? (double)b->mask[i] : 1;
    return sum;
}

static double weight_of_examples(const mf_batch *b, int task, bool classify)
{
    const int32_t *class = task == 0 ? b->classes : b->more_classes[task - 1];
    const float *value = task == 0 ? b->values : b->more_values[task - 1];
    double n = 0;
    for (int32_t i = 0; i < b->rows; i++)
        n += classify ? class[i] >= 0 : !isnan(value[i]);
    return n;
}

double mf_batch_weight(const mf_batch *b, const mf_model *m, bool masked, int task)
{
    if (mf_model_tasks(m) == 0) return weight_of_positions(b, masked);
    return weight_of_examples(b, task, mf_model_task_kind(m, task) == MF_TASK_CLASSIFY);
}
