/* queue: the requirements on each device for queued work: copies, fills, the order of streams
 * by events, waits of the host, recordings. The tests run on the device that MOEFW_TEST_DEVICE
 * names, or on the strict device.
 *
 * Each test has several rounds, because a missing order leads to wrong numbers only in some
 * of them. */
#include "check_main.h"

#include <stdlib.h>

#include "base/error.h"
#include "graph/device/code.h"
#include "graph/device/device.h"
#include "tests/lib/device.h"

enum { ROUNDS = 20, N = 64, BYTES = N * sizeof(float) };

static mf_device *d;
static const mf_device_ops *o;
static float *host, *back; /* N numbers each, in host memory that the device may access */

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", d->ops->message(d));
}

static void *block(void)
{
    void *p = NULL;
    must(o->alloc(d, BYTES, &p));
    return p;
}

static void fill_host(float value)
{
    for (int i = 0; i < N; i++)
        host[i] = value + (float)i;
}

static void expect(float value)
{
    for (int i = 0; i < N; i++)
        ck_assert_msg(back[i] == value + (float)i, "number %d is %g, expected %g", i,
                      (double)back[i], (double)(value + (float)i));
}

static void start(void)
{
    void *p = NULL, *q = NULL;
    d = mf_test_device();
    ck_assert_ptr_nonnull(d);
    o = d->ops;
    must(o->alloc_host(d, BYTES, &p));
    must(o->alloc_host(d, BYTES, &q));
    host = p, back = q;
}

static void end(void)
{
    o->free_host(d, host);
    o->free_host(d, back);
}

START_TEST(copies_and_fills)
{
    float *p = block(), *q = block();
    fill_host(5);
    must(o->write(d, d->stream, p, host, BYTES));
    must(o->fill(d, d->stream, q, 0, BYTES));
    must(o->copy(d, d->stream, q + 2, p + 1, BYTES / 2));
    must(o->read(d, d->stream, back, q, BYTES));
    must(o->synchronize(d, d->stream));
    for (int i = 0; i < N; i++)
        ck_assert_float_eq(back[i], i >= 2 && i < 2 + N / 2 ? host[i - 1] : 0);
    o->free(d, p);
    o->free(d, q);
}
END_TEST

START_TEST(a_stream_waits_for_events)
{
    void *p = block(), *q = block(), *other, *event;
    must(o->stream_new(d, &other));
    must(o->event_new(d, &event));
    for (int i = 0; i < ROUNDS; i++) {
        fill_host((float)i);
        must(o->write(d, d->stream, p, host, BYTES));
        /* the event then marks only this record, not the records of earlier rounds */
        must(o->event_record(d, event, d->stream));
        must(o->stream_wait(d, other, event));
        must(o->copy(d, other, q, p, BYTES));
        must(o->read(d, other, back, q, BYTES));
        must(o->synchronize(d, other));
        expect((float)i);
        must(o->event_record(d, event, other)); /* p is overwritten after it was copied */
        must(o->stream_wait(d, d->stream, event));
    }
    must(o->synchronize(d, NULL));
    o->event_free(d, event);
    o->stream_free(d, other);
    o->free(d, p);
    o->free(d, q);
}
END_TEST

START_TEST(the_host_waits_for_events)
{
    void *p = block(), *event;
    must(o->event_new(d, &event));
    for (int i = 0; i < ROUNDS; i++) {
        fill_host((float)i);
        must(o->write(d, d->stream, p, host, BYTES));
        must(o->read(d, d->stream, back, p, BYTES));
        must(o->event_record(d, event, d->stream));
        must(o->fill(d, d->stream, p, 0, BYTES));
        must(o->event_wait(d, event));
        expect((float)i);
    }
    must(o->synchronize(d, d->stream));
    o->event_free(d, event);
    o->free(d, p);
}
END_TEST

START_TEST(the_host_waits_for_all_streams)
{
    void *p = block(), *other;
    must(o->stream_new(d, &other));
    for (int i = 0; i < ROUNDS; i++) {
        fill_host((float)i);
        must(o->write(d, other, p, host, BYTES));
        must(o->read(d, other, back, p, BYTES));
        must(o->synchronize(d, NULL));
        expect((float)i);
    }
    o->stream_free(d, other);
    o->free(d, p);
}
END_TEST

