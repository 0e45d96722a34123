/* event files of TensorBoard: the CRCs of RFC 3720, framing, and every field. A separate
 * decoder reads them back. Also names of numbers, and a full disk. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "run/metrics/events.h"
#include "run/metrics/metrics_each.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static char home[] = "/tmp/check_events.XXXXXX";

/* ---- an independent reader ---- */

/* CRC-32C bit by bit, from its polynomial. */
static uint32_t crc_by_bits(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < 8 * n; i++) {
        const uint32_t bit = (crc ^ (uint32_t)(p[i / 8] >> (i % 8))) & 1;
        crc = bit ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
    }
    return crc ^ 0xFFFFFFFFu;
}

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = n; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static uint32_t unmasked(uint32_t m)
{
    const uint32_t rotated = m - 0xA282EAD8u;
    return rotated >> 17 | rotated << 15;
}

typedef struct bytes {
    const unsigned char *at;
    size_t n;
} bytes;

typedef struct field {
    int number, wire;
    uint64_t value; /* value of a varint or fixed64 */
    bytes text;
} field;

static uint64_t varint(bytes *b)
{
    uint64_t v = 0;
    int shift = 0;
    unsigned char c;
    do {
        ck_assert(b->n > 0 && shift < 64);
        c = *b->at++;
        b->n--;
        v |= (uint64_t)(c & 0x7F) << shift;
        shift += 7;
    } while (c & 0x80);
    return v;
}

static bool next_field(bytes *b, field *f)
{
    if (b->n == 0) return false;
    const uint64_t key = varint(b);
    *f = (field){.number = (int)(key >> 3), .wire = (int)(key & 7)};
    ck_assert(f->wire == 0 || f->wire == 1 || f->wire == 2);
    if (f->wire == 0) f->value = varint(b);
    if (f->wire == 0) return true;
    const size_t n = f->wire == 1 ? 8 : (size_t)varint(b);
    ck_assert_uint_le(n, b->n);
    f->text = (bytes){b->at, n};
    if (f->wire == 1) f->value = little(b->at, 8);
    b->at += n;
    b->n -= n;
    return true;
}

/* The only field with this number; the test fails if there is not exactly one. */
static field only(bytes b, int number)
{
    field f, found = {0};
    int n = 0;
    while (next_field(&b, &f))
        if (f.number == number) {
            found = f;
            n++;
        }
    ck_assert_msg(n == 1, "field %d is there %d times", number, n);
    return found;
}

/* The message of the next record. Both of its checksums must be right. */
static bytes next_record(bytes *file)
{
    ck_assert_uint_ge(file->n, 16);
    const size_t n = (size_t)little(file->at, 8);
    ck_assert_uint_le(n, file->n - 16);
    const bytes b = {file->at + 12, n};
    ck_assert_uint_eq(unmasked((uint32_t)little(file->at + 8, 4)), crc_by_bits(file->at, 8));
    ck_assert_uint_eq(unmasked((uint32_t)little(b.at + n, 4)), crc_by_bits(b.at, n));
    file->at += n + 16;
    file->n -= n + 16;
    return b;
}

static bool is(bytes b, const char *text)
{
    return b.n == strlen(text) && memcmp(b.at, text, b.n) == 0;
}

static double real(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* ---- tests ---- */

static char *folder_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", home, name);
    return path;
}

