/* base/log.h: log lines on stderr, results on stdout.
 *
 * Levels follow -q and -v. A live progress line (report/progress) registers a hook so that a
 * log line clears it first. Control bytes in %s arguments from files are the caller's to
 * escape.
 */
#ifndef MF_BASE_LOG_H
#define MF_BASE_LOG_H

#include "error.h"

typedef enum mf_log_level { MF_LOG_ERROR, MF_LOG_WARN, MF_LOG_INFO, MF_LOG_DEBUG } mf_log_level;

void mf_log_set_level(mf_log_level highest);
mf_log_level mf_log_get_level(void);
void mf_log_set_hook(void (*before_line)(void));
void mf_log(mf_log_level level, const char *fmt, ...) MF_PRINTF(2, 3);
void mf_vlog(mf_log_level level, const char *fmt, va_list args);

#endif
