/* plan: tensors share memory, but a value that a later node reads is never overwritten. Random
 * graphs are replayed node by node, and a record of the owners of memory checks this. */
#include "check_main.h"

#include "base/error.h"
#include "base/rng.h"
#include "graph/internal.h"
#include "graph_ops.h"
#include "tests/lib/fault.h"

#include <stdlib.h>

/* ---- packing ---- */

static bool together(const mf_span *a, const mf_span *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The largest number of bytes in use at one moment. It is a lower bound of the arena. */
static size_t most_alive(const mf_span *s, int n, int moments)
{
    size_t most = 0;
    for (int t = 0; t < moments; t++) {
        size_t sum = 0;
        for (int i = 0; i < n; i++)
            if (s[i].first <= t && t <= s[i].last) sum += s[i].bytes;
        if (sum > most) most = sum;
    }
    return most;
}

START_TEST(spans_alive_together_lie_apart)
{
    enum { MOST = 120, MOMENTS = 60 };
    mf_span s[MOST] = {0};
    for (int round = 0; round < 200; round++) {
        uint64_t at = 0, step = (uint64_t)round;
        int n = (int)mf_rng_below(1, 2, step, at++, MOST);
        size_t bytes, all = 0;
        for (int i = 0; i < n; i++) {
            s[i].first = (int)mf_rng_below(1, 2, step, at++, MOMENTS);
            s[i].last = s[i].first +
                        (int)mf_rng_below(1, 2, step, at++, (uint64_t)(MOMENTS - s[i].first));
            s[i].bytes = 64 * (1 + mf_rng_below(1, 2, step, at++, 50));
            all += s[i].bytes;
        }
        ck_assert_int_eq(mf_pack(s, n, 0, &bytes), MF_OK);
        size_t least = most_alive(s, n, MOMENTS);
        ck_assert_uint_ge(bytes, least);
        ck_assert_uint_le(bytes, all);
        ck_assert_double_le((double)bytes, 1.5 * (double)least);
        for (int i = 0; i < n; i++) {
            ck_assert_uint_eq(s[i].offset % 64, 0);
            ck_assert_uint_le(s[i].offset + s[i].bytes, bytes);
            for (int j = 0; j < i; j++)
                ck_assert(!together(&s[i], &s[j]) || s[i].offset + s[i].bytes <= s[j].offset ||
                          s[j].offset + s[j].bytes <= s[i].offset);
        }
    }
}
END_TEST

/* ---- a random graph ---- */

enum { PARAMS = 4, KEPT = 4, NODES = 60, SIDE = 6 };

typedef struct sample {
    mf_store *store;
    mf_graph *g;
    mf_tensor *x, *loss, *kept[KEPT], *metric;
    int n_kept;
} sample;

typedef struct dice {
    uint64_t seed, at;
} dice;

static int roll(dice *d, int n)
{
    return (int)mf_rng_below(d->seed, 77, 0, d->at++, (uint64_t)n);
}

/* t_back is t_like with a gradient rule: it reshapes a vector to the shape of a matrix. Its
 * gradient is a vector again. */
static int back_grad(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = op1(g, &t_flat, at->dout[0]);
    return mf_graph_status(g);
}

static const mf_opdef t_back = {.size = sizeof t_back,
                                .name = "t_back",
                                .flags = MF_OP_ALIAS,
                                .infer = t_like_infer,
                                .grad = back_grad,
                                .diff_in = 1};

static mf_tensor *any_op(mf_graph *g, dice *d, mf_tensor *a, mf_tensor *b)
{
    mf_tensor *two[2];
    switch (roll(d, 9)) {
    case 0:
    case 1:
        return op1(g, &t_tanh, a);
    case 2:
        return op1(g, &t_tanh, op2(g, &t_mul, a, b));
    case 3:
        return plus(g, op1(g, &t_tanh, a), b);
    case 4:
        mf_graph_op(g, &t_two, 2, (mf_tensor *[]){a, b}, NULL, 2, two);
        return two[roll(d, 2)];
    case 5:
        return op2(g, &t_back, op1(g, &t_tanh, op1(g, &t_flat, a)), b);
    case 6:
        return op1(g, &t_noise, a);
    case 7:
        return op1(g, &t_square, op1(g, &t_tanh, a));
    default:
        return op1(g, &t_reverse, a);
    }
}

static void build_nodes(sample *s, dice *d, mf_tensor **pool, int n)
{
    mf_tensor *sum = NULL;
    for (int i = 0; i < NODES; i++) {
        mf_tensor *a = pool[roll(d, n)], *b = pool[roll(d, n)], *y;
        mf_graph_push(s->g, "part.%d", i / 10);
        mf_graph_set_recompute(s->g, i % 10 < 8);
        y = any_op(s->g, d, a, b);
        mf_graph_pop(s->g);
        ck_assert_msg(y != NULL, "%s", mf_error_message());
        pool[n < 10 ? n++ : PARAMS + 1 + roll(d, 9 - PARAMS)] = y;
        if (roll(d, 12) == 0 && s->n_kept < KEPT) {
            s->kept[s->n_kept++] = y;
            mf_graph_keep(y);
        }
        if (roll(d, 10) == 0) {
            mf_graph_metrics(s->g, true);
            s->metric = op1(s->g, &t_sum, op1(s->g, &t_tanh, y));
            mf_graph_keep(s->metric);
            mf_graph_metrics(s->g, false);
        }
        if (roll(d, 4) == 0) sum = sum ? plus(s->g, sum, y) : y;
    }
    mf_graph_set_recompute(s->g, false);
    s->loss = op1(s->g, &t_sum, plus(s->g, sum ? sum : pool[n - 1], pool[n - 1]));
}

static sample draw(uint64_t seed, bool no_reuse, mf_recompute recompute)
{
    char name[16];
    sample s = {.store = mf_store_new()};
    dice d = {.seed = seed};
    mf_param *w[PARAMS];
    mf_tensor *pool[16];
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        ck_assert_int_eq(mf_store_declare(s.store, name, mf_shape2(SIDE, SIDE),
                                          (mf_init){.kind = MF_INIT_NORMAL, .a = 1}, false,
                                          &w[i]),
                         MF_OK);
    }
    ck_assert_int_eq(mf_store_seal(s.store, seed, true), MF_OK);
    s.g = mf_graph_new(
        &(mf_graph_options){.training = true, .no_reuse = no_reuse, .recompute = recompute});
    for (int i = 0; i < PARAMS; i++)
        pool[i] = mf_graph_param(s.g, w[i]);
    s.x = pool[PARAMS] = mf_graph_input(s.g, "x", MF_F32, mf_shape2(SIDE, SIDE));
    build_nodes(&s, &d, pool, PARAMS + 1);
    int code = mf_graph_backward(s.g, s.loss, 0, NULL);
    if (code == MF_OK) code = mf_graph_finish(s.g);
    ck_assert_msg(code == MF_OK, "%s", mf_error_message());
    return s;
}

