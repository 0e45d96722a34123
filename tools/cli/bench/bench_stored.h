/* cli/bench/bench_stored.h: moefw bench stored. */
#ifndef MF_CLI_VERBS_BENCH_STORED_H
#define MF_CLI_VERBS_BENCH_STORED_H

#include "cli/cli.h"

int mf_bench_stored(const mf_cli *cli);

#endif
