/* base/error.c: the last error of each thread. The error is kept in a fixed buffer, which a
 * thread allocates at its first error, so reporting an error never fails. */
#include "base/error.h"
#include "base/thread/thread_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_MAX = 2048 };

typedef struct texts {
    char message[MESSAGE_MAX], last_fault[MESSAGE_MAX];
} texts;

static _Thread_local int last_code;
static _Thread_local unsigned long faults;
static _Thread_local int last_fault_code;

static texts *own(void)
{
    static texts spare;
    return mf_thread_memory(MF_THREAD_ERROR, sizeof spare, &spare);
}

static struct {
    pthread_mutex_t lock;
    int code; /* MF_OK: no error */
    char message[MESSAGE_MAX];
} first_fault = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void count_fault(int code, const char *text)
{
    faults++;
    last_fault_code = code;
    memcpy(own()->last_fault, text, strlen(text) + 1);
    pthread_mutex_lock(&first_fault.lock);
    if (first_fault.code == MF_OK) {
        first_fault.code = code;
        memcpy(first_fault.message, text, strlen(text) + 1);
    }
    pthread_mutex_unlock(&first_fault.lock);
}

static bool is_fault(int why)
{
    return why == EIO || why == ENOMEM || why == EMFILE || why == ENFILE || why == ENOBUFS;
}

/* Marks a message that was cut, and removes a UTF-8 character that was cut in the middle. */
static void mark_cut(char *text, int full_length)
{
    size_t end = MESSAGE_MAX - 4;
    if (full_length < MESSAGE_MAX) return;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    memcpy(text + end, "...", 4);
}

int mf_vfail(int code, const char *fmt, va_list args)
{
    /* The arguments may point into the old message, so it is replaced only after formatting. */
    char fresh[MESSAGE_MAX];
    int n = vsnprintf(fresh, sizeof fresh, fmt, args);
    if (n < 0) {
        static const char unprintable[] = "(message could not be formatted)";
        memcpy(fresh, unprintable, sizeof unprintable);
    }
    mark_cut(fresh, n);
    memcpy(own()->message, fresh, strlen(fresh) + 1);
    last_code = code;
    if (code == MF_ENOMEM) count_fault(code, fresh);
    return code;
}

#undef mf_fail
int mf_fail(int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vfail(code, fmt, args);
    va_end(args);
    return code;
}

int mf_fail_errno(int code, const char *fmt, ...)
{
    int saved = errno;
    char text[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0) text[0] = '\0';
    mark_cut(text, n);
    if (saved == ENOMEM) code = MF_ENOMEM;
    mf_fail(code, "%s: %s", text, strerror(saved));
    if (is_fault(saved) && code != MF_ENOMEM) count_fault(code, own()->message);
    errno = saved;
    return code;
}

void mf_fault_errno(const char *path)
{
    char text[MESSAGE_MAX];
    const int saved = errno;
    if (!is_fault(saved)) return;
    snprintf(text, sizeof text, "%.1500s: cannot stat: %s", path, strerror(saved));
    count_fault(saved == ENOMEM ? MF_ENOMEM : MF_EIO, text);
    errno = saved;
}

unsigned long mf_faults(void)
{
    return faults;
}

const char *mf_fault_last(int *ret_code)
{
    *ret_code = faults > 0 ? last_fault_code : MF_OK;
    return faults > 0 ? own()->last_fault : NULL;
}

const char *mf_fault_first(int *ret_code)
{
    pthread_mutex_lock(&first_fault.lock);
    *ret_code = first_fault.code;
    pthread_mutex_unlock(&first_fault.lock);
    return *ret_code != MF_OK ? first_fault.message : NULL;
}

int mf_fail_context(int code, const char *fmt, ...)
{
    char prefix[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    if (n < 0) prefix[0] = '\0';
    mark_cut(prefix, n);
    return mf_fail(code, "%s: %s", prefix, mf_error_message());
}

int mf_fail_in(int code, const char *file)
{
    if (strncmp(mf_error_message(), file, strlen(file)) == 0) return code;
    return mf_fail_context(code, "%s", file);
}

const char *mf_error_message(void)
{
    return last_code == MF_OK ? "" : own()->message;
}

int mf_error_code(void)
{
    return last_code;
}

void mf_error_clear(void)
{
    last_code = MF_OK;
}

const char *mf_status_name(int code)
{
    switch (code) {
#define STATUS_NAME(name, value, exit, text)                                                   \
    case name:                                                                                 \
        return #name;
        MF_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    default:
        return "MF_UNKNOWN";
    }
}

const char *mf_status_text(int code)
{
    switch (code) {
#define STATUS_TEXT(name, value, exit, text)                                                   \
    case name:                                                                                 \
        return text;
        MF_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    default:
        return "unknown status";
    }
}

int mf_status_exit(int code)
{
    switch (code) {
#define STATUS_EXIT(name, value, exit, text)                                                   \
    case name:                                                                                 \
        return exit;
        MF_STATUS_LIST(STATUS_EXIT)
#undef STATUS_EXIT
    default:
        return 1;
    }
}
