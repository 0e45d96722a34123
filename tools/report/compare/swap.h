/* report/compare/swap.h: the page of `moefw swap`: how another router changes a model, with a
 * table and figures of each layer. */
#ifndef MF_REPORT_SWAP_H
#define MF_REPORT_SWAP_H

#include "lab/swap/swap.h"

/* Writes the page to the file `out`. from: the run whose routers were swapped; command: the
 * command that repeats the swap. Fails with MF_ENOMEM, or with the reason why the file
 * cannot be written. */
int mf_report_swap(const mf_swap_report *r, const char *from, const char *command,
                   const char *out);

#endif
