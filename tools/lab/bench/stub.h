/* lab/bench/stub.h: the simplest router and expert, which run beside a plugin that
 * is checked.
 *
 * They are plugins inside the program: a router of one linear layer, experts of one matrix
 * each, and two routers with unusual records. The cost of a plugin is compared with
 * their cost. */
#ifndef MF_LAB_STUB_H
#define MF_LAB_STUB_H

#include "plugin/load/judge.h"

const mf_loaded *mf_stub_router(void); /* NULL: out of memory */
const mf_loaded *mf_stub_expert(void);
/* Routers whose records are less usual. mf_stub_router_listed: experts choose tokens, so the
 * number of assignments is not T k, and the record contains the token of each.
 * mf_stub_router_bare: k + 1 experts for each token, and a record with only the experts,
 * without logits and probabilities. */
const mf_loaded *mf_stub_router_listed(void);
const mf_loaded *mf_stub_router_bare(void);

#endif
