/* pretrained/quantize/weights.c: quantizes the weights of a model, block after block.
 *
 * With GPTQ the inputs of a block are the outputs of the blocks before it, after those were
 * quantized. The H of each weight is summed over the batches of the calibration; for an expert,
 * over the tokens that chose it. Weights with the same inputs share one H. */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "pretrained/quantize/quantize_parts.h"
#include "pretrained/weights/types.h"
#include "pretrained/weights/values.h"

/* The sum of x x^T for the inputs of one weight, or of one expert. */
typedef struct hessian {
    const mf_param *param;
    int64_t group, in, rows;
    double *h; /* [in,in], the lower half; NULL after it was inverted */
    mf_gptq_inputs inputs;
    int state; /* 0: sums; 1: inverted; -1: no inverse exists, or there are no rows */
} hessian;

typedef struct calibration {
    mf_quantize_work *w;
    mf_model_graph *mg;
    mf_batcher *batcher;
    mf_batch *batch;
    hessian *hessians; /* sums of the present block */
    int64_t n, room;
} calibration;

/* ---- which weights ---- */

static bool in_block(const mf_place *p, int64_t layer)
{
    char prefix[32];
    const int n = snprintf(prefix, sizeof prefix, "layers.%lld.", (long long)layer);
    return p->param && strncmp(p->param->name, prefix, (size_t)n) == 0;
}

/* Whether the place is a matrix of a block in plain form, but not of a router. is_possible says
 * whether the new layout can store it. */
static bool is_candidate(const mf_place *p)
{
    return p->param && p->form == MF_FORM_PLAIN && p->shape_rank == 2 &&
           strncmp(p->param->name, "layers.", 7) == 0 && !strstr(p->param->name, ".router");
}
static bool is_possible(const mf_place *p, const mf_st_tensor *t)
{
    const size_t n = strlen(t->name);
    return !p->other && !p->tied && !(p->rule->flags & MF_RULE_TRANSPOSED) &&
           p->shape[0] % 8 == 0 && p->shape[1] % 8 == 0 && n > 7 &&
           strcmp(t->name + n - 7, ".weight") == 0;
}

/* Returns the expert to which a place belongs; 0 for other weights. */
static int64_t group_of(const mf_place *p)
{
    const mf_shape s = p->param->shape;
    return s.rank == 3 ? p->base / (s.dim[1] * s.dim[2]) : 0;
}

/* ---- calibration ---- */

static int add_hessian(calibration *c, const mf_param *param, int64_t group, int64_t in)
{
    for (int64_t i = 0; i < c->n; i++)
        if (c->hessians[i].param == param && c->hessians[i].group == group) return MF_OK;
    double *h = mf_alloc((size_t)(in * in), sizeof *h);
    if (!h) return MF_ENOMEM;
    c->hessians[c->n++] = (hessian){.param = param, .group = group, .in = in, .h = h};
    return MF_OK;
}

static void drop_hessians(calibration *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        mf_free(c->hessians[i].h);
        mf_gptq_inputs_free(&c->hessians[i].inputs);
    }
    c->n = 0;
}

typedef struct sums {
    hessian *of;
    const float *x;
    int64_t rows;
} sums;

static void sum_row(void *arg, int64_t i)
{
    const sums *s = arg;
    const int64_t n = s->of->in;
    double *h = s->of->h + i * n;
    for (int64_t r = 0; r < s->rows; r++) {
        const float *x = s->x + r * n;
        const double own = (double)x[i];
        for (int64_t j = 0; own != 0 && j <= i; j++)
            h[j] += own * (double)x[j];
    }
}

