/* lab/trace/trace_replay.h: runs the batches of a trace through the present model.
 *
 * The trace contains the tokens, so the run's data are not needed. Kernels, device, build,
 * weights and router may differ from the recording.
 *
 * In a free replay, the routers choose, and later layers receive the consequences. In a forced
 * replay, every layer uses the recorded choices and gates, and its router is only evaluated. So
 * each layer is compared as if all earlier routers had chosen as in the trace, and a router can
 * be measured on the activations of another router. */
#ifndef MF_LAB_TRACE_REPLAY_H
#define MF_LAB_TRACE_REPLAY_H

#include "lab/trace/trace.h"
#include "run/session.h"
#include "run/sample/trace.h"

/* Runs all batches and records them with `to`, a new recorder of the same session. The session
 * needs no data. Fails with MF_EINPUT if the trace does not fit the model in layers, experts,
 * length of sequences, tasks, or ids. */
int mf_trace_replay(const mf_trace *t, mf_session *s, bool forced, mf_trace_recorder *to);

#endif
