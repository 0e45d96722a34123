/* cli/bench/bench_routers.h: moefw bench, and its part routers. */
#ifndef MF_CLI_BENCH_ROUTERS_H
#define MF_CLI_BENCH_ROUTERS_H

#include "cli/cli.h"
#include "lab/bench/timing.h"

extern const mf_verb mf_verb_bench;

/* How the options of moefw bench request times. repetitions: the number if no option
 * sets it. */
mf_timing_how mf_bench_how(const mf_cli *cli, int repetitions);
int mf_bench_routers(const mf_cli *cli);

#endif
