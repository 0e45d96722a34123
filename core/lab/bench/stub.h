/* lab/bench/stub.h: the simplest router and expert, used beside a plugin that is checked.
 *
 * They are plugins inside the program: a router of one linear layer, and experts of one matrix
 * each. The cost of a plugin is measured against them.
 */
#ifndef MF_LAB_STUB_H
#define MF_LAB_STUB_H

#include "plugin/load/judge.h"

const mf_loaded *mf_stub_router(void); /* NULL if memory runs out */
const mf_loaded *mf_stub_expert(void);

#endif
