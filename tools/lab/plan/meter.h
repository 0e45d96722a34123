/* lab/plan/meter.h: the launches of a training step on a GPU, counted and timed by formulas.
 *
 * A meter is a set of kernels that compute nothing: each adds its calls, launches, operations
 * and bytes, which follow from its arguments, and the time that a device would need for them:
 * the longer one of operations at the rate of the kernel's class and of bytes at the bandwidth,
 * and the cost of its launches. */
#ifndef MF_LAB_METER_H
#define MF_LAB_METER_H

#include "kernels/kernel.h"
#include "run/session.h"

/* Rates of a device: peaks, and of them the share that kernels of a class reach. */
typedef struct mf_meter_device {
    const char *name, *text; /* "h100", "H100 SXM" */
    double bf16, f32;        /* FLOP/s of gemms: matrix instructions, multiply-adds */
    double bandwidth;        /* bytes/s */
    double memory;           /* bytes */
    int processors;
    double launch; /* s of a launch in a recording */
    /* shares; the comments at the table in meter.c say where they come from */
    double dense_bf16, dense_f32, grouped_bf16, grouped_f32, attention, attention_backward,
        flash, flash_backward, moved;
} mf_meter_device;

/* The devices that are known; the last one has no name. */
extern const mf_meter_device mf_meter_devices[];
/* MF_EUSAGE: no device has this name. */
int mf_meter_device_of(const char *name, const mf_meter_device **ret);

/* The device with this peak in bf16, TFLOP/s, and this bandwidth, GB/s; NULL: none is known. */
const mf_meter_device *mf_meter_device_like(double tflops, double gb_per_s);

typedef struct mf_meter_row {
    const char *name; /* of kernels.def; of gemms those of groups are apart */
    int64_t calls, launches;
    double flops, bytes, seconds;
} mf_meter_row;

enum { MF_METER_ROWS = 64 };
typedef struct mf_meter {
    const mf_meter_device *device;
    mf_meter_row row[MF_METER_ROWS];
    int n;
    mf_meter_row sum;
    double graph_flops; /* that the graphs count: the same without recomputation */
    int hosted;         /* ops of plugins, which run on the host: not in the rows */
    /* of the step: tokens, parameters that a token uses, bytes of the device */
    double tokens, params_active, memory;
} mf_meter;

/* A training step of a bare session that has gradients, as a device would run it: all
 * micro-batches, then norm and optimizer. Rows are in descending order of time. MF_EUSAGE: an
 * optimizer other than adamw, adam, lion. */
int mf_meter_step(mf_session *s, const mf_meter_device *device, mf_meter *ret);

/* For meter.c and meter_kernels.c: the set of kernels that count, whose contexts have the meter
 * as their stream; and a call of one: its launches, bytes, operations, and the seconds that
 * these take without the bytes. */
extern const mf_kernels mf_meter_kernels;
void mf_meter_add(mf_meter *m, const char *name, int launches, double bytes, double flops,
                  double seconds);

#endif