START_TEST(events_have_times)
{
    enum { EVENTS = 3, LARGE = 1 << 20 };
    void *p = NULL, *event[EVENTS];
    double all = 0, part[EVENTS - 1] = {0};
    if (!o->event_elapsed) return;
    must(o->alloc(d, LARGE, &p));
    for (int i = 0; i < EVENTS; i++) {
        must(o->event_new(d, &event[i]));
        must(o->event_record(d, event[i], d->stream));
        for (int k = 0; k < 8; k++)
            must(o->fill(d, d->stream, p, k, LARGE));
    }
    must(o->synchronize(d, d->stream));
    for (int i = 0; i + 1 < EVENTS; i++) {
        must(o->event_elapsed(d, event[i], event[i + 1], &part[i]));
        ck_assert_double_gt(part[i], 0);
    }
    must(o->event_elapsed(d, event[0], event[EVENTS - 1], &all));
    ck_assert_double_eq_tol(all, part[0] + part[1], 0.01);
    for (int i = 0; i < EVENTS; i++)
        o->event_free(d, event[i]);
    o->free(d, p);
}
END_TEST

START_TEST(recordings_do_their_work_at_each_replay)
{
    float *p = block(), *q = block();
    void *recording;
    if (!o->record_begin) return;
    must(o->fill(d, d->stream, q, 0, BYTES));
    must(o->record_begin(d, d->stream));
    must(o->copy(d, d->stream, q, p, BYTES));
    must(o->fill(d, d->stream, p, 0, BYTES));
    must(o->record_end(d, d->stream, &recording));
    for (int i = 1; i < ROUNDS; i++) {
        fill_host((float)i);
        must(o->write(d, d->stream, p, host, BYTES));
        if (i == 1) { /* recording itself runs no work */
            must(o->read(d, d->stream, back, q, BYTES));
            must(o->synchronize(d, d->stream));
            ck_assert_float_eq(back[1], 0);
        }
        must(o->replay(d, d->stream, recording));
        must(o->read(d, d->stream, back, q, BYTES));
        must(o->synchronize(d, d->stream));
        expect((float)i);
        must(o->read(d, d->stream, back, p, BYTES));
        must(o->synchronize(d, d->stream));
        ck_assert_float_eq(back[N - 1], 0);
    }
    o->recording_free(d, recording);
    o->free(d, p);
    o->free(d, q);
}
END_TEST

/* ---- images of device code ---- */

static int images_loaded, images_freed;

static int load_image(mf_device *of, const void *image, void **ret)
{
    (void)of;
    images_loaded++;
    *ret = (void *)(uintptr_t)image;
    return MF_OK;
}

static void free_image(mf_device *of, void *image)
{
    (void)of, (void)image;
    images_freed++;
}

static int waits_for_nothing(mf_device *of, void *stream)
{
    (void)of, (void)stream;
    return MF_OK;
}

/* A device that accepts any image. */
START_TEST(images_are_loaded_once)
{
    static const char images[3] = "abc";
    const mf_device_ops takes_all = {.size = sizeof takes_all,
                                     .name = "images",
                                     .code_load = load_image,
                                     .code_free = free_image,
                                     .synchronize = waits_for_nothing};
    mf_device other = {.ops = &takes_all};
    mf_code *first[3] = {NULL}, *again = NULL;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            const mf_device_code code = {.size = sizeof code, .image = &images[i]};
            ck_assert_int_eq(mf_code_load(&other, &code, round ? &again : &first[i]), MF_OK);
            ck_assert_ptr_nonnull(first[i]);
            if (round) ck_assert_ptr_eq(again, first[i]);
        }
    ck_assert(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
    ck_assert_int_eq(images_loaded, 3);
    mf_codes_free(&other);
    ck_assert_int_eq(images_freed, 3);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("queue");
    TCase *c = tcase_create("queue");
    const TTest *tests[] = {copies_and_fills,          a_stream_waits_for_events,
                            the_host_waits_for_events, the_host_waits_for_all_streams,
                            events_have_times,         recordings_do_their_work_at_each_replay,
                            images_are_loaded_once};
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, start, end);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    setenv("MOEFW_TEST_DEVICE", "strict", 0);
    mf_test_find_strict(false);
    return check_run(suite(), CK_NOFORK);
}
