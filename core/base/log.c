/* base/log.c: log lines go to the sink of the calling thread, or else to standard error. Each
 * line to standard error is a single write, so lines of several processes do not mix. */
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/shown.h"
#include "base/text/wrap.h"

static mf_log_level level_now = MF_LOG_INFO;
static void (*hook)(void);
static _Thread_local const mf_log_sink *sink_now;

const mf_log_sink *mf_log_redirect(const mf_log_sink *sink)
{
    const mf_log_sink *before = sink_now;
    sink_now = sink;
    return before;
}

void mf_log_set_level(mf_log_level highest)
{
    level_now = highest;
}

mf_log_level mf_log_get_level(void)
{
    return level_now;
}

void mf_log_set_hook(void (*before_line)(void))
{
    hook = before_line;
}

/* Marks a line that was cut after `length` bytes, and removes a UTF-8 character that was cut in
 * the middle. Returns the length of the line with its mark. */
static size_t mark_cut(char *text, size_t length)
{
    size_t end = length - 3;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    memcpy(text + end, "...", 4);
    return end + 3;
}

void mf_vlog(mf_log_level level, const char *fmt, va_list args)
{
    static const char *const prefix[] = {"moefw: error: ", "moefw: warning: ", "", "debug: "};
    char line[4096];
    size_t start = strlen(prefix[level]), room, length;
    int n;
    const mf_log_sink *sink = sink_now;
    if (sink) start = 0;
    if (level > (sink ? sink->highest : level_now)) return;
    memcpy(line, prefix[level], start);
    room = sizeof line - start - 1;
    n = vsnprintf(line + start, room, fmt, args);
    if (n < 0) return;
    length = (size_t)n;
    if (length >= room) length = mark_cut(line + start, room - 1);
    if (sink) {
        if (!sink->line) return;
        mf_log_redirect(sink->outer);
        sink->line(sink->arg, level, line);
        mf_log_redirect(sink);
        return;
    }
    char safe[sizeof line + 8];
    mf_safe_text(line, false, safe, sizeof safe - 1); /* one byte is left for the newline */
    length = strlen(safe);
    /* warnings and errors are not wrapped, since they may end with a command to copy */
    if (level == MF_LOG_INFO && isatty(STDERR_FILENO)) mf_wrap(safe, mf_columns(stderr));
    safe[length] = '\n';
    if (hook) hook();
    fwrite(safe, 1, length + 1, stderr);
    fflush(stderr);
}

void mf_log(mf_log_level level, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vlog(level, fmt, args);
    va_end(args);
}
