/* io/http.c: requests through libcurl. The library is opened once for the process and stays
 * open. A connection is a libcurl easy handle. Redirections are not followed, because a login
 * would be sent to another server. */
#include "io/http.h"

#include <config.h>

#include "base/error.h"
#include "base/mem.h"

#if defined(HAVE_CURL)
#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

enum { BODY_MAX = 16 << 20, CONNECT_MS = 3000, ANSWER_MS = 10000 };

struct mf_http {
    CURL *curl;
    struct curl_slist *headers;
    char *body;
    size_t n, room;
    bool no_memory;
    char reason[CURL_ERROR_SIZE];
    bool (*stop)(void *arg);
    void *arg;
};

/* ---- the library ---- */

static struct {
    pthread_once_t once;
    bool found, complete;
    CURLcode (*global_init)(long);
    CURL *(*init)(void);
    void (*cleanup)(CURL *);
    CURLcode (*setopt)(CURL *, CURLoption, ...);
    CURLcode (*perform)(CURL *);
    CURLcode (*getinfo)(CURL *, CURLINFO, ...);
    const char *(*text)(CURLcode);
    struct curl_slist *(*append)(struct curl_slist *, const char *);
    void (*free_all)(struct curl_slist *);
} lib = {.once = PTHREAD_ONCE_INIT};