static void discard(sample *s)
{
    mf_graph_free(s->g);
    mf_store_free(s->store);
}

static void run_sample(const sample *s, int round)
{
    mf_rng_fill_normal(5, 6, (uint64_t)round, s->x->data, SIDE * SIDE);
    int code = mf_graph_run(s->g, &(mf_run){.seed = 1,
                                            .step = (uint64_t)round,
                                            .metrics = round % 2 == 0,
                                            .check_finite = true});
    ck_assert_msg(code == MF_OK, "%s", mf_error_message());
}

static void same_value(const mf_tensor *a, const mf_tensor *b)
{
    ck_assert_mem_eq(mf_tensor_data(a), mf_tensor_data(b), mf_shape_bytes(a->shape, a->dtype));
}

START_TEST(shared_memory_changes_no_bit)
{
    size_t arena = 0, naive = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        sample a = draw(seed, false, MF_RECOMPUTE_NONE);
        sample b = draw(seed, true, MF_RECOMPUTE_NONE);
        mf_graph_info info;
        for (int round = 0; round < 3; round++) {
            int64_t n;
            run_sample(&a, round);
            run_sample(&b, round);
            same_value(a.loss, b.loss);
            for (int i = 0; i < a.n_kept; i++)
                same_value(a.kept[i], b.kept[i]);
            if (a.metric) same_value(a.metric, b.metric);
            mf_store_values(a.store, &n);
            ck_assert_mem_eq(mf_store_grads(a.store), mf_store_grads(b.store),
                             (size_t)n * sizeof(float));
        }
        mf_graph_get_info(a.g, &info);
        ck_assert_uint_le(info.arena_bytes, info.naive_bytes);
        arena += info.arena_bytes;
        naive += info.naive_bytes;
        mf_graph_get_info(b.g, &info);
        ck_assert_uint_eq(info.arena_bytes, info.naive_bytes);
        discard(&a);
        discard(&b);
    }
    ck_assert_uint_lt(2 * arena, naive);
}
END_TEST

