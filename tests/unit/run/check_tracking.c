/* The queue of log.mlflow, addresses of servers, a handle that cannot be made, and the requests
 * and answers of a small server. tests/cli/train/mlflow.bats tests runs with a more
 * complete server. */
#include "check_main.h"

#include "base/error.h"
#include "io/http.h"
#include "base/log.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"
#include "run/metrics/tracking.h"
#include "run/metrics/tracking_queue.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static mf_tracking_queue *new_queue(void)
{
    mf_tracking_queue *q;
    ck_assert_int_eq(mf_tracking_queue_new(&q), MF_OK);
    return q;
}

static size_t put(mf_tracking_queue *q, const char *key, int64_t step)
{
    const mf_tracking_metric m = {key, (double)step / 2, step, 1000 * step};
    size_t waiting;
    ck_assert_int_eq(mf_tracking_queue_put(q, &m, &waiting), MF_OK);
    return waiting;
}

START_TEST(metrics_come_out_as_they_went_in)
{
    mf_tracking_queue *q = new_queue();
    mf_tracking_metric out[4];
    size_t n;
    for (int64_t step = 1; step <= 10000; step++) { /* the ring buffer grows twice */
        put(q, "a", step);
        ck_assert_uint_eq(put(q, "b", step), (size_t)(2 * step));
    }
    uint64_t mark = mf_tracking_queue_peek(q, out, 3, &n);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(out[1].key, "b");
    ck_assert_int_eq(out[2].step, 2);
    ck_assert_int_eq(out[2].time, 2000);
    ck_assert_double_eq(out[2].value, 1);
    mf_tracking_queue_peek(q, out, 1, &n); /* no value was removed */
    ck_assert_int_eq(out[0].step, 1);
    mf_tracking_queue_remove(q, mark);
    ck_assert_uint_eq(mf_tracking_queue_waiting(q), 19997);
    mf_tracking_queue_remove(q, mark);
    ck_assert_uint_eq(mf_tracking_queue_waiting(q), 19997);
    mf_tracking_queue_peek(q, out, 1, &n);
    ck_assert_str_eq(out[0].key, "b");
    ck_assert_int_eq(out[0].step, 2);
    mf_tracking_queue_free(q);
}
END_TEST

START_TEST(a_full_queue_drops_the_oldest)
{
    mf_tracking_queue *q = new_queue();
    mf_tracking_metric out[2];
    size_t n;
    for (int64_t step = 0; step < MF_TRACKING_QUEUE_MAX; step++)
        put(q, "a", step);
    ck_assert_uint_eq(mf_tracking_queue_dropped(q), 0);
    const uint64_t mark = mf_tracking_queue_peek(q, out, 2, &n); /* values are being sent */
    for (int64_t step = 0; step < 5; step++)
        ck_assert_uint_eq(put(q, "b", step), MF_TRACKING_QUEUE_MAX);
    ck_assert_uint_eq(mf_tracking_queue_dropped(q), 5);
    ck_assert_uint_eq(mf_tracking_queue_dropped(q), 0);
    mf_tracking_queue_remove(q,
                             mark); /* values that were already removed are not removed twice */
    ck_assert_uint_eq(mf_tracking_queue_waiting(q), MF_TRACKING_QUEUE_MAX);
    mf_tracking_queue_peek(q, out, 1, &n);
    ck_assert_int_eq(out[0].step, 5);
    mf_tracking_queue_free(q);
}
END_TEST

