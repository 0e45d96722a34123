/* published_routers: routers of published methods, compared with numbers that were computed
 * from their formulas in double. Random choices are compared with the distribution of
 * the formula. */
#include "plugins/published.h"
#include "base/rng.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

#define ROUTER(name) .kind = MF_ROUTER, .plugin = name, .label = name
#define WEIGHT       "layers.0.router.weight"
/* 3 p (1 - p) times the derivative of the difference of the logits by the hidden number */
#define HYPER_D (3 * .8807971 * .1192029 * 2)

static const published cases[] = {
    {ROUTER("soft"), .experts = 2, .top_k = 1, .batch = 1, .seq = 2, .dim = 2,
     .x = NUMBERS("x", 1, 0, 0, 2),
     .set = {NUMBERS("layers.0.router.phi", EYE2),
             NUMBERS("layers.0.expert.weight", EYE2, EYE2)},
     .want = {NUMBERS("dispatch", .7310586, .2689414, .2689414, .7310586),
              NUMBERS("y", .6067761, .7864477, .3932239, 1.2135523)}},
    /* padding has no weight */
    {ROUTER("soft"), .experts = 2, .top_k = 1, .batch = 1, .seq = 3, .dim = 2, .length = 2,
     .x = NUMBERS("x", 1, 0, 0, 2, 9, 5),
     .set = {NUMBERS("layers.0.router.phi", EYE2),
             NUMBERS("layers.0.expert.weight", EYE2, EYE2)},
     .want = {NUMBERS("dispatch", .7310586, .2689414, .2689414, .7310586, 0, 0),
              NUMBERS("y", .6067761, .7864477, .3932239, 1.2135523, 0, 0)}},
    {ROUTER("base"), .experts = 3, .top_k = 1, .batch = 1, .seq = 3, .dim = 3, .training = true,
     .x = NUMBERS("x", .9, .8, .1, .8, .7, .2, .7, .1, .6), .set = {NUMBERS(WEIGHT, EYE3)},
     .want = {NUMBERS("chosen", 0, 1, 2), NUMBERS("gate", .7109495, .6681878, .6456563)}},
    {ROUTER("base"), .experts = 3, .top_k = 1, .batch = 1, .seq = 3, .dim = 3,
     .x = NUMBERS("x", .9, .8, .1, .8, .7, .2, .7, .1, .6), .set = {NUMBERS(WEIGHT, EYE3)},
     .want = {NUMBERS("chosen", 0, 0, 0)}},
    {ROUTER("top_p"), .given = {"p=0.5"}, .experts = 4, .top_k = 2, .batch = 1, .seq = 1,
     .dim = 4, .x = NUMBERS("x", 2, 1, 0, -1), .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("chosen", 0, -1, -1, -1), NUMBERS("gate", .6439143, 0, 0, 0)}},
    {ROUTER("top_p"), .given = {"p=0.7", "renormalize=yes"}, .experts = 4, .top_k = 2,
     .batch = 1, .seq = 1, .dim = 4, .x = NUMBERS("x", 2, 1, 0, -1),
     .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("chosen", 0, 1, -1, -1), NUMBERS("gate", .7310586, .2689414, 0, 0)}},
    {ROUTER("top_p"), .given = {"p=0.9", "most=3"}, .experts = 4, .top_k = 2, .batch = 1,
     .seq = 1, .dim = 4, .x = NUMBERS("x", 2, 1, 0, -1), .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("chosen", 0, 1, 2), NUMBERS("gate", .6439143, .2368828, .0871443)}},
    {ROUTER("product_keys"), .given = {"key_dim=0"}, .experts = 9, .top_k = 3, .batch = 1,
     .seq = 1, .dim = 6, .x = NUMBERS("x", .5, .1, .9, .2, .8, .3),
     .set = {NUMBERS("layers.0.router.row_keys", EYE3),
             NUMBERS("layers.0.router.column_keys", EYE3)},
     .want = {NUMBERS("chosen", 7, 1, 8), NUMBERS("gate", .439203, .294407, .266390)}},
    {ROUTER("two_level"), .given = {"groups=2"}, .experts = 4, .top_k = 4, .batch = 1, .seq = 1,
     .dim = 6, .x = NUMBERS("x", 2, 1, 0, -1, .3, -.2),
     .set = {NUMBERS(WEIGHT, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1,
                     0, 0),
             NUMBERS("layers.0.router.group", 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1)},
     .want = {NUMBERS("prob", .4550542, .1674051, .2760043, .1015363),
              NUMBERS("chosen", 0, 2, 1, 3)}},
    {ROUTER("two_level"), .given = {"groups=2", "open=1"}, .experts = 4, .top_k = 2, .batch = 1,
     .seq = 1, .dim = 6, .x = NUMBERS("x", 2, 1, 0, -1, .3, -.2),
     .set = {NUMBERS(WEIGHT, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1,
                     0, 0),
             NUMBERS("layers.0.router.group", 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1)},
     .want = {NUMBERS("chosen", 0, 1), NUMBERS("gate", .4550542, .1674051)}},
    /* the logits of layer 1 are the sum of those of its own input, 2 x, and of G times those of
     * layer 0 */
    {ROUTER("residual"), .experts = 2, .top_k = 2, .batch = 1, .seq = 1, .dim = 2, .layers = 2,
     .x = NUMBERS("x", 1, 2),
     .set = {NUMBERS(WEIGHT, EYE2), NUMBERS("layers.1.router.weight", EYE2),
             NUMBERS("layers.0.expert.weight", EYE2, EYE2),
             NUMBERS("layers.1.router.gate", .5, -.1, .2, .3)},
     .want = {NUMBERS("1:logits", 2.3, 4.8), NUMBERS("1:prob", .0758582, .9241418)}},
    {ROUTER("residual"), .given = {"zero_experts=1"}, .experts = 5, .top_k = 2, .batch = 1,
     .seq = 1, .dim = 4, .x = NUMBERS("x", 1, .5, .2, 2),
     .set = {NUMBERS(WEIGHT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)},
     .want = {NUMBERS("prob", .194476, .071544, .117956, .087384, .528641),
              NUMBERS("chosen", 4, 0), NUMBERS("gate", 0, 1)}},
    /* if all experts of a token are zero experts, its output is 0 and not NaN */
    {ROUTER("residual"), .given = {"zero_experts=2"}, .experts = 3, .top_k = 1, .batch = 1,
     .seq = 1, .dim = 3, .x = NUMBERS("x", 0, 2, 1), .set = {NUMBERS(WEIGHT, EYE3)},
     .want = {NUMBERS("chosen", 1), NUMBERS("gate", 0)}},
    {ROUTER("residual"), .given = {"balance_weight=1", "tau=0.5", "cheap_experts=1"},
     .experts = 3, .top_k = 1, .batch = 1, .seq = 3, .dim = 3,
     .x = NUMBERS("x", 2, 1, 0, 0, 1, 2, 1, 0, 3), .set = {NUMBERS(WEIGHT, EYE3)},
     .want = {NUMBERS("loss", .2742814)}},
    {ROUTER("gumbel"), .given = {"gate=straight"}, .experts = 2, .top_k = 1, .batch = 1,
     .seq = 1, .dim = 2, .x = NUMBERS("x", 2, 1.97),
     .set = {NUMBERS(WEIGHT, EYE2), NUMBERS("layers.0.expert.weight", EYE2, EYE2)},
     .want = {NUMBERS("gate", 1), NUMBERS("prob", .5074994, .4925006)}},
    {ROUTER("dynmoe"), .given = {"diverse_weight=1"}, .experts = 3, .top_k = 1, .batch = 1,
     .seq = 1, .dim = 2, .training = true, .x = NUMBERS("x", 3, 4),
     .set = {NUMBERS(WEIGHT, 1, 0, 0, 1, -1, 0), NUMBERS("layers.0.router.threshold", 0, .7, 0),
             NUMBERS("layers.0.expert.weight", EYE2, 2, 0, 0, 2, EYE2)},
     .want = {NUMBERS("chosen", 0, 1, -1), NUMBERS("loss", 2.4142136),
              NUMBERS("gate", .5, .5, 0),
              NUMBERS("grad layers.0.router.threshold", 4.375, -.0159289, 0)}},
    /* no expert is open: in training the token gets none, in evaluation the best expert */
    {ROUTER("dynmoe"), .experts = 2, .top_k = 1, .batch = 1, .seq = 1, .dim = 2,
     .training = true, .x = NUMBERS("x", 3, 4),
     .set = {NUMBERS(WEIGHT, EYE2), NUMBERS("layers.0.router.threshold", 2, 2)},
     .want = {NUMBERS("chosen", -1, -1), NUMBERS("gate", 0, 0)}},
    {ROUTER("dynmoe"), .experts = 2, .top_k = 1, .batch = 1, .seq = 1, .dim = 2,
     .x = NUMBERS("x", 3, 4),
     .set = {NUMBERS(WEIGHT, EYE2), NUMBERS("layers.0.router.threshold", 2, 2)},
     .want = {NUMBERS("chosen", -1, 1), NUMBERS("gate", 0, 1)}},
    {ROUTER("sparsemixer"), .experts = 2, .top_k = 1, .batch = 1, .seq = 1, .dim = 2,
     .x = NUMBERS("x", 2, 1.97),
     .set = {NUMBERS(WEIGHT, EYE2), NUMBERS("layers.0.expert.weight", EYE2, EYE2)},
     .want = {NUMBERS("chosen", 0), NUMBERS("gate", .5074994)}},
    {ROUTER("sparsemixer"), .experts = 2, .top_k = 1, .batch = 1, .seq = 1, .dim = 2,
     .training = true, .x = NUMBERS("x", 2, 1.97),
     .set = {NUMBERS(WEIGHT, EYE2), NUMBERS("layers.0.expert.weight", EYE2, EYE2)},
     .want = {NUMBERS("chosen", 0),
              NUMBERS("grad " WEIGHT, 1.9845534, 1.9547851, -1.9845534, -1.9547851)}},
    /* after the mask two experts remain; the second expert is drawn from those with
     * near scores */
    {ROUTER("sparsemixer"), .given = {"jitter=0.01"}, .experts = 4, .top_k = 2, .batch = 1,
     .seq = 1, .dim = 4, .x = NUMBERS("x", 2, 1.99, 1, -3), .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("chosen", 0, 1), NUMBERS("gate", .5025, 1)}},
    {ROUTER("dselect_k"), .given = {"entropy_weight=1"}, .experts = 4, .top_k = 2, .batch = 1,
     .seq = 1, .dim = 1, .x = NUMBERS("x", 1),
     .set = {NUMBERS("layers.0.router.bit.weight", .25, -.1, .5, .3),
             NUMBERS("layers.0.router.bit.bias", 0, 0, 0, 0),
             NUMBERS("layers.0.router.selector.weight", .2, -.2),
             NUMBERS("layers.0.router.selector.bias", 0, 0)},
     .want = {NUMBERS("gate", .0606171, .0329278, .3690690, .5373861),
              NUMBERS("loss", 1.4158588)}},
    /* the binary number 3 belongs to no expert */
    {ROUTER("dselect_k"), .given = {"rows=top_k"}, .experts = 3, .top_k = 2, .batch = 1,
     .seq = 1, .dim = 1, .x = NUMBERS("x", 1),
     .set = {NUMBERS("layers.0.router.bit.weight", .25, -.1, .5, .3),
             NUMBERS("layers.0.router.bit.bias", 0, 0, 0, 0),
             NUMBERS("layers.0.router.selector.weight", .2, -.2),
             NUMBERS("layers.0.router.selector.bias", 0, 0)},
     .want = {NUMBERS("chosen", 2, 0), NUMBERS("gate", .3690690, .0606171),
              NUMBERS("loss", 11.0377652)}},
    {ROUTER("sigmoid_bias"), .given = {"score=sqrt_softplus", "scale=1.5"}, .experts = 4,
     .top_k = 2, .batch = 1, .seq = 1, .dim = 4, .x = NUMBERS("x", 2, 1, 0, -1),
     .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("score", 1.458399, 1.145976, .832555, .559698),
              NUMBERS("gate", .839971, .660029)}},
    /* s = softmax(z) chooses with the bias, which is not in the gates */
    {ROUTER("sigmoid_bias"), .given = {"score=softmax"}, .experts = 4, .top_k = 2, .batch = 1,
     .seq = 1, .dim = 4, .x = NUMBERS("x", 2, 1, 0, -1),
     .set = {NUMBERS(WEIGHT, EYE4), NUMBERS("layers.0.router.bias", 0, 0, .2, 0)},
     .want = {NUMBERS("score", .643914, .236883, .287144, .032059),
              NUMBERS("gate", .880797, .119203)}},
    /* softplus is 0 in f32: the gradient is 0 and not NaN */
    {ROUTER("sigmoid_bias"), .given = {"score=sqrt_softplus"}, .experts = 2, .top_k = 2,
     .batch = 1, .seq = 1, .dim = 2, .training = true, .x = NUMBERS("x", -200, -150),
     .set = {NUMBERS(WEIGHT, EYE2)},
     .want = {NUMBERS("gate", .5, .5), NUMBERS("grad " WEIGHT, 0, 0, 0, 0)}},
    {ROUTER("seq_topk"), .experts = 4, .top_k = 2, .batch = 1, .seq = 3, .dim = 4,
     .x = NUMBERS("x", -.1053605, -2.9957323, -3.5065579, -3.912023, -1.2039728, -1.2729657,
                  -1.5141277, -1.6094379, -.9162907, -1.0498221, -1.89712, -2.3025851),
     .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("token", 0, 2, 2, 1, 1, 1), NUMBERS("chosen", 0, 0, 1, 0, 1, 2),
              NUMBERS("gate", 1, .5333333, .4666667, .375, .35, .275)}},
    {ROUTER("seq_topk"), .given = {"score=softmax", "most=2"}, .experts = 4, .top_k = 2,
     .batch = 1, .seq = 3, .dim = 4, .length = 2,
     .x = NUMBERS("x", -.1053605, -2.9957323, -3.5065579, -3.912023, -1.2039728, -1.2729657,
                  -1.5141277, -1.6094379, -.9162907, -1.0498221, -1.89712, -2.3025851),
     .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("token", 0, 1, 1, 0), NUMBERS("chosen", 0, 0, 1, 1, -1, -1),
              NUMBERS("gate", .9, .3, .28, .05)}},
    {ROUTER("lapsum"), .experts = 4, .top_k = 2, .batch = 1, .seq = 1, .dim = 4,
     .x = NUMBERS("x", 2, 1, 0, -1), .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("prob", .4442175, .3483673, .1516327, .0557825), NUMBERS("chosen", 0, 1),
              NUMBERS("gate", .4442175, .3483673)}},
    {ROUTER("lapsum"), .given = {"temperature=0.5"}, .experts = 4, .top_k = 2, .batch = 1,
     .seq = 1, .dim = 4, .x = NUMBERS("x", 2, .7, 0, -1), .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("prob", .4905208, .3723742, .1207617, .0163433)}},
    {ROUTER("lapsum"), .experts = 4, .top_k = 3, .batch = 1, .seq = 2, .dim = 4,
     .x = NUMBERS("x", 2, .7, 0, -1, 2000, 1, -1, -2000), .set = {NUMBERS(WEIGHT, EYE4)},
     .want = {NUMBERS("prob", .3226240, .2940376, .2542014, .1291371, .3333333, .3333333,
                      .3333333, 0)}},
    {ROUTER("lapsum"), .experts = 3, .top_k = 1, .batch = 1, .seq = 1, .dim = 2,
     .training = true, .x = NUMBERS("x", 2, 1),
     .set = {NUMBERS(WEIGHT, EYE2, 0, 0), NUMBERS("layers.0.expert.weight", EYE2, EYE2, EYE2)},
     .want = {NUMBERS("gate", 0.6453119),
              NUMBERS("grad " WEIGHT, 1.0640644, 0.5320322, -0.7778934, -0.3889467, -0.2861710,
                      -0.1430855)}},
    {ROUTER("hyper"), .given = {"embedding=2", "hidden=1"}, .experts = 2, .top_k = 1,
     .batch = 1, .seq = 1, .dim = 2, .x = NUMBERS("x", 2, 1),
     .set = {NUMBERS("layers.0.router.embedding", 1, 2),
             NUMBERS("layers.0.router.fixed.in", .5, .25),
             NUMBERS("layers.0.router.fixed.out", 1, 0, .5, 0, 1, -.5)},
     .want = {NUMBERS("logits", 2.5, .5), NUMBERS("gate", .8807971)}},
    {ROUTER("hyper"), .given = {"embedding=2", "hidden=1"}, .experts = 2, .top_k = 1,
     .batch = 1, .seq = 1, .dim = 2, .training = true, .x = NUMBERS("x", 2, 1),
     .set = {NUMBERS("layers.0.router.embedding", 1, 2),
             NUMBERS("layers.0.router.fixed.in", .5, .25),
             NUMBERS("layers.0.router.fixed.out", 1, 0, .5, 0, 1, -.5),
             NUMBERS("layers.0.expert.weight", EYE2, EYE2)},
     .want = {NUMBERS("grad layers.0.router.embedding", HYPER_D * .5, HYPER_D * .25)}},
    {ROUTER("kmeans"), .experts = 2, .top_k = 1, .batch = 1, .seq = 3, .dim = 2,
     .x = NUMBERS("x", 1, 0, 0, 1, 3, 4),
     .set = {NUMBERS("layers.0.router.centroid", 0, 0, 4, 4)},
     .want = {NUMBERS("logits", -.7071068, -17.6776695, -.7071068, -17.6776695, -17.6776695,
                      -.7071068),
              NUMBERS("chosen", 0, 0, 1)}},
    /* In training the experts choose 1 of 3 tokens, in evaluation all scores above .5 count. */
    {ROUTER("threshold"), .experts = 3, .top_k = 1, .batch = 1, .seq = 3, .dim = 3,
     .training = true, .x = NUMBERS("x", 1, 2, -1, 0, 3, -2, 2, 1, -3),
     .set = {NUMBERS(WEIGHT, EYE3)},
     .want = {NUMBERS("chosen", -1, -1, 2, -1, 1, -1, 0, -1, -1),
              NUMBERS("gate", 0, 0, .2689414, 0, .9525741, 0, .8807971, 0, 0)}},
    {ROUTER("threshold"), .experts = 3, .top_k = 1, .batch = 1, .seq = 3, .dim = 3,
     .x = NUMBERS("x", 1, 2, -1, 0, 3, -2, 2, 1, -3), .set = {NUMBERS(WEIGHT, EYE3)},
     .want = {NUMBERS("chosen", 0, 1, -1, -1, 1, -1, 0, 1, -1)}},
    /* An expert chooses one of two real tokens; padding is not chosen. */
    {ROUTER("threshold"), .experts = 3, .top_k = 2, .batch = 1, .seq = 3, .dim = 3, .length = 2,
     .training = true, .x = NUMBERS("x", 1, 2, -1, 0, 3, -2, 9, 9, 9),
     .set = {NUMBERS(WEIGHT, EYE3)},
     .want = {NUMBERS("chosen", 0, -1, 2, -1, 1, -1, -1, -1, -1)}},
};