/* The bytes of the only file in the folder; the caller frees them. */
static char *content(const char *folder, size_t *ret_n)
{
    char **names, *text;
    int n;
    ck_assert_int_eq(mf_list_dir(folder, &names, &n), MF_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_msg(strncmp(names[0], "events.out.tfevents.", 20) == 0, "%s", names[0]);
    char *path = mf_path_join(folder, names[0]);
    ck_assert_int_eq(mf_read_file(path, 0, &text, ret_n), MF_OK);
    mf_free(path);
    mf_list_free(names, n);
    return text;
}

START_TEST(checksums_are_those_of_the_standard)
{
    unsigned char b[32]; /* vectors of RFC 3720, B.4 */
    ck_assert_uint_eq(mf_crc32c("123456789", 9), 0xE3069283u);
    memset(b, 0, sizeof b);
    ck_assert_uint_eq(mf_crc32c(b, sizeof b), 0x8A9136AAu);
    memset(b, 0xFF, sizeof b);
    ck_assert_uint_eq(mf_crc32c(b, sizeof b), 0x62A8AB43u);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (unsigned char)i;
    ck_assert_uint_eq(mf_crc32c(b, sizeof b), 0x46DD794Eu);
    for (size_t n = 0; n < sizeof b; n++) {
        ck_assert_uint_eq(mf_crc32c(b, n), crc_by_bits(b, n));
        ck_assert_uint_eq(unmasked(mf_crc32c_masked(b, n)), crc_by_bits(b, n));
    }
}
END_TEST

static void check_scalar(bytes value, const char *tag, float want)
{
    const bytes metadata = only(value, 9).text, tensor = only(value, 8).text;
    float v;
    ck_assert(is(only(value, 1).text, tag));
    ck_assert(is(only(only(metadata, 1).text, 1).text, "scalars"));
    ck_assert_uint_eq(only(metadata, 4).value, 1); /* DATA_CLASS_SCALAR */
    ck_assert_uint_eq(only(tensor, 1).value, 1);   /* DT_FLOAT */
    ck_assert_uint_eq(only(tensor, 2).text.n, 0);  /* no dimensions */
    ck_assert_uint_eq(only(tensor, 5).text.n, 4);
    memcpy(&v, only(tensor, 5).text.at, 4);
    ck_assert_float_eq(v, want);
}

START_TEST(every_field_is_read_back)
{
    static const float load[] = {0.5f, 0.125f, 0.375f};
    const char *folder = folder_of("run/train");
    mf_events *e;
    size_t n;
    ck_assert_int_eq(mf_events_open(folder, -1, &e), MF_EIO); /* its parent is not created */
    ck_assert_int_eq(mf_mkdir(folder_of("run")), MF_OK);
    folder = folder_of("run/train");
    ck_assert_int_eq(mf_events_open(folder, -1, &e), MF_OK);
    mf_events_begin(e, 3);
    mf_events_scalar(e, "dropped", 9); /* this value is never put */
    mf_events_begin(e, 300);
    mf_events_scalar(e, "loss", 1.5);
    mf_events_scalar(e, "moe/0.nmi", -0.25);
    mf_events_histogram(e, "moe/0.load", 3, load);
    ck_assert_int_eq(mf_events_put(e), MF_OK);
    mf_events_begin(e, 301);
    ck_assert_int_eq(mf_events_put(e), MF_OK); /* there is nothing to write */
    mf_events_begin(e, (int64_t)1 << 40);
    mf_events_text(e, "config", "    a = 1\n");
    ck_assert_int_eq(mf_events_put(e), MF_OK);
    ck_assert_int_eq(mf_events_close(e), MF_OK);

    char *text = content(folder, &n);
    bytes file = {(const unsigned char *)text, n};
    const bytes first = next_record(&file);
    ck_assert(is(only(first, 3).text, "brain.Event:2"));
    ck_assert(real(only(first, 1).value) > 1.6e9); /* seconds since 1970; 1.6e9 is in 2020 */
    const bytes start = next_record(&file);
    ck_assert_uint_eq(only(start, 2).value, 0);
    ck_assert_uint_eq(only(only(start, 7).text, 1).value, 1); /* SessionLog.START */
    const bytes second = next_record(&file);
    ck_assert_uint_eq(only(second, 2).value, 300);
    bytes summary = only(second, 5).text;
    field value;
    ck_assert(next_field(&summary, &value) && value.number == 1);
    check_scalar(value.text, "loss", 1.5f);
    ck_assert(next_field(&summary, &value));
    check_scalar(value.text, "moe/0.nmi", -0.25f);
    ck_assert(next_field(&summary, &value));
    ck_assert(is(only(value.text, 1).text, "moe/0.load"));
    ck_assert(is(only(only(only(value.text, 9).text, 1).text, 1).text, "histograms"));
    const bytes tensor = only(value.text, 8).text, content_of = only(tensor, 4).text;
    ck_assert_uint_eq(only(tensor, 1).value, 2); /* DT_DOUBLE */
    bytes shape = only(tensor, 2).text;
    static const uint64_t sizes[] = {3, 3};
    for (int i = 0; i < 2; i++) {
        ck_assert(next_field(&shape, &value) && value.number == 2);
        ck_assert_uint_eq(only(value.text, 1).value, sizes[i]);
    }
    ck_assert_uint_eq(shape.n, 0);
    ck_assert_uint_eq(content_of.n, 72);
    for (int i = 0; i < 3; i++) {
        ck_assert_double_eq(real(little(content_of.at + 24 * i, 8)), i);
        ck_assert_double_eq(real(little(content_of.at + 24 * i + 8, 8)), i + 1);
        ck_assert_double_eq(real(little(content_of.at + 24 * i + 16, 8)), (double)load[i]);
    }
    ck_assert_uint_eq(summary.n, 0);
    const bytes third = next_record(&file);
    ck_assert_uint_eq(only(third, 2).value, (uint64_t)1 << 40);
    const bytes note = only(only(third, 5).text, 1).text;
    ck_assert(is(only(only(only(note, 9).text, 1).text, 1).text, "text"));
    ck_assert_uint_eq(only(only(note, 8).text, 1).value, 7); /* DT_STRING */
    ck_assert(is(only(only(note, 8).text, 8).text, "    a = 1\n"));
    ck_assert_uint_eq(file.n, 0);
    mf_free(text);
}
END_TEST

START_TEST(a_resumed_run_says_where_it_goes_on)
{
    const char *folder = folder_of("resumed");
    mf_events *e;
    size_t n;
    ck_assert_int_eq(mf_events_open(folder, 40, &e), MF_OK);
    ck_assert_int_eq(mf_events_close(e), MF_OK);
    char *text = content(folder, &n);
    bytes file = {(const unsigned char *)text, n};
    next_record(&file);
    const bytes start = next_record(&file);
    ck_assert_uint_eq(only(start, 2).value, 41);
    ck_assert_uint_eq(only(only(start, 7).text, 1).value, 1); /* SessionLog.START */
    ck_assert_uint_eq(file.n, 0);
    mf_free(text);
}
END_TEST

static void collect(void *arg, const char *name, double value)
{
    char *all = arg;
    snprintf(all + strlen(all), 2048 - strlen(all), "%s=%g ", name, value);
}

START_TEST(numbers_have_the_names_of_exports)
{
    static const float load[] = {0.5f, 0.5f};
    static const mf_layer_stats layers[] = {{.size = sizeof(mf_layer_stats),
                                             .layer = 3,
                                             .experts = 2,
                                             .load = load,
                                             .entropy = 0.5,
                                             .nmi = NAN,
                                             .gate_entropy = NAN,
                                             .max_prob = NAN}};
    static const mf_named_value regularizers[] = {{"balance", 2}, {"gone", NAN}, {NULL, 1}};
    static const mf_named_value live[] = {{"router.temperature", 0.25}};
    static const mf_controller_record controllers[] = {{"warm", 1, live}};
    char all[2048] = "";
    mf_metrics_record r;
    mf_metrics_record_init(&r);
    r.loss = 1.5;
    r.layers = layers;
    r.n_layers = 1;
    r.regularizers = regularizers;
    r.n_regularizers = 3;
    r.controllers = controllers;
    r.n_controllers = 1;
    mf_metrics_each(&r, collect, all);
    ck_assert_str_eq(all, "loss=1.5 tokens=0 regularizers.balance=2 "
                          "controllers.warm.router.temperature=0.25 moe.3.entropy=0.5 "
                          "moe.3.load_entropy=0 moe.3.top_prob=0 moe.3.load_cv=0 "
                          "moe.3.drop_rate=0 moe.3.reassigned=0 moe.3.empty=0 ");
}
END_TEST

START_TEST(numbers_of_tasks_and_heads)
{
    static const mf_task_score tasks[] = {{.name = "main",
                                           .weight = 1,
                                           .loss = 0.5,
                                           .accuracy = 0.75,
                                           .macro_f1 = 0.25,
                                           .mse = NAN},
                                          {.name = "score",
                                           .number = true,
                                           .weight = 0.25,
                                           .loss = 4,
                                           .accuracy = NAN,
                                           .mse = 4,
                                           .pearson = 0.5,
                                           .spearman = -0.5}};
    char all[2048] = "";
    mf_metrics_record r;
    mf_metrics_record_init(&r);
    r.tasks = tasks;
    r.n_tasks = 2;
    r.heads_active = 3;
    r.heads_total = 4;
    mf_metrics_each(&r, collect, all);
    ck_assert_str_eq(all, "tokens=0 tasks.main.weight=1 tasks.main.loss=0.5 "
                          "tasks.main.accuracy=0.75 tasks.main.macro_f1=0.25 "
                          "tasks.score.weight=0.25 tasks.score.loss=4 tasks.score.mse=4 "
                          "tasks.score.rmse=2 tasks.score.pearson=0.5 "
                          "tasks.score.spearman=-0.5 heads.active=3 heads.total=4 ");
}
END_TEST

/* TensorBoard reads the files of a folder in the order of their names, so a new file must
 * come last. */
START_TEST(a_new_file_is_the_last_one)
{
    char **names;
    int n;
    mf_events *e;
    const char *folder = folder_of("later");
    ck_assert_int_eq(mf_mkdir(folder), MF_OK);
    char *path = mf_path_join(folder, "events.out.tfevents.4000000000.host.1.0");
    ck_assert_int_eq(mf_write_file_atomic(path, "", 0), MF_OK);
    mf_free(path);
    ck_assert_int_eq(mf_events_open(folder, -1, &e), MF_OK);
    ck_assert_int_eq(mf_events_close(e), MF_OK);
    ck_assert_int_eq(mf_list_dir(folder, &names, &n), MF_OK);
    ck_assert_int_eq(n, 2);
    ck_assert_msg(strncmp(names[1], "events.out.tfevents.4000000001.", 31) == 0, "%s",
                  names[1]);
    mf_list_free(names, n);
}
END_TEST

START_TEST(files_that_cannot_be_written)
{
    struct rlimit before, small;
    mf_events *e;
    ck_assert_int_eq(mf_events_open("/proc/self/fdinfo", -1, &e), MF_EIO);
    ck_assert_ptr_null(e);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "cannot create"));
    /* the limit of the file size below acts like a full disk */
    ck_assert_int_eq(mf_events_open(folder_of("full"), -1, &e), MF_OK);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    mf_events_begin(e, 1);
    mf_events_scalar(e, "loss", 1);
    const int rc = mf_events_put(e);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(rc, MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "cannot write"));
    ck_assert_int_eq(mf_events_close(e), MF_OK);
    /* The event file gets the descriptor number of `next`. Closing this number closes the event
     * file's descriptor. */
    const int next = open("/dev/null", O_RDONLY);
    close(next);
    ck_assert_int_eq(mf_events_open(folder_of("closed"), -1, &e), MF_OK);
    ck_assert_int_eq(close(next), 0);
    ck_assert_int_eq(mf_events_close(e), MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "cannot close"));
    mf_error_clear();
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_an_error)
{
    mf_events *e;
    ck_assert_int_eq(mf_events_open("/dev/null/x", -1, &e), MF_EIO);
    ck_assert_ptr_null(e);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "/dev/null"));
    mf_error_clear();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("events");
    TCase *c = tcase_create("events");
    tcase_add_test(c, checksums_are_those_of_the_standard);
    tcase_add_test(c, every_field_is_read_back);
    tcase_add_test(c, a_resumed_run_says_where_it_goes_on);
    tcase_add_test(c, numbers_have_the_names_of_exports);
    tcase_add_test(c, numbers_of_tasks_and_heads);
    tcase_add_test(c, a_new_file_is_the_last_one);
    tcase_add_test(c, files_that_cannot_be_written);
    tcase_add_test(c, a_folder_that_cannot_be_made_is_an_error);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    char command[128];
    if (!mkdtemp(home)) return 99;
    int status = check_run(suite(), CK_NOFORK);
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command) != 0 ? 99 : status;
}
