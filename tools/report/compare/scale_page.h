/* report/compare/scale_page.h: a fit over sizes as text, JSON and a page. */
#ifndef MF_REPORT_SCALE_PAGE_H
#define MF_REPORT_SCALE_PAGE_H

#include <stdint.h>
#include <stdio.h>

#include "io/json.h"
#include "lab/scale/scale.h"

typedef struct mf_scale_view {
    const char *const *names; /* [routers] */
    int64_t width[MF_SCALE_SIZES], steps[MF_SCALE_SIZES], active[MF_SCALE_SIZES];
    double ratio, lr; /* tokens for each active parameter; the learning rate of all sizes */
} mf_scale_view;

void mf_scale_print(const mf_scaling *s, const mf_scale_view *v, FILE *out);
void mf_scale_json(mf_jw *w, const mf_scaling *s, const mf_scale_view *v);
/* Writes the page; replaces the file. MF_ENOMEM, or an error of the file. */
int mf_report_scale(const mf_scaling *s, const mf_scale_view *v, const char *out);

#endif
