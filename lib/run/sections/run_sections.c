/* sections/run_sections.c: the keys of [train], [report], [log], [parallel], [trace] and
 * [plugin], with defaults and bounds. run_config.c has the rules that combine several keys. */
#include "run/sections/run_sections.h"

static const char *const optimizers[] = {
#define MF_OPTIMIZER_METHOD(constant, name, method) #name,
#include "train/optim/optimizers.def"
#undef MF_OPTIMIZER_METHOD
    NULL};
static const char *const muon_scales[] = {"match_rms", "original", NULL};
static const char *const schedules[] = {"cosine", "linear", "constant", "step", "wsd", NULL};
const char *const mf_config_dtypes[] = {"f32", "bf16", NULL};             /* mf_dtype */
static const char *const recomputed[] = {"none", "light", "block", NULL}; /* mf_recompute */
static const char *const routes[] = {"router", "trace", NULL};
static const char *const bests[] = {"loss",    "accuracy", "macro_f1", "mse",
                                    "pearson", "spearman", NULL};
static const char *const on_usr1[] = {"save", "stop", NULL}; /* mf_on_usr1 */
static const char *const parallel_optimizers[] = {"sharded", "whole", NULL};
/* mf_parallel_gradient */
static const char *const parallel_gradients[] = {"f32", "bf16", NULL};
static const char *const nan_policies[] = {"stop", "skip", NULL};

