/* published_parts: experts, regularizers and controllers of published methods, compared with
 * numbers that were computed from their formulas in double. */
#include "plugins/published.h"
#include "tests/lib/program.h"

#define EXPERT(name)      .kind = MF_EXPERT, .plugin = name, .label = name
#define REGULARIZER(name) .kind = MF_REGULARIZER, .plugin = name, .label = name
#define ROUTER_WEIGHT     "layers.0.router.weight"
#define IN(name)          "layers.0.expert." name

static const published cases[] = {
    /* one expert of each kind, with gates .3764610 .0187429 .2283351 .3764610 */
    {EXPERT("mixed"), .given = {"form=relu2", "hidden=1", "constants=1", "copies=1", "zeros=1"},
     .experts = 4, .top_k = 4, .batch = 1, .seq = 1, .dim = 2, .x = NUMBERS("x", 1, -2),
     .set = {NUMBERS(ROUTER_WEIGHT, 1, 0, 0, 1, .5, 0, 0, -.5), NUMBERS(IN("w1"), 2, .5),
             NUMBERS(IN("w2"), 1, 3), NUMBERS(IN("constant"), .7, -.4),
             NUMBERS(IN("share"), .3, .1, -.2, .4)},
     .want = {NUMBERS("y", .6221348, .6427163)}},
    {EXPERT("mixed"), .given = {"form=relu", "hidden=1", "constants=1", "plain_constants=yes"},
     .experts = 2, .top_k = 1, .batch = 1, .seq = 1, .dim = 2, .x = NUMBERS("x", 1, -2),
     .set = {NUMBERS(ROUTER_WEIGHT, 0, 0, 99, 0), NUMBERS(IN("constant"), .7, -.4)},
     .want = {NUMBERS("chosen", 1), NUMBERS("y", .7, -.4)}},
    /* two of the three chosen experts belong to the same group */
    {EXPERT("grove"), .given = {"group=2", "hidden=1", "adjugate_hidden=1"}, .experts = 4,
     .top_k = 3, .batch = 1, .seq = 1, .dim = 1, .x = NUMBERS("x", 2),
     .set = {NUMBERS(ROUTER_WEIGHT, .4, -.1, .2, 0),
             NUMBERS(IN("w13"), 1, 1, 2, 1, .5, -1, 1, 1), NUMBERS(IN("w2"), 1, .5, 1, 2),
             NUMBERS(IN("adjugate.w13"), 1, 2, -1, 1), NUMBERS(IN("adjugate.w2"), 1, 3)},
     .want = {NUMBERS("chosen", 0, 2, 3), NUMBERS("y", 2.4045886)}},
    {EXPERT("lora_experts"), .given = {"form=linear", "rank=1", "alpha=2"}, .experts = 2,
     .top_k = 2, .batch = 1, .seq = 1, .dim = 2, .x = NUMBERS("x", 1, 2),
     .set = {NUMBERS(ROUTER_WEIGHT, 0, 0, 1.0986123, 0), NUMBERS(IN("weight"), 0, 0, 0, 0),
             NUMBERS(IN("lora.weight.a"), 1, 0, 0, 1),
             NUMBERS(IN("lora.weight.b"), 1, 0, 2, 1)},
     .want = {NUMBERS("y", 6.5, 3)}},
    {EXPERT("lora_experts"), .given = {"hidden=1", "rank=1", "alpha=3"}, .experts = 1,
     .top_k = 1, .batch = 1, .seq = 1, .dim = 2, .x = NUMBERS("x", 1, 2),
     .set = {NUMBERS(IN("w13"), .5, .1, .2, .3), NUMBERS(IN("w2"), 1, -1),
             NUMBERS(IN("lora.w13.a"), 1, 0, 0, 1), NUMBERS(IN("lora.w1.b"), .5),
             NUMBERS(IN("lora.w3.b"), -.25), NUMBERS(IN("lora.w2.a"), 2),
             NUMBERS(IN("lora.w2.b"), .1, .2)},
     .want = {NUMBERS("y", -2.2182148, -.2772768)}},
    {REGULARIZER("simbal"), .given = {"form=cosine"}, .experts = 3, .top_k = 1, .batch = 1,
     .seq = 1, .dim = 2, .x = NUMBERS("x", 0, 0),
     .set = {NUMBERS(ROUTER_WEIGHT, 1, 0, 1, 1, 0, 2)}, .want = {NUMBERS("penalty", 2)}},
    {REGULARIZER("mutual_information"), .experts = 2, .top_k = 1, .batch = 1, .seq = 3,
     .dim = 2, .length = 2, .x = NUMBERS("x", 2, 0, 0, 1, 9, 9),
     .set = {NUMBERS(ROUTER_WEIGHT, EYE2)}, .want = {NUMBERS("penalty", -.2081256)}},
    {REGULARIZER("mutual_information"), .given = {"balance=2"}, .experts = 2, .top_k = 1,
     .batch = 1, .seq = 2, .dim = 2, .x = NUMBERS("x", 2, 0, 0, 1),
     .set = {NUMBERS(ROUTER_WEIGHT, EYE2)}, .want = {NUMBERS("penalty", -.8900197)}},
    {REGULARIZER("score_variance"), .experts = 2, .top_k = 1, .batch = 1, .seq = 3, .dim = 2,
     .length = 2, .x = NUMBERS("x", 2, 0, 0, 1, 9, 9), .set = {NUMBERS(ROUTER_WEIGHT, EYE2)},
     .want = {NUMBERS("penalty", -.0935918)}},
    /* One real token. The outputs of its two experts are (1, 0) and (1, 1); the output of a
     * third expert is (0, -2). With a single expert the penalty is 0. */
    {REGULARIZER("orthogonality"), .experts = 3, .top_k = 2, .batch = 1, .seq = 2, .dim = 2,
     .length = 1, .x = NUMBERS("x", 1, 1, 9, 9),
     .set = {NUMBERS(ROUTER_WEIGHT, 1, 0, 0, 0, 0, 2),
             NUMBERS(IN("weight"), 1, 0, 0, 0, EYE2, EYE2)},
     .want = {NUMBERS("chosen", 2, 0, -1, -1), NUMBERS("penalty", 1.5)}},
    {REGULARIZER("orthogonality"), .experts = 3, .top_k = 3, .batch = 1, .seq = 1, .dim = 2,
     .x = NUMBERS("x", 1, 1),
     .set = {NUMBERS(ROUTER_WEIGHT, 1, 0, 0, 0, 0, 2),
             NUMBERS(IN("weight"), 1, 0, 0, 0, EYE2, 0, 0, 0, -2)},
     .want = {NUMBERS("penalty", 4.5)}},
    {REGULARIZER("orthogonality"), .experts = 3, .top_k = 1, .batch = 1, .seq = 1, .dim = 2,
     .x = NUMBERS("x", 1, 1), .set = {NUMBERS(ROUTER_WEIGHT, 1, 0, 0, 0, 0, 2)},
     .want = {NUMBERS("penalty", 0)}},
};

