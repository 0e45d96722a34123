/* comm/join.c: TCP between rank 0 and each other rank.
 *
 * Anybody who reaches the port may connect, and anybody may listen at the address. So both
 * sides prove that they have the token that the launcher gave to all ranks. The token itself is
 * never sent. Each side sends random bytes, and the HMAC of both sides' random bytes and of the
 * greeting; rank 0 sends first. The later messages of rank 0 contain such a proof, too. Any
 * other greeting, and a connection without a greeting, is dropped without effect. All
 * connections that have not yet greeted are read at the same time, and their number is limited.
 * Text from a peer is terminated and made printable before it is used.
 *
 * After the greeting only single numbers are sent. 0 means that a rank is done (from rank 0:
 * that all ranks are done). Any other number is the exit code for all ranks. */
#include "join.h"
#include <errno.h>
#include <moefw/version.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/sha256.h"
#include "comm/launch.h"

enum { HELLO_SECONDS = 5, AGAIN_MS = 50, GUESTS_MAX = 64, TOKEN_MIN = 16, TOKEN_MAX = 63 };
enum { NONCE = 32 };
#define MAGIC "moefwJN3"

typedef struct hello {
    char magic[8], version[24], host[64];
    unsigned char nonce[NONCE];
    int32_t rank, ranks;
} hello;

/* The answer of rank 0: its random bytes, and its proof. */
typedef struct answer {
    unsigned char nonce[NONCE], proof[MF_HMAC_BYTES];
} answer;

typedef struct secret {
    char token[TOKEN_MAX + 1]; /* "": no token, only on one machine */
    size_t n;
} secret;

/* A connection whose greeting is not complete. */
typedef struct guest {
    int fd;
    size_t at; /* number of received bytes of the greeting and of the proof after it */
    double until;
    struct {
        hello h; /* the greeting as received */
        unsigned char proof[MF_HMAC_BYTES];
    } said;
    unsigned char nonce[NONCE]; /* random bytes of rank 0 */
} guest;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int number_of(const char *name)
{
    const char *text = getenv(name);
    char *end;
    const long n = text ? strtol(text, &end, 10) : -1;
    return text && *text && !*end && n >= 0 && n <= 1000000 ? (int)n : -1;
}

void mf_join_find(int32_t *ret_rank, int32_t *ret_ranks)
{
    mf_launch l = {0};
    const int rank = number_of("RANK"), ranks = number_of("WORLD_SIZE");
    if (mf_launch_find(&l)) {
        *ret_rank = l.rank;
        *ret_ranks = l.ranks;
    } else {
        *ret_rank = rank >= 0 && ranks > rank ? rank : 0;
        *ret_ranks = rank >= 0 && ranks > rank ? ranks : 1;
    }
}

/* ---- bytes ---- */

