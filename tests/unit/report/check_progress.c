/* progress: the text of the live line and of plain lines. Log lines must never be mixed with
 * the live line. */
#include "check_main.h"

#include "base/file/io.h"
#include "base/file/paths.h"
#include "base/log.h"
#include "base/text/shown.h"
#include "report/terminal/progress.h"
#include "report/terminal/summary.h"
#include "tests/lib/scratch.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

static char text[1 << 20];

static time_t ahead; /* seconds by which the monotonic clock is ahead of the system's */

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const int rc = (int)syscall(SYS_clock_gettime, clock, t);
    if (rc == 0 && clock == CLOCK_MONOTONIC) t->tv_sec += ahead;
    return rc;
}

static mf_terminal terminal(bool live, bool colour)
{
    return (mf_terminal){.out = tmpfile(), .live = live, .colour = colour, .utf8 = colour};
}

static const char *written(mf_terminal *t)
{
    rewind(t->out);
    text[fread(text, 1, sizeof text - 1, t->out)] = '\0';
    fclose(t->out);
    return text;
}

static int count(const char *haystack, const char *needle)
{
    int n = 0;
    for (; (haystack = strstr(haystack, needle)) != NULL; haystack++)
        n++;
    return n;
}

static void work(const mf_terminal *t, int64_t first, int64_t total, int64_t steps, bool quiet)
{
    mf_progress *p = mf_progress_new(t, "train", first, total, quiet);
    for (int64_t s = first + 1; s <= first + steps; s++) {
        mf_progress_step(p, s, 2.0, 50000);
        if (s == first + steps / 2)
            mf_progress_eval(p, s, 2.5, 1.25, total == 1000 ? "" : "accuracy 0.5");
    }
    mf_progress_end(p);
}

START_TEST(plain_lines_are_few_and_whole)
{
    mf_terminal t = terminal(false, false);
    work(&t, 0, 1000, 1000, false);
    const char *s = written(&t);
    ck_assert_int_eq(count(s, "\n"), 21);
    ck_assert_int_eq(count(s, "\033"), 0);
    ck_assert_int_eq(count(s, "\r"), 0);
    ck_assert_ptr_nonnull(
        strstr(s, "step   50/1000  loss 2.0000  50.0k tokens/s  0:00 left\n"));
    ck_assert_ptr_nonnull(
        strstr(s, "step  500/1000  validation loss 2.5000  (floor 1.2500)\n"));
    ck_assert_ptr_nonnull(strstr(s, "step 1000/1000  loss 2.0000  50.0k tokens/s\n"));
}
END_TEST

START_TEST(a_resumed_run_tells_the_rest)
{
    mf_terminal t = terminal(false, false);
    work(&t, 900, 1000, 100, false);
    const char *s = written(&t);
    ck_assert_int_eq(count(s, "\n"), 3);
    ck_assert_ptr_nonnull(strstr(s, "step  950/1000"));
}
END_TEST

START_TEST(quiet_is_silent)
{
    for (int live = 0; live < 2; live++) {
        mf_terminal t = terminal(live, live);
        work(&t, 0, 100, 100, true);
        ck_assert_str_eq(written(&t), "");
    }
}
END_TEST

/* Width of the longest line in columns. Escape sequences have no width, and each character has
 * one column. */
static int widest_line(const char *s)
{
    int column = 0, widest = 0;
    for (; *s != '\0'; s++) {
        if (*s == '\033') {
            while (!strchr("mKJA", *s))
                s++;
        } else if (*s == '\r' || *s == '\n') {
            column = 0;
        } else if (((unsigned char)*s & 0xC0) != 0x80) {
            column++;
        }
        if (column > widest) widest = column;
    }
    return widest;
}

