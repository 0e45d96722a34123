/* bad.h: a good router, of which each file beside this one spoils one thing.
 *
 * A file defines what it wants to be different before it includes this: MAGIC, ABI, SIZE, ... of
 * the descriptor, OPTIONS, INIT, ROUTE, AFTER (functions of its own) or BEFORE (code for the start
 * of init). Files named rule_* are good descriptors that break a rule when they are at work.
 */
#include <moefw/moefw.h>

#ifndef MAGIC
#define MAGIC MF_MAGIC
#endif
#ifndef ABI
#define ABI MF_ABI
#endif
#ifndef SIZE
#define SIZE sizeof(mf_plugin)
#endif
#ifndef HOST_SIZE
#define HOST_SIZE sizeof(mf_host)
#endif
#ifndef OPTION_SIZE
#define OPTION_SIZE sizeof(mf_option)
#endif
#ifndef VTABLE_SIZE
#define VTABLE_SIZE sizeof(mf_router)
#endif
#ifndef KIND
#define KIND MF_ROUTER
#endif
#ifndef NAME
#define NAME "bad"
#endif
#ifndef BRIEF
#define BRIEF "spoiled on purpose"
#endif
#ifndef OPTIONS
#define OPTIONS MF_OPTION_REAL(conf, scale, "1", 0, 10, MF_OPT_LIVE, "multiplies the logits"),
#endif
#ifndef BEFORE
#define BEFORE
#endif
#ifndef INIT
#define INIT init
#endif
#ifndef ROUTE
#define ROUTE route
#endif
#ifndef AFTER
#define AFTER NULL
#endif
#ifndef VTABLE
#define VTABLE &vtable
#endif
#ifndef SLOT
#define SLOT &mf
#endif

typedef struct {
    double scale;
    int64_t count;
} conf;

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    (void)c;
    BEFORE
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)self;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}

static const mf_option options[] = {OPTIONS MF_END_OPTIONS};

static const mf_router vtable = {.size = VTABLE_SIZE, .init = INIT, .route = ROUTE, .after_step = AFTER};

/* Not every file uses all of these. */
const void *const bad_unused[] = {(const void *)options, (const void *)&vtable,
                                  (const void *)init, (const void *)route, (const void *)&mf};

#ifndef NO_DESCRIPTOR
MF_EXPORT_PLUGIN = {.magic = MAGIC,
                    .abi = ABI,
                    .size = SIZE,
                    .host_size = HOST_SIZE,
                    .option_size = OPTION_SIZE,
                    .vtable_size = VTABLE_SIZE,
                    .kind = KIND,
                    .name = NAME,
                    .version = "1",
                    .license = "MIT",
                    .brief = BRIEF,
                    .options = options,
                    .conf_size = sizeof(conf),
                    .self_size = 8,
                    .vtable = VTABLE,
                    .host = SLOT};
#endif
