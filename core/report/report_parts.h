/* report/report_parts.h: inside the report: its sections. Each appends what the runs hold and
 * nothing where they hold none. */
#ifndef MF_REPORT_PARTS_H
#define MF_REPORT_PARTS_H

#include "report/html.h"
#include "report/report_data.h"
#include "report/svg.h"

typedef struct mf_report {
    mf_doc *d;
    mf_report_run **runs;
    int n;
    mf_arena *arena;
} mf_report;

/* Formatted text from the report's arena; "" when memory runs out. */
const char *mf_report_strf(const mf_report *p, const char *fmt, ...) MF_PRINTF(2, 3);
/* "1.2345" with so many digits; "-" for NaN. */
const char *mf_report_num(const mf_report *p, int digits, double v);

/* For one run or several. */
void mf_report_learning(const mf_report *p); /* loss, accuracy, learning rate, speed */
void mf_report_balance(const mf_report *p);  /* entropy, load CV, drop rate */
/* For one run. */
void mf_report_load(const mf_report *p, const mf_report_run *r);
void mf_report_topics(const mf_report *p, const mf_report_run *r);
void mf_report_routing(const mf_report *p, const mf_report_run *r);
void mf_report_turns(const mf_report *p, const mf_report_run *r);
void mf_report_repeat(const mf_report *p);

bool mf_report_has_layers(const mf_report *p);
bool mf_report_has_topics(const mf_report_run *r);
bool mf_report_has_turns(const mf_report_run *r);

#endif
