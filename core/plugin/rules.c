/* plugin/rules.c: checks of calls into the host, and messages of broken rules. The first fault
 * of a call decides its status. */
#include "plugin/rules.h"

#include <stdio.h>
#include <string.h>

int mf_rule_broken(mf_ctx *ctx, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vfail(MF_EPLUGIN, fmt, args);
    va_end(args);
    mf_fail_context(MF_EPLUGIN, "%s (plugin %s, in %s)", ctx->path, ctx->plugin->name,
                    ctx->running ? ctx->running : "no call");
    if (ctx->fault == MF_OK) ctx->fault = MF_EPLUGIN;
    return MF_EPLUGIN;
}

static const char *phase_text(mf_phase phase)
{
    switch (phase) {
    case MF_PHASE_DECLARE:
        return "while the instance is set up (init)";
    case MF_PHASE_BUILD:
        return "while a graph is built (route, forward, loss)";
    case MF_PHASE_STEP:
        return "between steps (on_step, after_step)";
    case MF_PHASE_NONE:
        break;
    }
    return "outside of any call";
}

int mf_rule_phase(mf_ctx *ctx, mf_phase phase, const char *function)
{
    if (ctx->phase == phase) return MF_OK;
    return mf_rule_broken(ctx, "%s: expected to be called %s, found %s", function,
                          phase_text(phase), phase_text(ctx->phase));
}

int mf_rule_graph(mf_ctx *ctx, const mf_graph *g, const char *function)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_BUILD, function);
    if (rc == MF_OK && g != ctx->graph)
        rc = mf_rule_broken(ctx, "%s: expected the graph that was handed to %s, found another",
                            function, ctx->running);
    return rc;
}

int mf_rule_name(mf_ctx *ctx, const char *function, const char *name)
{
    const size_t n = name ? strlen(name) : 0;
    if (n > 0 && n <= 64 && name[0] != '.' && name[n - 1] != '.' &&
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == n)
        return MF_OK;
    return mf_rule_broken(
        ctx, "%s: expected a name of 1 to 64 letters, digits, '_' and '.', found '%s'",
        function, name ? name : "NULL");
}

int mf_rule_shape(mf_ctx *ctx, const char *function, const char *name, mf_shape shape)
{
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK)
        return mf_rule_broken(ctx, "%s '%s': expected a rank from 0 to %d, found %d", function,
                              name, MF_MAX_RANK, (int)shape.rank);
    if (shape.reserved != 0)
        return mf_rule_broken(ctx, "%s '%s': reserved of its shape: expected 0, found %d",
                              function, name, (int)shape.reserved);
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 1 || shape.dim[i] > INT32_MAX)
            return mf_rule_broken(
                ctx, "%s '%s': expected dimensions of at least 1, found %lld as number %d",
                function, name, (long long)shape.dim[i], (int)i);
    return MF_OK;
}

int mf_rule_full_name(mf_ctx *ctx, const char *function, const char *name,
                      char ret[MF_FULL_NAME])
{
    if (snprintf(ret, MF_FULL_NAME, "%s.%s", ctx->path, name) < MF_FULL_NAME) return MF_OK;
    return mf_rule_broken(ctx, "%s '%s': its full name is too long", function, name);
}