static const mf_option train_options[] = {
    MF_SECTION_INT(mf_train_config, steps, "1000", 0, MF_STEPS_MAX,
                   "optimizer steps; 0: as epochs says"),
    MF_SECTION_REAL(mf_train_config, epochs, "0", 0, 1e9,
                    "passes over the training data, instead of steps"),
    MF_SECTION_INT(mf_train_config, batch, "16", 1, 1048576, "sequences a graph run"),
    MF_SECTION_INT(mf_train_config, accumulate, "1", 1, 1048576,
                   "micro-batches of a step; its loss is the mean over all their tokens"),
    MF_OPTION_ENUM(mf_train_config, optimizer, "adamw", optimizers,
                   "how gradients change weights: OPTIMIZERS in moefw.ini(5)"),
    MF_SECTION_REAL(mf_train_config, lr, "0.001", 0, 1e3, "highest learning rate"),
    MF_SECTION_REAL(mf_train_config, lr_min, "0.1", 0, 1,
                    "cosine, linear, wsd: share of lr that is left at the end"),
    MF_OPTION_ENUM(mf_train_config, schedule, "cosine", schedules,
                   "how the learning rate falls"),
    MF_SECTION_INT(mf_train_config, warmup, "50", 0, MF_STEPS_MAX,
                   "steps over which it rises first"),
    MF_SECTION_INT(mf_train_config, step_size, "1000", 1, MF_STEPS_MAX,
                   "schedule step: falls every so many steps"),
    MF_SECTION_REAL(
        mf_train_config, step_epochs, "0", 0, 1e9,
        "schedule step: passes over the data instead of step_size; 0: as step_size says"),
    MF_SECTION_REAL(mf_train_config, step_gamma, "0.1", 0, 1, "schedule step: to this share"),
    MF_SECTION_REAL(mf_train_config, decay_share, "0.2", 0, 1,
                    "schedule wsd: share of the steps after warmup, at the end, in which it "
                    "falls to lr_min"),
    MF_SECTION_REAL(mf_train_config, weight_decay, "0.1", 0, 1e3,
                    "pull of weights towards 0 (norms, biases and embeddings excepted)"),
    MF_SECTION_BOOL(mf_train_config, decay_all, "no", "pull norms, biases and embeddings, too"),
    MF_SECTION_REAL(mf_train_config, beta1, "0.9", 0, 0.999999999,
                    "memory of the gradient's mean"),
    MF_SECTION_REAL(mf_train_config, beta2, "0.95", 0, 0.999999999,
                    "memory of the gradient's square"),
    MF_SECTION_REAL(mf_train_config, eps, "1e-8", 0, 1, "added to the root of the square"),
    MF_SECTION_REAL(mf_train_config, momentum, "0.95", 0, 0.999999999,
                    "optimizer muon: memory of the gradient's mean"),
    MF_OPTION_ENUM(
        mf_train_config, muon_scale, "match_rms", muon_scales,
        "optimizer muon: factor of a step, 0.2 sqrt(max(rows, columns)), which suits "
        "AdamW's lr, or sqrt(max(1, rows / columns))"),
    MF_SECTION_REAL(mf_train_config, muon_lr, "0", 0, 1e3,
                    "optimizer muon: highest learning rate of its matrices; 0: lr"),
    MF_SECTION_REAL(mf_train_config, clip, "1", 0, 1e9, "longest gradient; 0: any"),
    MF_SECTION_REAL(mf_train_config, dropout, "0", 0, 0.99,
                    "share of activations set to 0 while training"),
    MF_SECTION_BOOL(mf_train_config, dropout_embedding, "yes", "dropout on embeddings, too"),
    MF_SECTION_INT(mf_train_config, seed, "1", 0, MF_NO_BOUND,
                   "start weights, order of data, dropout: all follow from it"),
    MF_SECTION_INT(mf_train_config, log_every, "10", 1, MF_STEPS_MAX,
                   "steps between lines of metrics.jsonl"),
    MF_SECTION_INT(mf_train_config, eval_every, "100", 0, MF_STEPS_MAX,
                   "steps between validations; 0: only at the end"),
    MF_SECTION_REAL(mf_train_config, eval_epochs, "0", 0, 1e9,
                    "passes over the data between validations; 0: as eval_every says"),
    MF_SECTION_INT(mf_train_config, eval_batches, "8", 0, MF_STEPS_MAX,
                   "batches of a validation on the way; 0: the whole split"),
    MF_SECTION_INT(mf_train_config, final_batches, "2000", 0, MF_STEPS_MAX,
                   "at most so many batches of the validation at the end; 0: the whole split"),
    MF_SECTION_BOOL(
        mf_train_config, eval_train, "no",
        "with each validation measure eval_batches of the training data: split train_eval"),
    MF_SECTION_BOOL(mf_train_config, keep_best, "no",
                    "keep the checkpoint of the best validation in RUN/best"),
    MF_SECTION_INT(
        mf_train_config, patience, "0", 0, MF_NO_BOUND,
        "end training after so many validations without a better one by best_by, and "
        "keep the best in RUN/best; 0: never"),
    MF_OPTION_ENUM(
        mf_train_config, best_by, "loss", bests,
        "what tells the best validation: the lowest loss or mse, or the highest of the others"),
    MF_SECTION_INT(
        mf_train_config, eval_context, "0", 0, 1048576,
        "tokens by which validation windows overlap: known before each prediction that counts"),
    MF_SECTION_INT(mf_train_config, save_every, "500", 0, MF_STEPS_MAX,
                   "steps between checkpoints; 0: only at the end"),
    MF_SECTION_INT(mf_train_config, keep, "3", 1, MF_NO_BOUND, "checkpoints kept"),
    MF_OPTION_ENUM(mf_train_config, on_usr1, "save", on_usr1,
                   "what SIGUSR1 does: save a checkpoint, or also stop, with exit code 75"),
    MF_SECTION_REAL(mf_train_config, time_limit, "0", 0, 1e9,
                    "seconds, then a checkpoint and exit status 75; 0: none"),
    MF_SECTION_INT(mf_train_config, stop_at, "0", 0, MF_STEPS_MAX,
                   "step, then a checkpoint and exit status 75; schedules are those of steps; "
                   "0: none"),
    MF_OPTION_ENUM(mf_train_config, dtype, "f32", mf_config_dtypes,
                   "type of the inputs of gemms; weights, sums, norms, routers and losses stay "
                   "f32"),
    MF_OPTION_STR(mf_train_config, from, "",
                  "run whose newest weights this one begins with; empty: drawn by the seed"),
    MF_OPTION_ENUM(mf_train_config, routes, "router", routes,
                   "who chooses the experts of training tokens: the router, or a trace, with "
                   "the router's gates: moefw-trace(5)"),
    MF_OPTION_STR(mf_train_config, routes_from, "", "the trace of train.routes"),
    MF_OPTION_STR(mf_train_config, freeze, "",
                  "what does not change, as attention.*, embed.weight: patterns of names of "
                  "parameters and "
                  "buffers (the bias of a router), with or without their layers.N.; those of "
                  "adapters are "
                  "not meant"),
    MF_OPTION_ENUM(
        mf_train_config, recompute, "none", recomputed,
        "what the backward pass computes again to save memory: light: norms, gates, gathered "
        "rows; "
        "block: all between residual sums, of all blocks but the last"),
    MF_OPTION_STR(mf_train_config, device, "cpu", "cpu, cuda or cuda:N"),
    MF_SECTION_INT(mf_train_config, threads, "0", 0, 4096,
                   "0: all cores; results do not depend on it"),
    MF_OPTION_ENUM(mf_train_config, nan_policy, "stop", nan_policies,
                   "on NaN or Inf: stop, or skip up to 3 steps in a row"),
    MF_END_OPTIONS};

static const mf_option device_options[] = {
    MF_SECTION_BOOL(mf_device_config, strict, "no",
                    "an op that train.device cannot run is an error; no: it runs on the host, "
                    "with copies around it"),
    MF_SECTION_BOOL(mf_device_config, record, "yes",
                    "record the launches of a step once and replay them, on devices that can"),
    MF_END_OPTIONS};

