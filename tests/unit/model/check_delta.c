/* delta: the gated delta rule over several chunks, and short convolutions. Decoding in pieces
 * of any length must give the logits of the whole text, and a document must not see the one
 * before it in its sequence.
 * Values are those of the golden models (check_pretrained.c), and gradients are tested with the
 * other options (check_options.c). */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "generate/generator.h"
#include "run/session.h"
#include "tests/lib/program.h"

enum { LONG = 150, SETTINGS = 24 };

static mf_session *opened(const char *const *more)
{
    static const char *const common[] = {"data.path=builtin:topics?bytes=4000",
                                         "model.layers=2",
                                         "model.dim=16",
                                         "model.heads=4",
                                         "model.seq=150",
                                         "model.init_std=0.3",
                                         "model.delta_layers=0-1",
                                         "model.delta_heads=4",
                                         "model.delta_key_heads=2",
                                         "model.delta_key_dim=6",
                                         "model.delta_value_dim=5",
                                         "train.eval_context=0",
                                         "expert.hidden=8",
                                         "moe.experts=3",
                                         "moe.top_k=3"};
    const mf_session_options options = {.training = true};
    const char *set[SETTINGS];
    mf_config *config = NULL;
    mf_session *s = NULL;
    int n = 0;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        set[n++] = common[i];
    for (int i = 0; more && more[i]; i++)
        set[n++] = more[i];
    int rc = mf_config_load("default", n, set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &options, &s);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return s;
}

/* Blocks of the delta rule, and one of them beside one of a short convolution. */
static const char *const kinds[][4] = {
    {NULL}, {"model.delta_layers=1", "model.conv_layers=0", "model.conv_taps=5", NULL}};

static int32_t token(const mf_session *s, int t)
{
    return (7 * t + t * t / 3) % s->model->dims.vocab;
}

/* Runs the tokens from .. from + n - 1 of one sequence, in documents that begin at `begins`,
 * which ends with a number below 0. Returns the graph, whose logits are kept. */
static mf_model_graph *whole(mf_session *s, int from, int n, const int *begins)
{
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = 1,
                                  .seq = n,
                                  .packed = begins[1] > 0,
                                  .want_logits = true};
    const mf_run run = {.forward_only = true};
    mf_model_graph *mg = NULL;
    mf_batch *b = NULL;
    ck_assert_msg(mf_model_graph_new(s->model, &shape, &mg) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_batch_new(1, n, &b), MF_OK);
    for (int t = 0, d = 0; t < n; t++) {
        if (begins[d + 1] == t) d++;
        b->tokens[t] = token(s, from + t);
        b->targets[t] = token(s, from + t + 1);
        b->since[t] = begins[d];
        b->positions[t] = t - begins[d];
        b->mask[t] = 1;
    }
    mf_batch_feed(b, mg);
    mf_batch_free(b);
    ck_assert_msg(mf_graph_run(mg->g, &run) == MF_OK, "%s", mf_error_message());
    return mg;
}

static void same(const char *what, int t, int64_t n, const float *want, const float *found)
{
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)found[i] - (double)want[i]) <
                          4e-5 * (1 + fabs((double)want[i])),
                      "%s: token %d, logit %d: %.8g, expected %.8g", what, t, (int)i,
                      (double)found[i], (double)want[i]);
}

/* The prompt is longer than a chunk; then come a few tokens, a single one, and all others. A
 * second text must not see the first. */
START_TEST(decoding_in_pieces)
{
    static const int pieces[] = {70, 3, 1, 76}, all[] = {0, -1};
    mf_session *s = opened(kinds[_i]);
    mf_generator *g = NULL;
    int32_t ids[LONG];
    const int64_t V = s->model->dims.vocab;
    for (int t = 0; t < LONG; t++)
        ids[t] = token(s, t);
    mf_model_graph *mg = whole(s, 0, LONG, all);
    const float *want = mf_tensor_host(mg->logits), *logits = NULL;
    ck_assert_int_eq(mf_generator_new(s->model, true, &g), MF_OK);
    for (int text = 0; text < 2; text++) {
        mf_generator_reset(g);
        for (int i = 0, at = 0; i < 4; at += pieces[i++]) {
            const int rc = mf_generator_feed(g, ids + at, pieces[i], &logits);
            ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
            const int last = at + pieces[i] - 1;
            same("with the cache", last, V, want + last * V, logits);
        }
    }
    mf_generator_free(g);
    mf_model_graph_free(mg);
    mf_session_close(s);
}
END_TEST

