/* command.c: implements command.h. A library that looks for leaks is loaded after faults.so, so
 * faults.so is called first, and the library only sees allocations that do not fail. Its
 * reports are written to files of their own, so the output and the status of the program do
 * not change. */
#include "tests/faults/command.h"
#include "tests/faults/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 60, WORDS = 40 };
static const char report_name[] = "report";

struct setup setup;

void command_prepare(void)
{
    char path[2 * PATH];
    snprintf(setup.base, sizeof setup.base, "%s/moefw-faults-%ld",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    mkdir(setup.base, 0777);
    snprintf(path, sizeof path, "%s/plan", setup.base);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (ftruncate(fd, sizeof *setup.plan) != 0) abort();
    setup.plan = mmap(NULL, sizeof *setup.plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (setup.plan == MAP_FAILED) abort();
    close(fd);
    setenv("MOEFW_FAULT_PLAN", path, 1);
    setenv("XDG_CONFIG_HOME", setup.base, 1);
    setenv("LC_ALL", "C", 1);
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

void command_arm(int kind, long nth, bool always, int error)
{
    memset(setup.plan, 0, offsetof(fault_plan, stacks));
    setup.plan->kind = kind;
    setup.plan->nth = nth;
    setup.plan->always = always;
    setup.plan->error = error;
}

static void read_text(const char *path, char *to)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, to, TEXT - 1) : 0;
    to[n > 0 ? n : 0] = '\0';
    if (fd >= 0) close(fd);
}

/* ---- a sanitizer ---- */

static void preload(void)
{
    char list[2 * PATH], options[2 * PATH];
    snprintf(list, sizeof list, "%s%s%s", setup.faults_so, setup.sanitizer ? ":" : "",
             setup.sanitizer ? setup.sanitizer : "");
    setenv("LD_PRELOAD", list, 1);
    if (!setup.sanitizer) return;
    snprintf(options, sizeof options,
             "detect_leaks=1:exitcode=0:log_path=%s/%s:fast_unwind_on_malloc=%d", setup.base,
             report_name, !setup.stacks);
    setenv("LSAN_OPTIONS", options, 1);
    /* The library of ASan ends the program if it is not the first library. This check is
     * switched off. */
    snprintf(options + strlen(options), sizeof options - strlen(options),
             ":verify_asan_link_order=0:handle_segv=0:handle_abort=0");
    setenv("ASAN_OPTIONS", options, 1);
}

/* Appends a report in short form: the lines of its first error up to the first stack, and the
 * functions of this stack. */
static void shorten(const char *text, char *to)
{
    const char *line = strstr(text, "==ERROR: "), *end, *in;
    size_t n = strlen(to);
    for (bool stack = false; line && *line && n < TEXT - 1; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        in = strstr(line, " in ");
        if (strncmp(line, "    #", 5) != 0) {
            if (stack) break;
            if (line == end || *line == '=') continue;
            n += (size_t)snprintf(to + n, TEXT - n, "%.*s", (int)(end - line), line);
        } else if (in && in < end) {
            stack = true;
            n += (size_t)snprintf(to + n, TEXT - n, " < %.*s", (int)strcspn(in + 4, " \n"),
                                  in + 4);
        }
    }
}

/* Reads the reports of all processes of a command and removes their files. */
static void take_reports(char *to)
{
    static char text[1 << 16], path[2 * PATH];
    DIR *dir = opendir(setup.base);
    if (!dir) abort();
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strncmp(e->d_name, report_name, strlen(report_name)) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", setup.base, e->d_name);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        if (fd >= 0) close(fd);
        text[n > 0 ? n : 0] = '\0';
        shorten(text, to);
        if (!*to) snprintf(to, TEXT, "%.300s", *text ? text : "an empty report");
        unlink(path);
    }
    closedir(dir);
}

/* ---- a command ---- */

static void child(const char *folder, char *const *argv)
{
    char out[2 * PATH], err[2 * PATH];
    snprintf(out, sizeof out, "%s/out", setup.base);
    snprintf(err, sizeof err, "%s/err", setup.base);
    setpgid(0, 0);
    if (chdir(folder) != 0) _exit(99);
    const int nul = open("/dev/null", O_RDONLY),
              o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666),
              e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(nul, 0);
    dup2(o, 1);
    dup2(e, 2);
    for (int fd = 3; fd < 20; fd++)
        close(fd);
    preload();
    execv(setup.moefw, argv);
    _exit(99);
}

/* Seconds that a run may take. The limit is longer on a machine with other work. Reading a file
 * of a megabyte byte by byte takes half a second. */
static time_t patience(void)
{
    double load = 0;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&load, 1) != 1 || cores < 1) return SECONDS;
    return (time_t)(SECONDS * (1 + load / (double)cores));
}

static result run_words(const char *folder, char *const *argv)
{
    static char out[2 * PATH], err[2 * PATH];
    result r = {0};
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) child(folder, argv);
    const time_t end = time(NULL) + patience();
    for (long pause = 100000;; pause = 1000000) {
        const pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid) break;
        if (time(NULL) > end) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            r.status = NO_END;
            return r;
        }
        nanosleep(&(struct timespec){0, pause}, NULL);
    }
    kill(-pid, SIGKILL); /* ends child processes that did not end with the program */
    r.ended = WIFEXITED(status);
    r.status = r.ended ? WEXITSTATUS(status) : -WTERMSIG(status);
    snprintf(out, sizeof out, "%s/out", setup.base);
    snprintf(err, sizeof err, "%s/err", setup.base);
    read_text(out, r.out);
    read_text(err, r.err);
    if (setup.sanitizer) take_reports(r.report);
    return r;
}

result command_run(const char *folder, const char *format)
{
    char text[TEXT], *list[WORDS];
    int n = 0;
    snprintf(text, sizeof text, format, setup.sources);
    list[n++] = (char *)setup.moefw;
    for (char *w = strtok(text, " "); w && n < WORDS - 1; w = strtok(NULL, " "))
        list[n++] = w;
    list[n] = NULL;
    return run_words(folder, list);
}

result command_run_healthy(const char *folder, const char *format)
{
    const int kind = setup.plan->kind, error = setup.plan->error, always = setup.plan->always;
    const long nth = setup.plan->nth;
    command_arm(FAULT_NONE, 0, false, 0);
    const result r = command_run(folder, format);
    command_arm(kind, nth, always, error);
    return r;
}
