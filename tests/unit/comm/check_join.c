/* join: a process that reaches the port of rank 0 without the token has no effect. A process
 * that pretends to be rank 0 does not get the token, and its messages are not obeyed. A text
 * from a peer is not used before it is terminated and made printable. */
#include "check_main.h"

#include "comm/join.c"

#include <arpa/inet.h>
#include <sys/wait.h>

static const char token[] = "0123456789abcdef0123456789abcdef";

/* A port that is not in use. */
static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, n), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void set_number(const char *name, int n)
{
    char text[32];
    snprintf(text, sizeof text, "%d", n);
    setenv(name, text, 1);
}

static void set_root(const char *host, int port)
{
    char text[64];
    snprintf(text, sizeof text, "%s:%d", host, port);
    setenv("MOEFW_COMM_ROOT", text, 1);
}

/* The data that rank 0 sends: its status, and its message or the host of its place. */
typedef struct said {
    int rc;
    char text[256];
} said;

/* Starts rank 0 of two ranks as a process. read_rank0 reads its output. */
static pid_t start_rank0(int port, double seconds, int *ret_pipe)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        mf_join j;
        char blob[8] = "blob";
        said s = {0};
        set_root("127.0.0.1", port);
        set_number("RANK", 0);
        set_number("WORLD_SIZE", 2);
        s.rc = mf_join_open(&j, seconds, blob, sizeof blob, s.text, sizeof s.text);
        if (write(ends[1], &s, sizeof s) != sizeof s) _exit(1);
        mf_join_close(&j);
        _exit(0);
    }
    close(ends[1]);
    *ret_pipe = ends[0];
    return child;
}

static said read_rank0(pid_t child, int from)
{
    said s = {.rc = -1};
    ck_assert_int_eq(read(from, &s, sizeof s), sizeof s);
    close(from);
    waitpid(child, NULL, 0);
    return s;
}

static int call_at(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    for (int i = 0; i < 400; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
        close(fd);
        poll(NULL, 0, 10);
    }
    ck_abort_msg("rank 0 does not listen");
    return -1;
}

static hello hello_of(int rank, int ranks)
{
    hello h = {.magic = MAGIC, .nonce = {7}, .rank = rank, .ranks = ranks};
    snprintf(h.version, sizeof h.version, "%s", MOEFW_VERSION);
    snprintf(h.host, sizeof h.host, "peer");
    return h;
}

static secret secret_of(const char *text)
{
    secret s = {.n = strlen(text)};
    memcpy(s.token, text, s.n);
    return s;
}

/* Greets rank 0 like a process that has this token. */
static int greet_at(int port, const hello *h, const char *with)
{
    const secret key = secret_of(with);
    const int fd = call_at(port);
    answer a;
    unsigned char proof[MF_HMAC_BYTES];
    ck_assert(put(fd, h, sizeof *h, now() + 5));
    ck_assert(get(fd, &a, sizeof a, now() + 5));
    prove(&key, '0', h, a.nonce, proof);
    const char *right = getenv("MOEFW_COMM_TOKEN");
    ck_assert(same_proof(proof, a.proof) == (strcmp(with, right ? right : "") == 0));
    prove(&key, 'r', h, a.nonce, proof);
    ck_assert(put(fd, proof, sizeof proof, now() + 5));
    return fd;
}

START_TEST(who_lacks_the_token_changes_nothing)
{
    const int port = free_port();
    int from, silent[GUESTS_MAX + 8];
    setenv("MOEFW_COMM_TOKEN", token, 1);
    const double begin = now();
    const pid_t child = start_rank0(port, 20, &from);
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        silent[i] = call_at(port);
    const hello good = hello_of(1, 2), ranks = hello_of(1, 7);
    const int a = greet_at(port, &good, "0123456789abcdef0123456789abcdeX"),
              b = greet_at(port, &ranks, ""), c = greet_at(port, &good, ""), d = call_at(port),
              f = call_at(port);
    /* the answer of a process that sends rank 0's own proof back */
    answer own;
    ck_assert(put(f, &good, sizeof good, now() + 5));
    ck_assert(get(f, &own, sizeof own, now() + 5));
    ck_assert(put(f, own.proof, sizeof own.proof, now() + 5));
    ck_assert(put(d, "GET / HTTP/1.0\r\n\r\n", 18, now() + 5));
    poll(NULL, 0, 100);
    const int e = greet_at(port, &good, token);
    const said s = read_rank0(child, from);
    ck_assert_msg(s.rc == 0, "%s", s.text);
    /* Processes that send nothing do not delay others. */
    const double each = HELLO_SECONDS, n = (double)(sizeof silent / sizeof *silent);
    ck_assert_msg(now() - begin < n * each / 4, "%g s", now() - begin);
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        close(silent[i]);
    close(a);
    close(b);
    close(c);
    close(d);
    close(e);
    close(f);
}
END_TEST

START_TEST(who_has_the_token_is_told_what_differs)
{
    const int port = free_port();
    int from;
    setenv("MOEFW_COMM_TOKEN", token, 1);
    hello other = hello_of(1, 2);
    memset(other.version, '\033', sizeof other.version);
    pid_t child = start_rank0(port, 20, &from);
    const int a = greet_at(port, &other, token);
    said s = read_rank0(child, from);
    ck_assert_int_eq(s.rc, 1);
    ck_assert_ptr_nonnull(strstr(s.text, "moefw ????????"));
    ck_assert_ptr_null(strchr(s.text, '\033'));
    close(a);
    other = hello_of(INT32_MAX, 2);
    child = start_rank0(port, 20, &from);
    const int b = greet_at(port, &other, token);
    s = read_rank0(child, from);
    ck_assert_int_eq(s.rc, 1);
    ck_assert_ptr_nonnull(strstr(s.text, "says that it is rank 2147483647 of 2"));
    close(b);
}
END_TEST

