/* report/export/flat.h: reads the numbers of metrics.jsonl into a flat list, for exports.
 *
 * A number's name consists of the keys that lead to it, joined by dots: "loss",
 * "regularizers.balance". An array element is named by its index or, if it is an object with
 * the key "layer", by the value of this key: "moe.3.load.0" is the load of expert 0 in layer 3.
 * "turns.OPTION" is the value to which a live option was changed. true and false become 1 and
 * 0. Strings, nulls, the step and an element's "layer" are skipped. A validation line also
 * contains peak_rss_mib if memory.jsonl has this number for the same step. */
#ifndef MF_REPORT_FLAT_H
#define MF_REPORT_FLAT_H

#include "base/mem.h"
#include "data/strings.h"

typedef struct mf_flat_value {
    int32_t name;
    bool counted; /* the value is an element of an array, for example of an expert or a head */
    double value;
} mf_flat_value;

typedef struct mf_flat_line {
    int run; /* index of the run: number of earlier mf_flat_add calls */
    int64_t step;
    const char *split;
    double wall_s;   /* time of this line, else of the run's last line with wall_s, else 0 */
    size_t first, n; /* the line's values */
} mf_flat_line;

typedef struct mf_flat {
    /* Set before the first run is added. Then a final validation becomes a line of the split
     * `final`, and a line of `val` with the numbers that are comparable with
     * earlier validations. */
    bool apart;
    bool like;        /* set while a line of `val` is made from a final validation */
    mf_strings names; /* in order of first appearance */
    mf_flat_line *lines;
    mf_flat_value *values;
    size_t n_lines, cap_lines, n_values, cap_values;
    int n_runs;
    /* Numbers of damaged or truncated lines of metrics.jsonl and memory.jsonl in the run that
     * was added last. */
    int damaged, damaged_memory;
    mf_arena *arena;
} mf_flat; /* {0} is an empty list */

/* Appends the lines of DIR/metrics.jsonl and, if it exists, the numbers of DIR/memory.jsonl.
 * Fails with MF_EINPUT if there is no metrics.jsonl, or no record in it. */
int mf_flat_add(mf_flat *f, const char *dir);
/* Logs a warning about the damaged lines of the run that was added last. run: its directory. */
void mf_flat_warn(const mf_flat *f, const char *run);
void mf_flat_free(mf_flat *f);

#endif