START_TEST(computing_again_changes_no_bit)
{
    int more = 0;
    for (uint64_t seed = 200; seed < 240; seed++) {
        sample a = draw(seed, true, MF_RECOMPUTE_NONE);
        sample b = draw(seed, false, MF_RECOMPUTE_BLOCK);
        mf_graph_info of_a, of_b;
        for (int round = 0; round < 3; round++) {
            int64_t n;
            run_sample(&a, round);
            run_sample(&b, round);
            same_value(a.loss, b.loss);
            for (int i = 0; i < a.n_kept; i++)
                same_value(a.kept[i], b.kept[i]);
            mf_store_values(a.store, &n);
            ck_assert_mem_eq(mf_store_grads(a.store), mf_store_grads(b.store),
                             (size_t)n * sizeof(float));
        }
        mf_graph_get_info(a.g, &of_a);
        mf_graph_get_info(b.g, &of_b);
        more += of_b.nodes - of_b.dead - (of_a.nodes - of_a.dead);
        discard(&a);
        discard(&b);
    }
    ck_assert_int_gt(more, 0);
}
END_TEST

START_TEST(a_graph_reuses_the_arena_of_another)
{
    sample a = draw(3, false, MF_RECOMPUTE_NONE), b = draw(3, false, MF_RECOMPUTE_NONE);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.arena_of = a.g});
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(SIDE, SIDE));
    mf_tensor *y = op1(g, &t_tanh, op1(g, &t_reverse, op1(g, &t_tanh, x)));
    int64_t n;
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert(g->shares_arena && g->block == a.g->block);
    /* values that graph g has left in memory have no effect */
    for (int round = 0; round < 3; round++) {
        run_sample(&a, 2 * round);
        run_sample(&b, 2 * round);
        mf_store_values(a.store, &n);
        ck_assert_mem_eq(mf_store_grads(a.store), mf_store_grads(b.store),
                         (size_t)n * sizeof(float));
        same_value(a.loss, b.loss);
        ck_assert_int_eq(mf_graph_run(g, NULL), MF_OK);
    }
    mf_graph_free(g);
    discard(&a);
    discard(&b);
}
END_TEST

START_TEST(planned_only_takes_nothing_and_does_not_run)
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){.bare = true});
    mf_tensor *y = op1(g, &t_tanh, mf_graph_input(g, "x", MF_F32, mf_shape1(1000)));
    mf_graph_info info;
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    mf_graph_get_info(g, &info);
    ck_assert_uint_eq(info.arena_bytes, 4032);
    ck_assert_ptr_null(g->block);
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_EINVAL);
    mf_graph_free(g);
}
END_TEST

/* Gradients in two blocks of storage are not contiguous memory, so values are not
 * placed there. */
