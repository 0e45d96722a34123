/* report/page/report_data.h: the data of a run in the form that the report needs. */
#ifndef MF_REPORT_DATA_H
#define MF_REPORT_DATA_H

#include "base/text/ini.h"
#include "base/mem.h"
#include "run/metrics/memory.h"
#include "run/metrics/metrics.h"
#include "run/sample/sample.h"

enum { MF_REPORT_TAKEN = 8 }; /* number of evaluations that are shown at most */

typedef struct mf_report_run {
    const char *dir, *name; /* name: last component of dir */
    mf_arena *arena;
    mf_metrics_history *history;
    mf_memory_past memory; /* empty if not known */
    mf_sample *sample;     /* the sample at the end of the run; NULL: none */
    /* samples of evaluations, in order; the last is `sample`, if it exists */
    mf_sample *taken[MF_REPORT_TAKEN];
    int n_taken;
    mf_ini *config;                    /* config.ini; NULL: missing or damaged */
    mf_json *manifest;                 /* manifest.json; NULL: missing or damaged */
    char *config_text, *manifest_text; /* texts of these files; NULL: missing */
    const char **notes;                /* [n_notes] notes about files that could not be read; in
                                        * the arena */
    int n_notes, notes_room;
    bool no_memory; /* an allocation failed while reading */
    int n_layers;   /* number of MoE layers in the last record that has any */
    double floor;   /* entropy floor; NaN: not known */
} mf_report_run;

/* Opens a run directory. The caller closes it with mf_report_run_close. Fails with MF_EINPUT if
 * there is no metrics.jsonl, or no record in it, and with MF_ENOMEM. Errors in other files
 * become notes. */
int mf_report_run_open(const char *dir, mf_report_run **ret);
void mf_report_run_close(mf_report_run *r);
/* Makes the last error's message a note on the page. Clears the error, except MF_ENOMEM. */
void mf_report_note_error(mf_report_run *r);

/* mf_report_config returns a value of config.ini, or `absent` if the key or the file is
 * missing. The other two functions do so for texts and numbers of manifest.json. */
const char *mf_report_config(const mf_report_run *r, const char *section, const char *key,
                             const char *absent);
/* Whether a block has experts, according to model.moe_every and model.dense_layers. */
bool mf_report_has_experts(const mf_report_run *r, int layer);
/* Returns the section of a block: the last [KIND.NAME] whose layers contain the block,
 * otherwise KIND. kind: router or expert. */
const char *mf_report_section_of(const mf_report_run *r, const char *kind, int layer);
/* Returns a key of [moe] for a block, which a section [block.NAME] may set. */
const char *mf_report_moe(const mf_report_run *r, int layer, const char *key,
                          const char *absent);
/* Returns the value of such a key in all blocks with experts, "8", or "4 to 8" if
 * blocks differ. */
const char *mf_report_moe_range(const mf_report_run *r, const char *key, const char *absent);
const char *mf_report_manifest(const mf_report_run *r, const char *key, const char *absent);
double mf_report_manifest_number(const mf_report_run *r, const char *key); /* NaN: missing */
/* The plugin's name of the router or the expert (kind), even if the configuration names the
 * plugin's file. */
const char *mf_report_plugin(const mf_report_run *r, const char *kind, const char *absent);
/* The last record of a split; NULL if there is none. */
const mf_metrics_record *mf_report_last(const mf_report_run *r, const char *split);
/* Layer i of a record, in the order of the file; NULL if the record has no such layer. */
const mf_layer_stats *mf_report_layer(const mf_metrics_record *r, int i);

/* ---- curves: one number of each record of a split, over the steps ---- */
typedef struct mf_track {
    int n;         /* number of records with a finite value */
    double *x, *y; /* in the run's arena */
} mf_track;
/* Returns a number of a record, or NaN if the record does not contain it. */
typedef double (*mf_pick)(const mf_metrics_record *r, const void *arg);
/* Makes the track of the number that `pick` returns for each record of the split. Uses only
 * comparable validations: if a final validation had more batches than earlier ones, its numbers
 * over the same batches are used (mf_metrics_like). */
mf_track mf_report_track(const mf_report_run *r, const char *split, mf_pick pick,
                         const void *arg);
/* Returns the last validation as one point if mf_report_track does not contain it. It covers
 * all of its batches; *ret_batches is their number, 0: not known. mf_report_best returns the
 * best validation as a point of the track. Both may be empty. */
mf_track mf_report_final(const mf_report_run *r, mf_pick pick, const void *arg,
                         int64_t *ret_batches);
mf_track mf_report_best(const mf_report_run *r, mf_pick pick, const void *arg);
/* Centred mean over a window of `share` times the number of points. The window is smaller near
 * the ends. If more than 80 points remain, neighbours are averaged. A track whose window would
 * contain only one point is returned unchanged. */
mf_track mf_report_smooth(const mf_report_run *r, mf_track t, double share);
/* "train" or "val": the split with more records that contain layers; "train" if both have
 * equally many. */
const char *mf_report_layer_split(const mf_report_run *r);

#endif