START_TEST(numbers_of_the_formulas)
{
    published_run(&cases[_i]);
}
END_TEST

/* ---- hash: tables in files ---- */

/* Writes a table whose line i has the experts i mod 3 and 3, and then `last`. */
static const char *table_file(int lines, const char *last)
{
    static char path[4096], option[4200];
    snprintf(path, sizeof path, "%s/table", scratch_dir());
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < lines; i++)
        fprintf(f, "%d 3\n", i % 3);
    fprintf(f, "%s", last);
    ck_assert_int_eq(fclose(f), 0);
    snprintf(option, sizeof option, "path=%s", path);
    return option;
}

/* Gates are 1.5 s / sum s for z = (2, 1, 0, -1). The values s are those of
 * sigmoid_bias above. */
START_TEST(hash_takes_experts_from_a_file)
{
    static const double s[] = {1.458399, 1.145976, .832555, .559698};
    published c = {ROUTER("hash"),
                   .given = {"table=file", "hashes=2", "gate=sqrt_softplus", "scale=1.5"},
                   .experts = 4,
                   .top_k = 2,
                   .batch = 1,
                   .seq = 3,
                   .dim = 4,
                   .x = NUMBERS("x", 2, 1, 0, -1, 2, 1, 0, -1, 2, 1, 0, -1),
                   .set = {NUMBERS(WEIGHT, EYE4)},
                   .want = {NUMBERS("chosen", 0), NUMBERS("gate", 0)}};
    c.given[4] = table_file(MF_HARNESS_VOCAB, "");
    mf_harness *h = published_open(&c);
    static const int32_t ids[] = {7, 0, 59};
    memcpy(mf_tensor_input(h->in.token_ids), ids, sizeof ids);
    ck_assert_int_eq(mf_harness_run(h, NULL), MF_OK);
    for (int t = 0; t < 3; t++) {
        const int e = ids[t] % 3;
        const mf_tensor *chosen = h->out[0].routing.chosen, *gate = h->out[0].gate;
        ck_assert_double_eq(published_number(chosen, 2 * t), e);
        ck_assert_double_eq(published_number(chosen, 2 * t + 1), 3);
        ck_assert_double_eq_tol(published_number(gate, 2 * t), 1.5 * s[e] / (s[e] + s[3]),
                                4e-6);
        ck_assert_double_eq_tol(published_number(gate, 2 * t + 1), 1.5 * s[3] / (s[e] + s[3]),
                                4e-6);
    }
    mf_harness_free(h);
}
END_TEST

