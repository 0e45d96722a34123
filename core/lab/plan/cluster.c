/* lab/plan/cluster.c: the INI file of a cluster. Its tables are the only list of its keys; the
 * defaults of [fit] are the fitted constants of predict.c. */
#include "lab/plan/plan.h"
#include "base/mem.h"
#include "config/section.h"

#define FIELD(part, field, def, lo, hi, help)                                                  \
    {#field, help, def, MF_OPT_REAL, 0,                                                        \
     offsetof(mf_plan_cluster, part.field) - offsetof(mf_plan_cluster, part), lo, hi, NULL}
#define WHOLE(part, field, def, lo, hi, help)                                                  \
    {#field, help, def, MF_OPT_INT, 0,                                                         \
     offsetof(mf_plan_cluster, part.field) - offsetof(mf_plan_cluster, part), lo, hi, NULL}

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
static const mf_option fit_options[] = {
    FIELD(fit, efficiency, "0.796", 0.01, 1, "share of tflops that large gemms reach"),
    FIELD(fit, half_rows, "114", 0, 1e5, "rows at which a gemm has half of it"),
    FIELD(fit, half_expert_rows, "216", 0, 1e5, "the same of an expert"),
    FIELD(fit, attention, "0.483", 0.01, 1, "share of attention_tflops"),
    FIELD(fit, block_bytes, "200", 0, 1e5, "elements moved for a token and channel"),
    FIELD(fit, token_bytes, "73.1", 0, 1e5, "elements moved for a token of an expert"),
    FIELD(fit, host_us, "62.6", 0, 1e6, "launching a layer"),
    FIELD(fit, host_expert_us, "181", 0, 1e6, "launching an expert"),
    FIELD(fit, overlap_node, "0.184", 0, 1, "share of exchanges in a node that is hidden"),
    FIELD(fit, overlap_network, "0.95", 0, 1, "share of those between nodes"),
    FIELD(fit, optimizer_bytes, "30", 0, 1e3, "bytes that the optimizer moves a parameter"),
    MF_END_OPTIONS};

#define SECTION(name_, help_)                                                                  \
    static const mf_section name_##_section = {                                                \
        .name = #name_,                                                                        \
        .help = help_,                                                                         \
        .options = name_##_options,                                                            \
        .size = sizeof((mf_plan_cluster *)0)->name_}
SECTION(cluster, "the machine");
SECTION(rank, "a device or process");
SECTION(node, "inside of a node");
SECTION(network, "between nodes");
SECTION(fit, "constants of the prediction");

static const mf_section_at all[] = {{&cluster_section, offsetof(mf_plan_cluster, cluster), 0},
                                    {&rank_section, offsetof(mf_plan_cluster, rank), 0},
                                    {&node_section, offsetof(mf_plan_cluster, node), 0},
                                    {&network_section, offsetof(mf_plan_cluster, network), 0},
                                    {&fit_section, offsetof(mf_plan_cluster, fit), 0},
                                    {NULL, 0, 0}};

int mf_plan_cluster_read(const char *path, mf_plan_cluster *ret)
{
    mf_ini *ini = mf_ini_new();
    mf_arena *arena = mf_arena_new();
    int first = MF_OK, rc = ini && arena ? mf_ini_load(ini, path) : MF_ENOMEM;
    *ret = (mf_plan_cluster){0};
    if (rc == MF_OK) rc = mf_sections_load(all, ret, ini, arena, NULL, &first);
    if (rc == MF_OK && ret->rank.tflops <= 0 && ret->rank.measured_gflops <= 0)
        rc = mf_fail(MF_ECONFIG,
                     "%s: [rank] has no speed; expected tflops, or measured_gflops from "
                     "'moefw bench train --json'",
                     path);
    mf_arena_free(arena);
    mf_ini_free(ini);
    return rc;
}
