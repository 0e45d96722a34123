/* train/parallel/gradient_sum.c: a stack of partial sums. All entries contain leaves to the
 * left of the next leaf, so each addition adds the top entry and the present gradients. */
#include "train/parallel/gradient_sum.h"
#include "base/mem.h"
#include "base/resident.h"
#include "graph/device/device.h"
#include "kernels/kernel.h"
#include "model/model.h"
#include "train/parallel/gradient_bf16.h"

/* Elements first .. end-1 of the block of gradients. */
typedef struct span {
    int64_t first, end;
} span;

struct mf_gradient_sum {
    mf_store *store;
    mf_sum_plan plan;
    span *spans; /* [n_spans] the elements that are summed, in ascending order */
    int n_spans, top, room;
    int final, sums; /* number of copies that remain at the end, and number of copies to which
                      * the last leaf is added */
    float **kept;    /* [room] copies on the device; only the spans are used */
    span *rounded;   /* [n_rounded] the elements that are rounded to bf16 */
    int n_rounded;
    uint16_t *bf16; /* work memory for a chunk, on the device; NULL: nothing is rounded */
};

mf_sum_rounds mf_sum_rounds_of(const mf_parallel_config *c)
{
    if (c->gradient == MF_PARALLEL_F32) return MF_ROUND_NONE;
    return c->expert > 1 ? MF_ROUND_SHARED : MF_ROUND_ALL;
}

/* Returns the range of the leaves i, i + n, i + 2 n, ..: from leaf i to the end of the last
 * of them. */
static mf_piece each_of(int64_t leaves, int i, int n)
{
    return (mf_piece){i, (leaves - 1 - i) / n * n + i + 1};
}

void mf_turns(int64_t leaves, int rank, int ranks, int sharing, mf_sum_rounds rounds,
              mf_sum_plan *ret_own, mf_sum_plan *ret_experts)
{
    const int64_t both = (leaves + sharing - 1) / sharing, rest = leaves % ranks;
    const int groups = ranks / sharing, group = rank / sharing;
    *ret_own = (mf_sum_plan){
        .of = MF_SUM_COMMON,
        .rounds = rounds,
        .leaves = leaves,
        .apart = true,
        .share = each_of(leaves, rank, ranks),
        .stride = ranks,
        .runs_on = rank >= rest && (int64_t)group * sharing < rest,
    };
    *ret_experts = (mf_sum_plan){
        .of = MF_SUM_HELD,
        .leaves = both,
        .apart = groups > 1,
        .share = each_of(both, group, groups),
        .stride = groups,
    };
}

/* Returns the number of sums that are complete with a leaf. */
static int sums_of(const mf_sum_plan *p, int64_t leaf)
{
    if (p->apart) return 0;
    return mf_tree_sums(p->leaves, p->share.first, (mf_piece){leaf, leaf + 1});
}

/* Whether the gradients of a leaf are kept for later sums. */
static bool keeps(const mf_sum_plan *p, int64_t leaf)
{
    return leaf + p->stride < p->share.end || p->runs_on;
}

/* Returns the largest number of copies at a time, without the present gradient. */
static int copies(const mf_sum_plan *p)
{
    int top = 0, most = 0;
    for (int64_t j = p->share.first; j < p->share.end; j += p->stride) {
        top += keeps(p, j) - sums_of(p, j);
        if (top > most) most = top;
    }
    return most;
}

static int64_t elements(const mf_store *store)
{
    int64_t n;
    mf_store_values(store, &n);
    return n;
}

/* Writes the spans to ret, which may be NULL, and returns their number. experts: parameters of
 * experts count as held. */
static int list_spans(const mf_store *store, mf_sum_of of, bool experts, span *ret)
{
    int64_t at = 0;
    int n = 0;
    for (int i = 0; of != MF_SUM_ALL && i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        const int64_t first = p->offset + p->held_first;
        if (p->buffer || p->stored || !(p->held || (experts && mf_model_of_experts(p))))
            continue;
        const span one =
            of == MF_SUM_HELD ? (span){first, first + p->held} : (span){at, p->offset};
        at = p->offset + p->count;
        if (one.first == one.end) continue;
        if (ret) ret[n] = one;
        n++;
    }
    if (of == MF_SUM_HELD || at == elements(store)) return n;
    if (ret) ret[n] = (span){at, elements(store)};
    return n + 1;
}

size_t mf_gradient_sum_bytes(const mf_store *store, const mf_sum_plan *plan)
{
    int64_t size = 0;
    for (int i = 0; i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        if (p->buffer || p->stored || !p->held) continue;
        size += plan->of == MF_SUM_HELD ? p->held : p->count;
    }
    if (plan->of != MF_SUM_HELD)
        size = elements(store) - (plan->of == MF_SUM_COMMON ? size : 0);
    return (size_t)copies(plan) * (size_t)size * sizeof(float);
}

/* Tells the system that the parts between the spans are not used, so that no large page of a
 * span extends into them. */
static void leave_out(const mf_gradient_sum *s, float *block)
{
    int64_t at = 0;
    for (int i = 0; i <= s->n_spans; i++) {
        const int64_t to = i < s->n_spans ? s->spans[i].first : elements(s->store);
        if (at < to) mf_resident_leave_out(block + at, (size_t)(to - at) * sizeof *block);
        if (i < s->n_spans) at = s->spans[i].end;
    }
}

