/* route fails, and the plugin has a function fini. The recorded reason must not change when
 * fini is called. */
#include <moefw/moefw.h>
#define ROUTE refuse
#define FINI  fini
static int refuse(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
static void fini(void *);
#include "../bad.h"

static int refuse(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)self;
    (void)g;
    (void)in;
    (void)out;
    return mf->fail(ctx, MF_EPLUGIN, "this is the reason");
}

static void fini(void *self)
{
    (void)self;
}
