/* kernels/cuda/peak.c: the rate of a GPU in dense gemms, FLOP per second.
 *
 * The rate is first searched by name in data sheets, without sparsity. Data sheets are used
 * because manufacturers state rates at a clock below the highest clock, and because GPUs of one
 * architecture differ by a factor of two in bf16. For other names the rate is multiprocessors x
 * clock x FLOP per clock of the architecture, if all its models have the same number; otherwise
 * the rate is not known. */
#include "kernels/cuda/backend.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* The name is a sequence of whole words in the name that CUDA returns; the first entry that
 * matches counts. Rates are in TFLOP/s. */
static const struct sheet {
    const char *name;
    double f32, bf16;
} sheets[] = {
    {"H100 PCIe", 51.2, 756.5}, {"H100 NVL", 60.0, 835.5},
    {"H100", 66.9, 989.4},      {"H200", 66.9, 989.4},
    {"GH200", 66.9, 989.4},     {"B200", 80.0, 2250},
    {"A100", 19.5, 312},        {"L40S", 91.6, 362},
    {"L40", 90.5, 181},         {"L4", 30.3, 121},
    {"A40", 37.4, 149.7},       {"A10", 31.2, 125},
    {"RTX 5090", 104.8, 209.5}, {"RTX 4090", 82.6, 165.2},
    {"RTX 3090", 35.6, 71.0},   {"RTX 6000 Ada", 91.1, 364.2},
    {"RTX A6000", 38.7, 154.8},
};

/* FLOP per clock of one multiprocessor; bf16 0: models of this architecture differ. */
static const struct rate {
    int capability;
    double f32, bf16;
} rates[] = {
    {80, 128, 2048}, {86, 256, 0},     {87, 256, 0},  {89, 256, 0},
    {90, 256, 4096}, {100, 256, 8192}, {120, 256, 0},
};

/* Whether a GPU of this name is the model. "RTX A1000" is no A100, and laptop GPUs have the
 * names of faster GPUs. */
static bool is(const char *name, const char *model)
{
    const size_t n = strlen(model);
    if (strstr(name, "Laptop") || strstr(name, "Max-Q")) return false;
    for (const char *p = name; (p = strstr(p, model)) != NULL; p++)
        if ((p == name || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[n]))
            return true;
    return false;
}

void mf_cuda_peak_of(const char *name, int capability, int processors, int khz,
                     mf_cuda_peak *ret)
{
    *ret = (mf_cuda_peak){0};
    for (size_t i = 0; i < sizeof sheets / sizeof *sheets; i++)
        if (is(name, sheets[i].name)) {
            *ret = (mf_cuda_peak){1e12 * sheets[i].f32, 1e12 * sheets[i].bf16};
            return;
        }
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (rates[i].capability == capability) {
            const double clocks = 1e3 * khz * processors;
            *ret = (mf_cuda_peak){clocks * rates[i].f32, clocks * rates[i].bf16};
        }
}

double mf_cuda_peak_at(mf_device *d, bool bf16)
{
    const mf_cuda_peak *p = &mf_cuda_of(d)->peak;
    return bf16 ? p->bf16 : p->f32;
}
