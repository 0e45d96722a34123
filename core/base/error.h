/* base/error.h: how errors are reported.
 *
 * The function that finds an error calls mf_fail and returns its result. A caller may add its
 * own context with mf_fail_context, and returns the code unchanged. Each thread keeps its last
 * error. Nothing is printed here: main prints the message once.
 *
 *     if (n < 0) return mf_fail(MF_EINPUT, "%s: record %d: expected a count, found %d", ...);
 */
#ifndef MF_BASE_ERROR_H
#define MF_BASE_ERROR_H

#include <moefw/status.h>
#include <stdarg.h>
#include <stddef.h>

#if defined(__GNUC__)
#define MF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MF_PRINTF(fmt, args)
#endif

/* Records the message (cut at 2 KiB) and returns code, which must not be MF_OK. The arguments
 * may point into the old message. Never allocates. */
int mf_fail(int code, const char *fmt, ...) MF_PRINTF(2, 3);
int mf_vfail(int code, const char *fmt, va_list args);

/* Like mf_fail, with strerror(errno) appended. Returns MF_ENOMEM for errno ENOMEM. */
int mf_fail_errno(int code, const char *fmt, ...) MF_PRINTF(2, 3);

/* Puts "prefix: " before the recorded message and returns code, so a caller can return
 * its result. */
int mf_fail_context(int code, const char *fmt, ...) MF_PRINTF(2, 3);

/* Puts the name of a file before the recorded message and returns code, unless the message
 * already begins with that name. Only some of the functions that check the content of a file
 * know the file's name. */
int mf_fail_in(int code, const char *file);
#ifdef __clang_analyzer__ /* it does not see that the result is the code */
#define mf_fail(code, ...)         (mf_fail(code, __VA_ARGS__), (code))
#define mf_fail_errno(code, ...)   (mf_fail_errno(code, __VA_ARGS__), (code))
#define mf_fail_context(code, ...) (mf_fail_context(code, __VA_ARGS__), (code))
#define mf_fail_in(code, file)     (mf_fail_in(code, file), (code))
#endif

/* Text of this thread's last error, "" if there is none. Valid until this thread records or
 * clears an error. */
const char *mf_error_message(void);
int mf_error_code(void);
void mf_error_clear(void);

/* ---- faults of the machine ----
 *
 * These are missing memory, a disk that does not read or write, and a process without free
 * descriptors. Each fault is counted where it is recorded, even if the caller handles the
 * error. A caller that treats an error as a missing file, or continues without an optional
 * part, learns here whether the machine was the cause. */
unsigned long mf_faults(void); /* number of faults of this thread so far */
/* Returns the newest fault of this thread and stores its code; NULL: no fault. The text is
 * valid until the next fault. */
const char *mf_fault_last(int *ret_code);
/* Counts the error that errno describes, if it is a fault of the machine; errno does
 * not change. */
void mf_fault_errno(const char *path);
/* Returns the first fault of the process and stores its code; NULL: no fault. The text is valid
 * until the process ends. */
const char *mf_fault_first(int *ret_code);

const char *mf_status_name(int code); /* returns the name of the code, for
                                       * example "MF_ECONFIG" */
const char *mf_status_text(int code); /* returns a description, for example
                                       * "configuration error" */
int mf_status_exit(int code);         /* returns the exit code of a process; 1 for an
                                       * unknown code */

/* Returns the name that is nearest to word, among the NULL-terminated names. The distance is
 * the edit distance; upper and lower case are equal, and a swap of two neighbours counts once.
 * Returns NULL if no name is near enough to suggest: the distance must be at most 2 or at most
 * a third of the word's length, and less than the length of either word. A word of more than 96
 * bytes gets no suggestion. */
const char *mf_nearest(const char *word, const char *const *names);

#endif
