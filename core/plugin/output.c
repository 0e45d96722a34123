/* plugin/output.c: separates what plugins print from the program's results. Descriptor 1 is
 * replaced by dup2, so it does not matter which library or language a plugin uses to print. */
#include "plugin/output.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text/shown.h"
#include "graph/third_party.h"

static struct {
    bool watched, on;
    int results, apart; /* a copy of the original descriptor 1, and the descriptor of the file
                         * in memory */
    volatile sig_atomic_t depth;
    pthread_t thread;
} out = {.results = -1, .apart = -1};

static void put_line(const char *who, const char *function, const char *path, const char *text,
                     size_t n)
{
    char line[1025], safe[1100];
    snprintf(line, sizeof line, "%.*s", (int)n, text); /* a NUL ends the line */
    mf_safe_text(line, true, safe, sizeof safe);
    fprintf(stderr, "plugin %s%s%s%s, in %s: %s\n", mf_shown(who), path ? " (" : "",
            mf_shown(path), path ? ")" : "", function, safe);
}

static void tell(off_t size, const char *who, const char *function, const char *path)
{
    char line[1024];
    size_t fill = 0;
    off_t at = 0;
    while (at < size) {
        const ssize_t n = pread(out.apart, line + fill, sizeof line - fill, at);
        if (n <= 0) break;
        at += n;
        fill += (size_t)n;
        char *end;
        while ((end = memchr(line, '\n', fill)) != NULL || fill == sizeof line) {
            const size_t length = end ? (size_t)(end - line) : fill;
            put_line(who, function, path, line, length);
            fill -= length + (end != NULL);
            if (end) memmove(line, end + 1, fill);
        }
    }
    if (fill > 0) put_line(who, function, path, line, fill);
}

/* The name of an op's plugin is the last word of its scope, "layers.0.router mine". */
static void end_op(const mf_node *node)
{
    const char *scope = node->scope ? node->scope : "?", *blank = strrchr(scope, ' ');
    char function[96];
    snprintf(function, sizeof function, "op %s", node->op->name);
    mf_output_end(blank ? blank + 1 : scope, function, scope);
}

void mf_output_watch(void)
{
    out.watched = true;
    out.thread = pthread_self();
}

void mf_output_needed(void)
{
    if (!out.watched || out.on) return;
    out.results = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 64);
    out.apart = memfd_create("plugin output", MFD_CLOEXEC);
    /* Without the copy of descriptor 1 or without the file in memory, output of plugins is
     * not separated. */
    if (out.results < 0 || out.apart < 0) return;
    out.on = true;
    mf_third_party_around = (mf_third_party_hook){mf_output_begin, end_op};
}

void mf_output_begin(void)
{
    if (!out.on || !pthread_equal(pthread_self(), out.thread)) return;
    if (out.depth++ > 0) return;
    fflush(stdout);
    dup2(out.apart, STDOUT_FILENO);
}

void mf_output_end(const char *plugin, const char *function, const char *path)
{
    if (!out.on || !pthread_equal(pthread_self(), out.thread) || --out.depth > 0) return;
    fflush(stdout);
    dup2(out.results, STDOUT_FILENO);
    const off_t size = lseek(out.apart, 0, SEEK_CUR);
    if (size <= 0) return;
    tell(size, plugin, function, path);
    if (ftruncate(out.apart, 0) == 0) lseek(out.apart, 0, SEEK_SET);
}

void mf_output_rescue(void)
{
    char part[512];
    off_t at = 0;
    ssize_t n;
    if (!out.on || out.depth == 0) return;
    while ((n = pread(out.apart, part, sizeof part, at)) > 0) {
        const ssize_t got = write(STDERR_FILENO, part, (size_t)n);
        if (got <= 0) return;
        at += got;
    }
}

void mf_output_close(void)
{
    if (out.on) dup2(STDERR_FILENO, STDOUT_FILENO);
}
