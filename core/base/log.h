/* base/log.h: log lines.
 *
 * A line goes to the sink of the calling thread. A thread without a sink writes to standard
 * error. The program sets two things for standard error: a level, which decides what lines are
 * written, and a hook, which clears a live progress line (report/terminal/progress) before a
 * log line. No lock protects the level and the hook, so the program sets them while no other
 * thread logs. Text for standard error passes through base/text/shown.h; a sink receives the
 * text unchanged. */
#ifndef MF_BASE_LOG_H
#define MF_BASE_LOG_H

#include "error.h"

typedef enum mf_log_level { MF_LOG_ERROR, MF_LOG_WARN, MF_LOG_INFO, MF_LOG_DEBUG } mf_log_level;

typedef struct mf_log_sink {
    mf_log_level highest; /* lines above this level are dropped */
    /* Receives one line without a newline, in the thread that logs it; NULL: lines
     * are dropped. */
    void (*line)(void *arg, mf_log_level level, const char *text);
    void *arg;
    const struct mf_log_sink *outer; /* the sink that is used while `line` runs */
} mf_log_sink;

/* Sets the sink of this thread (NULL: standard error) and returns the previous sink, which the
 * caller restores later. The sink must stay valid while it is set. */
const mf_log_sink *mf_log_redirect(const mf_log_sink *sink);

void mf_log_set_level(mf_log_level highest);
mf_log_level mf_log_get_level(void);
void mf_log_set_hook(void (*before_line)(void));
void mf_log(mf_log_level level, const char *fmt, ...) MF_PRINTF(2, 3);
void mf_vlog(mf_log_level level, const char *fmt, va_list args);

#endif