/* Adds the inputs of one node to the sums of its weight. */
static int add_inputs(calibration *c, const mf_node *node, const mf_param *param)
{
    const float *x = NULL;
    const int32_t *offset = NULL;
    for (int64_t i = 0; i < c->n; i++) {
        hessian *h = &c->hessians[i];
        if (h->param != param) continue;
        if (!x) x = mf_tensor_host(node->in[0]);
        const bool grouped = param->shape.rank == 3;
        if (grouped && !offset) offset = mf_tensor_host(node->in[2]);
        if (!x || (grouped && !offset)) return mf_error_code() ? mf_error_code() : MF_ENOMEM;
        const int64_t from = grouped ? offset[h->group] : 0,
                      end = grouped ? offset[h->group + 1]
                                    : mf_shape_count(node->in[0]->shape) / h->in;
        sums s = {.of = h, .x = x + from * h->in, .rows = end - from};
        mf_parallel(h->in, sum_row, &s);
        h->rows += end - from;
    }
    return MF_OK;
}

static int run_batch(calibration *c, int64_t index)
{
    const mf_run run = {.seed = (uint64_t)c->w->before->config->train.seed,
                        .step = (uint64_t)index,
                        .forward_only = true};
    mf_batcher_fill(c->batcher, index, c->batch);
    mf_batch_feed(c->batch, c->mg);
    int rc = mf_graph_run(c->mg->g, &run);
    for (int i = 0; rc == MF_OK && i < mf_graph_nodes(c->mg->g); i++) {
        const mf_node *node = mf_graph_node_at(c->mg->g, i);
        const mf_param *param = mf_node_weight(node);
        if (param && !node->dead && node->in[0]->dtype == MF_F32)
            rc = add_inputs(c, node, param);
    }
    return rc;
}

static int calibrate_block(calibration *c, int64_t layer)
{
    const mf_record *r = c->w->x.record;
    int rc = MF_OK;
    drop_hessians(c);
    for (int64_t i = 0; rc == MF_OK && i < r->n; i++) {
        const mf_place *p = &r->ledger.places[i];
        if (is_candidate(p) && in_block(p, layer) && is_possible(p, r->tensors[i]))
            rc = add_hessian(c, p->param, group_of(p), p->shape[1]);
    }
    for (int64_t b = 0; rc == MF_OK && b < c->w->options->calibrate; b++)
        rc = run_batch(c, b);
    return rc;
}

static int open_calibration(calibration *c)
{
    mf_quantize_work *w = c->w;
    c->hessians = mf_alloc((size_t)w->x.record->n + 1, sizeof *c->hessians);
    if (!c->hessians) return MF_ENOMEM;
    if (w->options->calibrate == 0) return MF_OK;
    const mf_config *conf = w->before->config;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = (int32_t)conf->train.batch,
                                  .seq = (int32_t)conf->model.seq,
                                  .masked = true,
                                  .want_inputs = true};
    mf_batch_spec spec;
    mf_session_batch_spec(w->before, MF_SPLIT_TRAIN, &spec);
    int rc = mf_batcher_new(w->before->corpus, &spec, &c->batcher);
    if (rc == MF_OK) rc = mf_batch_new(shape.batch, shape.seq, &c->batch);
    return rc == MF_OK ? mf_model_graph_new(w->x.session->model, &shape, &c->mg) : rc;
}

/* ---- one weight ---- */

/* Computes the data of a weight's inputs that GPTQ needs; NULL: there are none. */
static int inputs_of(calibration *c, const mf_place *p, const mf_gptq_inputs **ret)
{
    const mf_quantize_options *o = c->w->options;
    *ret = NULL;
    for (int64_t i = 0; i < c->n; i++) {
        hessian *h = &c->hessians[i];
        if (h->param != p->param || h->group != group_of(p)) continue;
        if (h->state == 0) {
            int rc = h->rows > 0 ? MF_OK : MF_ENONFINITE;
            if (rc == MF_OK)
                rc = mf_gptq_inputs_of(h->in, h->h, o->damp, o->act_order, &h->inputs);
            if (rc != MF_OK && rc != MF_ENONFINITE) return rc;
            h->state = rc == MF_OK ? 1 : -1;
            mf_free(h->h);
            h->h = NULL;
        }
        if (h->state == 1) *ret = &h->inputs;
        return MF_OK;
    }
    return MF_OK;
}

