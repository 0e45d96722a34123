/* world: modules that are refused, peers that do not answer, and how ranks agree on an error.
 * The module (lib/comm/loop.c) uses functions of this program, which simulate rank 1. */
#include "check_main.h"

#include "base/error.h"
#include "comm/world.h"
#include "plugin/crash.h"
#include "plugin/load/module.h"
#include "tests/lib/child.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static mf_comm_table *loop, whole;
static char module[4096];

/* Replaces _exit like the program does, so that counters of a coverage build are written. */
void _exit(int status)
{
    mf_crash_exit(status);
}

static struct {
    /* silent: rank 1 does not answer; waited_for: the engine reports that it still waits for
     * rank 1 */
    bool silent, waited_for;
    int code; /* code of rank 1 */
    const char *message;
} peer;

static int loop_open(int64_t chunk, mf_comm_place *ret_place, mf_comm **ret, char *text,
                     size_t size)
{
    (void)chunk, (void)text, (void)size;
    *ret = (mf_comm *)&peer;
    *ret_place = (mf_comm_place){.ranks = 2, .node_ranks = 2, .host = "here"};
    return 0;
}

/* The data that rank 1 sends: its place, its status, or its status and message. */
static void answer(const mf_comm_piece *to)
{
    const int32_t code = peer.code;
    memset(to->data, 0, (size_t)to->bytes);
    if (to->bytes == sizeof(mf_comm_place)) {
        *(mf_comm_place *)to->data =
            (mf_comm_place){.rank = 1, .ranks = 2, .node_ranks = 2, .host = "there"};
        return;
    }
    memcpy(to->data, &code, sizeof code);
    if (to->bytes > (int64_t)sizeof code)
        strcpy((char *)to->data + sizeof code, peer.message ? peer.message : "");
}

static int loop_start(mf_comm *c, int32_t n_send, const mf_comm_piece *send, int32_t n_recv,
                      const mf_comm_piece *recv, mf_comm_wait **ret)
{
    (void)c, (void)n_send, (void)send;
    for (int i = 0; i < n_recv && !peer.silent; i++)
        answer(&recv[i]);
    *ret = (mf_comm_wait *)&peer;
    return 0;
}

static int loop_test(mf_comm *c, mf_comm_wait *w, bool *ret_done)
{
    (void)c, (void)w;
    *ret_done = !peer.silent;
    return 0;
}

static bool loop_waits_for(mf_comm_wait *w, int32_t rank)
{
    (void)w;
    return rank == 1 && peer.waited_for;
}

/* An engine that hangs until the alarm of mf_world_abort. */
static void loop_hangs(mf_comm *c, int code)
{
    (void)c, (void)code;
    raise(SIGALRM);
    mf_crash_exit(99);
}

static void loop_returns(mf_comm *c, int code)
{
    (void)c, (void)code;
}

static void loop_close(mf_comm *c)
{
    (void)c;
}

static void begin(void)
{
    const void *table = NULL;
    ck_assert_msg(mf_module_load(module, true, "moefw_comm", &table) == MF_OK, "%s",
                  mf_error_message());
    loop = (mf_comm_table *)(uintptr_t)table;
    if (!whole.size) whole = *loop;
    *loop = whole;
    loop->open = loop_open;
    loop->start = loop_start;
    loop->test = loop_test;
    loop->waits_for = loop_waits_for;
    loop->abort = loop_returns;
    loop->close = loop_close;
    peer.silent = peer.waited_for = false;
    peer.code = MF_OK;
    peer.message = NULL;
}

static mf_world *opened(void)
{
    mf_world *w = NULL;
    ck_assert_msg(mf_world_open(module, 0, &w) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_world_ranks(w), 2);
    ck_assert_int_eq(mf_world_rank(w), 0);
    ck_assert_str_eq(mf_world_name(w), "loop");
    ck_assert_str_eq(mf_world_place(w, 1)->host, "there");
    return w;
}

static void refused(int code, const char *words)
{
    mf_world *w = NULL;
    ck_assert_int_eq(mf_world_open(module, 0, &w), code);
    ck_assert_ptr_null(w);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), module));
    ck_assert_msg(strstr(mf_error_message(), words) != NULL, "%s", mf_error_message());
}

