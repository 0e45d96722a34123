/* cli/bench/bench_gemm.h: the action gemm of moefw bench. */
#ifndef MF_CLI_BENCH_GEMM_H
#define MF_CLI_BENCH_GEMM_H

#include "cli/cli.h"

int mf_bench_gemms(const mf_cli *cli);

#endif
