/* hash: fixed routing without parameters (Roller et al. 2021, Hash Layers).
 *
 *     expert_j(t) = H(key_t, j) mod E,   gate = 1 / hashes
 *
 * The key is the token's id, or it is computed from the token's hidden vector: the sign bit of
 * each element, or the elements rounded to multiples of `quantum`. H mixes the key with the
 * seed by splitmix64 (Steele et al. 2014). table = balanced assigns the ids to the experts in
 * turn, in an order drawn from the seed: the numbers of ids of two experts differ by at most
 * one. It requires source = token_id. With hashes = n each token goes to n different experts. P
 * is the mean of the one-hot vectors of these experts; with one hash its entropy is 0.
 *
 * table = file reads the experts of each token id from the text file `path`. Line i contains
 * the experts of id i: `hashes` whole numbers from 0 to E - 1 with blanks between them
 * (DeepSeek-V4 2026, tid2eid). The file is read whenever the model is made; a run does not keep
 * a copy.
 *
 * gate = sqrt_softplus, sigmoid or softmax makes the gates trainable: s = sqrt(ln(1 + e^z)),
 * sigmoid(z) or softmax(z) of z = W x. Then gate = scale s / (sum of the chosen s), with
 * softmax gate = scale s, and P is s divided by its sum over all experts. DeepSeek-V4's first
 * layers use sqrt_softplus and scale 1.5. Parameters: none, or E d. */
#include <moefw/moefw.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_ID, SIGN_BITS, QUANTISED };
static const char *const sources[] = {"token_id", "sign_bits", "quantised", NULL};
enum { RANDOM, BALANCED, FROM_FILE };
static const char *const tables[] = {"random", "balanced", "file", NULL};
enum { EQUAL, SQRT_SOFTPLUS, SIGMOID, SOFTMAX };
static const char *const gates[] = {"equal", "sqrt_softplus", "sigmoid", "softmax", NULL};

typedef struct {
    int64_t source, table, hashes, seed, gate;
    double quantum, scale, init_std;
    const char *path;
} conf;

typedef struct {
    const conf *c;
    int32_t experts, vocab;
    float *table; /* [vocab,hashes] experts for table = file; else NULL */
} router;

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* attr.i: experts, hashes, seed, source, table, vocab; attr.f[0]: quantum.
 * in: ids [T] i32 or x [T,d]; out: expert [T hashes] */
static int infer(mf_infer *in)
{
    if (in->n_in != 1 || in->in[0].shape.rank < 1)
        return in->fail(in, "expected token ids [T] or hidden vectors [T,d]");
    in->n_out = 1;
    in->out[0].dtype = MF_I32;
    in->out[0].shape = mf_shape1(in->in[0].shape.dim[0] * in->attr->i[1]);
    return MF_OK;
}

typedef float four __attribute__((vector_size(16)));
typedef uint32_t four_int __attribute__((vector_size(16)));

static four_int negative(const float *x)
{
    four v;
    memcpy(&v, x, sizeof v);
    return (four_int)(v < 0.0f); /* a lane that is true is -1 */
}

static uint64_t join(four_int bits)
{
    uint32_t lane[4];
    memcpy(lane, &bits, sizeof lane);
    return lane[0] | lane[1] << 1 | lane[2] << 2 | lane[3] << 3;
}

/* Bit i of the result is 1 if x[i] < 0. The loop processes four elements at a time: lane l
 * collects bits 4 i + l at position 4 i, and join shifts them by l. */
static uint64_t signs_of_64(const float *x)
{
    four_int low = {0}, high = {0};
    for (int i = 28; i >= 0; i -= 4) {
        low = (low << 4) - negative(x + i);
        high = (high << 4) - negative(x + 32 + i);
    }
    return join(low) | join(high) << 32;
}

/* Hashes 64 sign bits per iteration. */
static uint64_t key_of_signs(const float *x, int64_t d, uint64_t h)
{
    int64_t at = 0;
    for (; at + 64 <= d; at += 64) {
        for (int i = 0; i < 64; i += 16)
            /* the hardware prefetcher stops at page ends */
            __builtin_prefetch(x + at + 1024 + i);
        h = mix(h ^ signs_of_64(x + at));
    }
    uint64_t word = 0;
    for (int64_t i = at; i < d; i++)
        word |= (uint64_t)(x[i] < 0) << (i - at);
    return at < d ? mix(h ^ word) : h;
}