static void find(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    lib.found = library != NULL;
    if (!library) return;
    *(void **)&lib.global_init = dlsym(library, "curl_global_init");
    *(void **)&lib.init = dlsym(library, "curl_easy_init");
    *(void **)&lib.cleanup = dlsym(library, "curl_easy_cleanup");
    *(void **)&lib.setopt = dlsym(library, "curl_easy_setopt");
    *(void **)&lib.perform = dlsym(library, "curl_easy_perform");
    *(void **)&lib.getinfo = dlsym(library, "curl_easy_getinfo");
    *(void **)&lib.text = dlsym(library, "curl_easy_strerror");
    *(void **)&lib.append = dlsym(library, "curl_slist_append");
    *(void **)&lib.free_all = dlsym(library, "curl_slist_free_all");
    lib.complete = lib.global_init && lib.init && lib.cleanup && lib.setopt && lib.perform &&
                   lib.getinfo && lib.text && lib.append && lib.free_all &&
                   lib.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

int mf_http_check(void)
{
    pthread_once(&lib.once, find);
    if (!lib.found) return mf_fail(MF_EDEP, "libcurl is missing: apt-get install libcurl4");
    return lib.complete ? MF_OK : mf_fail(MF_EDEP, "libcurl cannot be used; expected 7.32");
}

/* ---- a connection ---- */

static size_t take(char *data, size_t size, size_t n, void *arg)
{
    mf_http *h = arg;
    n *= size;
    if (n > BODY_MAX - h->n) return 0;
    if (h->n + n + 1 > h->room) {
        const size_t room = 2 * (h->n + n + 1);
        char *more = mf_realloc(h->body, h->n, room);
        h->no_memory = !more;
        if (!more) return 0;
        h->body = more;
        h->room = room;
    }
    memcpy(h->body + h->n, data, n);
    h->n += n;
    h->body[h->n] = '\0';
    return n;
}

static int ask(void *arg, curl_off_t to_come, curl_off_t came, curl_off_t to_send,
               curl_off_t sent)
{
    mf_http *h = arg;
    (void)to_come, (void)came, (void)to_send, (void)sent;
    return h->stop && h->stop(h->arg);
}

static int add_header(mf_http *h, const char *line)
{
    struct curl_slist *more = lib.append(h->headers, line);
    if (!more) return mf_fail(MF_ENOMEM, "out of memory for a request");
    h->headers = more;
    lib.setopt(h->curl, CURLOPT_HTTPHEADER, h->headers);
    return MF_OK;
}

int mf_http_open(bool (*stop)(void *arg), void *arg, mf_http **ret)
{
    *ret = NULL;
    int rc = mf_http_check();
    mf_http *h = rc == MF_OK ? mf_alloc(1, sizeof *h) : NULL;
    if (!h) return rc == MF_OK ? MF_ENOMEM : rc;
    h->stop = stop;
    h->arg = arg;
    h->room = 4096;
    h->body = mf_alloc_raw(h->room);
    h->curl = h->body ? lib.init() : NULL;
    if (!h->curl) {
        mf_http_close(h);
        return mf_fail(MF_ENOMEM, "out of memory for a connection");
    }
    lib.setopt(h->curl, CURLOPT_ERRORBUFFER, h->reason);
    lib.setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    lib.setopt(h->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    lib.setopt(h->curl, CURLOPT_TIMEOUT_MS, (long)ANSWER_MS);
    lib.setopt(h->curl, CURLOPT_WRITEFUNCTION, take);
    lib.setopt(h->curl, CURLOPT_WRITEDATA, h);
    lib.setopt(h->curl, CURLOPT_XFERINFOFUNCTION, ask);
    lib.setopt(h->curl, CURLOPT_XFERINFODATA, h);
    lib.setopt(h->curl, CURLOPT_NOPROGRESS, 0L);
    rc = add_header(h, "Content-Type: application/json");
    /* Without this header libcurl asks the server for permission before a long body, and waits
     * a second if there is no answer. */
    if (rc == MF_OK) rc = add_header(h, "Expect:");
    if (rc != MF_OK) {
        mf_http_close(h);
        return rc;
    }
    *ret = h;
    return MF_OK;
}

void mf_http_close(mf_http *h)
{
    if (!h) return;
    if (h->curl) lib.cleanup(h->curl);
    if (h->headers) lib.free_all(h->headers);
    mf_free(h->body);
    mf_free(h);
}

int mf_http_login(mf_http *h, const char *user, const char *password, const char *token)
{
    if (user) lib.setopt(h->curl, CURLOPT_USERNAME, user);
    if (password) lib.setopt(h->curl, CURLOPT_PASSWORD, password);
    if (!token || user) return MF_OK;
    char *line = mf_strf("Authorization: Bearer %s", token);
    const int rc = line ? add_header(h, line) : MF_ENOMEM;
    mf_free(line);
    return rc;
}

int mf_http_send(mf_http *h, const char *url, const char *json, int *ret_status,
                 const char **ret_body, size_t *ret_n)
{
    long status = 0;
    h->n = 0;
    h->body[0] = h->reason[0] = '\0';
    h->no_memory = false;
    lib.setopt(h->curl, CURLOPT_URL, url);
    if (json) {
        lib.setopt(h->curl, CURLOPT_POST, 1L);
        lib.setopt(h->curl, CURLOPT_POSTFIELDS, json);
        lib.setopt(h->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(json));
    } else {
        lib.setopt(h->curl, CURLOPT_HTTPGET, 1L);
    }
    const CURLcode code = lib.perform(h->curl);
    if (h->no_memory) return mf_fail(MF_ENOMEM, "out of memory for an answer");
    /* libcurl also returns this code if a server sends a header of megabytes. */
    if (code == CURLE_OUT_OF_MEMORY)
        return mf_fail(MF_EPEER, "the answer's header is too large, or libcurl has no memory");
    if (code != CURLE_OK)
        return mf_fail(MF_EPEER, "%s", h->reason[0] ? h->reason : lib.text(code));
    lib.getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    *ret_status = (int)status;
    *ret_body = h->body;
    *ret_n = h->n;
    return MF_OK;
}

#else

int mf_http_check(void)
{
    return mf_fail(MF_EDEP, "this build has no libcurl: apt-get install "
                            "libcurl4-openssl-dev && ./quickstart build");
}

int mf_http_open(bool (*stop)(void *arg), void *arg, mf_http **ret)
{
    (void)stop, (void)arg;
    *ret = NULL;
    return mf_http_check();
}

void mf_http_close(mf_http *h)
{
    (void)h;
}

int mf_http_login(mf_http *h, const char *user, const char *password, const char *token)
{
    (void)h, (void)user, (void)password, (void)token;
    return mf_http_check();
}

int mf_http_send(mf_http *h, const char *url, const char *json, int *ret_status,
                 const char **ret_body, size_t *ret_n)
{
    (void)h, (void)url, (void)json, (void)ret_status, (void)ret_body, (void)ret_n;
    return mf_http_check();
}
#endif