START_TEST(without_a_token_a_wrong_greeting_ends_nothing)
{
    const int port = free_port();
    int from;
    unsetenv("MOEFW_COMM_TOKEN");
    const hello wrong = hello_of(1, 7), good = hello_of(1, 2);
    pid_t child = start_rank0(port, 20, &from);
    const int a = greet_at(port, &wrong, ""), b = greet_at(port, &good, "");
    said s = read_rank0(child, from);
    ck_assert_msg(s.rc == 0, "%s", s.text);
    close(a);
    close(b);
    child = start_rank0(port, 1, &from);
    const int c = greet_at(port, &wrong, "");
    s = read_rank0(child, from);
    ck_assert_int_eq(s.rc, 1);
    ck_assert_ptr_nonnull(strstr(s.text, "1 of 2 ranks have come to rank 0; others were sent "
                                         "away: rank 1 has 7 ranks"));
    close(c);
}
END_TEST

START_TEST(other_machines_need_a_token)
{
    char text[256], blob[8];
    mf_join j;
    set_number("RANK", 1);
    set_number("WORLD_SIZE", 2);
    set_root("192.0.2.1", 9); /* an address reserved for documentation, to which no connection
                               * is made */
    unsetenv("MOEFW_COMM_TOKEN");
    ck_assert_int_eq(mf_join_open(&j, 1, blob, sizeof blob, text, sizeof text), 1);
    ck_assert_ptr_nonnull(strstr(text, "expected MOEFW_COMM_TOKEN"));
    setenv("MOEFW_COMM_TOKEN", "short", 1);
    ck_assert_int_eq(mf_join_open(&j, 1, blob, sizeof blob, text, sizeof text), 1);
    ck_assert_ptr_nonnull(strstr(text, "found 5 bytes"));
}
END_TEST

enum trick { RIGHT, NO_TOKEN, ECHO, OTHER_BLOB };

/* Joins a false rank 0, which sends host names without an end, and other wrong data. The test
 * fails if it gets the token. */
static int join_at_wrong_root(enum trick trick, char *text, size_t room, mf_join *j)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM, 0), port = free_port(), yes = 1;
    int status;
    a.sin_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    const pid_t child = fork();
    if (child == 0) {
        const secret key = secret_of(trick == NO_TOKEN ? "" : token);
        const int peer = accept(fd, NULL, NULL);
        hello all[2] = {hello_of(0, 2)};
        answer own = {.nonce = {3}};
        unsigned char proof[MF_HMAC_BYTES];
        if (!get(peer, &all[1], sizeof all[1], now() + 5)) _exit(1);
        if (memmem(&all[1], sizeof all[1], token, 16)) _exit(1);
        prove(&key, '0', &all[1], own.nonce, own.proof);
        if (trick == ECHO) memcpy(&own, &all[1], sizeof own);
        (void)put(peer, &own, sizeof own, now() + 5);
        const bool proved = get(peer, proof, sizeof proof, now() + 1);
        if (proved != (trick == RIGHT || trick == OTHER_BLOB)) _exit(1);
        for (int r = 0; r < 2; r++)
            memset(all[r].host, 'H', sizeof all[r].host);
        if (!prove_all(&key, 1, all, 2, trick == OTHER_BLOB ? "another" : "blobblo", 8, proof))
            _exit(1);
        (void)put(peer, all, sizeof all, now() + 5);
        (void)put(peer, "blobblo", 8, now() + 5);
        (void)put(peer, proof, sizeof proof, now() + 5);
        _exit(0);
    }
    close(fd);
    char blob[8];
    setenv("MOEFW_COMM_TOKEN", token, 1);
    set_number("RANK", 1);
    set_number("WORLD_SIZE", 2);
    set_root("127.0.0.1", port);
    const int rc = mf_join_open(j, 5, blob, sizeof blob, text, room);
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return rc;
}

START_TEST(texts_of_rank_0_are_ended)
{
    char text[256];
    mf_join j;
    ck_assert_int_eq(join_at_wrong_root(RIGHT, text, sizeof text, &j), 0);
    ck_assert_uint_eq(strnlen(j.place.host, sizeof j.place.host), sizeof j.place.host - 1);
    ck_assert_int_eq(j.place.node_ranks, 2);
    mf_join_close(&j);
}
END_TEST

START_TEST(another_rank_0_is_not_obeyed)
{
    char text[256];
    mf_join j;
    for (int trick = NO_TOKEN; trick <= OTHER_BLOB; trick++) {
        ck_assert_int_eq(join_at_wrong_root((enum trick)trick, text, sizeof text, &j), 1);
        ck_assert_ptr_nonnull(strstr(text, "another MOEFW_COMM_TOKEN"));
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("join");
    TCase *c = tcase_create("tcp");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, who_lacks_the_token_changes_nothing);
    tcase_add_test(c, who_has_the_token_is_told_what_differs);
    tcase_add_test(c, without_a_token_a_wrong_greeting_ends_nothing);
    tcase_add_test(c, other_machines_need_a_token);
    tcase_add_test(c, texts_of_rank_0_are_ended);
    tcase_add_test(c, another_rank_0_is_not_obeyed);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