static uint64_t key_of_quanta(const float *x, int64_t d, double quantum, uint64_t h)
{
    for (int64_t i = 0; i < d; i++) {
        double v = rint((double)x[i] / quantum);
        int64_t q = v > -9e15 && v < 9e15 ? (int64_t)v : 0; /* NaN and infinities count as 0 */
        h = mix(h ^ (uint64_t)q);
    }
    return h;
}

/* Returns the position of id in an order of 0..vocab-1 that depends on the seed: a Feistel
 * network of four rounds over the smallest power of four that holds the vocabulary, repeated
 * until the result is below vocab. */
static uint32_t place_of_id(uint32_t id, uint32_t vocab, uint64_t seed)
{
    int half = 1;
    while ((uint64_t)1 << (2 * half) < vocab)
        half++;
    const uint32_t low = (1u << half) - 1;
    do {
        for (uint64_t r = 0; r < 4; r++) {
            uint32_t left = id >> half, right = id & low;
            id = right << half | ((left ^ (uint32_t)mix(seed ^ (r << 32) ^ right)) & low);
        }
    } while (id >= vocab);
    return id;
}

typedef struct {
    const mf_call *call;
    int64_t tokens;
} job;

#define TILE 256
static void hash_tile(void *arg, int64_t tile)
{
    const job *j = arg;
    const int64_t *a = j->call->attr->i;
    const int64_t experts = a[0], hashes = a[1];
    const uint64_t seed = mix((uint64_t)a[2]);
    int32_t *out = j->call->out[0].data;
    int64_t end = (tile + 1) * TILE < j->tokens ? (tile + 1) * TILE : j->tokens;
    for (int64_t t = tile * TILE; t < end; t++) {
        uint64_t key;
        if (a[3] == TOKEN_ID) {
            uint32_t id = (uint32_t)((const int32_t *)j->call->in[0].data)[t];
            if (a[4] == BALANCED && (int64_t)id < a[5])
                key = place_of_id(id, (uint32_t)a[5], seed);
            else
                key = mix(seed ^ id);
        } else {
            int64_t d = j->call->in[0].shape.dim[1];
            const float *x = (const float *)j->call->in[0].data + t * d;
            key = a[3] == SIGN_BITS ? key_of_signs(x, d, seed)
                                    : key_of_quanta(x, d, j->call->attr->f[0], seed);
        }
        /* Each further choice is another hash of the key. An expert that was already chosen is
         * replaced by the next expert that was not chosen yet. */
        int64_t e = (int64_t)(key % (uint64_t)experts);
        for (int64_t n = 0; n < hashes; n++) {
            bool fresh;
            do {
                fresh = true;
                for (int64_t m = 0; m < n; m++)
                    if (out[t * hashes + m] == e) fresh = false;
                if (!fresh) e = (e + 1) % experts;
            } while (!fresh);
            out[t * hashes + n] = (int32_t)e;
            e = (int64_t)(mix(key + (uint64_t)n + 1) % (uint64_t)experts);
        }
    }
}

static int forward(const mf_call *call)
{
    job j = {call, call->in[0].shape.dim[0]};
    call->exec->parallel(call->exec, (j.tokens + TILE - 1) / TILE, hash_tile, &j);
    return MF_OK;
}

/* ---- on a GPU (hash.cu) ---- */

#ifdef MOEFW_IMAGE
MF_DEVICE_IMAGE(hash_image, MOEFW_IMAGE);

static int launch(const mf_call *call, mf_kernel_launch *ret)
{
    enum { THREADS = 128, MOST = 65535 };
    const int64_t blocks = (call->in[0].shape.dim[0] + THREADS - 1) / THREADS;
    ret->block[0] = THREADS;
    ret->grid[0] = (uint32_t)(blocks < MOST ? blocks : MOST);
    return MF_OK;
}

static const mf_device_kernel kernels[] = {
    {.size = sizeof(mf_device_kernel), .name = "hash_route", .launch = launch},
    {.size = sizeof(mf_device_kernel)}};
static const mf_device_code code = {.size = sizeof(mf_device_code),
                                    .image = hash_image,
                                    .image_end = hash_image_end,
                                    .forward = kernels};
static const mf_device_op devices[] = {
    {.size = sizeof(mf_device_op), .device = "cuda", .code = &code},
    {.size = sizeof(mf_device_op)}};
#define DEVICES devices
#else
#define DEVICES NULL
#endif

static const mf_opdef hash_op = {.size = sizeof(mf_opdef),
                                 .flags = MF_OP_NO_GRAD,
                                 .name = "hash_route",
                                 .formula = "expert = H(key) mod E",
                                 .infer = infer,
                                 .forward = forward,
                                 .launch = DEVICES};

/* Examples for `plugin check`: each source, with one expert and with several experts
 * per token. */