static bool ready(int fd, short what, double until)
{
    struct pollfd p = {.fd = fd, .events = what};
    for (;;) {
        const double left = until - now();
        if (left <= 0) return false;
        const int n = poll(&p, 1, left < 3600 ? (int)(1e3 * left) + 1 : 3600000);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}

static bool get(int fd, void *to, size_t size, double until)
{
    for (size_t at = 0; at < size;) {
        if (!ready(fd, POLLIN, until)) return false;
        const ssize_t n = recv(fd, (char *)to + at, size - at, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return false;
        if (n > 0) at += (size_t)n;
    }
    return true;
}

static bool put(int fd, const void *from, size_t size, double until)
{
    for (size_t at = 0; at < size;) {
        if (!ready(fd, POLLOUT, until)) return false;
        const ssize_t n =
            send(fd, (const char *)from + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
        if (n > 0) at += (size_t)n;
    }
    return true;
}

/* ---- addresses ---- */

/* Parses HOST:PORT, where HOST may be [IPv6]. */
static int root_of(struct addrinfo **ret, char *text, size_t room)
{
    const char *root = getenv("MOEFW_COMM_ROOT"), *host = getenv("MASTER_ADDR"),
               *port = getenv("MASTER_PORT");
    char name[256] = "";
    if (root && *root) {
        const char *colon = strrchr(root, ':');
        const size_t n = colon ? (size_t)(colon - root) : 0;
        if (n > 0 && n < sizeof name) {
            memcpy(name, root, n);
            if (name[0] == '[' && name[n - 1] == ']') {
                memmove(name, name + 1, n - 2);
                name[n - 2] = '\0';
            }
        }
        host = name;
        port = colon ? colon + 1 : "";
    }
    if (!host || !*host || !port || !*port || strspn(port, "0123456789") != strlen(port)) {
        snprintf(text, room,
                 "expected MOEFW_COMM_ROOT = HOST:PORT of rank 0 (or MASTER_ADDR and "
                 "MASTER_PORT), found '%.80s'",
                 root ? root : "");
        return 1;
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const int rc = getaddrinfo(host, port, &hints, ret);
    if (rc == 0) return 0;
    snprintf(text, room, "%.80s:%.10s: %s", host, port, gai_strerror(rc));
    return 1;
}

static void prepare(int fd)
{
    const int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

static int listen_at(const struct addrinfo *a, int ranks, char *text, size_t room)
{
    const int yes = 1;
    for (; a; a = a->ai_next) {
        const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, ranks) == 0) return fd;
        snprintf(text, room, "rank 0 cannot listen at MOEFW_COMM_ROOT: %s", strerror(errno));
        close(fd);
    }
    return -1;
}

static int reach(const struct addrinfo *first, double until)
{
    while (now() < until) {
        for (const struct addrinfo *a = first; a; a = a->ai_next) {
            const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
            if (fd >= 0) close(fd);
        }
        poll(NULL, 0, AGAIN_MS);
    }
    return -1;
}

/* ---- joining ---- */

/* Terminates a text from a peer and makes it printable. */
static void clean(char *text, size_t room)
{
    text[room - 1] = '\0';
    for (; *text; text++)
        if (*text < ' ' || *text > '~') *text = '?';
}

static void clean_hello(hello *h)
{
    clean(h->version, sizeof h->version);
    clean(h->host, sizeof h->host);
}

/* Compares two proofs in constant time, so that the time reveals nothing about the
 * right proof. */
static bool same_proof(const unsigned char *a, const unsigned char *b)
{
    unsigned differ = 0;
    for (size_t i = 0; i < MF_HMAC_BYTES; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

/* Computes the proof that one side has the token. `who` names this side, so that a proof cannot
 * be sent back as the proof of the other side. */
static void prove(const secret *key, char who, const hello *h, const unsigned char nonce[NONCE],
                  unsigned char out[MF_HMAC_BYTES])
{
    struct {
        char who[8];
        hello h;
        unsigned char nonce[NONCE];
    } all;
    memset(&all, 0, sizeof all);
    all.who[0] = who;
    all.h = *h;
    memcpy(all.nonce, nonce, NONCE);
    mf_hmac_sha256(key->token, key->n, &all, sizeof all, out);
}

/* Draws random bytes that nobody can predict. */
static bool draw(unsigned char nonce[NONCE])
{
    return getrandom(nonce, NONCE, 0) == NONCE;
}

static bool judge(const hello *h, const hello *mine, const mf_join *j, char *text, size_t room)
{
    if (h->ranks != mine->ranks || strncmp(h->version, mine->version, sizeof h->version) != 0)
        snprintf(text, room, "rank %d has %d ranks and moefw %.20s; rank 0 has %d and %s",
                 h->rank, h->ranks, h->version, mine->ranks, mine->version);
    else if (h->rank < 1 || h->rank >= j->ranks)
        snprintf(text, room, "a process says that it is rank %d of %d", h->rank, j->ranks);
    else if (j->socket[h->rank] >= 0)
        snprintf(text, room, "two processes are rank %d", h->rank);
    else
        return true;
    return false;
}

/* The connections of rank 0: the listening socket first, then guests. */
typedef struct hall {
    struct pollfd at[1 + GUESTS_MAX];
    guest guests[GUESTS_MAX];
    int n, refused;
    char why[200]; /* why the last guest was refused; "": it had another token */
} hall;

static void send_away(hall *l, int i)
{
    close(l->guests[i].fd);
    l->guests[i] = l->guests[--l->n];
}

/* Accepts a connection. If all places are used, the guest that has been silent for longest
 * is dropped. */
static void let_in(hall *l, int fd)
{
    const int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int oldest = 0;
    if (peer < 0) return;
    for (int i = 1; i < l->n; i++)
        if (l->guests[i].until < l->guests[oldest].until) oldest = i;
    if (l->n == GUESTS_MAX) send_away(l, oldest);
    l->guests[l->n++] = (guest){.fd = peer, .until = now() + HELLO_SECONDS};
}

/* Answers the greeting of a guest. The answer is short, so it always fits the buffer of a
 * new connection. */
static bool answer_to(guest *g, const secret *key)
{
    answer a;
    if (memcmp(g->said.h.magic, MAGIC, sizeof g->said.h.magic) != 0 || !draw(g->nonce))
        return false;
    memcpy(a.nonce, g->nonce, NONCE);
    prove(key, '0', &g->said.h, g->nonce, a.proof);
    return send(g->fd, &a, sizeof a, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof a;
}

/* Returns 1 if greeting and proof are complete, 0 if not yet, -1 if they cannot
 * become complete. */
static int listen_to(guest *g, const secret *key)
{
    const size_t begin = sizeof g->said.h,
                 end = g->at < begin ? begin : begin + sizeof g->said.proof;
    const ssize_t n = recv(g->fd, (char *)&g->said + g->at, end - g->at, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) return -1;
    g->at += (size_t)n;
    if (g->at < end) return 0;
    return end > begin ? 1 : answer_to(g, key) ? 0 : -1;
}

/* Waits for the next event, at most until the first guest has been silent for too long. */
static void wait_for(hall *l, int fd, double until)
{
    l->at[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    for (int i = 0; i < l->n; i++) {
        l->at[1 + i] = (struct pollfd){.fd = l->guests[i].fd, .events = POLLIN};
        if (l->guests[i].until < until) until = l->guests[i].until;
    }
    const double left = until - now();
    (void)poll(l->at, (nfds_t)(1 + l->n), left > 0 ? (int)(1e3 * left) + 1 : 0);
}

/* Processes the greeting of guest i. Returns false if it ends the job; text then says why. */
static bool take(mf_join *j, hall *l, int i, const secret *key, hello *all, int *n, char *text,
                 size_t room)
{
    guest *g = &l->guests[i];
    hello h = g->said.h;
    unsigned char proof[MF_HMAC_BYTES];
    prove(key, 'r', &h, g->nonce, proof);
    clean_hello(&h);
    if (!same_proof(proof, g->said.proof)) {
        l->refused++;
        send_away(l, i);
        return true;
    }
    if (!judge(&h, &all[0], j, l->why, sizeof l->why)) {
        snprintf(text, room, "%s", l->why);
        if (key->n > 0) return false; /* the proof shows that the guest belongs to this job */
        l->refused++;
        send_away(l, i);
        return true;
    }
    prepare(g->fd);
    j->socket[h.rank] = g->fd;
    all[h.rank] = h;
    l->guests[i] = l->guests[--l->n];
    ++*n;
    return true;
}

/* Accepts greetings until all ranks have joined. */
static bool greet(mf_join *j, int fd, const secret *key, hello *all, double until, char *text,
                  size_t room)
{
    hall *l = calloc(1, sizeof *l);
    int n = 1;
    bool fine = l != NULL;
    if (!l) snprintf(text, room, "out of memory");
    while (fine && n < j->ranks) {
        if (now() > until) {
            snprintf(text, room, "%d of %d ranks have come to rank 0%s%s", n, j->ranks,
                     l->refused == 0 ? "" : "; others were sent away: ",
                     l->refused == 0 ? ""
                     : l->why[0]     ? l->why
                                     : "they had another MOEFW_COMM_TOKEN or are not of moefw");
            fine = false;
            break;
        }
        wait_for(l, fd, until);
        for (int i = l->n - 1; fine && i >= 0; i--) {
            const int rc = l->at[1 + i].revents ? listen_to(&l->guests[i], key) : 0;
            if (rc < 0 && l->guests[i].at > 0) l->refused++;
            if (rc > 0)
                fine = take(j, l, i, key, all, &n, text, room);
            else if (rc < 0 || now() > l->guests[i].until)
                send_away(l, i);
        }
        if (fine && l->at[0].revents) let_in(l, fd);
    }
    for (int i = 0; l && i < l->n; i++)
        close(l->guests[i].fd);
    free(l);
    return fine;
}

static void find_place(mf_join *j, const hello *all)
{
    j->place =
        (mf_comm_place){.rank = j->rank, .ranks = j->ranks, .node = j->rank, .node_ranks = 0};
    for (int r = j->ranks - 1; r >= 0; r--) {
        if (strcmp(all[r].host, all[j->rank].host) != 0) continue;
        j->place.node = r;
        j->place.node_ranks++;
        j->local += r < j->rank;
    }
    memcpy(j->place.host, all[j->rank].host, sizeof j->place.host);
}

/* The two sides greet each other. This rank sends its greeting, rank 0 proves that it has the
 * token, and only then this rank sends its proof. */
static bool greet_root(int fd, const secret *key, const hello *mine, double until)
{
    answer a;
    unsigned char proof[MF_HMAC_BYTES];
    if (!put(fd, mine, sizeof *mine, until) || !get(fd, &a, sizeof a, until)) return false;
    prove(key, '0', mine, a.nonce, proof);
    if (!same_proof(proof, a.proof)) return false;
    prove(key, 'r', mine, a.nonce, proof);
    return put(fd, proof, sizeof proof, until);
}

/* Computes the proof of the message to rank r. The random bytes of rank r are among
 * the hellos. */
static bool prove_all(const secret *key, int r, const hello *all, int ranks, const void *blob,
                      size_t size, unsigned char out[MF_HMAC_BYTES])
{
    const size_t n = (size_t)ranks * sizeof *all;
    char *whole = malloc(8 + n + size);
    if (!whole) return false;
    snprintf(whole, 8, "a%06d", r);
    memcpy(whole + 8, all, n);
    memcpy(whole + 8 + n, blob, size);
    mf_hmac_sha256(key->token, key->n, whole, 8 + n + size, out);
    free(whole);
    return true;
}

/* Sends the hellos of all ranks and the blob to every rank, with a proof. */
static bool spread(mf_join *j, const secret *key, hello *all, double until, void *blob,
                   size_t size)
{
    const size_t n = (size_t)j->ranks * sizeof *all;
    unsigned char proof[MF_HMAC_BYTES], right[MF_HMAC_BYTES];
    bool fine = true;
    if (j->rank > 0) {
        const hello mine = all[j->rank];
        const int fd = j->socket[0];
        fine = get(fd, all, n, until) && get(fd, blob, size, until) &&
               get(fd, proof, sizeof proof, until) &&
               prove_all(key, j->rank, all, j->ranks, blob, size, right) &&
               same_proof(proof, right) && memcmp(all[j->rank].nonce, mine.nonce, NONCE) == 0;
        for (int r = 0; r < j->ranks; r++)
            clean_hello(&all[r]);
        return fine;
    }
    for (int r = 1; r < j->ranks; r++)
        fine = fine && prove_all(key, r, all, j->ranks, blob, size, proof) &&
               put(j->socket[r], all, n, until) && put(j->socket[r], blob, size, until) &&
               put(j->socket[r], proof, sizeof proof, until);
    return fine;
}

/* Whether the address can be reached only by processes of this machine. */
static bool is_local(const struct addrinfo *a)
{
    for (; a; a = a->ai_next) {
        const struct sockaddr_in *v4 = (const void *)a->ai_addr;
        const struct sockaddr_in6 *v6 = (const void *)a->ai_addr;
        const bool local = a->ai_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
                                                   : a->ai_family == AF_INET6 &&
                                                         IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
        if (!local) return false;
    }
    return true;
}

/* Reads the token from the environment. On a single machine no token is required. */
static bool find_token(const struct addrinfo *root, secret *ret, char *text, size_t room)
{
    const char *token = getenv("MOEFW_COMM_TOKEN");
    const size_t n = token ? strlen(token) : 0;
    if (n >= TOKEN_MIN && n <= TOKEN_MAX) {
        memcpy(ret->token, token, n);
        ret->n = n;
        return true;
    }
    if (n == 0 && is_local(root)) return true;
    snprintf(
        text, room,
        "expected MOEFW_COMM_TOKEN, a random text of %d to %d bytes that all ranks have, "
        "found %zu bytes; export MOEFW_COMM_TOKEN=$(openssl rand -hex 16) in the job script",
        TOKEN_MIN, TOKEN_MAX, n);
    return false;
}

static int join(mf_join *j, hello *all, double seconds, void *blob, size_t size, char *text,
                size_t room)
{
    struct addrinfo *root;
    const double until = now() + seconds;
    bool fine = true;
    secret key = {0};
    *text = '\0';
    if (root_of(&root, text, room)) return 1;
    if (!find_token(root, &key, text, room)) {
        freeaddrinfo(root);
        return 1;
    }
    if (!draw(all[j->rank].nonce)) {
        snprintf(text, room, "no random bytes: %s", strerror(errno));
        freeaddrinfo(root);
        return 1;
    }
    if (j->rank == 0) {
        const int fd = listen_at(root, j->ranks, text, room);
        fine = fd >= 0 && greet(j, fd, &key, all, until, text, room);
        if (fd >= 0) close(fd);
    } else {
        j->socket[0] = reach(root, until);
        fine = j->socket[0] >= 0;
        if (fine) prepare(j->socket[0]);
        if (!fine) snprintf(text, room, "rank %d does not reach rank 0", j->rank);
    }
    freeaddrinfo(root);
    const bool met =
        fine && (j->rank == 0 || greet_root(j->socket[0], &key, &all[j->rank], until));
    if (fine && !(met && spread(j, &key, all, until, blob, size))) {
        snprintf(text, room,
                 "rank %d: the connection ended before all ranks were there, or rank 0 has "
                 "another MOEFW_COMM_TOKEN or moefw",
                 j->rank);
        fine = false;
    }
    return !fine;
}

int mf_join_open(mf_join *j, double seconds, void *blob, size_t size, char *text, size_t room)
{
    *j = (mf_join){0};
    mf_join_find(&j->rank, &j->ranks);
    hello *all = calloc((size_t)j->ranks, sizeof *all);
    j->socket = malloc((size_t)j->ranks * sizeof *j->socket);
    j->left = calloc((size_t)j->ranks, sizeof *j->left);
    if (!all || !j->socket || !j->left) {
        snprintf(text, room, "out of memory");
        free(all);
        mf_join_close(j);
        return 1;
    }
    for (int r = 0; r < j->ranks; r++)
        j->socket[r] = -1;
    hello *h = &all[j->rank];
    *h = (hello){.magic = MAGIC, .rank = j->rank, .ranks = j->ranks};
    snprintf(h->version, sizeof h->version, "%s", MOEFW_VERSION);
    gethostname(h->host, sizeof h->host - 1);
    clean_hello(h);
    const int rc = j->ranks > 1 ? join(j, all, seconds, blob, size, text, room) : 0;
    if (rc == 0) find_place(j, all);
    free(all);
    if (rc != 0) mf_join_close(j);
    return rc;
}

/* ---- after joining ---- */

int mf_join_look(mf_join *j, int32_t *ret_code)
{
    for (int r = 0; r < j->ranks; r++) {
        int32_t code = 0;
        if (j->socket[r] < 0 || j->left[r]) continue;
        const ssize_t n = recv(j->socket[r], &code, sizeof code, MSG_DONTWAIT | MSG_PEEK);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) return -1;
        if (n < (ssize_t)sizeof code) continue;
        if (recv(j->socket[r], &code, sizeof code, MSG_DONTWAIT) != sizeof code) return -1;
        *ret_code = code;
        if (code != 0) return 1;
        j->left[r] = true;
    }
    return 0;
}

void mf_join_end_all(mf_join *j, int32_t code)
{
    for (int r = 0; r < j->ranks; r++)
        if (j->socket[r] >= 0) (void)put(j->socket[r], &code, sizeof code, now() + 1);
}

int mf_join_leave(mf_join *j, double seconds)
{
    const double until = now() + seconds;
    const int32_t done = 0;
    int32_t code = 0;
    if (j->ranks == 1) return 0;
    if (j->rank > 0 && !put(j->socket[0], &done, sizeof done, until)) return 1;
    for (;;) {
        bool all = true;
        if (mf_join_look(j, &code) != 0 || now() > until) return 1;
        for (int r = 0; r < j->ranks; r++)
            all = all && (j->socket[r] < 0 || j->left[r]);
        if (all) break;
        poll(NULL, 0, 1);
    }
    for (int r = 1; j->rank == 0 && r < j->ranks; r++)
        if (!put(j->socket[r], &done, sizeof done, until)) return 1;
    return 0;
}

void mf_join_close(mf_join *j)
{
    for (int r = 0; j->socket && r < j->ranks; r++)
        if (j->socket[r] >= 0) close(j->socket[r]);
    free(j->socket);
    free(j->left);
    j->socket = NULL;
    j->left = NULL;
}
