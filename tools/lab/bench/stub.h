/* lab/bench/stub.h: the simplest router and expert, used beside a plugin that is checked.
 *
 * They are plugins inside the program: a router of one linear layer, and experts of one matrix
 * each; and two other routers. The cost of a plugin is measured against them.
 */
#ifndef MF_LAB_STUB_H
#define MF_LAB_STUB_H

#include "plugin/load/judge.h"

const mf_loaded *mf_stub_router(void); /* NULL if memory runs out */
const mf_loaded *mf_stub_expert(void);
/* Routers whose records are less usual. listed: experts choose tokens, so that there are not
 * T k assignments and each names its token. bare: only experts, one more for each token than
 * k; no logits, no probabilities. */
const mf_loaded *mf_stub_router_listed(void);
const mf_loaded *mf_stub_router_bare(void);

#endif