START_TEST(the_live_line_fits_any_terminal)
{
    static const int columns[] = {20, 25, 33, 40, 57, 79, 80, 100, 200};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        char number[16];
        mf_terminal t = terminal(true, i % 2 == 0);
        snprintf(number, sizeof number, "%d", columns[i]);
        setenv("COLUMNS", number, 1);
        mf_progress *p = mf_progress_new(&t, "train", 0, 1000, false);
        mf_progress_step(p, 1000, 2.0, 50000); /* the last step is always drawn */
        mf_progress_end(p);
        const char *s = written(&t);
        ck_assert_int_lt(widest_line(s), columns[i]);
        ck_assert_ptr_nonnull(strstr(s, "loss 2.0000"));
        if (columns[i] >= 100) ck_assert_ptr_nonnull(strstr(s, "50.0k tokens/s"));
        ck_assert_int_eq(count(s, "\n"), 1);             /* a line of the history */
        ck_assert_str_eq(s + strlen(s) - 4, "\r\033[K"); /* nothing remains on the line */
    }
    unsetenv("COLUMNS");
}
END_TEST

START_TEST(losses_stay_above_the_live_line)
{
    mf_terminal t = terminal(true, false);
    work(&t, 0, 1000, 1000, false);
    const char *s = written(&t);
    ck_assert_int_eq(count(s, "\n"), 21); /* twenty lines with losses, and one for
                                           * a validation */
    ck_assert_ptr_nonnull(strstr(s, "step   50/1000  loss 2.0000  50.0k tokens/s\n"));
}
END_TEST

START_TEST(a_line_that_a_smaller_terminal_wrapped_is_erased)
{
    mf_terminal t = terminal(true, false);
    setenv("COLUMNS", "80", 1);
    mf_progress *p = mf_progress_new(&t, "train", 0, 100000, false);
    mf_progress_step(p, 1, 2.0, 50000); /* a bar, and all parts: over 60 characters */
    setenv("COLUMNS", "30", 1);
    mf_progress_end(p);
    const char *s = written(&t);
    ck_assert_str_eq(s + strlen(s) - 8, "\033[2A\r\033[J");
    unsetenv("COLUMNS");
}
END_TEST

START_TEST(the_validation_at_the_end_is_part_of_the_time_left)
{
    mf_terminal t = terminal(false, false);
    mf_progress *p = mf_progress_new(&t, "train", 0, 20, false);
    mf_progress_last(p, 3600);
    mf_progress_step(p, 1, 2.0, 50000);
    mf_progress_end(p);
    ck_assert_ptr_nonnull(strstr(written(&t), "1:00:00 left"));

    t = terminal(true, false);
    p = mf_progress_new(&t, "train", 0, 20, false);
    mf_progress_step(p, 20, 2.0, 50000);
    mf_progress_last(p, 3600);
    ahead++; /* the line is drawn ten times a second */
    mf_progress_batch(p, 500, 2000);
    mf_progress_end(p);
    ck_assert_ptr_nonnull(strstr(written(&t), "validation 500/2000"));
    ck_assert_ptr_nonnull(strstr(text, "45:00 left"));
}
END_TEST

/* Without a terminal there is a line each minute, whatever the work is. */
START_TEST(a_line_each_minute)
{
    mf_terminal t = terminal(false, false);
    mf_progress *p = mf_progress_new(&t, "train", 0, 20, false);
    mf_progress_last(p, 3600);
    mf_progress_step(p, 20, 2.0, NAN);
    mf_progress_batch(p, 500, 2000);
    ahead += 61;
    mf_progress_batch(p, 1000, 2000);
    mf_progress_batch(p, 1001, 2000);
    mf_progress_end(p);
    ck_assert_str_eq(written(&t), "step 20/20  loss 2.0000\n"
                                  "step 20/20  validation 1000/2000  30:00 left\n");

    t = terminal(false, false); /* the number of steps is not known */
    p = mf_progress_new(&t, "scan", 0, 0, false);
    mf_progress_step(p, 7, 2.0, NAN);
    ahead += 61;
    mf_progress_step(p, 8, 1.5, NAN);
    ahead += 61;
    mf_progress_batch(p, 1, 3);
    mf_progress_end(p);
    ck_assert_str_eq(written(&t), "step 8  loss 1.5000\nstep 8  validation 1/3\n");
}
END_TEST