START_TEST(what_the_server_has_is_left_out)
{
    mf_tracking_queue *q = new_queue();
    mf_tracking_metric out[8];
    size_t n;
    put(q, "a", 1);
    put(q, "b", 1);
    put(q, "a", 2);
    ck_assert_int_eq(mf_tracking_queue_known(q, "a", 2), MF_OK);
    ck_assert_uint_eq(put(q, "a", 2), 3); /* a refused value is not put */
    put(q, "a", 3);
    const uint64_t mark = mf_tracking_queue_peek(q, out, 8, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(out[0].key, "b");
    ck_assert_int_eq(out[1].step, 3);
    mf_tracking_queue_forget(q);
    mf_tracking_queue_peek(q, out, 8, &n);
    ck_assert_uint_eq(n, 4);
    mf_tracking_queue_remove(q, mark);
    ck_assert_uint_eq(mf_tracking_queue_waiting(q), 0);
    mf_tracking_queue_free(q);
}
END_TEST

START_TEST(addresses)
{
    static const char *const good[] = {"http://localhost:5000", "https://a.b/c/",
                                       "http://[::1]:1", "http://host"};
    static const char *const bad[] = {
        "",           "localhost:5000",   "http://",        "http:///x",
        "http://:1",  "http://me:w@host", "http://a b",     "file:///tmp",
        "http://a?b", "http://a\nb",      "http://\xc3\xa4"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(mf_tracking_is_address(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!mf_tracking_is_address(bad[i]), "%s", bad[i]);
}
END_TEST

/* Makes a handle, and frees it before it is used. */
static int make(void)
{
    const mf_tracking_options o = {.server = "http://127.0.0.1:1",
                                   .experiment = "e",
                                   .name = "r",
                                   .state = scratch_path("mlflow.json"),
                                   .resumed = true};
    mf_tracking *m;
    int rc = mf_tracking_new(&o, &m);
    if (rc != MF_OK) return rc;
    ck_assert(mf_tracking_described(m));
    rc = mf_tracking_describe(m, false, "train.lr", "1");
    if (rc == MF_OK) rc = mf_tracking_log(m, "train/loss", 1, 1, 1);
    mf_tracking_end(m, "FINISHED");
    return rc;
}

START_TEST(without_memory_it_is_an_error)
{
    static const char state[] =
        "{\"server\":\"http://127.0.0.1:1\",\"experiment_id\":\"1\",\"run_id\":\"x\","
        "\"described\":true}";
    if (mf_http_check() != MF_OK) return;
    scratch_write(scratch_path("mlflow.json"), state, sizeof state - 1);
    for (long n = 1;; n++) {
        fault_alloc(n, FAULT_ONCE);
        const int rc = make();
        const bool hit = fault_hit();
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        if (!hit) break;
    }
}
END_TEST

static char lines[4096]; /* the logged lines */

static void keep(void *arg, mf_log_level level, const char *text)
{
    const size_t n = strlen(lines);
    (void)arg, (void)level;
    snprintf(lines + n, sizeof lines - n, "%s\n", text);
}

START_TEST(nobody_answers)
{
    const mf_log_sink sink = {.highest = MF_LOG_INFO, .line = keep};
    const mf_tracking_options o = {.server = "http://127.0.0.1:1/",
                                   .experiment = "e",
                                   .name = "r",
                                   .state = scratch_path("none.json"),
                                   .resumed = true};
    mf_tracking *m;
    if (mf_http_check() != MF_OK) return;
    ck_assert_int_eq(mf_tracking_new(&o, &m), MF_OK);
    ck_assert(!mf_tracking_described(m));
    ck_assert_int_eq(mf_tracking_begin(m, 1), MF_OK);
    for (int64_t step = 0; step < MF_TRACKING_QUEUE_MAX + 3; step++)
        ck_assert_int_eq(mf_tracking_log(m, "train/loss", 1, step, 1), MF_OK);
    const mf_log_sink *before = mf_log_redirect(&sink);
    lines[0] = '\0';
    mf_fail(MF_ERUN, "the caller's error");
    mf_tracking_end(m, "FAILED");
    mf_log_redirect(before);
    ck_assert_msg(
        strstr(lines, "log.mlflow = http://127.0.0.1:1: 262147 values were not sent;"), "%s",
        lines);
    ck_assert_str_eq(mf_error_message(), "the caller's error");
}
END_TEST

/* ---- a server ---- */

enum { LONG = 10000 };

static struct {
    int fd;
    bool empty; /* answers {} to every request */
    pthread_t thread;
    char requests[1 << 16]; /* bodies of the requests, one after another */
} server;

static bool send_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        text += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Writes an answer. It begins with blanks, which have no meaning in JSON, so that answers
 * exceed the first buffer. */
static bool answer(int fd, const char *request)
{
    const char *json = server.empty ? "{}"
                       : strstr(request, "experiments/get-by-name")
                           ? "{\"experiment\": {\"experiment_id\": \"7\"}}"
                       : strstr(request, "runs/create")
                           ? "{\"run\": {\"info\": {\"run_id\": \"r1\"}}}"
                           : "{}";
    char text[LONG + 512];
    const int n =
        snprintf(text, sizeof text, "HTTP/1.1 200 X\r\nContent-Length: %zu\r\n\r\n%*s",
                 LONG + strlen(json), (int)(LONG + strlen(json)), json);
    return send_all(fd, text, (size_t)n);
}

/* Answers the requests of a connection until the client closes it. */
static void answer_all(int fd)
{
    static char text[1 << 16];
    for (;;) {
        size_t n = 0, begin = 0, length = 0;
        memset(text, 0, sizeof text);
        while (begin == 0 || n < begin + length) {
            const ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
            if (got <= 0) return;
            n += (size_t)got;
            const char *end = begin == 0 ? strstr(text, "\r\n\r\n") : NULL,
                       *size = end ? strstr(text, "Content-Length: ") : NULL;
            if (end) begin = (size_t)(end - text) + 4;
            if (size) length = (size_t)atoi(size + strlen("Content-Length: "));
        }
        const size_t at = strlen(server.requests);
        snprintf(server.requests + at, sizeof server.requests - at, "%s\n", text + begin);
        if (!answer(fd, text)) return;
    }
}

static void *serve(void *arg)
{
    for (int fd; (fd = accept(server.fd, NULL, NULL)) >= 0; close(fd))
        answer_all(fd);
    return arg;
}

/* Starts the server and writes its address. */
static void start(bool empty, char address[64])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    setenv("no_proxy", "*", 1);
    server.empty = empty;
    server.requests[0] = lines[0] = '\0';
    server.fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(server.fd >= 0 && bind(server.fd, (struct sockaddr *)&a, size) == 0 &&
              listen(server.fd, 4) == 0 &&
              getsockname(server.fd, (struct sockaddr *)&a, &size) == 0 &&
              pthread_create(&server.thread, NULL, serve, NULL) == 0);
    snprintf(address, 64, "http://127.0.0.1:%d", ntohs(a.sin_port));
}

/* Ends the server. Afterwards its requests can be read. */
static void stop(void)
{
    shutdown(server.fd, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.fd);
}

/* Sends a run with one parameter and one value, and collects the logged lines. */
static void send_run(const char *address, const char *state)
{
    const mf_log_sink sink = {.highest = MF_LOG_INFO, .line = keep};
    const mf_tracking_options o = {
        .server = address, .experiment = "e", .name = "r", .state = state};
    mf_tracking *m;
    ck_assert_int_eq(mf_tracking_new(&o, &m), MF_OK);
    ck_assert_int_eq(mf_tracking_describe(m, false, "expert.a+b=\xc3\xa4", "1"), MF_OK);
    ck_assert_int_eq(mf_tracking_log(m, "train/x,y.0 z-_:", .5, 3, 1), MF_OK);
    ck_assert_int_eq(mf_tracking_begin(m, 1), MF_OK);
    const mf_log_sink *before = mf_log_redirect(&sink);
    mf_tracking_end(m, "FINISHED");
    mf_log_redirect(before);
}

static void expect(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part), "%s\nexpected %s", text, part);
}