START_TEST(gradients_of_two_stores_are_not_reused)
{
    float grads[2][2][SIDE * SIDE];
    for (int split = 0; split < 2; split++) {
        mf_param *w[2];
        mf_store *s[2] = {mf_store_new(), split ? mf_store_new() : NULL};
        for (int i = 0; i < 2; i++)
            ck_assert_int_eq(
                mf_store_declare(s[i && split], i ? "w1" : "w0", mf_shape2(SIDE, SIDE),
                                 (mf_init){.kind = MF_INIT_NORMAL, .a = 1}, false, &w[i]),
                MF_OK);
        for (int i = 0; i <= split; i++)
            ck_assert_int_eq(mf_store_seal(s[i], 1, true), MF_OK);
        mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
        mf_tensor *y = mf_graph_param(g, w[0]);
        for (int i = 0; i < 6; i++)
            y = op2(g, &t_mul, op1(g, &t_tanh, y), mf_graph_param(g, w[i % 2]));
        ck_assert_int_eq(mf_graph_backward(g, op1(g, &t_sum, y), 0, NULL), MF_OK);
        ck_assert_int_eq(mf_graph_finish(g), MF_OK);
        ck_assert_int_eq(g->n_reused > 0, !split);
        ck_assert_int_eq(mf_graph_run(g, &(mf_run){0}), MF_OK);
        for (int i = 0; i < 2; i++)
            memcpy(grads[split][i], w[i]->grad, sizeof grads[split][i]);
        mf_graph_free(g);
        for (int i = 0; i <= split; i++)
            mf_store_free(s[i]);
    }
    ck_assert_mem_eq(grads[0], grads[1], sizeof grads[0]);
}
END_TEST

/* ---- owners of memory, for each 64 bytes, while nodes are replayed ---- */

typedef struct ledger {
    const mf_graph *g;
    /* [units + reused] owner of each 64 bytes of the arena, then of the gradient storage: the
     * id of the value there; -1: none, -2: scratch memory */
    int *owner;
    size_t units, reused;
} ledger;

/* Returns the id of a tensor's value. If the tensor is a reshape of another tensor, it is that
 * tensor's id. */
static int value_of(const mf_graph *g, const mf_tensor *t)
{
    while (t->node >= 0 && !g->nodes[t->node]->backward &&
           g->nodes[t->node]->op->flags & MF_OP_ALIAS)
        t = g->nodes[t->node]->in[0];
    return t->id;
}

/* If write, records the owner of the bytes; otherwise returns whether this value owns them.
 * Bytes outside the arena and the gradient storage have no owner, and the result is true. */
static bool claim(ledger *l, const void *data, size_t bytes, int id, bool write)
{
    size_t begin = (size_t)((uintptr_t)data - (uintptr_t)l->g->block) / 64, first = 0;
    if ((uintptr_t)data < (uintptr_t)l->g->block || begin >= l->units) {
        begin = (size_t)((uintptr_t)data - (uintptr_t)l->g->reused_base) / 64;
        first = l->units;
        if ((uintptr_t)data < (uintptr_t)l->g->reused_base || begin >= l->reused) return true;
    }
    for (size_t u = first + begin; u < first + begin + (bytes + 63) / 64; u++) {
        if (write) l->owner[u] = id;
        if (l->owner[u] != id) return false;
    }
    return true;
}

static bool claim_tensor(ledger *l, const mf_tensor *t, bool write)
{
    return claim(l, t->data, mf_shape_bytes(t->shape, t->dtype), value_of(l->g, t), write);
}

/* Whether the node reads values of input i. Storage that a state op writes is excluded. */
static bool reads(const mf_node *node, int i)
{
    const bool storage = i == 0 && node->op->flags & MF_OP_STATE;
    return node->in[i] && node->reads >> i & 1u && !storage;
}

