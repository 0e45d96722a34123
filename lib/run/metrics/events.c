/* run/metrics/events.c: writes TFRecords with events. The length of a nested message stands
 * before it. Therefore the innermost message is written first, and each message has its own
 * buffer. The buffers are kept, so a step allocates nothing once they are large enough. */
#include "run/metrics/events.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/mem.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Numbers of fields. Source: tensorflow/core/util/event.proto, framework/summary.proto,
 * tensor.proto, tensor_shape.proto. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, METADATA_CLASS = 4, PLUGIN_NAME = 1 };
enum { CLASS_SCALAR = 1, CLASS_TENSOR = 2 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE, TENSOR_CONTENT = 4, TENSOR_FLOATS, TENSOR_STRINGS = 8 };
enum { SHAPE_DIM = 2, DIM_SIZE = 1 };
enum { TYPE_FLOAT = 1, TYPE_DOUBLE = 2, TYPE_STRING = 7 };
enum { VARINT = 0, FIXED64 = 1, BYTES = 2 }; /* wire types */

typedef struct buffer {
    unsigned char *at;
    size_t n, room;
    bool failed;
} buffer;

struct mf_events {
    int fd;
    char *path;
    int64_t step;
    buffer inner, outer, value, summary, event; /* from the innermost to the
                                                 * outermost message */
};

/* ---- CRC-32C ---- */

