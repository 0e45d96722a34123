/* base/log.c: one write to stderr a line, so that lines of several processes do not mix. */
#include "base/log.h"

#include <stdio.h>
#include <string.h>

static mf_log_level level_now = MF_LOG_INFO;
static void (*hook)(void);

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

void mf_vlog(mf_log_level level, const char *fmt, va_list args)
{
    static const char *const prefix[] = {"moefw: error: ", "moefw: warning: ", "", "debug: "};
    char line[4096];
    size_t start = strlen(prefix[level]), room = sizeof line - start - 1, length;
    int n;
    if (level > level_now) return;
    memcpy(line, prefix[level], start);
    n = vsnprintf(line + start, room, fmt, args);
    if (n < 0) return;
    length = (size_t)n;
    if (length >= room) { /* cut: say so */
        length = room - 1;
        memcpy(line + start + length - 3, "...", 3);
    }
    line[start + length] = '\n';
    if (hook) hook();
    fwrite(line, 1, start + length + 1, stderr);
    fflush(stderr);
}

void mf_log(mf_log_level level, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vlog(level, fmt, args);
    va_end(args);
}
