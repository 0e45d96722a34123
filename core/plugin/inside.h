/* plugin/inside.h: what the files of this folder share about hosts and instances. */
#ifndef MF_PLUGIN_INSIDE_H
#define MF_PLUGIN_INSIDE_H

#include "base/mem.h"
#include "plugin/instance.h"
#include "plugin/open.h"

typedef struct mf_live_place {
    const char *name;
    double *real; /* a variable of core's own, or NULL: then param, or option, conf, shadow */
    mf_param *param; /* an element of it */
    int64_t element;
    bool structural; /* graphs differ between 0 and other values */
    double lo, hi;
    const mf_option *option;
    void *conf;
    double *shadow;
    bool first; /* of its name */
} mf_live_place;

typedef struct mf_kept_turn {
    mf_turn turn;
    char reason[96];
} mf_kept_turn;

typedef struct mf_kept_metric {
    const mf_graph *graph;
    const char *name;
    mf_tensor *value;
} mf_kept_metric;

struct mf_plughost {
    mf_store *store;
    mf_arena *arena;
    mf_live_place *live;
    int n_live, room_live;
    const char **live_names; /* distinct, NULL-terminated */
    int n_live_names, room_live_names;
    mf_kept_turn *turns;
    mf_turn *turn_list; /* what mf_turns hands out */
    int n_turns, room_turns;
    mf_kept_metric *metrics;
    int n_metrics, room_metrics;
    int64_t step;
    void *history_arg;
    int32_t (*history)(void *arg, const char *metric, int32_t n, double *out);
    void *importance_arg;
    int (*importance)(void *arg, int32_t n, float *out, int32_t *ret_n);
    const char **slashed; /* "/NAME" of parameters, by index, where asked for */
    int n_slashed;
    char rebuild[160]; /* reason, "" for none */
    bool wants_rebuild;
};

typedef enum mf_phase {
    MF_PHASE_NONE,
    MF_PHASE_DECLARE,
    MF_PHASE_BUILD,
    MF_PHASE_STEP
} mf_phase;

struct mf_ctx {
    mf_plughost *host;
    const mf_loaded *plugin;
    const char *path, *live;
    mf_phase phase;
    mf_graph *graph;     /* being built */
    const char *running; /* function of the plugin that runs: "init" */
    int fault;           /* it broke the rules, whatever it returns */
    void *conf, *self;
    double *shadow; /* [options]: live numbers as graphs read them */
    bool up;        /* init has succeeded */
};

/* Room for one more element of a list that doubles; false without memory. */
bool mf_plughost_grow(void **list, int n, int *room, size_t size);
const char *mf_plughost_slashed(mf_plughost *h,
                                const mf_param *p); /* "/layers.0.router.weight" */
void mf_plughost_ask_rebuild(mf_ctx *ctx, const char *reason);
void mf_plughost_want_rebuild(mf_plughost *h, const char *by, const char *reason);
int mf_plughost_keep_metric(mf_ctx *ctx, const mf_graph *g, const char *name, mf_tensor *value);

#endif