START_TEST(hash_refuses_other_tables)
{
    static const struct {
        int lines;
        const char *last, *message;
    } bad[] = {
        {MF_HARNESS_VOCAB - 1, "", "expected 61 lines, one for each token id, found 60"},
        {MF_HARNESS_VOCAB, "0 1\n", "expected 61 lines, one for each token id, found 62"},
        {MF_HARNESS_VOCAB - 1, "0 4\n", "table:61: expected whole numbers from 0 to 3"},
        {MF_HARNESS_VOCAB - 1, "0 x\n", "found 'x"},
        {MF_HARNESS_VOCAB - 1, "1 1\n", "expert 1 occurs twice"},
        {MF_HARNESS_VOCAB - 1, "1\n", "expected 2 experts (hashes), found 1"},
        {MF_HARNESS_VOCAB - 1, "1 0 2\n", "expected 2 experts (hashes), found 3"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *given[] = {"table=file", "hashes=2", table_file(bad[i].lines, bad[i].last),
                               NULL};
        const mf_harness_spec spec = {.plugin = published_load(MF_ROUTER, "hash"),
                                      .layers = 1,
                                      .batch = 1,
                                      .seq = 3,
                                      .dim = 4,
                                      .experts = 4,
                                      .top_k = 2,
                                      .only_init = true,
                                      .given = given};
        mf_harness *h = NULL;
        ck_assert_int_eq(mf_harness_new(&spec, &h), MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), bad[i].message) != NULL, "%s",
                      mf_error_message());
        mf_error_clear();
    }
}
END_TEST

