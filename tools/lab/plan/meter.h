/* lab/plan/meter.h: counts the launches of a training step on a GPU and computes their times
 * by formulas.
 *
 * A meter is a set of kernels that compute nothing. From its arguments, each kernel derives its
 * calls, launches, operations and bytes, and the time that a device would need, and adds them
 * to the meter. The time is the longer of two times, plus the cost of the launches. One is the
 * time of the operations at the rate of the kernel's class; the other is the time of the bytes
 * at the bandwidth. */
#ifndef MF_LAB_METER_H
#define MF_LAB_METER_H

#include "kernels/kernel.h"
#include "run/session.h"

/* Rates of a device: peaks, and the share of the peak that each class of kernels reaches. */
typedef struct mf_meter_device {
    const char *name, *text; /* "h100", "H100 SXM" */
    double bf16, f32;        /* peak FLOP/s of gemms: matrix instructions in bf16, multiply-adds
                              * in f32 */
    double bandwidth;        /* bytes/s */
    double memory;           /* bytes */
    double shared;           /* bytes of shared memory that a block may have */
    int processors;
    double launch; /* seconds of a launch in a recording */
    /* shares of the peaks; the comment at the table in meter.c lists their sources */
    double dense_bf16, dense_f32, grouped_bf16, grouped_f32, attention, attention_backward,
        flash, flash_backward, moved;
} mf_meter_device;

/* The known devices. The last entry has no name. */
extern const mf_meter_device mf_meter_devices[];
/* Fails with MF_EUSAGE if no device has this name. */
int mf_meter_device_of(const char *name, const mf_meter_device **ret);

/* The device with this peak in bf16, in TFLOP/s, and this bandwidth, in GB/s; NULL: no such
 * device is known. */
const mf_meter_device *mf_meter_device_like(double tflops, double gb_per_s);

typedef struct mf_meter_row {
    const char *name; /* name in kernels.def; grouped gemms are counted under a name of
                       * their own */
    int64_t calls, launches;
    double flops, bytes, seconds;
} mf_meter_row;

enum { MF_METER_ROWS = 64 };
typedef struct mf_meter {
    const mf_meter_device *device;
    mf_meter_row row[MF_METER_ROWS];
    int n;
    mf_meter_row sum;
    double graph_flops; /* operations that the graphs count: the same without recomputation */
    int hosted;         /* number of ops of plugins, which run on the host and are not in
                         * the rows */
    /* of the step: tokens, parameters that a token uses, bytes of device memory for the
     * values of the graph */
    double tokens, params_active, memory;
} mf_meter;

/* Counts a training step of a bare session that has gradients, as a device would run it: all
 * micro-batches, then norm and optimizer. Rows are in descending order of time. Fails with
 * MF_EUSAGE for an optimizer other than adamw, adam, lion. */
int mf_meter_step(mf_session *s, const mf_meter_device *device, mf_meter *ret);

/* Counts the step that generates one token, with a cache that has room for a sequence. Without
 * a row in *ret, the model generates no tokens with a cache. */
int mf_meter_token(mf_session *s, const mf_meter_device *device, mf_meter *ret);

/* For meter.c and meter_kernels.c. mf_meter_kernels is the set of kernels that count. The meter
 * is the stream of their contexts. mf_meter_add adds one call: its launches, bytes, operations,
 * and the seconds that the operations need without the bytes. */
extern const mf_kernels mf_meter_kernels;
void mf_meter_add(mf_meter *m, const char *name, int launches, double bytes, double flops,
                  double seconds);

#endif
