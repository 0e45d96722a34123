/* All functions of this plugin print, by stdio or by write, with or without a line end. */
#include <moefw/moefw.h>
#include <stdio.h>
#include <unistd.h>
#define BEFORE puts("{\"init\": \033[31m1}");
#define AFTER  after
#define FINI   fini
#define OP     "loud"
#define FORWARD                                                                                \
    if (i == 0) puts("from the op");                                                           \
    y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#define SPOILED

static void say(const char *text, size_t n)
{
    if (write(1, text, n) < 0) perror("write");
}

static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    (void)self;
    (void)ctx;
    (void)step;
    say("by write", 8);
    return MF_OK;
}

static void fini(void *self)
{
    (void)self;
    fputs("the end of it", stdout);
}

__attribute__((constructor)) static void begin(void)
{
    puts("constructor");
}

__attribute__((destructor)) static void end(void)
{
    puts("destructor");
    fflush(stdout);
}
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    printf("route ");
    route(self, ctx, g, in, out);
    out->logits = mf->custom(g, &op, 1, &out->logits, NULL, 1, NULL);
    return mf->status(g);
}
