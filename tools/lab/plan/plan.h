/* lab/plan/plan.h: predicts the time of a training step on a cluster, and which layout is best.
 *
 * A layout divides a step among data x tensor x pipeline ranks; `expert` of the data x tensor
 * ranks share the experts of a layer. moefw itself runs only layouts that divide the data.
 * Times come from a formula (predict.c) whose constants were fitted to published runs on GPUs.
 * For a cluster whose ranks were measured, the measured rate replaces the formula of the
 * compute time. */
#ifndef MF_LAB_PLAN_H
#define MF_LAB_PLAN_H

#include "lab/plan/meter.h"
#include "run/cost.h"

/* The sizes of a model that the formula uses. */
typedef struct mf_plan_model {
    double layers, moe_layers;
    double dim, row_dim; /* width of the residual stream, and of the rows of experts; row_dim 0:
                          * the same */
    double attention; /* width of scores and values: number of heads x size of a head; half of
                       * this with a window in every second layer */
    double seq;
    double experts, top_k; /* means over the MoE layers */
    int64_t common;        /* greatest common divisor of the layers' numbers of experts */
    double nodes;          /* number of nodes to which a token may be sent; 0: any number */
    double stored_scores;  /* number of heads whose attention scores go through memory; 0:
                           * fused kernels */
    double dense;  /* parameters of gemms in the blocks, without the experts, which every
                           * token uses */
    double expert; /* parameters of all experts of all layers */
    double head;   /* parameters of the output head */
    double flops;  /* operations of a sequence, forward and backward; 0: computed from
                           * the numbers above */
} mf_plan_model;

/* The INI file of a cluster: [cluster], [rank], [node], [network], [software], [fit]. */
typedef struct mf_plan_cluster {
    struct {
        int64_t ranks, per_node;
        double memory_gib; /* memory of a rank; 0: not known */
    } cluster;
    struct {
        double tflops;           /* peak rate for the type of the gemms */
        double attention_tflops; /* peak rate of bf16, for attention if gemms are in FP8; 0:
                                  * gemms are in bf16 */
        double memory_gb_per_s;
        double measured_gflops; /* rate of training, with all costs included; 0: not measured */
    } rank;
    struct {
        double us, gb_per_s; /* latency and bandwidth of a rank in each direction */
    } node, network;
    struct {
        int64_t overlap;       /* 0 or 1; 1: rows are sent while another micro-batch computes */
        int64_t once_per_node; /* 0 or 1; 1: a row is sent to each node once, not to
                                * each expert */
        double recompute;      /* share of the forward pass that is recomputed */
        double imbalance;      /* number of rows of the fullest rank, divided by the mean over
                                * the ranks */
    } software;
    struct {
        double efficiency, efficiency_fp8, half_expert_rows, attention, block_bytes,
            token_bytes, quantize, host_us, host_expert_us, overlap_tensor, overlap_stages,
            overlap_gradients, reserved, node_share, network_share, optimizer_bytes;
    } fit;
} mf_plan_cluster;

typedef struct mf_plan_layout {
    int64_t data, expert, tensor, pipeline;
    int64_t context;       /* number of ranks that share a sequence */
    int64_t stages;        /* number of parts of the model on a rank of a pipeline, at
                            * least 1 */
    int64_t expert_tensor; /* number of ranks that divide each expert */
    bool balanced;         /* all stages need the same time, including the head */
    double last;           /* if not balanced: number of layers of the last stage; 0: as many as
                            * in others */
} mf_plan_layout;

/* The sizes of a step. */
typedef struct mf_plan_step {
    double batch; /* number of sequences of a step */
    double micro; /* number of sequences of a micro-batch */
    /* bytes that moefw sends for a parameter: for the gradient, whose parts are sent
     * separately, and for the value after the update; 0: 6, as in other programs */
    double bytes;
    double row_bytes; /* bytes of an element of a row that is sent to an expert; 0: 2 */
    bool sharded;     /* value of parallel.optimizer */
} mf_plan_step;

typedef struct mf_plan_time {
    double step_s, tokens_per_s; /* all ranks together */
    /* seconds of the step. compute: gemms and memory; host: the additional time where the host
     * is slower; exchange: exchanges that are not hidden; bubble: waiting ranks of a pipeline;
     * update: gradients and optimizer */
    double compute, host, exchange, bubble, update;
} mf_plan_time;

void mf_plan_predict(const mf_plan_model *m, const mf_plan_cluster *c, const mf_plan_layout *l,
                     const mf_plan_step *s, mf_plan_time *ret);

/* Reads the file of a cluster. Errors: those of mf_ini_load; MF_ECONFIG with file:line, the
 * expected value, and the nearest key. */
int mf_plan_cluster_read(const char *path, mf_plan_cluster *ret);

/* ---- layouts of a configuration ---- */

typedef struct mf_plan_choice {
    mf_plan_layout layout;
    mf_plan_time time;
    double memory_gib; /* memory of the rank that needs most; 0: not known */
    bool fits;         /* the layout fits into cluster.memory_gib, as far as both numbers
                        * are known */
    bool runs;         /* moefw runs it with the present configuration */
    bool trains;       /* moefw runs it with parallel.expert = layout.expert */
    bool counted;      /* the time is that of a meter instead of the formula */
} mf_plan_choice;

/* Fills in the sizes of the model of a bare session. Errors: those of mf_model_graph_new. */
int mf_plan_describe(mf_session *s, mf_plan_model *ret);
/* Makes all layouts that use all ranks of the cluster, and the largest layout that divides only
 * the data. The fastest of those that fit come first. meter: a step on one rank of the cluster.
 * If it is not NULL, it determines the time of moefw's layout of one rank. The caller frees
 * *ret with mf_free. Fails with MF_ECONFIG if moefw runs none of the layouts, or
 * with MF_ENOMEM. */
int mf_plan_layouts(mf_session *s, const mf_cost *cost, const mf_plan_model *m,
                    const mf_plan_cluster *c, const mf_meter *meter, mf_plan_choice **ret,
                    int *ret_n);

#endif