START_TEST(names_and_long_answers)
{
    char address[64];
    if (mf_http_check() != MF_OK) return;
    start(false, address);
    send_run(address, scratch_path("sent.json"));
    stop();
    expect(server.requests, "\"experiment_id\":\"7\",\"run_name\":\"r\",\"start_time\":1}");
    expect(server.requests, "{\"key\":\"expert.a_b___\",\"value\":\"1\"}");
    expect(server.requests, "{\"key\":\"train/x_y.0 z-_:\",\"value\":0.5,");
    expect(server.requests, "{\"run_id\":\"r1\",\"status\":\"FINISHED\",");
    expect(lines, "/#/experiments/7/runs/r1\n");
    ck_assert_msg(strchr(lines, '\n')[1] == '\0', "%s", lines); /* there is no further line */
    char *state = scratch_read(scratch_path("sent.json"), &(size_t){0});
    ck_assert(state != NULL);
    expect(state, "\"run_id\":\"r1\"");
    free(state);
}
END_TEST

/* The run is sent although its state cannot be written. */
START_TEST(a_state_that_cannot_be_written)
{
    char address[64];
    if (mf_http_check() != MF_OK) return;
    start(false, address);
    send_run(address, scratch_path("none/mlflow.json"));
    stop();
    expect(lines, scratch_path("none/mlflow.json"));
    expect(lines, "/#/experiments/7/runs/r1\n");
    expect(server.requests, "{\"run_id\":\"r1\",\"status\":\"FINISHED\",");
}
END_TEST

START_TEST(answers_without_an_id)
{
    char address[64];
    if (mf_http_check() != MF_OK) return;
    start(true, address);
    send_run(address, scratch_path("unsent.json"));
    stop();
    expect(lines, "the answer lacks experiment_id (expected the address of an MLflow server); "
                  "training does not wait for it\n");
    expect(lines, ": 1 values were not sent, --resume sends them; ");
    /* All requests have an empty body, so no run was made. */
    ck_assert_uint_eq(strspn(server.requests, "\n"), strlen(server.requests));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tracking");
    TCase *t = tcase_create("tracking");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, metrics_come_out_as_they_went_in);
    tcase_add_test(t, a_full_queue_drops_the_oldest);
    tcase_add_test(t, what_the_server_has_is_left_out);
    tcase_add_test(t, addresses);
    tcase_add_test(t, without_memory_it_is_an_error);
    tcase_add_test(t, nobody_answers);
    tcase_add_test(t, names_and_long_answers);
    tcase_add_test(t, a_state_that_cannot_be_written);
    tcase_add_test(t, answers_without_an_id);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