START_TEST(a_module_of_another_version)
{
    loop->version = "0.0.7";
    refused(MF_EPLUGIN, "the module belongs to moefw 0.0.7, and this is ");
    loop->version = whole.version;
    loop->size = sizeof *loop + 8;
    refused(MF_EPLUGIN, "the module belongs to moefw of another time, and this is ");
    loop->size = sizeof *loop;
    loop->magic++;
    refused(MF_EPLUGIN, "no communicator of moefw");
}
END_TEST

START_TEST(a_module_that_is_not_there)
{
    mf_world *w = NULL;
    ck_assert_int_eq(mf_world_open("nothing", 0, &w), MF_EDEP);
    ck_assert_ptr_null(w);
    ck_assert_ptr_eq(strstr(mf_error_message(), "no communicator module comm/nothing.so in "),
                     mf_error_message());
}
END_TEST

START_TEST(a_peer_that_does_not_answer)
{
    mf_world *w = opened();
    int32_t mine = 1, all[2];
    peer.silent = peer.waited_for = true;
    ck_assert_int_eq(mf_world_gather(w, "the numbers", &mine, sizeof mine, all), MF_EPEER);
    ck_assert_str_eq(mf_error_message(),
                     "the numbers: no answer from rank 1 (there) for 0 s (parallel.patience)");
    peer.waited_for = false;
    ck_assert_int_eq(mf_world_gather(w, "the numbers", &mine, sizeof mine, all), MF_EPEER);
    ck_assert_str_eq(mf_error_message(),
                     "the numbers: no answer from the engine for 0 s (parallel.patience)");
    mf_world_close(w);
}
END_TEST

START_TEST(ranks_agree)
{
    mf_world *w = opened();
    ck_assert_int_eq(mf_world_agree(w, MF_OK), MF_OK);
    ck_assert(!mf_world_agreed(w));
    peer.code = MF_EIO;
    peer.message = "the disk is full";
    ck_assert_int_eq(mf_world_agree(w, MF_OK), MF_EIO);
    ck_assert_str_eq(mf_error_message(), "rank 1 (there): the disk is full");
    ck_assert(mf_world_agreed(w));
    mf_world_forget(w);
    ck_assert(!mf_world_agreed(w));
    /* the error of the first rank; without a rank in the message if all ranks report
     * the same */
    ck_assert_int_eq(mf_world_agree(w, mf_fail(MF_EINPUT, "no file")), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(), "rank 0 (here): no file");
    ck_assert_int_eq(mf_world_agree(w, mf_fail(MF_EIO, "the disk is full")), MF_EIO);
    ck_assert_str_eq(mf_error_message(), "the disk is full");
    mf_world_close(w);
}
END_TEST

static void abort_with_5(void *w)
{
    mf_world_abort(w, 5);
}

/* The process ends with the code whether the engine returns or hangs. */
START_TEST(an_abort_ends_the_process)
{
    mf_world *w = opened();
    loop->abort = _i ? loop_hangs : loop_returns;
    const int status = child_status(abort_with_5, w, NULL, 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 5);
    mf_world_close(w);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("world");
    TCase *c = tcase_create("world");
    tcase_add_checked_fixture(c, begin, NULL);
    tcase_add_test(c, a_module_of_another_version);
    tcase_add_test(c, a_module_that_is_not_there);
    tcase_add_test(c, a_peer_that_does_not_answer);
    tcase_add_test(c, ranks_agree);
    tcase_add_loop_test(c, an_abort_ends_the_process, 0, 2);
    suite_add_tcase(s, c);
    return s;
}

/* Prepares the environment: no launcher has started this program, and the module is in the
 * build folder. */
int main(void)
{
    static const char *const launchers[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};
    const char *build = getenv("builddir");
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        unsetenv(launchers[i]);
    snprintf(module, sizeof module, "%s/tests/lib/comm/loop.so", build ? build : ".");
    return check_run(suite(), CK_NOFORK);
}
