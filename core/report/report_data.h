/* report/report_data.h: a run as the report sees it. */
#ifndef MF_REPORT_DATA_H
#define MF_REPORT_DATA_H

#include "base/ini.h"
#include "base/mem.h"
#include "train/memory.h"
#include "train/metrics.h"
#include "train/sample.h"

enum { MF_REPORT_TAKEN = 8 }; /* evaluations that are pictured, at most */

typedef struct mf_report_run {
    const char *dir, *name; /* name: last part of dir */
    mf_arena *arena;
    mf_metrics_history *history;
    mf_memory_past memory;             /* empty: not known */
    mf_sample *sample;                 /* NULL: none */
    mf_sample *taken[MF_REPORT_TAKEN]; /* at evaluations, rising; the last may be sample */
    int n_taken;
    mf_ini *config;                    /* NULL: none */
    mf_json *manifest;                 /* NULL: none */
    char *config_text, *manifest_text; /* NULL: none */
    const char **notes;                /* [n_notes] what could not be read, in the arena */
    int n_notes, notes_room;
    bool no_memory; /* while reading */
    int n_layers;   /* MoE layers in the last record that has any */
    double floor;   /* NaN: unknown */
} mf_report_run;

int mf_report_run_open(const char *dir, mf_report_run **ret);
void mf_report_run_close(mf_report_run *r);
/* Keeps the last error's message, to be said on the page, and clears it unless it is
 * MF_ENOMEM. */
void mf_report_note_error(mf_report_run *r);

/* A value of config.ini; absent: what is given. */
const char *mf_report_config(const mf_report_run *r, const char *section, const char *key,
                             const char *absent);
const char *mf_report_manifest(const mf_report_run *r, const char *key, const char *absent);
double mf_report_manifest_number(const mf_report_run *r, const char *key); /* NaN: absent */
/* The last record of a split; NULL: none. */
const mf_metrics_record *mf_report_last(const mf_report_run *r, const char *split);
/* Layer i of a record as written; NULL: it has none. */
const mf_layer_stats *mf_report_layer(const mf_metrics_record *r, int i);

/* ---- curves: one number of each record of a split, over the steps ---- */
typedef struct mf_track {
    int n;         /* records with a finite value */
    double *x, *y; /* from the run's arena */
} mf_track;
typedef double (*mf_pick)(const mf_metrics_record *r, const void *arg);
mf_track mf_report_track(const mf_report_run *r, const char *split, mf_pick pick,
                         const void *arg);
/* Centred mean over a window of `share` of all points; n <= 2 comes back as it is. */
mf_track mf_report_smooth(const mf_report_run *r, mf_track t, double share);
/* The split whose records hold layers more often: "train" or "val". */
const char *mf_report_layer_split(const mf_report_run *r);

#endif