#define EXAMPLE(type, shape_, ...)                                                             \
    {                                                                                          \
        .size = sizeof(mf_op_example), .n_in = 1, .op = &hash_op, .shape = {shape_},           \
        .dtype = {type}, .lo = {type == MF_I32 ? 0 : -3}, .hi = {type == MF_I32 ? 99 : 3},     \
        .attr = {                                                                              \
            {__VA_ARGS__},                                                                     \
            {0.5}                                                                              \
        }                                                                                      \
    }
#define IDS                                                                                    \
    {                                                                                          \
        1, 0,                                                                                  \
        {                                                                                      \
            301                                                                                \
        }                                                                                      \
    }
#define ROWS(d)                                                                                \
    {                                                                                          \
        2, 0,                                                                                  \
        {                                                                                      \
            37, d                                                                              \
        }                                                                                      \
    }
static const mf_op_example examples[] = {
    EXAMPLE(MF_I32, IDS, 5, 1, 3, TOKEN_ID, RANDOM, 100),
    EXAMPLE(MF_I32, IDS, 5, 3, 3, TOKEN_ID, BALANCED, 90),
    EXAMPLE(MF_F32, ROWS(130), 8, 2, 0, SIGN_BITS, RANDOM, 100),
    EXAMPLE(MF_F32, ROWS(7), 4, 4, 1, QUANTISED, RANDOM, 100),
};

/* ---- the table of a file ---- */

/* Reads the experts of one line. Returns MF_EINPUT at the first fault. */
static int read_line(mf_ctx *ctx, const router *self, char *text, int32_t line, float *row)
{
    const int64_t n = self->c->hashes;
    int64_t found = 0;
    for (char *at = text, *end; *at != '\0'; at = end) {
        if (isspace((unsigned char)*at)) {
            end = at + 1;
            continue;
        }
        const long e = strtol(at, &end, 10);
        if (end == at || e < 0 || e >= self->experts)
            return mf->fail(ctx, MF_EINPUT,
                            "%s:%d: expected whole numbers from 0 to %d, found '%.20s'",
                            self->c->path, (int)line, (int)self->experts - 1, at);
        for (int64_t i = 0; i < found && i < n; i++)
            if (row[i] == (float)e)
                return mf->fail(ctx, MF_EINPUT, "%s:%d: expert %ld occurs twice", self->c->path,
                                (int)line, e);
        if (found < n) row[found] = (float)e;
        found++;
    }
    if (found == n) return MF_OK;
    return mf->fail(ctx, MF_EINPUT, "%s:%d: expected %d experts (hashes), found %d",
                    self->c->path, (int)line, (int)n, (int)found);
}

static int read_table(mf_ctx *ctx, router *self)
{
    const char *path = self->c->path;
    const int64_t n = self->c->hashes;
    char text[1024]; /* space for 64 numbers of 4 digits, and more */
    int32_t lines = 0;
    int rc = MF_OK;
    FILE *f = fopen(path, "re");
    if (!f) return mf->fail(ctx, MF_EINPUT, "cannot read '%s': %s", path, strerror(errno));
    self->table = malloc((size_t)(self->vocab * n) * sizeof *self->table);
    if (!self->table) rc = mf->fail(ctx, MF_ENOMEM, "no memory for the table of %s", path);
    while (rc == MF_OK && fgets(text, sizeof text, f)) {
        if (!strchr(text, '\n') && strlen(text) == sizeof text - 1)
            rc = mf->fail(ctx, MF_EINPUT, "%s:%d: the line is too long", path, (int)lines + 1);
        else if (lines < self->vocab)
            rc = read_line(ctx, self, text, lines + 1, self->table + lines * n);
        lines++;
    }
    if (rc == MF_OK && ferror(f)) rc = mf->fail(ctx, MF_EINPUT, "cannot read '%s'", path);
    if (rc == MF_OK && lines != self->vocab)
        rc = mf->fail(ctx, MF_EINPUT, "%s: expected %d lines, one for each token id, found %d",
                      path, (int)self->vocab, (int)lines);
    fclose(f);
    return rc;
}

/* ---- the router ---- */

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    self->experts = dims->experts;
    self->vocab = dims->vocab;
    if (c->hashes > dims->experts)
        return mf->fail(ctx, MF_ECONFIG, "hashes = %d, but there are only %d experts",
                        (int)c->hashes, (int)dims->experts);
    if (c->table != RANDOM && c->source != TOKEN_ID)
        return mf->fail(ctx, MF_ECONFIG, "table = %s needs source = token_id",
                        tables[c->table]);
    if ((c->table == FROM_FILE) != (c->path[0] != '\0'))
        return mf->fail(ctx, MF_ECONFIG, "path and table = file need one another");
    int rc = c->table == FROM_FILE ? read_table(ctx, self) : MF_OK;
    if (rc == MF_OK && c->gate != EQUAL)
        rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                       MF_NORMAL(c->init_std));
    return rc;
}

