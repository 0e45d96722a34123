/* report/compare/routers.h: the page of `moefw bench routers`: routers measured on the same
 * activations, with tables, and figures of their cost, their choices and their loads. */
#ifndef MF_REPORT_ROUTERS_H
#define MF_REPORT_ROUTERS_H

#include "lab/bench/router_bench.h"

/* Writes the page to the file `out`. rows: [n], n >= 1, one for each router, measured under
 * spec; command: the command that repeats the measurement. Fails with MF_ENOMEM, or with the
 * reason why the file cannot be written. */
int mf_report_routers(const mf_router_bench_spec *spec, int n, const mf_router_bench *rows,
                      int threads, const char *command, const char *out);

#endif