/* Three documents, of which the second goes over the end of a chunk. */
START_TEST(documents_are_apart)
{
    static const int begins[] = {0, 30, 100, -1}, all[] = {0, -1};
    mf_session *s = opened(kinds[_i]);
    const int64_t V = s->model->dims.vocab;
    mf_model_graph *packed = whole(s, 0, LONG, begins);
    for (int d = 0; d < 3; d++) {
        const int n = (d < 2 ? begins[d + 1] : LONG) - begins[d];
        mf_model_graph *alone = whole(s, begins[d], n, all);
        const float *want = mf_tensor_host(alone->logits),
                    *found = mf_tensor_host(packed->logits);
        for (int t = 0; t < n; t++)
            same("packed", begins[d] + t, V, want + t * V, found + (begins[d] + t) * V);
        mf_model_graph_free(alone);
    }
    mf_model_graph_free(packed);
    ck_assert(!mf_model_crosses_documents(s->model));
    mf_session_close(s);
}
END_TEST

/* A text in which all tokens are equal: keys are equal, too, and the writes of a chunk depend
 * on each other as much as they can. */
START_TEST(equal_tokens)
{
    mf_session *s = opened(NULL);
    mf_generator *g = NULL;
    int32_t id = 5;
    const float *logits = NULL;
    const int64_t V = s->model->dims.vocab;
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = 1, .seq = LONG, .want_logits = true};
    const mf_run run = {.forward_only = true};
    mf_model_graph *mg = NULL;
    mf_batch *b = NULL;
    ck_assert_int_eq(mf_model_graph_new(s->model, &shape, &mg), MF_OK);
    ck_assert_int_eq(mf_batch_new(1, LONG, &b), MF_OK);
    for (int t = 0; t < LONG; t++) {
        b->tokens[t] = b->targets[t] = id;
        b->positions[t] = t;
        b->mask[t] = 1;
    }
    mf_batch_feed(b, mg);
    mf_batch_free(b);
    ck_assert_int_eq(mf_graph_run(mg->g, &run), MF_OK);
    const float *want = mf_tensor_host(mg->logits);
    ck_assert_int_eq(mf_generator_new(s->model, true, &g), MF_OK);
    for (int t = 0; t < LONG; t++) {
        ck_assert_int_eq(mf_generator_feed(g, &id, 1, &logits), MF_OK);
        same("one at a time", t, V, want + t * V, logits);
    }
    mf_generator_free(g);
    mf_model_graph_free(mg);
    mf_session_close(s);
}
END_TEST

/* Heads are switched off in blocks of attention alone. */
START_TEST(heads_of_other_blocks)
{
    static const char *const more[][4] = {
        {"model.delta_layers=0", "adapter.gates.plugin=head_gates", NULL},
        {"model.delta_layers=", "model.conv_layers=0", "adapter.gates.plugin=head_gates",
         NULL}};
    static const int all[] = {0, -1};
    mf_session *s = opened(more[_i]);
    ck_assert_ptr_null(mf_store_find(s->model->store, "layers.0.attention.active"));
    ck_assert_ptr_nonnull(mf_store_find(s->model->store, "layers.1.attention.active"));
    mf_model_graph_free(whole(s, 0, LONG, all));
    mf_session_close(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("delta");
    TCase *t = tcase_create("rule");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, decoding_in_pieces, 0, 2);
    tcase_add_loop_test(t, documents_are_apart, 0, 2);
    tcase_add_test(t, equal_tokens);
    tcase_add_loop_test(t, heads_of_other_blocks, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