/* ---- base: the sum of the scores is the largest of all balanced assignments ---- */

enum { TOKENS = 7, EXPERTS = 3, ROOM = 3 };

static double best_sum(const double (*s)[EXPERTS], int t, int *room)
{
    if (t == TOKENS) return 0;
    double best = -INFINITY;
    for (int e = 0; e < EXPERTS; e++) {
        if (room[e] == 0) continue;
        room[e]--;
        best = fmax(best, s[t][e] + best_sum(s, t + 1, room));
        room[e]++;
    }
    return best;
}

START_TEST(base_finds_the_best_assignment)
{
    const published c = {ROUTER("base"),
                         .experts = EXPERTS,
                         .top_k = 1,
                         .batch = 1,
                         .seq = TOKENS,
                         .dim = EXPERTS,
                         .training = true,
                         .x = {"x", TOKENS * EXPERTS, {0}},
                         .set = {NUMBERS(WEIGHT, EYE3)},
                         .want = {NUMBERS("chosen", 0)}};
    for (uint64_t draw = 0; draw < 40; draw++) {
        published one = c;
        double s[TOKENS][EXPERTS], sum = 0;
        int room[EXPERTS] = {ROOM, ROOM, ROOM}, count[EXPERTS] = {0};
        for (int i = 0; i < TOKENS * EXPERTS; i++) {
            float v;
            mf_rng_fill_normal(draw, 7, (uint64_t)i, &v, 1);
            one.x.v[i] = (double)v;
            s[i / EXPERTS][i % EXPERTS] = (double)v;
        }
        mf_harness *h = published_open(&one);
        ck_assert_int_eq(mf_harness_run(h, NULL), MF_OK);
        const int32_t *chosen = mf_tensor_host(h->out[0].routing.chosen);
        for (int t = 0; t < TOKENS; t++) {
            count[chosen[t]]++;
            sum += s[t][chosen[t]];
        }
        for (int e = 0; e < EXPERTS; e++)
            ck_assert_int_le(count[e], ROOM);
        const double best = best_sum(s, 0, room);
        ck_assert_msg(sum > best - TOKENS * 1e-3 * 6, "draw %d: %g of %g", (int)draw, sum,
                      best);
        mf_harness_free(h);
    }
}
END_TEST

