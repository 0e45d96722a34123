/* io/request.h: reads the head of an HTTP/1.1 request (RFC 9112), which ends with an empty
 * line. It allocates nothing and keeps nothing. */
#ifndef MF_IO_REQUEST_H
#define MF_IO_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MF_REQUEST_PATH_MAX = 256 };

typedef struct mf_request {
    char method[8];                 /* "GET", "POST", ... */
    char path[MF_REQUEST_PATH_MAX]; /* what precedes "?", not decoded */
    uint64_t length;                /* bytes of the body; 0 without Content-Length */
    bool keep;                      /* the connection stays open afterwards */
    bool waits;                     /* Expect: 100-continue: the client waits before the body */
    bool local;                     /* Host is localhost, 127.0.0.1 or [::1], with any port */
} mf_request;

/* Returns the number of bytes of the head, including its empty line, in the first n bytes of a
 * connection; 0: the empty line is not there yet. */
size_t mf_request_end(const char *text, size_t n);

/* Reads a head of n bytes (mf_request_end). Returns 0, or the status of the answer: 400 for
 * what is no request, two lengths, or a missing Host; 411 for a body of unknown length
 * (Transfer-Encoding); 414 for a long path; 501 for a long method; 505 for another version than
 * 1.0 and 1.1. *ret_why is then a sentence for the answer. Lines may end with LF alone. */
int mf_request_read(const char *text, size_t n, mf_request *ret, const char **ret_why);

/* The words of a status: "Not Found". */
const char *mf_request_reason(int status);

#endif