START_TEST(numbers_of_the_formulas)
{
    published_run(&cases[_i]);
}
END_TEST

/* M_ij is the length of the output of expert j for row i of the router's weight: M = (3 1 2, 1
 * 2 2.5, .5 1 4). Only row 0 of W_j [d,d] is not 0, so M_ij = |W_j[0,i]|. */
START_TEST(erc_compares_answers)
{
    static const double M[3][3] = {{3, 1, 2}, {1, 2, 2.5}, {.5, 1, 4}};
    const published c = {REGULARIZER("erc"),
                         .given = {"alpha=0.8", "expert=w1", "noise=no"},
                         .experts = 3,
                         .top_k = 1,
                         .batch = 1,
                         .seq = 1,
                         .dim = 3,
                         .training = true,
                         .x = NUMBERS("x", 0, 0, 0),
                         .set = {NUMBERS(ROUTER_WEIGHT, EYE3)},
                         .want = {NUMBERS("penalty", .1)}};
    for (int noise = 0; noise < 2; noise++) {
        published one = c;
        if (noise) one.given[2] = "noise=yes";
        mf_harness *h = published_open(&one);
        float *w = published_param(h, IN("w1"))->value;
        for (int i = 0; i < 27; i++)
            w[i] = i % 9 < 3 ? (float)M[i % 3][i / 9] : 0;
        ck_assert_int_eq(mf_harness_run(h, NULL), MF_OK);
        const double found = published_number(h->penalty, 0);
        /* eps is sqrt(2) / 2, so each output is at most 1.71 times as large, or at least
         * a fifth */
        if (noise)
            ck_assert(found >= 0 && fabs(found - .1) > 1e-3);
        else
            published_expect(&one, h);
        mf_harness_free(h);
    }
}
END_TEST