static const mf_option report_options[] = {
    MF_SECTION_BOOL(mf_report_config, enabled, "yes",
                    "write report.html when training ends, or is interrupted"),
    MF_SECTION_INT(
        mf_report_config, samples, "4", 0, 16,
        "evaluations at which the routing of a stretch of text is kept for pictures, evenly "
        "spread"),
    MF_OPTION_STR(mf_report_config, sample_at, "",
                  "numbers of these evaluations, as 1,5,15,20; empty: as samples says"),
    MF_END_OPTIONS};

static const mf_option log_options[] = {
    MF_SECTION_BOOL(mf_log_config, tensorboard, "no",
                    "write event files of TensorBoard to RUN/tensorboard while training"),
    MF_OPTION_STR(mf_log_config, mlflow, "",
                  "address of an MLflow server that gets the metrics while training, as "
                  "http://localhost:5000; empty: none"),
    MF_OPTION_STR(mf_log_config, mlflow_experiment, "moefw",
                  "name of the experiment there, which is made if it is missing"),
    MF_END_OPTIONS};

static const mf_option trace_options[] = {
    MF_SECTION_INT(mf_trace_config, every, "0", 0, MF_NO_BOUND,
                   "record the routing of each n-th validation batch; 0: none"),
    MF_END_OPTIONS};

static const mf_option parallel_options[] = {
    MF_OPTION_STR(
        mf_parallel_config, comm, "auto",
        "how processes reach each other: auto (what the launcher is of), self (not at "
        "all), openmpi, mpich or the path of a module, with a /"),
    MF_SECTION_REAL(mf_parallel_config, patience, "600", 0.1, 1e9,
                    "seconds after which a process that does not answer ends the run"),
    MF_OPTION_ENUM(mf_parallel_config, optimizer, "sharded", parallel_optimizers,
                   "sharded: each process keeps a part of the optimizer's moments and updates "
                   "that part of the parameters; whole: all of them"),
    MF_SECTION_INT(mf_parallel_config, bucket, "32", 1, 1024,
                   "MiB of gradients that are sent as soon as the backward pass has them"),
    MF_SECTION_INT(mf_parallel_config, expert, "1", 1, 8,
                   "1: each process has all experts; else 2, 4, .. processes, at most so many, "
                   "have a part of them each"),
    MF_OPTION_ENUM(mf_parallel_config, gradient, "f32", parallel_gradients,
                   "bf16: the gradient of each micro-batch is rounded to bf16, also in a run "
                   "of one process, and travels so; sums are f32"),
    MF_SECTION_BOOL(mf_parallel_config, exact, "yes",
                    "no: experts that processes share multiply the rows of all of them at "
                    "once; the bits then depend on the number of processes"),
    MF_SECTION_REAL(mf_parallel_config, room, "1.5", 1, 1e3,
                    "accepted, without effect: rows of shared experts have room for any load"),
    MF_END_OPTIONS};

static const mf_option calls_options[] = {
    MF_SECTION_INT(mf_calls_config, patience, "0", 0, 86400,
                   "seconds after which a call of a plugin that does not return ends the "
                   "command with status 4; 0: never"),
    MF_END_OPTIONS};

static const char *const files[] = {"from", "routes_from", NULL};
/* The local keys: settings of the machine, of its queue, and of the user's display. */
static const char *const local_train[] = {"device",  "threads", "time_limit",
                                          "stop_at", "on_usr1", NULL};
static const char *const fixed_train[] = {"optimizer", NULL};
static const char *const local_parallel[] = {"comm", "patience", "bucket", NULL};
const mf_section mf_train_section = {.name = "train",
                                     .help = "the training loop",
                                     .options = train_options,
                                     .size = sizeof(mf_train_config),
                                     .paths = files,
                                     .local = local_train,
                                     .fixed = fixed_train};
const mf_section mf_device_section = {.name = "device",
                                      .help = "how train.device is used",
                                      .options = device_options,
                                      .size = sizeof(mf_device_config),
                                      .local = mf_section_all_keys};
const mf_section mf_report_section = {.name = "report",
                                      .help = "the page written at the end",
                                      .options = report_options,
                                      .size = sizeof(mf_report_config),
                                      .local = mf_section_all_keys};
const mf_section mf_log_section = {.name = "log",
                                   .help = "the metrics, for programs that show them",
                                   .options = log_options,
                                   .size = sizeof(mf_log_config),
                                   .local = mf_section_all_keys};
const mf_section mf_parallel_section = {.name = "parallel",
                                        .help = "runs of several processes: "
                                                "moefw-parallel(7)",
                                        .options = parallel_options,
                                        .size = sizeof(mf_parallel_config),
                                        .local = local_parallel};
const mf_section mf_trace_section = {.name = "trace",
                                     .help = "recorded routing",
                                     .options = trace_options,
                                     .size = sizeof(mf_trace_config)};
const mf_section mf_calls_section = {.name = "plugin",
                                     .help = "calls of plugins",
                                     .options = calls_options,
                                     .size = sizeof(mf_calls_config),
                                     .local = mf_section_all_keys};
