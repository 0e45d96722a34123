/* lab/trace_replay.h: the batches of a trace once more, by what is loaded now.
 *
 * The tokens come from the trace, so the data of the run are not needed. What may differ:
 * kernels, device, build, weights, router. Free: the routers choose, and what they choose is
 * what later layers see. Forced: every layer goes by the recorded choices and gates, and its
 * router is only asked; so each layer is judged on what it was given, and one router can be
 * measured on the activations of another.
 */
#ifndef MF_LAB_TRACE_REPLAY_H
#define MF_LAB_TRACE_REPLAY_H

#include "lab/trace.h"
#include "train/session.h"
#include "train/trace.h"

/* Runs all batches; `to` records them, of a fresh recorder over the same session. The session
 * may be without data. MF_EINPUT when the model has not the layers, experts or ids of the
 * trace. */
int mf_trace_replay(const mf_trace *t, mf_session *s, bool forced, mf_trace_recorder *to);

#endif
