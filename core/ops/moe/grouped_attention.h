/* ops/moe/grouped_attention.h: the order of inputs and attributes of the op, for code that
 * reads its nodes. */
#ifndef MF_OPS_GROUPED_ATTENTION_H
#define MF_OPS_GROUPED_ATTENTION_H

/* inputs */
enum {
    MF_ATTEND_Q,
    MF_ATTEND_KV,
    MF_ATTEND_OFFSET,
    MF_ATTEND_TOKEN,
    MF_ATTEND_MASK,
    MF_ATTEND_INPUTS
};
/* attributes: integers */
enum { MF_ATTEND_BATCH, MF_ATTEND_HEADS, MF_ATTEND_CAUSAL, MF_ATTEND_OWN };
/* attributes: real numbers */
enum { MF_ATTEND_SCALE };

#endif