/* Lists the elements that are rounded. */
static int round_spans(mf_gradient_sum *s)
{
    const bool experts = s->plan.rounds == MF_ROUND_SHARED;
    const mf_sum_of of = experts ? MF_SUM_COMMON : s->plan.of;
    void *room = NULL;
    s->n_rounded = list_spans(s->store, of, experts, NULL);
    s->rounded = mf_alloc((size_t)s->n_rounded + 1, sizeof *s->rounded);
    if (!s->rounded) return MF_ENOMEM;
    list_spans(s->store, of, experts, s->rounded);
    const int rc =
        mf_device_alloc(mf_store_device(s->store), MF_GRADIENT_CHUNK * sizeof *s->bf16, &room);
    s->bf16 = room;
    return rc;
}

int mf_gradient_sum_new(mf_store *store, const mf_sum_plan *plan, mf_gradient_sum **ret)
{
    mf_gradient_sum *s = mf_alloc(1, sizeof *s);
    if (!s) return MF_ENOMEM;
    mf_piece piece[MF_TREE_PIECES];
    s->store = store;
    s->plan = *plan;
    s->room = copies(plan);
    if (plan->apart) {
        s->final = s->room;
    } else {
        s->final = mf_tree_pieces(plan->leaves, plan->share.first, plan->share.end, piece) - 1;
        s->sums = sums_of(plan, plan->share.end - 1);
    }
    s->n_spans = list_spans(store, plan->of, false, NULL);
    s->spans = mf_alloc((size_t)s->n_spans + 1, sizeof *s->spans);
    s->kept = mf_alloc((size_t)s->room + 1, sizeof *s->kept);
    int rc = s->kept && s->spans ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) list_spans(store, plan->of, false, s->spans);
    if (rc == MF_OK && plan->rounds != MF_ROUND_NONE) rc = round_spans(s);
    for (int i = 0; rc == MF_OK && i < s->room; i++) {
        void *block = NULL;
        rc = mf_device_alloc(mf_store_device(store),
                             (size_t)elements(store) * sizeof(float) + 1, &block);
        s->kept[i] = block;
        if (rc == MF_OK && plan->of != MF_SUM_ALL) leave_out(s, block);
    }
    if (rc != MF_OK) {
        mf_gradient_sum_free(s);
        return rc;
    }
    *ret = s;
    return MF_OK;
}

void mf_gradient_sum_free(mf_gradient_sum *s)
{
    if (!s) return;
    for (int i = 0; s->kept && i < s->room; i++)
        mf_device_free(mf_store_device(s->store), s->kept[i]);
    mf_device_free(mf_store_device(s->store), s->bf16);
    mf_free(s->kept);
    mf_free(s->spans);
    mf_free(s->rounded);
    mf_free(s);
}

void mf_gradient_sum_begin(mf_gradient_sum *s)
{
    s->top = 0;
}

/* Sets the height of the stack after a leaf. */
static void pass(mf_gradient_sum *s, int64_t leaf)
{
    s->top += keeps(&s->plan, leaf) - sums_of(&s->plan, leaf);
}

void mf_gradient_sum_add(mf_gradient_sum *s, int64_t leaf, bool recorded)
{
    if (recorded) {
        pass(s, leaf);
        return;
    }
    mf_device *d = mf_store_device(s->store);
    const mf_kernels *k = mf_device_kernels(d, NULL);
    const mf_kctx x = mf_device_context(d);
    const int sums = sums_of(&s->plan, leaf);
    for (int j = 0; j < s->n_rounded; j++)
        mf_gradient_round(d, mf_store_grads(s->store) + s->rounded[j].first,
                          s->rounded[j].end - s->rounded[j].first, s->bf16);
    for (int j = 0; j < s->n_spans; j++) {
        const span *at = &s->spans[j];
        float *now = mf_store_grads(s->store) + at->first;
        int top = s->top;
        for (int i = sums; i > 0; i--)
            MF_RUN(k, &x, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32,
                   .dim = {1, 1, 1, at->end - at->first}, .stride_a = {[3] = 1},
                   .stride_b = {[3] = 1}, .a = s->kept[--top] + at->first, .b = now,
                   .out = now);
        if (keeps(&s->plan, leaf))
            MF_RUN(k, &x, copy4, .dim = {1, 1, 1, at->end - at->first}, .stride_in = {[3] = 1},
                   .stride_out = {[3] = 1}, .in = now, .out = s->kept[top] + at->first);
    }
    pass(s, leaf);
}

void mf_gradient_sum_last(mf_gradient_sum *s)
{
    s->top = s->final;
}

void mf_gradient_sum_part(const mf_gradient_sum *s, int64_t first, int64_t end)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx x = mf_device_context(NULL);
    float *now = mf_store_grads(s->store) + first;
    /* If the graph runs once more, the last leaf was added before. */
    if (s->bf16 && !s->plan.runs_on) mf_gradient_round(NULL, now, end - first, s->bf16);
    for (int i = s->sums; i-- > 0;)
        MF_RUN(k, &x, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32,
               .dim = {1, 1, 1, end - first}, .stride_a = {[3] = 1}, .stride_b = {[3] = 1},
               .a = s->kept[s->top + i] + first, .b = now, .out = now);
}

bool mf_gradient_sum_rounds(const mf_gradient_sum *s)
{
    return s->bf16 != NULL;
}

void mf_gradient_sum_pack(const mf_gradient_sum *s, float *x, int64_t n)
{
    mf_gradient_pack(x, n, s->bf16);
}

int mf_gradient_sum_pieces(const mf_gradient_sum *s, float *ret[MF_TREE_PIECES])
{
    for (int i = 0; i < s->top; i++)
        ret[i] = s->kept[i];
    ret[s->top] = mf_store_grads(s->store);
    return s->top + !s->plan.runs_on;
}