/* Writes new values to the elements of a place, in the order of the tensor. */
static int scatter(const mf_place *p, const float *values)
{
    const int64_t in = p->size[p->rank - 1], step = p->stride[p->rank - 1];
    float *to = mf_param_edit(p->param);
    if (!to) return MF_ENOMEM;
    for (int64_t i = 0; i < mf_place_count(p); i += in) {
        int64_t at = p->base, rest = i / in;
        for (int d = p->rank - 1; d-- > 0; rest /= p->size[d])
            at += rest % p->size[d] * p->stride[d];
        for (int64_t j = 0; j < in; j++)
            to[at + j * step] = values[i + j];
    }
    return MF_OK;
}

/* Refuses values that are not finite, because no code of few bits and no scale stands
 * for them. */
static int judge_values(const mf_place *p, const float *values)
{
    for (int64_t i = 0; i < mf_place_count(p); i++)
        if (!isfinite(values[i]))
            return mf_fail(MF_EINPUT, "%s: expected finite weights, found %g", p->param->name,
                           (double)values[i]);
    return MF_OK;
}

static int plan(const mf_quantize_work *w, int64_t i)
{
    const mf_place *p = &w->x.record->ledger.places[i];
    const int64_t out = p->shape[0], in = p->shape[1], group = w->options->group;
    w->weights[i] =
        mf_gptq_plan(w->options->bits, out, in, group > 0 && group < in ? group : in);
    return w->weights[i] ? MF_OK : MF_ENOMEM;
}

static int quantize(calibration *c, int64_t i)
{
    mf_quantize_work *w = c->w;
    const mf_place *p = &w->x.record->ledger.places[i];
    const mf_gptq_inputs *inputs;
    float *const from[2] = {mf_param_edit(p->param), NULL};
    float *values = mf_alloc_raw((size_t)mf_place_count(p) * sizeof *values);
    int rc = plan(w, i);
    if (rc == MF_OK) rc = mf_gptq_make(w->weights[i]);
    if (rc == MF_OK) rc = from[0] && values ? inputs_of(c, p, &inputs) : MF_ENOMEM;
    if (rc == MF_OK) {
        mf_values_gather(p, from, values);
        rc = judge_values(p, values);
    }
    if (rc == MF_OK) {
        if (inputs)
            rc = mf_gptq_compensate(w->weights[i], inputs, values);
        else
            rc = mf_gptq_round(w->weights[i], values) ? MF_OK : MF_ENOMEM;
    }
    if (rc == MF_OK) rc = scatter(p, values);
    if (rc == MF_OK) {
        w->report->quantized++;
        w->report->rounded += !inputs;
    }
    mf_free(values);
    return rc;
}

/* ---- from file to file ---- */

/* A tensor of a file, [., in], and bytes that are written to another one. */
typedef struct stream {
    const mf_st_file *file;
    const mf_st_tensor *tensor;
    int64_t in;
    mf_st_writer *out;
    const void *data;
    size_t n;
} stream;

static bool read_rows(void *arg, int64_t o, int64_t n, float *to, int64_t ld)
{
    const stream *s = arg;
    const mf_st_dtype dtype = s->tensor->dtype;
    const size_t row = (size_t)s->in * mf_st_dtype_size(dtype), bytes = (size_t)n * row;
    char *raw = mf_alloc_raw(bytes);
    const bool done =
        raw && mf_st_read_part(s->file, s->tensor, raw, bytes, (uint64_t)o * row) == MF_OK;
    for (int64_t i = 0; done && i < n; i++)
        mf_types_to_f32(dtype, raw + (size_t)i * row, s->in, to + i * ld);
    mf_free(raw);
    return done;
}

