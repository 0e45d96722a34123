/* lab/plan/plan.h: predicts the time of a training step on a cluster, and which layout is best.
 *
 * A layout divides a step among data x tensor x pipeline ranks; `expert` of the data x tensor
 * ranks share the experts of a layer. moefw itself runs layouts of data alone. Times come from
 * a formula (predict.c) whose constants were fitted to published runs on GPUs; on a cluster
 * whose ranks were measured, that measurement stands for the compute. */
#ifndef MF_LAB_PLAN_H
#define MF_LAB_PLAN_H

#include "lab/plan/meter.h"
#include "run/cost.h"

/* The sizes of a model that the formula uses. */
typedef struct mf_plan_model {
    double layers, moe_layers;
    double dim;
    double attention; /* width of scores and values: heads x size of a head; half of it with a
                       * window in every second layer */
    double seq;
    double experts, top_k;
    double nodes;         /* nodes to which a token may go; 0: any number */
    double stored_scores; /* heads whose attention scores go through memory; 0: fused kernels */
    double dense;         /* parameters of gemms in the blocks that every token uses */
    double expert;        /* parameters of all experts of all layers */
    double head;          /* of the output head */
    double flops;         /* of a sequence, forward and backward; 0: from the numbers above */
} mf_plan_model;

/* The INI file of a cluster: [cluster], [rank], [node], [network], [software], [fit]. */
typedef struct mf_plan_cluster {
    struct {
        int64_t ranks, per_node;
        double memory_gib; /* of a rank; 0: not known */
    } cluster;
    struct {
        double tflops;           /* peak of the type of the gemms */
        double attention_tflops; /* of bf16, where gemms are in FP8; 0: they are in bf16 */
        double memory_gb_per_s;
        double measured_gflops; /* of training, all included; 0: not measured */
    } rank;
    struct {
        double us, gb_per_s; /* latency and bandwidth of a rank, each way */
    } node, network;
    struct {
        int64_t overlap;       /* 0, 1: rows travel while another micro-batch computes */
        int64_t once_per_node; /* 0, 1: a row goes to each node once, not to each expert */
        double recompute;      /* share of the forward pass that runs again */
        double imbalance;      /* most rows of a rank, divided by the mean of the ranks */
    } software;
    struct {
        double efficiency, efficiency_fp8, half_expert_rows, attention, block_bytes,
            token_bytes, quantize, host_us, host_expert_us, overlap_tensor, overlap_stages,
            overlap_gradients, reserved, node_share, network_share, optimizer_bytes;
    } fit;
} mf_plan_cluster;

typedef struct mf_plan_layout {
    int64_t data, expert, tensor, pipeline;
    int64_t context;       /* ranks that share a sequence */
    int64_t stages;        /* parts of the model on a rank of a pipeline; 1: one */
    int64_t expert_tensor; /* ranks that divide each expert */
    bool balanced;         /* stages take equally long, with the head */
    double last;           /* otherwise layers of the last stage; 0: as many as others */
} mf_plan_layout;

/* How a step is made. */
typedef struct mf_plan_step {
    double batch; /* sequences of a step */
    double micro; /* of a micro-batch */
    /* bytes that moefw sends for a parameter: of the gradient, whose parts travel apart, and of
     * the value after the update; 0: 6, as other programs do */
    double bytes;
    double row_bytes; /* of an element of a row on its way to an expert; 0: 2 */
    bool sharded;     /* parallel.optimizer */
} mf_plan_step;

typedef struct mf_plan_time {
    double step_s, tokens_per_s; /* of all ranks */
    /* seconds of the step: gemms and memory; the host where it is slower; exchanges that
     * nothing hides; ranks of a pipeline that wait; gradients and optimizer */
    double compute, host, exchange, bubble, update;
} mf_plan_time;

void mf_plan_predict(const mf_plan_model *m, const mf_plan_cluster *c, const mf_plan_layout *l,
                     const mf_plan_step *s, mf_plan_time *ret);

/* Reads the file of a cluster. Errors: those of mf_ini_load; MF_ECONFIG with file:line, what
 * was expected, and the nearest key. */
int mf_plan_cluster_read(const char *path, mf_plan_cluster *ret);

/* ---- layouts of a configuration ---- */

typedef struct mf_plan_choice {
    mf_plan_layout layout;
    mf_plan_time time;
    double memory_gib; /* of the rank that needs most; 0: not known */
    bool fits;         /* into cluster.memory_gib, as far as both are known */
    bool runs;         /* moefw runs it with the present configuration */
    bool trains;       /* moefw runs it with parallel.expert = layout.expert */
    bool counted;      /* the time is that of a meter, not of the formula */
} mf_plan_choice;

/* Fills in the sizes of the model of a bare session. Errors: those of mf_model_graph_new. */
int mf_plan_describe(mf_session *s, mf_plan_model *ret);
/* Makes all layouts that use all ranks of the cluster, and the largest one of data alone, with
 * the fastest of those that fit first. meter: a step on one rank of the cluster, which is then
 * the time of moefw's layout of one rank; NULL: it is not known. The caller frees *ret with
 * mf_free. MF_ECONFIG: moefw runs none of them; MF_ENOMEM. */
int mf_plan_layouts(mf_session *s, const mf_cost *cost, const mf_plan_model *m,
                    const mf_plan_cluster *c, const mf_meter *meter, mf_plan_choice **ret,
                    int *ret_n);

#endif
