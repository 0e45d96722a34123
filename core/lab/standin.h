/* lab/standin.h: the plainest router and expert, for the places beside the plugin under check.
 *
 * They are plugins like any other, but part of the program: one linear layer that chooses, and
 * one matrix for each expert. What a plugin costs is measured against them.
 */
#ifndef MF_LAB_STANDIN_H
#define MF_LAB_STANDIN_H

#include "plugin/judge.h"

const mf_loaded *mf_standin_router(void); /* NULL without memory */
const mf_loaded *mf_standin_expert(void);

#endif