START_TEST(the_use_of_a_device_is_told)
{
    static const char use[] = "MFU 31.2 %, 4.2 of 79.6 GiB";
    for (int live = 0; live < 2; live++) {
        mf_terminal t = terminal(live, false);
        setenv("COLUMNS", "200", 1);
        mf_progress *p = mf_progress_new(&t, "train", 0, 10, false);
        mf_progress_device(p, use);
        mf_progress_step(p, 10, 2.0, 50000);
        mf_progress_end(p);
        ck_assert_int_eq(count(written(&t), use), 1 + live); /* history line, and live line */
    }
    unsetenv("COLUMNS");
}
END_TEST

START_TEST(colour_only_where_it_is_wanted)
{
    mf_terminal t = terminal(true, false);
    work(&t, 0, 10, 10, false);
    ck_assert_int_eq(count(written(&t), "\033["), count(text, "\033[K"));
    ck_assert_int_gt(count(text, "#"), 0);
}
END_TEST

START_TEST(a_log_line_clears_the_live_line_first)
{
    mf_terminal t = terminal(true, false);
    mf_progress *p = mf_progress_new(&t, "train", 0, 10, false);
    mf_progress_step(p, 10, 1, 1);
    mf_log_set_level(MF_LOG_INFO);
    fflush(stderr);
    int saved = dup(2);
    FILE *sink = tmpfile();
    dup2(fileno(sink), 2);
    mf_log(MF_LOG_WARN, "something");
    dup2(saved, 2);
    close(saved);
    fclose(sink);
    mf_progress_end(p);
    const char *s = written(&t);
    ck_assert_int_eq(count(s, "\r\033[K"), 2); /* once before drawing, and once for the
                                                * log line */
}
END_TEST

START_TEST(an_unknown_total_has_no_bar)
{
    mf_terminal t = terminal(true, false);
    mf_progress *p = mf_progress_new(&t, "scan", 0, 0, false);
    mf_progress_step(p, 7, NAN, NAN);
    mf_progress_end(p);
    ck_assert_str_eq(written(&t), "\r\033[Kscan  7\r\033[K");
}
END_TEST

START_TEST(words)
{
    char out[24], safe[64];
    ck_assert_str_eq(mf_duration_text(7.4, out), "0:07");
    ck_assert_str_eq(mf_duration_text(3599, out), "59:59");
    ck_assert_str_eq(mf_duration_text(3725, out), "1:02:05");
    ck_assert_str_eq(mf_duration_text(187200, out), "2d 04h");
    ck_assert_str_eq(mf_duration_text(NAN, out), "?");
    ck_assert_str_eq(mf_duration_text(-1, out), "?");
    ck_assert_str_eq(mf_count_text(0, out), "0");
    ck_assert_str_eq(mf_count_text(999, out), "999");
    ck_assert_str_eq(mf_count_text(999.6, out), "1.00k");
    ck_assert_str_eq(mf_count_text(52123, out), "52.1k");
    ck_assert_str_eq(mf_count_text(1540000, out), "1.54M");
    ck_assert_str_eq(mf_count_text(INFINITY, out), "?");
    ck_assert_str_eq(mf_safe_text("a\033[2Jb\nc\xc3\xa9\xff\xc2\x9b"
                                  "d",
                                  false, safe, sizeof safe),
                     "a?[2Jb?c\xc3\xa9??d");
    ck_assert_str_eq(
        mf_safe_text("\xe2\x80\x8f\xe2\x80\xaa\xe2\x81\xa9\xe2\x80\xa7\xe2\x80\xa9\x7f", true,
                     safe, sizeof safe),
        "???\xe2\x80\xa7??");
    ck_assert_str_eq(mf_shown("caf\xc3\xa9\n\x1b]0;x\x07"), "caf\xc3\xa9??]0;x?");
    static const char clean[] = "a b \xc3\xa9";
    ck_assert_ptr_eq(mf_shown(clean), clean);
    ck_assert_str_eq(mf_shown(NULL), "");
    ck_assert_str_eq(mf_safe_text("a\tb\n", true, safe, sizeof safe), "a\tb\n");
    ck_assert_uint_lt(strlen(mf_safe_text("aaaaaaaaaaaaaaaaaaaaaaa", false, safe, 12)), 12);
}
END_TEST

