/* lab/analyze/run.h: the figures of analyze.h for the model of a run.
 *
 * The routing of the evaluation batches of a split, or of another text, is recorded once
 * (run/sample/trace.h), and once more for each earlier checkpoint with which it is compared. */
#ifndef MF_LAB_ANALYZE_RUN_H
#define MF_LAB_ANALYZE_RUN_H

#include "lab/analyze/analysis.h"
#include "lab/trace/trace.h"
#include "run/session.h"

/* Finds the tokens of a trace that was just recorded from this split of the session. Arrays are
 * in the arena. MF_EINPUT: there are no tokens. MF_ENOMEM. */
int mf_routed_text_of(const mf_trace *t, const mf_session *s, mf_split split, mf_arena *arena,
                      mf_routed_text *ret);
/* Reads the choices of layer i (an index among the layers of the trace). MF_EINPUT if an expert
 * or token of the trace is out of range. MF_ENOMEM. */
int mf_routes_of(const mf_trace *t, int i, const mf_routed_text *x, mf_arena *arena,
                 mf_routes *ret);

typedef struct mf_analyze_options {
    const char *data;   /* a text instead of the run's; NULL: `split` of the run's data */
    const char *labels; /* as data.labels; NULL: as the run has it */
    const char *device; /* as train.device; NULL: as the run */
    mf_split split;
    int64_t step;    /* checkpoint; -1: the newest */
    int64_t batches; /* 0: the whole split */
    bool outputs;    /* also compare what the experts compute for tokens of the first batch */
    /* number of earlier checkpoints, at most MF_ANALYZE_THEN: 2 are those nearest to 10 % and
     * 50 % of the steps, other numbers are evenly spread */
    int checkpoints;
    /* Called after each batch of the 1 + checkpoints passes and after each layer; an error ends
     * the work. NULL: never called. */
    int (*each)(void *arg, int64_t done, int64_t total);
    void *arg;
} mf_analyze_options;

/* Analyzes a run. Errors are those of mf_load_run_as and of evaluation; MF_EUSAGE if the model
 * has no MoE layer. Free with mf_analysis_free. */
int mf_analyze(const char *run, const mf_analyze_options *o, mf_analysis **ret);

#endif