static void replay(ledger *l, const mf_node *node)
{
    if (node->op->flags & MF_OP_ALIAS && !node->backward) return;
    for (int i = 0; i < node->n_in; i++)
        if (reads(node, i))
            ck_assert_msg(claim_tensor(l, node->in[i], false),
                          "%s (%s) reads input %d after it "
                          "was overwritten",
                          node->op->name, node->scope, i);
    size_t scratch = node->backward ? node->backward_work_bytes : node->work_bytes;
    if (scratch > 0) claim(l, node->work, scratch, -2, true);
    for (int i = 0; i < node->n_in; i++) /* scratch memory must not overlap an input */
        if (reads(node, i)) ck_assert(claim_tensor(l, node->in[i], false));
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i]) claim_tensor(l, node->out[i], true);
    if (scratch > 0) ck_assert(claim(l, node->work, scratch, -2, false));
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i]) ck_assert(claim_tensor(l, node->out[i], false));
}

START_TEST(nothing_is_overwritten_before_its_last_reader)
{
    for (uint64_t seed = 100; seed < 160; seed++) {
        sample s = draw(seed, false, seed % 2 ? MF_RECOMPUTE_BLOCK : MF_RECOMPUTE_NONE);
        ledger l = {.g = s.g, .units = s.g->arena_bytes / 64, .reused = s.g->reused_bytes / 64};
        l.owner = malloc((l.units + l.reused + 1) * sizeof *l.owner);
        ck_assert_ptr_nonnull(l.owner);
        for (size_t u = 0; u < l.units + l.reused; u++)
            l.owner[u] = -1;
        for (int i = 0; i < s.g->n_nodes; i++)
            if (!s.g->nodes[i]->dead) replay(&l, s.g->nodes[i]);
        for (int i = 0; i < s.n_kept; i++)
            ck_assert(claim_tensor(&l, s.kept[i], false));
        if (s.metric) ck_assert(claim_tensor(&l, s.metric, false));
        ck_assert(claim_tensor(&l, s.loss, false));
        free(l.owner);
        discard(&s);
    }
}
END_TEST

START_TEST(a_chain_works_in_place)
{
    mf_graph_info info;
    mf_graph *g = mf_graph_new(NULL);
    mf_tensor *y = op1(g, &t_tanh, mf_graph_input(g, "x", MF_F32, mf_shape1(1000)));
    mf_tensor *begin = y;
    for (int i = 0; i < 20; i++)
        y = op1(g, &t_tanh, i % 3 ? y : op1(g, &t_flat, y));
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_ptr_eq(y->data, begin->data);
    ck_assert_ptr_null(mf_tensor_data(begin)); /* the memory was reused */
    mf_graph_get_info(g, &info);
    ck_assert_uint_eq(info.arena_bytes, 4032);
    ck_assert_uint_eq(info.naive_bytes, 21 * 4032);
    mf_graph_free(g);
}
END_TEST

START_TEST(the_second_input_serves_where_the_first_is_wanted)
{
    mf_graph *g = mf_graph_new(NULL);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(4));
    mf_tensor *a = op1(g, &t_tanh, x), *b = op1(g, &t_tanh, a), *c = op2(g, &t_mul, a, b);
    mf_graph_keep(a);
    mf_graph_keep(c);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_ptr_eq(c->data, b->data);
    ck_assert_ptr_ne(c->data, a->data);
    mf_graph_free(g);
}
END_TEST

