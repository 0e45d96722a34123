/* io/http.h: requests to a server that answers with texts, through libcurl. libcurl is opened
 * with the first connection, so programs that make no connection do not need it. */
#ifndef MF_IO_HTTP_H
#define MF_IO_HTTP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_http mf_http;

/* Checks whether connections can be made. MF_EDEP: this build has no libcurl, or the machine
 * has no libcurl; the message says what to install. Any thread may call this function. */
int mf_http_check(void);
/* Makes a connection, which one thread at a time may use. `stop` is called once a second while
 * a request waits: true ends the request. MF_EDEP, MF_ENOMEM. The caller closes it. */
int mf_http_open(bool (*stop)(void *arg), void *arg, mf_http **ret);
void mf_http_close(mf_http *h); /* NULL is allowed */
/* Sets a name and a password, or a token, which are sent with each request. NULL:
 * none. MF_ENOMEM. */
int mf_http_login(mf_http *h, const char *user, const char *password, const char *token);
/* Sends a JSON text with POST, or a GET request if json is NULL. *ret_body: the answer, valid
 * until the next call. MF_EPEER with the reason if there is no whole answer within some
 * seconds, or if `stop` has ended the request; MF_ENOMEM. */
int mf_http_send(mf_http *h, const char *url, const char *json, int *ret_status,
                 const char **ret_body, size_t *ret_n);

#endif