static void fini(void *self)
{
    free(((router *)self)->table);
}

/* returns the experts from hashes, [T hashes] i32 */
static mf_tensor *hashed(const router *self, mf_graph *g, const mf_router_in *in)
{
    mf_attr a = mf_attr0();
    a.i[0] = self->experts;
    a.i[1] = self->c->hashes;
    a.i[2] = self->c->seed;
    a.i[3] = self->c->source;
    a.i[4] = self->c->table;
    a.i[5] = self->vocab;
    a.f[0] = self->c->quantum;
    mf_tensor *key = self->c->source == TOKEN_ID ? in->token_ids : mf_stop_gradient(g, in->x);
    return mf->custom(g, &hash_op, 1, &key, &a, 1, NULL);
}

/* Returns the experts from the file's table, in the same form. A float represents each expert's
 * number exactly. */
static mf_tensor *looked_up(const router *self, mf_graph *g, const mf_router_in *in)
{
    const int64_t n = self->c->hashes, T = (int64_t)in->batch * in->seq;
    mf_tensor *table = mf->constant(g, MF_F32, mf_shape2(self->vocab, n), self->table);
    mf_tensor *rows = mf_cast(g, mf_embedding(g, table, in->token_ids), MF_I32);
    return mf_reshape(g, rows, mf_shape1(T * n));
}

/* Computes gates from scores, and P. */
static void score(const router *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                  mf_routing *out)
{
    const conf *c = self->c;
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *z = out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    mf_tensor *s = c->gate == SOFTMAX ? mf_softmax(g, z)
                   : c->gate == SIGMOID
                       ? mf_sigmoid(g, z)
                       : mf_sqrt(g, mf_clamp(g, mf_softplus(g, z), 1e-30, 1e30));
    mf_tensor *gate = mf_take(g, s, mf_reshape(g, out->expert, mf_shape2(T, c->hashes)));
    if (c->gate != SOFTMAX)
        gate = mf_div(g, gate, mf_clamp(g, mf_sum(g, gate, 2u, true), 1e-30, 1e30));
    out->gate = mf_reshape(g, mf_scale(g, gate, c->scale), mf_shape1(T * c->hashes));
    out->prob =
        c->gate == SOFTMAX ? s : mf_div(g, s, mf_affine(g, mf_sum(g, s, 2u, true), 1, 1e-20));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t hashes = self->c->hashes;
    out->expert = self->c->table == FROM_FILE ? looked_up(self, g, in) : hashed(self, g, in);
    out->own_top_k = (int32_t)hashes;
    if (self->c->gate != EQUAL) {
        score(self, ctx, g, in, out);
        return mf->status(g);
    }
    const int64_t tokens = (int64_t)in->batch * in->seq;
    out->prob = mf_one_hot(g, out->expert, self->experts); /* [T hashes,E] */
    if (hashes > 1) {
        out->prob = mf_reshape(g, out->prob, mf_shape3(tokens, hashes, self->experts));
        out->prob = mf_mean(g, out->prob, 2u, false);
        out->gate = mf_affine(g, mf_cast(g, out->expert, MF_F32), 0, 1.0 / (double)hashes);
    } /* otherwise every gate is 1, which is core's default */
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, source, "token_id", sources, "what is hashed"),
    MF_OPTION_ENUM(conf, table, "random", tables, "how token ids are spread over experts"),
    MF_OPTION_STR(conf, path, "", "the file of table = file"),
    MF_OPTION_INT(conf, hashes, "1", 1, 64, 0, "experts per token"),
    MF_OPTION_ENUM(conf, gate, "equal", gates, "gates: 1 / hashes, or learned scores"),
    MF_OPTION_REAL(conf, scale, "1", 1e-3, 1e3, 0, "multiplies learned gates"),
    MF_OPTION_INT(conf, seed, "0", 0, 9007199254740992.0, 0, "chooses the hash function"),
    MF_OPTION_REAL(conf, quantum, "0.5", 1e-6, 1e6, 0, "rounding step of source = quantised"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "start weights of learned gates"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, fini, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT_OPS(MF_ROUTER, mf_router, "hash", "1.0", "MIT",
                       "fixed choice by a hash of the token, or a table", options, conf, router,
                       &vtable, examples, sizeof examples / sizeof *examples);