/* The writer keeps its first error. */
static void put_data(void *arg)
{
    const stream *s = arg;
    (void)mf_st_writer_put(s->out, s->data, s->n);
}

/* Rounds the values of a parameter in memory, or finds out why those of a file could not
 * be rounded. */
static int stream_values(const mf_quantize_work *w, int64_t i, const stream *s)
{
    const mf_place *p = &w->x.record->ledger.places[i];
    const size_t count = (size_t)mf_place_count(p);
    float *values = mf_alloc_raw(count * sizeof *values), *from[2];
    void *raw = s ? mf_alloc_raw(s->tensor->bytes) : NULL;
    int rc = values && (raw || !s) ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && s) {
        rc = mf_st_read(s->file, s->tensor, raw, s->tensor->bytes);
        if (rc == MF_OK) mf_types_to_f32(s->tensor->dtype, raw, (int64_t)count, values);
    } else if (rc == MF_OK) {
        rc = mf_export_values(&w->x, p, from);
        if (rc == MF_OK) mf_values_gather(p, from, values);
    }
    if (rc == MF_OK) rc = judge_values(p, values);
    if (rc == MF_OK && !mf_gptq_round(w->weights[i], values)) rc = MF_ENOMEM;
    mf_free(values);
    mf_free(raw);
    return rc;
}

int mf_quantize_stream(const mf_quantize_work *w, int64_t i, mf_st_writer *out,
                       const void *data, size_t n)
{
    const mf_place *p = &w->x.record->ledger.places[i];
    stream s = {.in = p->shape[1], .out = out, .data = data, .n = n};
    int rc = mf_gptq_make(w->weights[i]);
    if (rc == MF_OK && !p->param->stored) {
        rc = stream_values(w, i, NULL);
        return rc == MF_OK ? mf_st_writer_put(out, data, data ? n : 0) : rc;
    }
    if (rc == MF_OK) rc = mf_export_find(&w->x, w->x.record->tensors[i], &s.file, &s.tensor);
    if (rc == MF_OK &&
        !mf_gptq_round_rows(w->weights[i], read_rows, data ? put_data : NULL, &s))
        rc = stream_values(w, i, &s);
    return rc;
}

/* ---- blocks ---- */

static int quantize_block(calibration *c, int64_t layer)
{
    const mf_record *r = c->w->x.record;
    int rc = c->w->options->calibrate > 0 ? calibrate_block(c, layer) : MF_OK;
    for (int64_t i = 0; rc == MF_OK && i < r->n; i++) {
        const mf_place *p = &r->ledger.places[i];
        if (!is_candidate(p) || !in_block(p, layer)) continue;
        if (!is_possible(p, r->tensors[i])) {
            c->w->report->left++;
        } else if (c->w->streams) {
            rc = plan(c->w, i);
            c->w->report->quantized++;
            c->w->report->rounded++;
        } else {
            rc = quantize(c, i);
        }
    }
    if (c->w->streams) return rc;
    mf_store_refresh_bf16(c->w->x.session->model->store);
    if (rc == MF_OK) mf_log(MF_LOG_INFO, "block %lld is quantized", (long long)layer);
    return rc;
}

int mf_quantize_weights(mf_quantize_work *w)
{
    calibration c = {.w = w};
    int rc = open_calibration(&c);
    for (int64_t l = 0; rc == MF_OK && l < w->x.session->config->model.layers; l++)
        rc = quantize_block(&c, l);
    if (rc == MF_OK && w->report->quantized == 0)
        rc = mf_fail(MF_EUSAGE, "there is no weight that few bits can say: matrices of blocks "
                                "that lie alone in a tensor, with sides that 8 divides");
    drop_hessians(&c);
    mf_free(c.hessians);
    mf_model_graph_free(c.mg);
    mf_batch_free(c.batch);
    mf_batcher_free(c.batcher);
    return rc;
}
