/* kernel_device.c: runs the cases of check_kernels on a device.
 *
 * A case passes host memory to kernels. Here all its blocks are copied to the device, the
 * kernel is launched with their addresses on the device, and the blocks are copied back. So
 * launches access only memory of the device. */
#include <check.h>
#include <string.h>

#include "base/error.h"
#include "kernel_case.h"
#include "launch.h"
#include "tests/lib/device.h"

bool kt_gemms_stop(void)
{
    const mf_device *d = mf_test_device();
    return !d || strcmp(mf_device_name(d), "cuda") != 0;
}

bool kt_by_library(const mf_kernel_row *row)
{
    const bool gemm = strcmp(row->kernel, "gemm") == 0;
    return (gemm || strcmp(row->kernel, "pack_weights") == 0) && !kt_gemms_stop();
}

bool kt_decodes_all(void)
{
    const mf_device *d = mf_test_device();
    return !d || strcmp(mf_device_name(d), "strict") == 0;
}

static mf_kt *now;
static const mf_kernels *like;
static char *copies[MF_KT_BLOCKS], *fault;
static mf_stored moved_weight; /* the weight of the launch, and the table of its parts on
                                * the device */
static void *moved_parts;

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* The device address that replaces p. A pointer that is in no block of the case is unchanged,
 * and the device refuses it. */
static void *to_device(const mover *m, const void *p, const char *argument)
{
    const char *c = p;
    (void)m, (void)argument;
    if (p == &now->fault) return fault;
    for (int i = 0; i < now->n_blocks; i++) {
        const char *block = now->block[i];
        if (c >= block && c < block + now->bytes[i]) return copies[i] + (c - block);
    }
    return (void *)(uintptr_t)p;
}

/* Copies a block to the device. The copy ends at the block's end, so a device that checks
 * accesses detects each access beyond it. On CUDA the copy ends at a multiple of 16, because
 * compute-sanitizer treats the whole size of a cp.async as read, even if less is valid. */
static void *copied(const void *from, size_t bytes)
{
    void *to = NULL;
    const size_t room = kt_gemms_stop() ? bytes : (bytes + 15) / 16 * 16;
    must(mf_device_alloc(mf_test_device(), room, &to));
    must(mf_device_write(mf_test_device(), to, from, bytes));
    return to;
}

static const mf_stored *weight_to_device(const mover *m, const mf_stored *w)
{
    static mf_stored_part part[64];
    const size_t n = (size_t)(w->groups * w->parts);
    ck_assert_uint_le(n, sizeof part / sizeof *part);
    move_parts(m, w, w->part, part);
    moved_parts = copied(part, n * sizeof *part);
    moved_weight = *w;
    moved_weight.part = moved_parts;
    moved_weight.home = w;
    return &moved_weight;
}

static void launch(const mf_kctx *x, int kernel, const void *args, size_t bytes)
{
    mf_device *d = mf_test_device();
    const launched_kernel *k = &launched[kernel];
    const mover m = {.to = to_device, .weight = weight_to_device};
    union {
        mf_draw_key aligned;
        char bytes[1024];
    } room;
    ck_assert_uint_le(bytes, sizeof room);
    memcpy(&room, args, bytes);
    for (int i = 0; i < now->n_blocks; i++)
        copies[i] = copied(now->block[i], now->bytes[i]);
    fault = copied(&now->fault, sizeof now->fault);
    mf_draw_key *key = copied(x->key, sizeof *x->key);
    mf_kctx there = *x;
    there.stream = d->stream;
    there.fault = (mf_fault *)(void *)fault;
    there.key = key;
    k->move(&m, &room);
    k->run(mf_device_kernels(d, like), &there, &room);
    must(mf_device_wait(d)); /* before this wait, copies to the device still read the blocks */
    for (int i = 0; i < now->n_blocks; i++)
        must(mf_device_read(d, now->block[i], copies[i], now->bytes[i]));
    must(mf_device_read(d, &now->fault, fault, sizeof now->fault));
    must(mf_device_wait(d));
    for (int i = 0; i < now->n_blocks; i++)
        mf_device_free(d, copies[i]);
    mf_device_free(d, fault);
    mf_device_free(d, key);
    mf_device_free(d, moved_parts);
    moved_parts = NULL;
}

const mf_kernels *mf_kernels_launched(mf_kt *t, const mf_kernels *set)
{
    static mf_kernels table;
    if (!mf_test_device()) return set;
    table = launching;
    table.name = "launched";
    now = t;
    like = set;
    table.can_pack = mf_device_kernels(mf_test_device(), set)->can_pack;
    table.can_swiglu = mf_device_kernels(mf_test_device(), set)->can_swiglu;
    table.fuses = mf_device_kernels(mf_test_device(), set)->fuses;
    return &table;
}
