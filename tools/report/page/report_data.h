/* report/page/report_data.h: a run as the report reads it. */
#ifndef MF_REPORT_DATA_H
#define MF_REPORT_DATA_H

#include "base/text/ini.h"
#include "base/mem.h"
#include "run/metrics/memory.h"
#include "run/metrics/metrics.h"
#include "run/sample/sample.h"

enum { MF_REPORT_TAKEN = 8 }; /* most evaluations that are shown */

typedef struct mf_report_run {
    const char *dir, *name; /* name: last component of dir */
    mf_arena *arena;
    mf_metrics_history *history;
    mf_memory_past memory; /* empty if not known */
    mf_sample *sample;     /* or NULL */
    /* at evaluations, in order; the last is `sample`, if it exists */
    mf_sample *taken[MF_REPORT_TAKEN];
    int n_taken;
    mf_ini *config;                    /* or NULL */
    mf_json *manifest;                 /* or NULL */
    char *config_text, *manifest_text; /* or NULL */
    const char **notes;                /* [n_notes] what could not be read; in the arena */
    int n_notes, notes_room;
    bool no_memory; /* an allocation failed while reading */
    int n_layers;   /* MoE layers of the last record that has any */
    double floor;   /* entropy floor; NaN: not known */
} mf_report_run;

/* Opens a run directory; the caller closes it with mf_report_run_close. MF_EINPUT if there is
 * no metrics.jsonl or no record in it; MF_ENOMEM. Faults of other files become notes. */
int mf_report_run_open(const char *dir, mf_report_run **ret);
void mf_report_run_close(mf_report_run *r);
/* Makes the last error's message a note on the page. Clears the error, except MF_ENOMEM. */
void mf_report_note_error(mf_report_run *r);

/* mf_report_config returns a value of config.ini, or `absent` if the key or the file is
 * missing. The other two functions do so for texts and numbers of manifest.json. */
const char *mf_report_config(const mf_report_run *r, const char *section, const char *key,
                             const char *absent);
/* Whether a block has experts: as model.moe_every and model.dense_layers say. */
bool mf_report_has_experts(const mf_report_run *r, int layer);
const char *mf_report_manifest(const mf_report_run *r, const char *key, const char *absent);
double mf_report_manifest_number(const mf_report_run *r, const char *key); /* NaN: absent */
/* The name of the router's or the expert's plugin (kind), also where the configuration names
 * the plugin's file. */
const char *mf_report_plugin(const mf_report_run *r, const char *kind, const char *absent);
/* The last record of a split; NULL if there is none. */
const mf_metrics_record *mf_report_last(const mf_report_run *r, const char *split);
/* Layer i of a record, in the order of the file; NULL if it has none. */
const mf_layer_stats *mf_report_layer(const mf_metrics_record *r, int i);

/* ---- curves: one number of each record of a split, over the steps ---- */
typedef struct mf_track {
    int n;         /* number of records with a finite value */
    double *x, *y; /* in the run's arena */
} mf_track;
/* Returns the number of a record, NaN: none. */
typedef double (*mf_pick)(const mf_metrics_record *r, const void *arg);
/* Only validations that can be compared: a final one over more batches than earlier ones counts
 * with its numbers over the same batches (mf_metrics_like). */
mf_track mf_report_track(const mf_report_run *r, const char *split, mf_pick pick,
                         const void *arg);
/* The last validation as one point, if it is no point of that track: over all of its batches,
 * *ret_batches, 0: not known. And the best validation, a point of the track. Both may have
 * no point. */
mf_track mf_report_final(const mf_report_run *r, mf_pick pick, const void *arg,
                         int64_t *ret_batches);
mf_track mf_report_best(const mf_report_run *r, mf_pick pick, const void *arg);
/* Centred mean over a window of `share` times the number of points, which is smaller near the
 * ends; then means of neighbours if there are over 80 points. A track whose window would hold
 * one point is returned as it is. */
mf_track mf_report_smooth(const mf_report_run *r, mf_track t, double share);
/* "train" or "val": the split with more records that hold layers; "train" if they are equal. */
const char *mf_report_layer_split(const mf_report_run *r);

#endif