uint32_t mf_crc32c(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t crc = 0xFFFFFFFFu, table[16];
    for (uint32_t i = 0; i < 16; i++) { /* each entry is the CRC of half a byte */
        uint32_t c = i;
        for (int bit = 0; bit < 4; bit++)
            c = (c & 1) ? (c >> 1) ^ 0x82F63B78u : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

uint32_t mf_crc32c_masked(const void *data, size_t n)
{
    const uint32_t crc = mf_crc32c(data, n);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

/* ---- the wire format ---- */

static void put(buffer *b, const void *data, size_t n)
{
    if (b->failed || n == 0) return;
    if (b->room - b->n < n) {
        size_t room = b->room > 0 ? b->room : 256;
        while (room - b->n < n && room < SIZE_MAX / 4)
            room *= 2;
        unsigned char *larger = room - b->n >= n ? mf_realloc(b->at, b->n, room) : NULL;
        if (!larger) {
            b->failed = true;
            return;
        }
        b->at = larger;
        b->room = room;
    }
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static void put_varint(buffer *b, uint64_t v)
{
    unsigned char text[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        text[n++] = (unsigned char)(v | 0x80);
    text[n++] = (unsigned char)v;
    put(b, text, n);
}

/* Writes v as `size` bytes, the lowest byte first. */
static void put_fixed(buffer *b, uint64_t v, size_t size)
{
    unsigned char text[8];
    for (size_t i = 0; i < size; i++)
        text[i] = (unsigned char)(v >> (8 * i));
    put(b, text, size);
}

static void put_double(buffer *b, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_fixed(b, bits, 8);
}

static void put_float(buffer *b, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_fixed(b, bits, 4);
}

static void key(buffer *b, int field, int wire)
{
    put_varint(b, (uint64_t)field << 3 | (uint64_t)wire);
}

static void put_int(buffer *b, int field, int64_t v)
{
    key(b, field, VARINT);
    put_varint(b, (uint64_t)v);
}

static void put_bytes(buffer *b, int field, const void *data, size_t n)
{
    key(b, field, BYTES);
    put_varint(b, n);
    put(b, data, n);
}

static void put_text(buffer *b, int field, const char *text)
{
    put_bytes(b, field, text, strlen(text));
}

/* Writes a message as a field of another message, and empties its buffer. */
static void put_message(buffer *b, int field, buffer *message)
{
    put_bytes(b, field, message->at, message->n);
    b->failed = b->failed || message->failed;
    message->n = 0;
}

/* ---- events ---- */

void mf_events_begin(mf_events *e, int64_t step)
{
    e->step = step;
    e->summary.n = 0;
}

/* Begins a value: writes its tag, and the dashboard that shows it. */
static void begin_value(mf_events *e, const char *tag, const char *plugin, int class)
{
    put_text(&e->value, VALUE_TAG, tag);
    put_text(&e->inner, PLUGIN_NAME, plugin);
    put_message(&e->outer, METADATA_PLUGIN, &e->inner);
    put_int(&e->outer, METADATA_CLASS, class);
    put_message(&e->value, VALUE_METADATA, &e->outer);
}

/* Ends a value, whose tensor is in `outer`. */
static void end_value(mf_events *e)
{
    put_message(&e->value, VALUE_TENSOR, &e->outer);
    put_message(&e->summary, SUMMARY_VALUE, &e->value);
}

void mf_events_scalar(mf_events *e, const char *tag, double value)
{
    begin_value(e, tag, "scalars", CLASS_SCALAR);
    put_int(&e->outer, TENSOR_TYPE, TYPE_FLOAT);
    put_bytes(&e->outer, TENSOR_SHAPE, "", 0); /* a shape without dimensions */
    put_float(&e->inner, (float)value);
    put_message(&e->outer, TENSOR_FLOATS, &e->inner);
    end_value(e);
}

static void dimension(mf_events *e, int64_t size)
{
    buffer *dim = &e->event; /* this buffer is free until the event is put */
    dim->n = 0;
    put_int(dim, DIM_SIZE, size);
    put_message(&e->inner, SHAPE_DIM, dim);
}

void mf_events_histogram(mf_events *e, const char *tag, int n, const float *count)
{
    begin_value(e, tag, "histograms", CLASS_TENSOR);
    put_int(&e->outer, TENSOR_TYPE, TYPE_DOUBLE);
    dimension(e, n);
    dimension(e, 3); /* left edge, right edge, weight */
    put_message(&e->outer, TENSOR_SHAPE, &e->inner);
    for (int i = 0; i < n; i++) {
        put_double(&e->inner, i);
        put_double(&e->inner, i + 1);
        put_double(&e->inner, (double)count[i]);
    }
    put_message(&e->outer, TENSOR_CONTENT, &e->inner);
    end_value(e);
}

void mf_events_text(mf_events *e, const char *tag, const char *text)
{
    begin_value(e, tag, "text", CLASS_TENSOR);
    put_int(&e->outer, TENSOR_TYPE, TYPE_STRING);
    put_bytes(&e->outer, TENSOR_SHAPE, "", 0);
    put_text(&e->outer, TENSOR_STRINGS, text);
    end_value(e);
}

/* ---- the file ---- */

static void begin_event(mf_events *e, int64_t step)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_REALTIME, &now);
    /* 8 bytes of length and 4 of their CRC stand before the message. */
    e->event.n = 0;
    put_fixed(&e->event, 0, 8);
    put_fixed(&e->event, 0, 4);
    key(&e->event, EVENT_WALL_TIME, FIXED64);
    put_double(&e->event, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    put_int(&e->event, EVENT_STEP, step);
}

static int end_event(mf_events *e)
{
    buffer *b = &e->event;
    if (b->failed) return mf_fail(MF_ENOMEM, "%s: out of memory", e->path);
    const size_t n = b->n - 12;
    for (int i = 0; i < 8; i++)
        b->at[i] = (unsigned char)((uint64_t)n >> (8 * i));
    const uint32_t head = mf_crc32c_masked(b->at, 8);
    for (int i = 0; i < 4; i++)
        b->at[8 + i] = (unsigned char)(head >> (8 * i));
    put_fixed(b, mf_crc32c_masked(b->at + 12, n), 4);
    if (b->failed) return mf_fail(MF_ENOMEM, "%s: out of memory", e->path);
    if (mf_raw_write(e->fd, b->at, b->n) != 0)
        return mf_fail_errno(MF_EIO, "%s: cannot write", e->path);
    return MF_OK;
}

int mf_events_put(mf_events *e)
{
    if (e->summary.n == 0 && !e->summary.failed) return MF_OK;
    begin_event(e, e->step);
    put_message(&e->event, EVENT_SUMMARY, &e->summary);
    return end_event(e);
}

/* The first event says that the format is version 2. The second says where the run begins or
 * continues. TensorBoard takes the first such event as the start of a run, so a new run also
 * writes it. After a later event of this kind, TensorBoard drops the values of earlier files
 * from this step on. */
static int introduce(mf_events *e, int64_t resumed_at)
{
    begin_event(e, 0);
    put_text(&e->event, EVENT_VERSION, "brain.Event:2");
    int rc = end_event(e);
    if (rc != MF_OK) return rc;
    begin_event(e, resumed_at + 1);
    put_int(&e->inner, SESSION_STATUS, SESSION_START);
    put_message(&e->event, EVENT_SESSION, &e->inner);
    return end_event(e);
}

/* Computes the time in the name of a new file. TensorBoard reads the files of a folder in the
 * order of their names. Therefore the time is later than those of all other files, even if the
 * clock went backward. */
static int new_time(const char *folder, long long *ret)
{
    char **names = NULL;
    int n = 0;
    const int rc = mf_list_dir(folder, &names, &n);
    *ret = (long long)time(NULL);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        long long at;
        if (sscanf(names[i], "events.out.tfevents.%10lld.", &at) == 1 && at >= *ret)
            *ret = at + 1;
    }
    mf_list_free(names, n);
    return rc;
}

static int create(mf_events *e, const char *folder)
{
    char host[65] = "host";
    long long now;
    int rc = mf_mkdir(folder);
    if (rc == MF_OK) rc = new_time(folder, &now);
    if (rc != MF_OK) return rc;
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') strcpy(host, "host");
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '-';
    e->path =
        mf_strf("%s/events.out.tfevents.%010lld.%s.%ld.0", folder, now, host, (long)getpid());
    if (!e->path) return MF_ENOMEM;
    e->fd = mf_raw_open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666);
    return e->fd >= 0 ? MF_OK : mf_fail_errno(MF_EIO, "%s: cannot create", e->path);
}

int mf_events_open(const char *folder, int64_t resumed_at, mf_events **ret)
{
    *ret = NULL;
    mf_events *e = mf_alloc(1, sizeof *e);
    if (!e) return MF_ENOMEM;
    e->fd = -1;
    int rc = create(e, folder);
    if (rc == MF_OK) rc = introduce(e, resumed_at);
    if (rc != MF_OK) {
        mf_events_close(e);
        return rc;
    }
    *ret = e;
    return MF_OK;
}

int mf_events_close(mf_events *e)
{
    int rc = MF_OK;
    if (!e) return rc;
    if (e->fd >= 0 && mf_raw_close(e->fd) != 0)
        rc = mf_fail_errno(MF_EIO, "%s: cannot close", e->path);
    mf_free(e->inner.at);
    mf_free(e->outer.at);
    mf_free(e->value.at);
    mf_free(e->summary.at);
    mf_free(e->event.at);
    mf_free(e->path);
    mf_free(e);
    return rc;
}