START_TEST(a_gradient_lies_over_the_one_it_is_made_from)
{
    mf_store *store = mf_store_new();
    mf_param *p;
    ck_assert_int_eq(mf_store_declare(store, "p", mf_shape1(1000), (mf_init){0}, false, &p),
                     MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    mf_tensor *y = mf_graph_param(g, p);
    for (int i = 0; i < 5; i++)
        y = op1(g, &t_tanh, y);
    mf_tensor *loss = op1(g, &t_sum, y);
    ck_assert_int_eq(mf_graph_backward(g, loss, 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        if (!node->backward || node->op != &t_tanh || node->out[0]->kind != MF_TENSOR_VALUE)
            continue;
        ck_assert_ptr_eq(node->out[0]->data, node->in[2]->data);
        n++;
    }
    ck_assert_int_eq(n, 4); /* the fifth value is in the parameter's gradient storage */
    mf_graph_free(g);
    mf_store_free(store);
}
END_TEST

START_TEST(kept_values_and_leaves_are_not_worked_on_in_place)
{
    mf_graph *g = mf_graph_new(NULL);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(4));
    mf_tensor *a = op1(g, &t_tanh, x), *b = op1(g, &t_tanh, a), *c = op2(g, &t_mul, b, b);
    mf_graph_keep(a);
    mf_graph_keep(c);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_ptr_ne(a->data, x->data);
    ck_assert_ptr_ne(b->data, a->data);
    /* both inputs are b, so a write would change the second one */
    ck_assert_ptr_ne(c->data, b->data);
    mf_graph_free(g);
}
END_TEST

/* ---- allocation ---- */

START_TEST(running_does_not_allocate)
{
    sample s = draw(1, false, MF_RECOMPUTE_NONE);
    mf_graph_profile(s.g, true);
    uint64_t before = mf_alloc_count();
    for (int round = 0; round < 4; round++)
        run_sample(&s, round);
    ck_assert_uint_eq(mf_alloc_count(), before);
    discard(&s);
}
END_TEST

static int build_and_run(mf_store *store, int layers)
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    mf_tensor *y = mf_graph_param(g, mf_store_at(store, 0));
    for (int i = 0; i < layers; i++) {
        mf_graph_push(g, "layers.%d", i);
        y = op1(g, i % 2 ? &t_noise : &t_square, op1(g, &t_tanh, y));
        mf_graph_pop(g);
    }
    int code = mf_graph_backward(g, op1(g, &t_sum, y), 0, NULL);
    if (code == MF_OK) code = mf_graph_finish(g);
    if (code == MF_OK) code = mf_graph_run(g, NULL);
    mf_graph_free(g);
    return code;
}

/* Either one allocation fails, or all from one on. A graph takes its memory in chunks, so which
 * part of the work needs a new chunk depends on the length of the graph. */
START_TEST(without_memory_building_fails_cleanly_at_every_allocation)
{
    sample s = draw(1, false, MF_RECOMPUTE_NONE);
    for (int layers = 30; layers <= 90; layers++) {
        bool hit = true;
        long n = 0;
        while (hit) {
            mf_error_clear();
            fault_alloc(++n, _i == 0 ? FAULT_ONCE : FAULT_FROM);
            const int code = build_and_run(s.store, layers);
            hit = fault_hit();
            fault_off();
            ck_assert_msg(code == (hit ? MF_ENOMEM : MF_OK), "%d layers, allocation %ld: %d",
                          layers, n, code);
            ck_assert_msg(!hit || strstr(mf_error_message(), "memory") != NULL,
                          "%d layers, allocation %ld: \"%s\"", layers, n, mf_error_message());
        }
        ck_assert_int_gt(n, 10);
    }
    discard(&s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_add_test(t, spans_alive_together_lie_apart);
    tcase_add_test(t, shared_memory_changes_no_bit);
    tcase_add_test(t, computing_again_changes_no_bit);
    tcase_add_test(t, a_graph_reuses_the_arena_of_another);
    tcase_add_test(t, planned_only_takes_nothing_and_does_not_run);
    tcase_add_test(t, gradients_of_two_stores_are_not_reused);
    tcase_add_test(t, nothing_is_overwritten_before_its_last_reader);
    tcase_add_test(t, a_chain_works_in_place);
    tcase_add_test(t, the_second_input_serves_where_the_first_is_wanted);
    tcase_add_test(t, a_gradient_lies_over_the_one_it_is_made_from);
    tcase_add_test(t, kept_values_and_leaves_are_not_worked_on_in_place);
    tcase_add_test(t, running_does_not_allocate);
    tcase_add_loop_test(t, without_memory_building_fails_cleanly_at_every_allocation, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
