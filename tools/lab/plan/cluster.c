/* lab/plan/cluster.c: the INI file of a cluster. Its tables are the only list of its keys; the
 * defaults of [fit] are the fitted constants of predict.c. */
#include "lab/plan/plan.h"
#include "base/error.h"
#include "base/mem.h"
#include "run/sections/sources.h"

/* An option of one part of mf_plan_cluster. Its offset counts from the beginning of
 * that part. */
#define OPTION(part, field, ...)                                                               \
    {                                                                                          \
        .name = #field,                                                                        \
        .offset = offsetof(mf_plan_cluster, part.field) - offsetof(mf_plan_cluster, part),     \
        __VA_ARGS__                                                                            \
    }
#define FIELD(part, field, def, low, high, text)                                               \
    OPTION(part, field, .type = MF_OPT_REAL, .value = def, .lo = low, .hi = high, .help = text)
#define WHOLE(part, field, def, low, high, text)                                               \
    OPTION(part, field, .type = MF_OPT_INT, .value = def, .lo = low, .hi = high, .help = text)
#define YES_NO(part, field, text)                                                              \
    OPTION(part, field, .type = MF_OPT_BOOL, .value = "no", .hi = 1, .help = text)

static const mf_option cluster_options[] = {
    WHOLE(cluster, ranks, NULL, 1, 1e6, "ranks in all"),
    WHOLE(cluster, per_node, "1", 1, 1e6, "ranks of a node"),
    FIELD(cluster, memory_gib, "0", 0, 1e6, "memory of a rank; 0: not known"), MF_END_OPTIONS};
static const mf_option rank_options[] = {
    FIELD(rank, tflops, "0", 0, 1e6, "peak of the gemms"),
    FIELD(rank, attention_tflops, "0", 0, 1e6, "peak of attention; 0: as tflops"),
    FIELD(rank, memory_gb_per_s, "100", 1e-3, 1e6, "bandwidth of the memory"),
    FIELD(rank, measured_gflops, "0", 0, 1e9, "rate of training; 0: from tflops"),
    MF_END_OPTIONS};
static const mf_option node_options[] = {
    FIELD(node, us, "0", 0, 1e6, "latency between ranks of a node"),
    FIELD(node, gb_per_s, "10", 1e-6, 1e6, "bandwidth of a rank inside of a node"),
    MF_END_OPTIONS};
static const mf_option network_options[] = {
    FIELD(network, us, "0", 0, 1e6, "latency between nodes"),
    FIELD(network, gb_per_s, "1", 1e-6, 1e6, "bandwidth of a rank between nodes"),
    MF_END_OPTIONS};
static const mf_option software_options[] = {
    YES_NO(software, overlap, "rows travel while another micro-batch computes"),
    YES_NO(software, once_per_node, "a row is sent once to each node, not to each expert"),
    FIELD(software, recompute, "0", 0, 1, "share of the forward pass that runs again"),
    FIELD(software, imbalance, "1", 1, 1e3, "rows of the rank that has most, by the mean"),
    MF_END_OPTIONS};
static const mf_option fit_options[] = {
    FIELD(fit, efficiency, "0.8", 0.01, 1, "share of the peak that gemms in bf16 reach"),
    FIELD(fit, efficiency_fp8, "0.54", 0.01, 1, "the same in FP8, with all casts"),
    FIELD(fit, half_expert_rows, "321", 0, 1e5, "rows at which an expert has half of it"),
    FIELD(fit, attention, "0.294", 0.01, 1, "share of the peak of bf16 in attention"),
    FIELD(fit, block_bytes, "45", 0, 1e5, "elements moved for a token and channel"),
    FIELD(fit, token_bytes, "15", 0, 1e5, "the same for each copy of an expert"),
    FIELD(fit, quantize, "1.5", 1, 10, "factor of both where gemms are in FP8"),
    FIELD(fit, host_us, "900", 0, 1e6, "time of the host for a pass of a layer"),
    FIELD(fit, host_expert_us, "105", 0, 1e6, "more for each expert of a rank"),
    FIELD(fit, overlap_tensor, "0.5", 0, 1, "share of tensor exchanges that is hidden"),
    FIELD(fit, overlap_stages, "0.8", 0, 1, "the same between stages"),
    FIELD(fit, overlap_gradients, "0.95", 0, 1, "the same of gradients and values"),
    FIELD(fit, reserved, "1.18", 1, 10, "gemms last longer while rows travel"),
    FIELD(fit, node_share, "0.77", 0.01, 1, "share of a node's bandwidth that is reached"),
    FIELD(fit, network_share, "0.86", 0.01, 1, "the same of the network"),
    FIELD(fit, optimizer_bytes, "30", 0, 1e3, "bytes that the optimizer moves a parameter"),
    MF_END_OPTIONS};

#define SECTION(name_, help_)                                                                  \
    static const mf_section name_##_section = {.name = #name_,                                 \
                                               .help = help_,                                  \
                                               .options = name_##_options,                     \
                                               .size = sizeof((mf_plan_cluster *)0)->name_}
SECTION(cluster, "the machine");
SECTION(rank, "a device or process");
SECTION(node, "inside of a node");
SECTION(network, "between nodes");
SECTION(software, "how the layouts run");
SECTION(fit, "constants of the prediction");

static const mf_section_at all[] = {{&cluster_section, offsetof(mf_plan_cluster, cluster), 0},
                                    {&rank_section, offsetof(mf_plan_cluster, rank), 0},
                                    {&node_section, offsetof(mf_plan_cluster, node), 0},
                                    {&network_section, offsetof(mf_plan_cluster, network), 0},
                                    {&software_section, offsetof(mf_plan_cluster, software), 0},
                                    {&fit_section, offsetof(mf_plan_cluster, fit), 0},
                                    {NULL, 0, 0}};

int mf_plan_cluster_read(const char *path, mf_plan_cluster *ret)
{
    mf_ini *ini = mf_ini_new();
    mf_arena *arena = mf_arena_new();
    int first = MF_OK, rc = ini && arena ? mf_ini_load(ini, path) : MF_ENOMEM;
    *ret = (mf_plan_cluster){0};
    if (rc == MF_OK) rc = mf_sections_load(all, ret, ini, arena, NULL, &first);
    /* An error about a section that is missing in the file has no line number. */
    if (rc == MF_ECONFIG) rc = mf_fail_in(rc, path);
    if (rc == MF_OK && ret->rank.tflops <= 0 && ret->rank.measured_gflops <= 0)
        rc = mf_fail(MF_ECONFIG,
                     "%s: [rank] has no speed; expected tflops, or measured_gflops from "
                     "'moefw bench train --json'",
                     path);
    mf_arena_free(arena);
    mf_ini_free(ini);
    return rc;
}
