/* io/request.c: the head of an HTTP/1.1 request, read strictly: what two programs could read in
 * different ways (RFC 9112, sections 2.2, 5.1, 6.3: folded lines, blanks before a colon, two
 * lengths) is refused. */
#include "io/request.h"

#include <string.h>
#include <strings.h>

enum { REFUSED = 400, NO_LENGTH = 411, LONG_PATH = 414, NO_METHOD = 501, NO_VERSION = 505 };

/* A part of the head. */
typedef struct span {
    const char *text;
    size_t n;
} span;

typedef struct reader {
    mf_request *out;
    bool hosted, measured; /* Host and Content-Length were there */
    const char *why;
} reader;

static int refuse(reader *r, int status, const char *why)
{
    r->why = why;
    return status;
}

static bool is_word(const span *s, const char *word)
{
    return s->n == strlen(word) && strncasecmp(s->text, word, s->n) == 0;
}

/* Characters of methods and of names of fields (RFC 9110, section 5.6.2). */
static bool is_token(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool all_tokens(const span *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!is_token(s->text[i])) return false;
    return s->n > 0;
}

/* Takes the next line, without its end, from the front of *rest. */
static span next_line(span *rest)
{
    const char *end = memchr(rest->text, '\n', rest->n);
    span line = {rest->text, end ? (size_t)(end - rest->text) : rest->n};
    const size_t used = line.n + (end ? 1 : 0);
    rest->text += used;
    rest->n -= used;
    if (line.n > 0 && line.text[line.n - 1] == '\r') line.n--;
    return line;
}

static void copy(char *out, const span *s)
{
    memcpy(out, s->text, s->n);
    out[s->n] = '\0';
}

/* "POST /v1/completions HTTP/1.1" */
static int read_first(reader *r, const span *line)
{
    const char *a = memchr(line->text, ' ', line->n);
    const char *b = a ? memchr(a + 1, ' ', line->n - (size_t)(a + 1 - line->text)) : NULL;
    if (!b) return refuse(r, REFUSED, "expected METHOD PATH HTTP/1.1 in the first line");
    const span method = {line->text, (size_t)(a - line->text)};
    const span version = {b + 1, line->n - (size_t)(b + 1 - line->text)};
    span path = {a + 1, (size_t)(b - a - 1)};
    if (!all_tokens(&method) || path.n == 0 || path.text[0] != '/')
        return refuse(r, REFUSED, "expected METHOD PATH HTTP/1.1 in the first line");
    if (method.n >= sizeof r->out->method)
        return refuse(r, NO_METHOD, "expected GET or POST, found a longer method");
    if (is_word(&version, "HTTP/1.0"))
        r->out->keep = false;
    else if (is_word(&version, "HTTP/1.1"))
        r->out->keep = true;
    else
        return refuse(r, NO_VERSION, "expected HTTP/1.1");
    const char *query = memchr(path.text, '?', path.n);
    if (query) path.n = (size_t)(query - path.text);
    if (path.n >= sizeof r->out->path) return refuse(r, LONG_PATH, "the path is too long");
    for (size_t i = 0; i < path.n; i++)
        if (path.text[i] < '!' || path.text[i] > '~')
            return refuse(r, REFUSED, "expected printable ASCII characters in the path");
    copy(r->out->method, &method);
    copy(r->out->path, &path);
    return 0;
}

static int read_length(reader *r, const span *value)
{
    uint64_t length = 0;
    enum { DIGITS = 18 };
    if (r->measured) return refuse(r, REFUSED, "expected one Content-Length, found two");
    if (value->n < 1 || value->n > DIGITS)
        return refuse(r, REFUSED, "Content-Length: expected a number of bytes");
    for (size_t i = 0; i < value->n; i++) {
        if (value->text[i] < '0' || value->text[i] > '9')
            return refuse(r, REFUSED, "Content-Length: expected a number of bytes");
        length = 10 * length + (uint64_t)(value->text[i] - '0');
    }
    r->measured = true;
    r->out->length = length;
    return 0;
}

static int read_host(reader *r, const span *value)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", NULL};
    if (r->hosted) return refuse(r, REFUSED, "expected one Host, found two");
    r->hosted = true;
    for (int i = 0; names[i]; i++) {
        const size_t n = strlen(names[i]);
        if (value->n >= n && strncasecmp(value->text, names[i], n) == 0 &&
            (value->n == n || value->text[n] == ':'))
            r->out->local = true;
    }
    return 0;
}

static int read_field(reader *r, const span *line)
{
    const char *colon = memchr(line->text, ':', line->n);
    const span name = {line->text, colon ? (size_t)(colon - line->text) : 0};
    if (!colon || !all_tokens(&name))
        return refuse(r, REFUSED, "expected NAME: VALUE in each line of the head");
    span value = {colon + 1, line->n - name.n - 1};
    while (value.n > 0 && strchr(" \t", value.text[0]) && value.text[0]) {
        value.text++;
        value.n--;
    }
    while (value.n > 0 && (value.text[value.n - 1] == ' ' || value.text[value.n - 1] == '\t'))
        value.n--;
    if (memchr(value.text, '\0', value.n) || memchr(value.text, '\r', value.n))
        return refuse(r, REFUSED, "expected values without NUL and CR");
    if (is_word(&name, "Content-Length")) return read_length(r, &value);
    if (is_word(&name, "Host")) return read_host(r, &value);
    if (is_word(&name, "Transfer-Encoding"))
        return refuse(r, NO_LENGTH, "expected a body with Content-Length, found chunks");
    if (is_word(&name, "Connection"))
        r->out->keep = is_word(&value, "close")        ? false
                       : is_word(&value, "keep-alive") ? true
                                                       : r->out->keep;
    if (is_word(&name, "Expect")) r->out->waits = is_word(&value, "100-continue");
    return 0;
}

size_t mf_request_end(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '\n') continue;
        if (i + 1 < n && text[i + 1] == '\n') return i + 2;
        if (i + 2 < n && text[i + 1] == '\r' && text[i + 2] == '\n') return i + 3;
    }
    return 0;
}

int mf_request_read(const char *text, size_t n, mf_request *ret, const char **ret_why)
{
    span rest = {text, n};
    reader r = {.out = ret};
    memset(ret, 0, sizeof *ret);
    span line = next_line(&rest);
    int status = read_first(&r, &line);
    while (status == 0 && rest.n > 0) {
        line = next_line(&rest);
        if (line.n == 0) break;
        status = read_field(&r, &line);
    }
    if (status == 0 && !r.hosted) status = refuse(&r, REFUSED, "expected a Host");
    *ret_why = r.why;
    return status;
}

const char *mf_request_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } all[] = {{200, "OK"},
               {400, "Bad Request"},
               {403, "Forbidden"},
               {404, "Not Found"},
               {405, "Method Not Allowed"},
               {408, "Request Timeout"},
               {411, "Length Required"},
               {413, "Content Too Large"},
               {414, "URI Too Long"},
               {431, "Request Header Fields Too Large"},
               {500, "Internal Server Error"},
               {501, "Not Implemented"},
               {503, "Service Unavailable"},
               {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].status == status) return all[i].text;
    return "Unknown";
}
