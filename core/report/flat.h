/* report/flat.h: the numbers of metrics.jsonl as a flat list, for those who write them in other
 * forms.
 *
 * A number's name is the way to it, parted by dots: "loss", "regularizers.balance",
 * "moe.3.load.0" (of layer 3, expert 0: objects with a "layer" are named by it),
 * "turns.router.temperature" (what a live option was turned to). Texts and null have no place
 * here. Lines of validation have peak_rss_mib of memory.jsonl beside their own.
 */
#ifndef MF_REPORT_FLAT_H
#define MF_REPORT_FLAT_H

#include "base/mem.h"
#include "data/strings.h"

typedef struct mf_flat_value {
    int32_t name;
    bool counted; /* one of many: by expert, by head */
    double value;
} mf_flat_value;

typedef struct mf_flat_line {
    int run; /* counts mf_flat_add */
    int64_t step;
    const char *split;
    double wall_s;   /* of the line, else of the last one that has it; 0 */
    size_t first, n; /* values */
} mf_flat_line;

typedef struct mf_flat {
    mf_strings names; /* in the order in which they come up */
    mf_flat_line *lines;
    mf_flat_value *values;
    size_t n_lines, cap_lines, n_values, cap_values;
    int n_runs;
    /* Of the folder added last, lines of either file that are no records, or have no end. */
    int damaged, damaged_memory;
    mf_arena *arena;
} mf_flat; /* {0} is empty */

/* The lines of DIR/metrics.jsonl, behind those that are there, with DIR/memory.jsonl where
 * there is one. MF_EINPUT: no metrics.jsonl, or not one record in it. */
int mf_flat_add(mf_flat *f, const char *dir);
/* Says what was passed over in run, the folder added last. */
void mf_flat_warn(const mf_flat *f, const char *run);
void mf_flat_free(mf_flat *f);

#endif