/* ---- controllers: biases after steps with these numbers of assignments ---- */

typedef struct steered {
    const char *plugin, *given[3];
    int experts, steps;
    double count[4], per_token, bias[2][4]; /* biases after the first step, and after the
                                             * second step */
} steered;

static const steered controllers[] = {
    {"smebu",
     {NULL},
     4,
     2,
     {10, 2, 4, 0},
     2,
     {{-294.424e-6, 144.738e-6, -45.660e-6, 195.346e-6},
      {-736.060e-6, 361.845e-6, -114.151e-6, 488.366e-6}}},
    {"expert_budget",
     {"rate=1", "budget=1.2"},
     4,
     1,
     {50, 30, 20, 100},
     2,
     {{-.05, .05, .1, 0}}},
};

START_TEST(biases_follow_the_counts)
{
    const steered *c = &controllers[_i];
    const mf_harness_spec spec = {.plugin = published_load(MF_CONTROLLER, c->plugin),
                                  .layers = 1,
                                  .batch = 1,
                                  .seq = 4,
                                  .dim = 2,
                                  .experts = c->experts,
                                  .top_k = 2,
                                  .given = c->given};
    mf_harness *h = NULL;
    float demand[4];
    double sum = 0;
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s", mf_error_message());
    for (int e = 0; e < 4; e++)
        sum += c->count[e];
    for (int e = 0; e < 4; e++)
        demand[e] = (float)(c->count[e] / sum);
    const mf_layer_stats stats = {.size = sizeof stats,
                                  .experts = c->experts,
                                  .top_k = 2,
                                  .demand = demand,
                                  .rows_per_token = c->per_token};
    for (int s = 0; s < c->steps; s++) {
        const mf_step step = {
            .size = sizeof step, .n_layers = 1, .step = s + 1, .layers = &stats};
        ck_assert_msg(mf_instance_on_step(h->controller, &step) == MF_OK, "%s",
                      mf_error_message());
        for (int e = 0; e < c->experts; e++)
            ck_assert_double_eq_tol((double)h->layer[0].select_bias->value[e], c->bias[s][e],
                                    1e-8 + 1e-6 * fabs(c->bias[s][e]));
    }
    mf_harness_free(h);
}
END_TEST

/* A schedule that rounds sets moe.top_k to whole numbers, and only when the number changes. */
START_TEST(a_schedule_of_whole_numbers)
{
    static const double wanted[] = {4, 4, 3, 3, 2, 2, 1, 1};
    const mf_harness_spec spec = {.plugin = published_load(MF_CONTROLLER, "schedule"),
                                  .layers = 1,
                                  .batch = 1,
                                  .seq = 4,
                                  .dim = 2,
                                  .experts = 4,
                                  .top_k = 4,
                                  .given = (const char *const[]){"target=moe.top_k", "from=4",
                                                                 "to=1", "end=7", "whole=yes",
                                                                 NULL}};
    mf_harness *h = NULL;
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s", mf_error_message());
    for (int s = 0; s < 8; s++) {
        const mf_step step = {.size = sizeof step, .step = s};
        ck_assert_msg(mf_instance_on_step(h->controller, &step) == MF_OK, "%s",
                      mf_error_message());
        ck_assert_double_eq(h->top_k, wanted[s]);
    }
    mf_harness_free(h);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("published_parts");
    TCase *c = tcase_create("published_parts");
    tcase_add_loop_test(c, numbers_of_the_formulas, 0, sizeof cases / sizeof *cases);
    tcase_add_test(c, erc_compares_answers);
    tcase_add_loop_test(c, biases_follow_the_counts, 0, 2);
    tcase_add_test(c, a_schedule_of_whole_numbers);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
