/* cli/scale/scale.h: moefw compare --scale. */
#ifndef MF_CLI_SCALE_H
#define MF_CLI_SCALE_H

#include "cli/cli.h"
#include "lab/compare/compare.h"

/* Makes the comparison of each size in OUT/dim-WIDTH, and fits the losses over compute. spec:
 * the comparison, without train.steps. one: makes a comparison and leaves it open in *ret; its
 * caller frees it. MF_EUSAGE for wrong sizes; the errors of the comparisons and of files. */
int mf_scale_compare(const mf_cli *cli, const mf_compare_spec *spec,
                     int (*one)(void *arg, const mf_compare_spec *s, mf_compare **ret),
                     void *arg);

#endif
