/* mirror: the messages between two ranks before a run and at a save, with a communicator in
 * which the other rank is a mirror (lib/comm/mirror.c). All computations use the
 * reference kernels. */
#include "check_main.h"

#include "base/error.h"
#include "base/log.h"
#include "tests/lib/expect.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "tests/lib/small.h"
#include "ops/ops.h"
#include "train/parallel/gradient_exchange.h"
#include "train/parallel/gradient_norm.h"
#include "run/launch_check.h"
#include "train/parallel/repeat.h"
#include "run/training.h"

#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* ---- the world ---- */

static char module_path[600];

static mf_world *join(void)
{
    mf_world *w = NULL;
    const int rc = mf_world_open("mirror", 10, &w);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_world_ranks(w), 2);
    return w;
}

/* Sets how the mirror changes the data that it sends; NULL: not at all. */
static void mirror(void (*change)(void *data, int64_t bytes))
{
    void *module = dlopen(module_path, RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(module);
    void (**at)(void *, int64_t) = NULL;
    *(void **)&at = dlsym(module, "mirror_change");
    ck_assert_ptr_nonnull(at);
    *at = change;
    dlclose(module);
}

/* ---- sessions ---- */

static const char *const small[] = {"data.path=builtin:topics?bytes=5000",
                                    "model.layers=1",
                                    "model.dim=8",
                                    "model.heads=2",
                                    "model.seq=16",
                                    "expert.hidden=8",
                                    "moe.experts=4",
                                    "train.batch=2",
                                    "train.steps=3",
                                    "train.eval_context=0"};
enum { SMALL = sizeof small / sizeof *small };

static mf_session *session_with(const mf_session_options *o, int n, const char *const *more)
{
    return small_session(small_config(SMALL, small, n, more), o);
}
#define SESSION(o, ...)                                                                        \
    session_with(o, sizeof(const char *[]){__VA_ARGS__} / sizeof(char *),                      \
                 (const char *const[]){__VA_ARGS__})

static const mf_session_options alone = {.training = true},
                                shared = {.training = true, .expert_ranks = 2},
                                second = {
                                    .training = true, .expert_rank = 1, .expert_ranks = 2};

START_TEST(runs_that_cannot_be_divided)
{
    mf_world *w = join();
    mf_session *s = SESSION(&alone, "train.accumulate=2");
    ck_assert_msg(mf_launch_check(w, s) == MF_OK, "%s", mf_error_message());
    struct mf_device *host = s->device;
    s->device = (struct mf_device *)(void *)s; /* the device is never accessed */
    expect_failure(mf_launch_check(w, s), MF_ECONFIG, "expected cpu in a run of 2 ranks");
    s->device = host;
    mf_session_close(s);
    s = SESSION(&second, "train.accumulate=2");
    expect_failure(
        mf_launch_check(w, s), MF_EUSAGE,
        "parallel.expert: by the launcher this is rank 1 of 2 that share the experts, and "
        "mirror calls it rank 0 of 2");
    mf_session_close(s);
    mf_world_close(w);
}
END_TEST

START_TEST(shared_experts_of_lengths_that_differ)
{
    static const char text[] = "sentence\tlabel\na b\t1\nc d\t0\nb a\t1\nd c\t0\n";
    char path[600];
    scratch_write(scratch_path("rows.tsv"), text, strlen(text));
    snprintf(path, sizeof path, "data.path=%s", scratch_path("rows.tsv"));
    mf_world *w = join();
    mf_session *s = SESSION(&shared, path, "data.format=tsv", "data.split=0.5",
                            "model.task=classify", "data.padding=batch", "train.accumulate=2");
    expect_failure(mf_launch_check(w, s), MF_ECONFIG,
                   "parallel.expert: expected data.padding = max");
    mf_session_close(s);
    mf_world_close(w);
}
END_TEST

START_TEST(too_many_micro_batches)
{
    mf_world *w = join();
    mf_session *s = SESSION(&shared, "train.accumulate=256");
    const mf_training_options o = {.world = w};
    mf_trainer *t = NULL;
    ck_assert_msg(mf_launch_check(w, s) == MF_OK, "%s", mf_error_message());
    expect_failure(mf_training_new(s, &o, &t), MF_ECONFIG,
                   "parallel.expert: train.accumulate = 256 for 2 ranks: expected at most 127 "
                   "micro-batches of each");
    ck_assert_ptr_null(t);
    mf_session_close(s);
    mf_world_close(w);
}
END_TEST

START_TEST(ranks_that_are_bound_to_one_core)
{
    cpu_set_t before, one;
    int threads = 0;
    mf_world *w = join();
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
    unsetenv("OMP_NUM_THREADS");
    fflush(stderr);
    const int saved = dup(2);
    ck_assert_ptr_nonnull(freopen(scratch_path("log"), "w", stderr));
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    mf_log_set_level(MF_LOG_WARN);
    const int rc = mf_launch_threads(w, &threads);
    sched_setaffinity(0, sizeof before, &before);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    ck_assert_int_eq(rc, MF_OK);
    ck_assert_int_eq(threads, 1);
    char *log = scratch_read(scratch_path("log"), NULL);
    const bool told =
        strstr(log, "the launcher binds each rank to one core of several") != NULL;
    ck_assert_int_eq(told, sysconf(_SC_NPROCESSORS_ONLN) > 1);
    free(log);
    mf_world_close(w);
}
END_TEST

/* ---- results that differ ---- */

/* Bytes that ranks send each other about a result: the number of nodes, and a digest. */
enum { TOLD = 48 };

static void other_graph(void *data, int64_t bytes)
{
    if (bytes == TOLD) ((unsigned char *)data)[0] ^= 1;
}

static void other_buffers(void *data, int64_t bytes)
{
    if (bytes == TOLD) ((unsigned char *)data)[9] ^= 1;
}

/* The other rank has another graph, or the same graph with the same values but
 * other buffers. */
START_TEST(results_of_the_other_rank)
{
    const mf_model_shape shape = {.mode = MF_MODE_TRAIN, .batch = 2, .seq = 16};
    mf_world *w = join();
    mf_session *s = SESSION(&alone, "train.accumulate=2");
    const mf_train_job job = mf_training_job(s);
    mf_length_buckets *buckets;
    ck_assert_int_eq(mf_length_buckets_new(s->model, &shape, true, &buckets), MF_OK);
    ck_assert_msg(mf_repeat_judge(w, &job, buckets, 0) == MF_OK, "%s", mf_error_message());
    mirror(other_graph);
    expect_failure(mf_repeat_judge(w, &job, buckets, 0), MF_EPLUGIN,
                   "a plugin builds something that is not the same everywhere");
    mirror(other_buffers);
    expect_failure(mf_repeat_judge(w, &job, buckets, 0), MF_EPLUGIN,
                   "a parameter or buffer has other values on rank 1 (here) than on rank 0");
    mirror(NULL);
    mf_length_buckets_free(buckets);
    mf_session_close(s);
    mf_world_close(w);
}
END_TEST

START_TEST(an_exchange_without_memory)
{
    mf_world *w = join();
    mf_session *s = SESSION(&alone, "train.accumulate=2");
    mf_store *store = s->model->store;
    const mf_sum_plan plan = {.leaves = 2, .share = {.first = 0, .end = 1}, .stride = 1};
    const mf_members both = {0, 1, 2};
    mf_optim *o;
    mf_partition p;
    mf_gradient_sum *sum;
    mf_gradient_exchange *x = NULL;
    ck_assert_int_eq(mf_optim_new(store, &s->config->train, &o), MF_OK);
    ck_assert_int_eq(mf_partition_new(store, &s->config->train, 2, 512, o, &p), MF_OK);
    ck_assert_int_eq(mf_gradient_sum_new(store, &plan, &sum), MF_OK);
    for (long nth = 1; !x; nth++) {
        fault_alloc(nth, FAULT_ONCE);
        const int rc = mf_gradient_exchange_new(w, both, store, 2, sum, &p, false, &x);
        const bool hit = fault_hit();
        const long live = fault_alloc_live();
        fault_off();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        if (hit) ck_assert_int_eq(live, 0);
    }
    mf_gradient_exchange_free(x);
    mf_gradient_sum_free(sum);
    mf_partition_free(&p);
    mf_optim_free(o);
    mf_session_close(s);
    mf_world_close(w);
}
END_TEST

static int received;

static void count(void *data, int64_t bytes)
{
    (void)data, (void)bytes;
    received++;
}

/* Between two buckets is a parameter that is not exchanged. The first layer uses it, so its
 * gradient is written last, and no bucket waits for it. The mirror sends back the slice that it
 * receives, so the sums show that this rank has sent it. */
START_TEST(a_bucket_is_sent_when_its_gradients_are_final)
{
    enum { SIDE = 32, SIZE = SIDE * SIDE, HALF = SIZE / 2 };
    static const char *const names[] = {"low", "between", "high"};
    static const int layers[] = {1, 0, 2};
    static const int64_t border[] = {0, SIZE, 2 * SIZE, 3 * SIZE};
    mf_owned bucket[] = {{2 * SIZE, 3 * SIZE, 0}, {0, SIZE, 0}};
    mf_owned slices[] = {{2 * SIZE, 2 * SIZE + HALF, 0},
                         {2 * SIZE + HALF, 3 * SIZE, 1},
                         {0, HALF, 0},
                         {HALF, SIZE, 1}};
    const mf_partition p = {.ranks = 2,
                            .buckets = 2,
                            .size = 3 * SIZE,
                            .slices = slices,
                            .n_slices = 4,
                            .bucket = bucket};
    const mf_sum_plan plan = {.leaves = 2, .share = {.first = 0, .end = 1}, .stride = 1};
    mf_world *w = join();
    mf_store *store = mf_store_new();
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    mf_param *param[3];
    mf_gradient_sum *sum;
    mf_gradient_exchange *x;
    int last[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(mf_store_declare(store, names[i], mf_shape2(SIDE, SIDE),
                                          (mf_init){.kind = MF_INIT_NORMAL, .a = 1}, false,
                                          &param[i]),
                         MF_OK);
    ck_assert_int_eq(mf_store_seal(store, 1, true), MF_OK);
    mf_tensor *y = mf_gaussian(g, mf_shape2(4, SIDE));
    for (int i = 0; i < 3; i++)
        y = mf_linear(g, y, mf_graph_param(g, param[layers[i]]), NULL);
    ck_assert_int_eq(mf_graph_backward(g, mf_mean(g, y, 3, false), 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    mf_graph_last_writes(g, store, 3, border, last);
    ck_assert(0 <= last[2] && last[2] < last[0] && last[0] < last[1]);

    ck_assert_int_eq(mf_gradient_sum_new(store, &plan, &sum), MF_OK);
    ck_assert_int_eq(
        mf_gradient_exchange_new(w, (mf_members){0, 1, 2}, store, 2, sum, &p, false, &x),
        MF_OK);
    mf_gradient_sum_begin(sum);
    mf_gradient_exchange_begin(x, g);
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){0}), MF_OK);
    float own[3 * SIZE];
    memcpy(own, mf_store_grads(store), sizeof own);
    received = 0;
    mirror(count);
    for (int node = 0; node <= last[1]; node++) {
        mf_gradient_exchange_after(x, node);
        ck_assert_int_eq(received, (node >= last[2]) + (node >= last[0]));
    }
    mf_gradient_exchange_rest(x);
    ck_assert_int_eq(received, 2);
    mirror(NULL);
    ck_assert_int_eq(mf_gradient_exchange_finish(x), MF_OK);
    for (int i = 0; i < 4; i += 2)
        for (int64_t at = slices[i].first; at < slices[i].end; at++)
            ck_assert_float_eq(mf_store_grads(store)[at], own[at] + own[at + HALF]);
    mf_gradient_exchange_free(x);
    mf_gradient_sum_free(sum);
    mf_graph_free(g);
    mf_store_free(store);
    mf_world_close(w);
}
END_TEST

/* The reference kernels do not use tiles: each range is a single tile. */
START_TEST(the_norm_of_a_gradient)
{
    mf_session *s = SESSION(&alone, "train.accumulate=1");
    mf_store *store = s->model->store;
    const mf_train_config *c = &s->config->train;
    mf_optim *o;
    mf_partition p;
    mf_gradient_norm *x;
    double got = 0, want = 0;
    ck_assert_int_eq(mf_optim_new(store, c, &o), MF_OK);
    ck_assert_int_eq(mf_partition_new(store, c, 1, 1 << 20, o, &p), MF_OK);
    ck_assert_int_eq(mf_gradient_norm_new(NULL, store, o, &p, &x), MF_OK);
    for (int i = 0; i < mf_store_count(store); i++) {
        const mf_param *at = mf_store_at(store, i);
        for (int64_t j = 0; at->grad && j < at->count; j++) {
            at->grad[j] = (float)((i + j) % 7) / 8;
            want += (double)at->grad[j] * (double)at->grad[j];
        }
    }
    mf_optim_exchange(o, NULL, &got);
    ck_assert_int_eq(mf_gradient_norm_measure(x), MF_OK);
    ck_assert_double_eq_tol(got, want, 1e-9 * want);
    mf_gradient_norm_free(x);
    mf_partition_free(&p);
    mf_optim_free(o);
    mf_session_close(s);
}
END_TEST

static Suite *suite(void)
{
    const char *build = getenv("builddir");
    char folder[512];
    snprintf(folder, sizeof folder, "%s/tests/lib", build ? build : ".");
    snprintf(module_path, sizeof module_path, "%s/comm/mirror.so", folder);
    setenv("MOEFW_PLUGIN_PATH", folder, 1);
    setenv("MOEFW_KERNELS", "ref", 1);
    Suite *s = suite_create("mirror");
    TCase *c = tcase_create("mirror");
    tcase_add_test(c, runs_that_cannot_be_divided);
    tcase_add_test(c, shared_experts_of_lengths_that_differ);
    tcase_add_test(c, too_many_micro_batches);
    tcase_add_test(c, ranks_that_are_bound_to_one_core);
    tcase_add_test(c, results_of_the_other_rank);
    tcase_add_test(c, an_exchange_without_memory);
    tcase_add_test(c, a_bucket_is_sent_when_its_gradients_are_final);
    tcase_add_test(c, the_norm_of_a_gradient);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
