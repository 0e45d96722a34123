/* cli/bench/bench_comm.h: moefw bench comm. */
#ifndef MF_CLI_BENCH_COMM_H
#define MF_CLI_BENCH_COMM_H

#include "cli/cli.h"

/* Joins the ranks, and measures and prints on rank 0. */
int mf_bench_comm(const mf_cli *cli);

#endif
