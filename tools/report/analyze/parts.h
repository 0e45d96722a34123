/* report/analyze/parts.h: the sections of the page of `moefw analyze`. Each appends nothing if
 * the analysis has no data for it. */
#ifndef MF_REPORT_ANALYZE_PARTS_H
#define MF_REPORT_ANALYZE_PARTS_H

#include "lab/analyze/analysis.h"
#include "report/page/report_parts.h"

/* Layers and experts beyond which a page would be too large: maps show no more. The table of
 * the page has all layers. */
enum { MF_ANALYZE_LAYERS = 48, MF_ANALYZE_EXPERTS = 128 };

/* "0.412 [0.401, 0.423]"; without interval if lo is NaN, "-" if v is. */
const char *mf_analyze_between(const mf_report *p, double v, double lo, double hi);

void mf_analyze_loads(const mf_report *p, const mf_analysis *a);
void mf_analyze_decides(const mf_report *p, const mf_analysis *a); /* information of values */
void mf_analyze_labels(const mf_report *p, const mf_analysis *a);
void mf_analyze_pairs(const mf_report *p, const mf_analysis *a);
void mf_analyze_moved(const mf_report *p, const mf_analysis *a); /* from layer to layer */
void mf_analyze_then(const mf_report *p, const mf_analysis *a);  /* saturation */
void mf_analyze_outputs(const mf_report *p, const mf_analysis *a);
bool mf_analyze_has_outputs(const mf_analysis *a);
void mf_analyze_tokens(const mf_report *p, const mf_analysis *a);
void mf_analyze_words(const mf_report *p, const mf_analysis *a); /* ids of each expert */
void mf_analyze_text(const mf_report *p, const mf_analysis *a);

#endif
