/* The head of HTTP requests: what is read, and what is refused with which status. */
#include "check_main.h"

#include <stdio.h>
#include <string.h>
#include "io/request.h"

#define FIRST "POST /v1/completions HTTP/1.1\r\n"
#define HOST  "Host: 127.0.0.1:8123\r\n"

static int read_text(const char *text, mf_request *r)
{
    const char *why = NULL;
    const int status = mf_request_read(text, strlen(text), r, &why);
    ck_assert_int_eq(status != 0, why != NULL);
    return status;
}

START_TEST(reads)
{
    mf_request r;
    ck_assert_int_eq(
        read_text(FIRST HOST "content-length:  12 \r\nExpect: 100-continue\r\n\r\n", &r), 0);
    ck_assert_str_eq(r.method, "POST");
    ck_assert_str_eq(r.path, "/v1/completions");
    ck_assert_uint_eq(r.length, 12);
    ck_assert(r.keep && r.waits && r.local);
    ck_assert_int_eq(read_text("GET /health?a=/b HTTP/1.0\nHost: localhost\n\n", &r), 0);
    ck_assert_str_eq(r.path, "/health");
    ck_assert(!r.keep && !r.waits && r.local && r.length == 0);
    ck_assert_int_eq(read_text(FIRST "Host: [::1]:1\r\nConnection: close\r\n\r\n", &r), 0);
    ck_assert(!r.keep && r.local);
    ck_assert_int_eq(read_text(FIRST "Host: evil.example\r\n\r\n", &r), 0);
    ck_assert(!r.local);
    ck_assert_int_eq(read_text(FIRST "Host: localhost.evil.example\r\n\r\n", &r), 0);
    ck_assert(!r.local);
}
END_TEST

static const struct {
    const char *text;
    int status;
} refused[] = {{"\r\n\r\n", 400},
               {"POST /a\r\n\r\n", 400},
               {"POST a HTTP/1.1\r\n" HOST "\r\n", 400},
               {"PO ST /a HTTP/1.1\r\n" HOST "\r\n", 400},
               {"GET /\x01 HTTP/1.1\r\n" HOST "\r\n", 400},
               {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
               {"PROPFIND / HTTP/1.1\r\n" HOST "\r\n", 501},
               {FIRST "\r\n", 400}, /* no Host */
               {FIRST HOST HOST "\r\n", 400},
               {FIRST HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
               {FIRST HOST "Content-Length: -1\r\n\r\n", 400},
               {FIRST HOST "Content-Length: 1234567890123456789\r\n\r\n", 400},
               {FIRST HOST "Content-Length: \r\n\r\n", 400},
               {FIRST HOST "Content-Length : 1\r\n\r\n", 400},
               {FIRST HOST "Transfer-Encoding: chunked\r\n\r\n", 411},
               {FIRST HOST " folded: 1\r\n\r\n", 400},
               {FIRST HOST "no colon\r\n\r\n", 400},
               {FIRST HOST "X: a\rb\r\n\r\n", 400}};

START_TEST(refuses)
{
    mf_request r;
    ck_assert_msg(read_text(refused[_i].text, &r) == refused[_i].status, "case %d", _i);
}
END_TEST

START_TEST(long_paths)
{
    char text[MF_REQUEST_PATH_MAX + 64], path[MF_REQUEST_PATH_MAX + 1];
    mf_request r;
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    path[MF_REQUEST_PATH_MAX] = '\0';
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "\r\n", path);
    ck_assert_int_eq(read_text(text, &r), 414);
    path[MF_REQUEST_PATH_MAX - 1] = '\0';
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "\r\n", path);
    ck_assert_int_eq(read_text(text, &r), 0);
    ck_assert_str_eq(r.path, path);
}
END_TEST

START_TEST(ends)
{
    const char *text = FIRST HOST "\r\nbody";
    const size_t n = strlen(text) - 4;
    ck_assert_uint_eq(mf_request_end(text, n + 4), n);
    ck_assert_uint_eq(mf_request_end(text, n), n);
    ck_assert_uint_eq(mf_request_end(text, n - 1), 0);
    ck_assert_uint_eq(mf_request_end("a\n\nb", 4), 3);
    ck_assert_uint_eq(mf_request_end("", 0), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("request");
    TCase *c = tcase_create("request");
    tcase_add_test(c, reads);
    tcase_add_loop_test(c, refuses, 0, sizeof refused / sizeof *refused);
    tcase_add_test(c, long_paths);
    tcase_add_test(c, ends);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
