/* run/device_use.c: MFU and memory of a device. The graph counts the FLOP of its nodes, so the
 * number is exact for any router. A node that is recomputed counts once. */
#include "run/device_use.h"

#include <math.h>
#include <stdio.h>
#include "graph/device/device.h"

#define GIB 1073741824.0

bool mf_device_use_of(const mf_session *s, const mf_model_graph *graph, double tokens,
                      double tokens_per_s, mf_device_use *ret)
{
    mf_graph_info info;
    *ret = (mf_device_use){.mfu = NAN, .bf16 = s->config->train.dtype == MF_BF16};
    if (!s->device) return false;
    ret->peak = mf_device_peak(s->device, ret->bf16);
    (void)mf_device_used(s->device, &ret->used, &ret->total);
    if (!graph || !(tokens > 0) || !(tokens_per_s > 0) || ret->peak <= 0) return true;
    mf_graph_get_info(graph->g, &info);
    const double flops = info.flops * (double)s->config->train.accumulate;
    ret->mfu = flops / tokens * tokens_per_s / ret->peak;
    return true;
}

/* Writes "4.2 of 79.6 GiB". Small memory, as in tests, is written in MiB. */
static void memory_text(const mf_device_use *u, char *text, size_t size)
{
    const bool large = (double)u->total >= GIB;
    const double unit = large ? GIB : GIB / 1024;
    if (u->total == 0)
        snprintf(text, size, "memory not known");
    else
        snprintf(text, size, "%.1f of %.1f %s", (double)u->used / unit, (double)u->total / unit,
                 large ? "GiB" : "MiB");
}

void mf_device_use_short(const mf_device_use *u, char text[MF_DEVICE_USE_TEXT])
{
    char memory[48];
    memory_text(u, memory, sizeof memory);
    if (isnan(u->mfu))
        snprintf(text, MF_DEVICE_USE_TEXT, "%s", memory);
    else
        snprintf(text, MF_DEVICE_USE_TEXT, "MFU %.1f %%, %s", 100 * u->mfu, memory);
}

void mf_device_use_text(const mf_device_use *u, char text[MF_DEVICE_USE_TEXT])
{
    char memory[48];
    const char *type = u->bf16 ? "bf16" : "f32";
    memory_text(u, memory, sizeof memory);
    const char *in_use = u->total > 0 ? " of memory in use" : "";
    if (u->peak <= 0)
        snprintf(text, MF_DEVICE_USE_TEXT, "MFU not known: no peak of this device in %s; %s%s",
                 type, memory, in_use);
    else if (isnan(u->mfu))
        snprintf(text, MF_DEVICE_USE_TEXT, "MFU not known; %s%s", memory, in_use);
    else
        snprintf(text, MF_DEVICE_USE_TEXT, "MFU %.3g %% of %.4g TFLOP/s in %s; %s%s",
                 100 * u->mfu, 1e-12 * u->peak, type, memory, in_use);
}
