/* lab/serve/server.c: connections. One thread waits for all of them, and answers a request when
 * it is complete; while it computes, others wait in their sockets. Nothing that a client sends
 * or leaves out blocks another client for longer than it takes to send an answer. */
#include "lab/serve/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    CONNECTIONS = 64,
    HEAD_MAX = 16 << 10,    /* bytes of the head of a request */
    PATIENCE = 30,          /* seconds for the rest of a request, or to take an answer */
    POLL_MILLISECONDS = 250 /* between two looks at s->stop */
};

typedef struct connection {
    int fd;
    char *text; /* [n] what was received and not answered yet */
    size_t n, cap;
    size_t head;  /* bytes of the head of the first request; 0: not complete */
    bool told;    /* 100 Continue was sent */
    double since; /* when the last bytes came */
    mf_request request;
} connection;

typedef struct server {
    mf_served *s;
    int fd;
    connection c[CONNECTIONS];
    int n;
    mf_jw *w;
} server;

/* ---- sockets ---- */

int mf_server_listen(int port, int *ret_fd, int *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof a;
    const int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return mf_fail_errno(MF_EIO, "a socket cannot be opened");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&a, size) != 0 || listen(fd, CONNECTIONS) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &size) != 0) {
        const int rc = errno == EADDRINUSE
                           ? mf_fail(MF_EIO,
                                     "port %d of 127.0.0.1 is in use; expected a free one "
                                     "(--port 0 takes any)",
                                     port)
                           : mf_fail_errno(MF_EIO, "127.0.0.1:%d", port);
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    *ret_port = ntohs(a.sin_port);
    return MF_OK;
}

/* Sends all bytes; false if the client does not take them. */
static bool send_all(int fd, const char *text, size_t n)
{
    const double began = mf_clock();
    while (n > 0) {
        const ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent > 0) {
            text += sent;
            n -= (size_t)sent;
        } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            if (mf_clock() - began > PATIENCE) return false;
            (void)poll(&p, 1, POLL_MILLISECONDS);
        } else {
            return false;
        }
    }
    return true;
}

static bool send_answer(int fd, int status, bool keep, mf_jw *w)
{
    char head[256];
    size_t n;
    const char *text = mf_jw_text(w, &n);
    if (!text) return false;
    snprintf(head, sizeof head,
             "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
             "Connection: %s\r\n\r\n",
             status, mf_request_reason(status), n, keep ? "keep-alive" : "close");
    return send_all(fd, head, strlen(head)) && send_all(fd, text, n);
}

static void drop(server *v, int i)
{
    connection *c = &v->c[i];
    /* bytes that were not read would make the system reset the connection, and the client
     * might then miss the answer */
    char rest[4096];
    (void)shutdown(c->fd, SHUT_WR);
    for (int k = 0; k < 4096 && recv(c->fd, rest, sizeof rest, MSG_DONTWAIT) > 0; k++)
        ;
    close(c->fd);
    mf_free(c->text);
    v->c[i] = v->c[--v->n];
}

/* Refuses what can be no request. The connection ends, since its next request cannot
 * be found. */
static void refuse(server *v, int i, int status, const char *why)
{
    mf_jw_reset(v->w);
    mf_served_error(v->w, status, why);
    mf_log(MF_LOG_INFO, "%d: %s", status, why);
    (void)send_answer(v->c[i].fd, status, false, v->w);
    drop(v, i);
}

/* ---- requests ---- */

static void tell(const mf_served *before, const mf_served *s, const mf_request *r, int status,
                 double seconds, mf_jw *w)
{
    const int64_t prompts = s->prompts - before->prompts, tokens = s->tokens - before->tokens;
    if (status != 200)
        mf_log(MF_LOG_INFO, "%s %s %d: %s", r->method, r->path, status, mf_error_message());
    else if (prompts > 0)
        mf_log(MF_LOG_INFO, "%s %s: %lld prompt%s, %lld tokens, %.2f s, %.0f tokens/s",
               r->method, r->path, (long long)prompts, prompts == 1 ? "" : "s",
               (long long)tokens, seconds, seconds > 0 ? (double)tokens / seconds : 0);
    else
        mf_log(MF_LOG_DEBUG, "%s %s", r->method, r->path);
    (void)w;
}

