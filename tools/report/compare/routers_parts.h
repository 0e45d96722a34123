/* report/compare/routers_parts.h: what the files of the page of `moefw bench routers` share. */
#ifndef MF_REPORT_ROUTERS_PARTS_H
#define MF_REPORT_ROUTERS_PARTS_H

#include "lab/bench/router_bench.h"
#include "report/page/report_parts.h"

typedef struct mf_routers_page {
    mf_report page;
    const mf_router_bench_spec *spec;
    const mf_router_bench *rows;
    const char **names; /* [n] router names */
    int n, threads;
} mf_routers_page;

/* The section of single tokens: for each router a map of the probabilities of the first tokens,
 * bars of four of them, and a histogram of the values of the layer's output. Nothing if no
 * router has any of these. */
void mf_routers_tokens(const mf_routers_page *b);

#endif
