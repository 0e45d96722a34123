/* without_memory: a session, its trainer, a step and an evaluation. In each run another
 * allocation fails. The call must end with MF_ENOMEM and a message, or succeed without the part
 * for which there was no memory. Nothing leaks, and the next attempt works. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/training.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 32 };

static const char *const small[] = {"data.path=builtin:topics?bytes=3000",
                                    "model.layers=1",
                                    "model.dim=8",
                                    "model.heads=2",
                                    "model.seq=8",
                                    "expert.hidden=8",
                                    "moe.experts=2",
                                    "moe.top_k=1",
                                    "train.batch=1",
                                    "train.steps=2",
                                    "train.eval_batches=1",
                                    "train.eval_context=0",
                                    "report.samples=0"};

typedef struct setting {
    const char *name;
    bool sentences; /* the data are sentences with classes */
    const char *set[12];
} setting;

static const setting settings[] = {
    {"default", false, {"train.recompute=none"}},
    {"capacity",
     false,
     {"moe.capacity_factor=0.5", "moe.overflow=reassign", "moe.adaptive_capacity=0.2",
      "moe.shared_experts=1", "moe.shared_gate=yes", "router.plugin=tia_r",
      "controller.c.plugin=expert_bias", "train.recompute=block"}},
    {"heads",
     false,
     {"adapter.gates.plugin=head_gates", "controller.s.plugin=sentinel", "model.kv_heads=1",
      "model.qk_norm=head", "model.sinks=yes", "model.attention_bias=yes", "model.layers=2",
      "adapter.skip.plugin=unet_skip", "train.optimizer=muon"}},
    {"adapters",
     false,
     {"adapter.f.plugin=film", "adapter.l.plugin=lora", "adapter.l.at=attention.*, expert.*",
      "train.freeze=embed.*, head.*", "train.optimizer=adafactor", "train.dtype=bf16"}},
    {"latent",
     false,
     {"model.latent=6", "model.latent_q=5", "model.head_dim=6", "model.rope_dims=2",
      "model.value_dim=4", "model.layers=2", "model.share_layers=yes",
      "expert.plugin=attention", "router.plugin=sigmoid_bias", "train.accumulate=2"}},
    {"classes",
     true,
     {"model.task=classify", "model.pooler=yes", "model.embed_norm=yes", "model.moe_every=0",
      "model.position=learned", "model.norm=layernorm", "data.padding=batch",
      "data.split=0.5"}},
    {"choice",
     true,
     {"model.task=classify", "router.plugin=expert_choice", "expert.plugin=mlp",
      "regularizer.e.plugin=entropy", "regularizer.s.plugin=simbal", "data.split=0.5",
      "regularizer.i.plugin=importance2_load"}}};

static const char *sentences(void)
{
    static char path[512];
    static const char text[] = "sentence\tlabel\na b\t1\nc d\t0\nb a\t1\nd c\t0\n";
    snprintf(path, sizeof path, "data.path=%s", scratch_path("rows.tsv"));
    scratch_write(scratch_path("rows.tsv"), text, strlen(text));
    return path;
}

/* Does everything that a run does, except writing files. */
static int work(const char *const *set, int n)
{
    const mf_session_options options = {.training = true};
    const mf_step_result *result = NULL;
    mf_metrics_record record = {0};
    mf_config *config = NULL;
    mf_session *s = NULL;
    mf_trainer *t = NULL;
    int rc = mf_config_load("default", n, set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &options, &s);
    if (rc == MF_OK) rc = mf_training_new(s, NULL, &t);
    if (rc == MF_OK) rc = mf_trainer_step(t, NULL, &result);
    if (rc == MF_OK) rc = mf_training_evaluate(t, 1, &record);
    mf_trainer_free(t);
    mf_session_close(s);
    return rc;
}

START_TEST(each_allocation_fails_once)
{
    const setting *c = &settings[_i];
    const char *set[MOST];
    const int n_small = sizeof small / sizeof *small;
    int n = 0;
    for (; n < n_small; n++)
        set[n] = small[n];
    if (c->sentences) {
        set[n++] = sentences();
        set[n++] = "data.format=tsv";
    }
    for (int i = 0; c->set[i]; i++)
        set[n++] = c->set[i];
    /* allocates memory that is kept until the program ends, such as tables of plugins */
    ck_assert_msg(work(set, n) == MF_OK, "%s: %s", c->name, mf_error_message());
    fault_alloc(0, FAULT_ONCE);
    ck_assert_int_eq(work(set, n), MF_OK);
    const long calls = fault_alloc_calls();
    ck_assert_int_eq(fault_alloc_live(), 0);
    fault_off();
    printf("# %s: %ld allocations\n", c->name, calls);
    ck_assert_int_gt(calls, 50);
    int failed = 0;
    for (long nth = 1; nth <= calls; nth++) {
        mf_error_clear();
        fault_alloc(nth, FAULT_ONCE);
        const int rc = work(set, n);
        const bool hit = fault_hit();
        const long live = fault_alloc_live();
        fault_off();
        ck_assert_msg(hit, "%s: allocation %ld was not made", c->name, nth);
        ck_assert_msg(rc == MF_OK || (rc == MF_ENOMEM && mf_error_message()[0] != '\0'),
                      "%s, allocation %ld: %d, %s", c->name, nth, rc, mf_error_message());
        ck_assert_msg(live == 0, "%s, allocation %ld: %ld blocks are left", c->name, nth, live);
        failed += rc != MF_OK;
    }
    ck_assert_int_gt(failed, (int)calls / 2);
    ck_assert_int_eq(work(set, n), MF_OK);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("without_memory");
    TCase *c = tcase_create("without_memory");
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, each_allocation_fails_once, 0, sizeof settings / sizeof *settings);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