/* Reads the line that was written to the pseudo-terminal. The kernel passes its bytes on with a
 * delay, so one read may return only a part of them. */
static void read_terminal(int master, FILE *slave, char *got, size_t size)
{
    ck_assert_int_eq(fflush(slave), 0);
    size_t have = 0;
    do {
        ck_assert_uint_lt(have, size - 1);
        const ssize_t n = read(master, got + have, size - 1 - have);
        ck_assert_int_gt((int)n, 0);
        have += (size_t)n;
    } while (got[have - 1] != '\n');
    got[have] = '\0';
}

/* Reads through a pseudo-terminal the bytes that a person's terminal would receive. */
START_TEST(text_cannot_act_on_a_terminal)
{
    static const char bytes[] = "a\033[2Jb\x07\tc\x7f\xc3\xa9\xc2\x9b\n";
    char got[64];
    FILE *plain = tmpfile();
    mf_terminal_put(plain, &(mf_begun_char){0}, bytes, sizeof bytes - 1);
    rewind(plain);
    ck_assert_uint_eq(fread(got, 1, sizeof got, plain), sizeof bytes - 1);
    ck_assert_int_eq(memcmp(got, bytes, sizeof bytes - 1), 0);
    fclose(plain);
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    /* without pseudo-terminals the rest is skipped */
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return;
    FILE *slave = fopen(ptsname(master), "w");
    ck_assert_ptr_nonnull(slave);
    mf_begun_char begun = {0};
    mf_terminal_put(slave, &begun, bytes, sizeof bytes - 1);
    read_terminal(master, slave, got, sizeof got);
    ck_assert_ptr_null(strchr(got, '\033'));
    ck_assert_ptr_null(strchr(got, '\x07'));
    ck_assert_ptr_nonnull(strstr(got, "a?[2Jb?"));
    ck_assert_ptr_nonnull(strstr(got, "\xc3\xa9"));
    ck_assert_ptr_null(strstr(got, "\xc2\x9b"));
    /* written byte by byte, with control characters of one byte in 0x80 .. 0x9F */
    static const char split[] = "e\xe2\x80\x93\xc2\x9b[2Jf\x9b[2Jg\xf0\x9f\x98\x80\x80h\n";
    for (size_t i = 0; i + 1 < sizeof split; i++)
        mf_terminal_put(slave, &begun, split + i, 1);
    read_terminal(master, slave, got, sizeof got);
    ck_assert_ptr_nonnull(strstr(got, "e\xe2\x80\x93?[2Jf?[2Jg\xf0\x9f\x98\x80?h"));
    /* four characters that change the order or the lines of a text; the first is split between
     * the two calls */
    static const char bidi[] = "1\xe2\x80\xae"
                               "2\xe2\x81\xa6\xe2\x80\xa8"
                               "3\xd8\x9c\xe2\x82\xac\n";
    mf_terminal_put(slave, &begun, bidi, 3);
    mf_terminal_put(slave, &begun, bidi + 3, sizeof bidi - 4);
    read_terminal(master, slave, got, sizeof got);
    ck_assert_ptr_nonnull(strstr(got, "1?2??3?\xe2\x82\xac"));
    fclose(slave);
    close(master);
}
END_TEST