/* Answers the first request of a connection, which is complete. False: the connection ended. */
static bool answer(server *v, int i)
{
    connection *c = &v->c[i];
    const mf_served before = *v->s;
    const double began = mf_clock();
    const size_t used = c->head + (size_t)c->request.length;
    const int status =
        mf_served_answer(v->s, &c->request, c->text + c->head, (size_t)c->request.length, v->w);
    tell(&before, v->s, &c->request, status, mf_clock() - began, v->w);
    const bool keep = c->request.keep;
    if (!send_answer(c->fd, status, keep, v->w) || !keep) {
        drop(v, i);
        return false;
    }
    memmove(c->text, c->text + used, c->n - used);
    c->n -= used;
    c->head = 0;
    c->told = false;
    c->since = mf_clock();
    return true;
}

/* Looks at what a connection has received. False: the connection ended, or more must come. */
static bool look(server *v, int i)
{
    connection *c = &v->c[i];
    if (c->head == 0) {
        const char *why = NULL;
        c->head = mf_request_end(c->text, c->n < HEAD_MAX ? c->n : HEAD_MAX);
        if (c->head == 0 && c->n >= HEAD_MAX) {
            refuse(v, i, 431, "expected a head of at most 16 KiB");
            return false;
        }
        if (c->head == 0) return false;
        const int status = mf_request_read(c->text, c->head, &c->request, &why);
        if (status == 0 && c->request.length > MF_SERVE_BODY_MAX) {
            refuse(v, i, 413, "expected a body of at most 16 MiB");
            return false;
        }
        if (status != 0) {
            refuse(v, i, status, why);
            return false;
        }
    }
    if (c->n >= c->head + (size_t)c->request.length) return answer(v, i);
    if (c->request.waits && !c->told) {
        static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
        c->told = true;
        if (!send_all(c->fd, go, sizeof go - 1)) drop(v, i);
    }
    return false;
}

/* Receives what is there. False: the connection ended. */
static bool receive(server *v, int i)
{
    connection *c = &v->c[i];
    enum { PIECE = 64 << 10 };
    if (c->n + PIECE > c->cap) {
        const size_t cap = 2 * c->cap + PIECE;
        char *more = mf_realloc(c->text, c->cap, cap);
        if (!more) {
            refuse(v, i, 503, "out of memory");
            return false;
        }
        c->text = more;
        c->cap = cap;
    }
    const ssize_t n = recv(c->fd, c->text + c->n, PIECE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
    if (n <= 0) {
        drop(v, i);
        return false;
    }
    c->n += (size_t)n;
    c->since = mf_clock();
    return true;
}

/* Makes room for a connection: the one that waits longest without a request ends. */
static bool make_room(server *v)
{
    int oldest = -1;
    if (v->n < CONNECTIONS) return true;
    for (int i = 0; i < v->n; i++)
        if (v->c[i].n == 0 && (oldest < 0 || v->c[i].since < v->c[oldest].since)) oldest = i;
    if (oldest < 0) return false;
    drop(v, oldest);
    return true;
}

static void welcome(server *v)
{
    if (!make_room(v)) return;
    const int fd = accept4(v->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    v->c[v->n++] = (connection){.fd = fd, .since = mf_clock()};
}

/* A request whose rest does not come is refused, so that it holds no connection for ever. */
static void lose_patience(server *v)
{
    const double now = mf_clock();
    for (int i = v->n - 1; i >= 0; i--)
        if (v->c[i].n > 0 && now - v->c[i].since > PATIENCE)
            refuse(v, i, 408, "the rest of the request did not come in 30 seconds");
}

static bool must_stop(const server *v)
{
    return v->s->stop && v->s->stop();
}

int mf_server_run(mf_served *s, int fd)
{
    struct pollfd p[CONNECTIONS + 1];
    server *v = mf_alloc(1, sizeof *v);
    int rc = MF_OK;
    if (v) *v = (server){.s = s, .fd = fd, .w = mf_jw_new()};
    if (!v || !v->w) rc = MF_ENOMEM;
    while (rc == MF_OK && !must_stop(v)) {
        p[0] = (struct pollfd){.fd = fd, .events = POLLIN};
        for (int i = 0; i < v->n; i++)
            p[i + 1] = (struct pollfd){.fd = v->c[i].fd, .events = POLLIN};
        const int n = poll(p, (nfds_t)v->n + 1, POLL_MILLISECONDS);
        if (n < 0 && errno != EINTR) rc = mf_fail_errno(MF_EIO, "poll");
        /* from the last on: a connection that ends is replaced by the last one */
        for (int i = v->n - 1; n > 0 && i >= 0 && !must_stop(v); i--)
            if (p[i + 1].revents != 0 && receive(v, i))
                while (look(v, i))
                    ;
        if (n > 0 && p[0].revents != 0) welcome(v);
        lose_patience(v);
    }
    while (v && v->n > 0)
        drop(v, v->n - 1);
    if (v) mf_jw_free(v->w);
    mf_free(v);
    close(fd);
    return rc;
}
