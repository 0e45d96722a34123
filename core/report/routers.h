/* report/routers.h: the page of `moefw bench routers`: routers on the same activations, as one
 * table, with bars for what they cost and how they choose.
 */
#ifndef MF_REPORT_ROUTERS_H
#define MF_REPORT_ROUTERS_H

#include "lab/router_bench.h"

/* rows [n], n >= 1, measured under spec. out: the page. MF_ENOMEM, or why it cannot be
 * written. */
int mf_report_routers(const mf_router_bench_spec *spec, int n, const mf_router_bench *rows,
                      int threads, const char *command, const char *out);

#endif
