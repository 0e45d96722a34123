/* The shape of a buffer contains a number in a field that must be 0. */
#include <moefw/moefw.h>
static mf_shape odd(void)
{
    mf_shape s = mf_shape1(2);
    s.reserved = 5;
    return s;
}
#define BEFORE                                                                                 \
    if (mf->buffer(ctx, "odd", odd(), MF_ZEROS) != MF_OK) return MF_EPLUGIN;
#include "../bad.h"