/* ---- draws with z = (2, 1.6, 1.2, -3); jitter = 0.25 keeps the first three ---- */

enum { DRAWS = 4000 };

/* Computes the shares of the first choices, and the share of choices of expert 1 whose gate is
 * a third of p. */
static void draw_first(const char *plugin, const char *option, double share[4],
                       double *ret_third, double p1)
{
    const mf_harness_spec spec = {.plugin = published_load(MF_ROUTER, plugin),
                                  .layers = 1,
                                  .batch = 1,
                                  .seq = DRAWS,
                                  .dim = 4,
                                  .experts = 4,
                                  .top_k = 1,
                                  .training = true,
                                  .any_order = true,
                                  .given = (const char *const[]){option, NULL}};
    static const float z[] = {2, 1.6f, 1.2f, -3};
    mf_harness *h = NULL;
    int thirds = 0, ones = 0;
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s", mf_error_message());
    float *x = mf_tensor_input(h->x);
    for (int i = 0; i < DRAWS * 4; i++)
        x[i] = z[i % 4];
    for (int i = 0; i < 16; i++)
        published_param(h, WEIGHT)->value[i] = i % 5 == 0;
    ck_assert_msg(mf_harness_run(h, NULL) == MF_OK, "%s", mf_error_message());
    const int32_t *chosen = mf_tensor_host(h->out[0].routing.chosen);
    const float *gate = mf_tensor_host(h->out[0].gate);
    memset(share, 0, 4 * sizeof *share);
    for (int t = 0; t < DRAWS; t++) {
        share[chosen[t]] += 1.0 / DRAWS;
        if (chosen[t] != 1) continue;
        ones++;
        thirds += fabs((double)gate[t] - 0.3333 * p1) < 1e-5;
        if (ret_third)
            ck_assert_msg(fabs((double)gate[t] - p1) < 1e-5 ||
                              fabs((double)gate[t] - 0.3333 * p1) < 1e-5,
                          "gate %g", (double)gate[t]);
    }
    if (ret_third) *ret_third = (double)thirds / ones;
    mf_harness_free(h);
}

START_TEST(draws_follow_the_distribution)
{
    double share[4], third = 0, sum = exp(2) + exp(1.6) + exp(1.2);
    draw_first("sparsemixer", "jitter=0.25", share, &third, exp(1.6) / sum);
    for (int e = 0; e < 3; e++)
        ck_assert_double_eq_tol(share[e], exp(2 - 0.4 * e) / sum, 0.03);
    ck_assert_double_eq(share[3], 0);
    ck_assert_double_eq_tol(third, 0.75, 0.05);
    draw_first("gumbel", "gate=clean", share, NULL, 0);
    sum += exp(-3);
    for (int e = 0; e < 3; e++)
        ck_assert_double_eq_tol(share[e], exp(2 - 0.4 * e) / sum, 0.03);
    ck_assert_double_gt(share[3], 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("published_routers");
    TCase *c = tcase_create("published_routers");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, numbers_of_the_formulas, 0, sizeof cases / sizeof *cases);
    tcase_add_test(c, hash_takes_experts_from_a_file);
    tcase_add_test(c, hash_refuses_other_tables);
    tcase_add_test(c, base_finds_the_best_assignment);
    tcase_add_test(c, draws_follow_the_distribution);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