START_TEST(the_closing_lines)
{
    static const double nmi[] = {0.1, 0.4}, nmi_random[] = {0.004, 0.005};
    mf_terminal t = terminal(false, false);
    mf_summary s = {.run = "runs/x-1",
                    .report = "runs/x-1/report.html",
                    .unit = "byte",
                    .router = "none",
                    .generates = true,
                    .steps = 400,
                    .tokens = 819200,
                    .wall_s = 61,
                    .tokens_per_s = 52123,
                    .val_loss = 1.7,
                    .floor = 1.6,
                    .bits_per_byte = 2.4526,
                    .n_layers = 2,
                    .nmi = nmi,
                    .nmi_random = nmi_random};
    mf_summary_print(&t, &s);
    const char *out = written(&t);
    ck_assert_ptr_nonnull(strstr(
        out, "1.7000 nats/byte, 2.4526 bits/byte\n"
             "                    1.062 x the entropy floor of 1.6000 in its windows\n"));
    for (const char *at = out; *at; at += strcspn(at, "\n") + 1)
        ck_assert_uint_le(strcspn(at, "\n"), 80);
    ck_assert_ptr_nonnull(
        strstr(out, "layer 1  0.4000  40 % of the possible; random 0.00500\n"));
    ck_assert_ptr_nonnull(strstr(out, "runs/x-1/report.html\n"));
    ck_assert_ptr_nonnull(strstr(out, "moefw generate runs/x-1"));
    static const double one[] = {NAN, 0.4};
    s.nmi = one;
    t = terminal(false, false);
    mf_summary_print(&t, &s);
    out = written(&t);
    ck_assert_ptr_null(strstr(out, "nan"));
    ck_assert_ptr_nonnull(strstr(out, "layer 0  not known\n"));
    ck_assert_ptr_nonnull(strstr(out, "layer 1  0.4000"));
    s = (mf_summary){.run = "r",
                     .unit = "token",
                     .router = "",
                     .val_loss = NAN,
                     .floor = NAN,
                     .bits_per_byte = NAN};
    t = terminal(false, false);
    mf_summary_print(&t, &s);
    ck_assert_ptr_null(strstr(written(&t), "nan"));
}
END_TEST

/* The closing lines of a run with this router. The caller does not free them. */
static const char *closing(const char *router, const char *predictions)
{
    const mf_summary s = {.run = "r",
                          .router = router,
                          .predictions = predictions,
                          .n_layers = 1,
                          .val_loss = NAN,
                          .floor = NAN,
                          .bits_per_byte = NAN};
    mf_terminal t = terminal(false, false);
    mf_summary_print(&t, &s);
    return written(&t);
}

/* The closing lines propose another router of the plugin folder than the one that
 * was trained. */
START_TEST(another_router_is_proposed)
{
    char marker[512];
    snprintf(marker, sizeof marker, "%s\n", scratch_dir());
    scratch_write(scratch_path(".moefw-uninstalled"), marker, strlen(marker));
    ck_assert_int_eq(mf_mkdirs(scratch_path("plugins/routers")), MF_OK);
    mf_paths_set_program(scratch_path("moefw"));
    ck_assert_ptr_null(strstr(closing("hash", NULL), " train "));
    scratch_write(scratch_path("plugins/routers/hash.so"), "", 0);
    scratch_write(scratch_path("plugins/routers/notes"), "", 0);
    static const char *const same[] = {"hash", "hash.so", "some/hash.so"},
                             *const others[] = {"hash_top", "some/hash_top.so", "hash.sox", ""};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_ptr_null(strstr(closing(same[i], NULL), " train "));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_ptr_nonnull(strstr(closing(others[i], "accuracy 0.5"),
                                     " train r/config.ini --plugin routers/hash.so\n"));
    ck_assert_ptr_nonnull(strstr(text, "validation          accuracy 0.5\n"));
    mf_paths_set_program("");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("progress");
    TCase *c = tcase_create("progress");
    tcase_add_test(c, plain_lines_are_few_and_whole);
    tcase_add_test(c, a_resumed_run_tells_the_rest);
    tcase_add_test(c, quiet_is_silent);
    tcase_add_test(c, the_live_line_fits_any_terminal);
    tcase_add_test(c, the_validation_at_the_end_is_part_of_the_time_left);
    tcase_add_test(c, a_line_each_minute);
    tcase_add_test(c, the_use_of_a_device_is_told);
    tcase_add_test(c, a_line_that_a_smaller_terminal_wrapped_is_erased);
    tcase_add_test(c, losses_stay_above_the_live_line);
    tcase_add_test(c, colour_only_where_it_is_wanted);
    tcase_add_test(c, a_log_line_clears_the_live_line_first);
    tcase_add_test(c, an_unknown_total_has_no_bar);
    tcase_add_test(c, words);
    tcase_add_test(c, text_cannot_act_on_a_terminal);
    tcase_add_test(c, the_closing_lines);
    tcase_add_test(c, another_router_is_proposed);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
