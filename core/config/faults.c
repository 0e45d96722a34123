/* config/faults.c: reports errors of a configuration, each with the line of its value. Without
 * a sink the first error is the result; with a sink all errors are passed to the sink. */
#include "base/error.h"
#include "config/section.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Reports the recorded message. at: the wrong entry; what: a prefix, or "". */
static void tell(mf_config_faults *j, const mf_ini_entry *at, const char *what, mf_problem *p)
{
    if (at) {
        p->file = at->file;
        p->line = at->line;
    }
    if (at && !mf_ini_is_file(at->file))
        mf_fail_context(MF_ECONFIG, what[0] ? "%s: %s" : "%s", at->file, what);
    else if (at)
        mf_fail_context(MF_ECONFIG, what[0] ? "%s:%d: %s" : "%s:%d", at->file, at->line, what);
    else
        mf_fail_context(MF_ECONFIG, "%s", what);
    if (j->first == MF_OK) j->first = MF_ECONFIG;
    if (!j->sink) return;
    p->message = mf_error_message();
    j->sink->add(j->sink->arg, p);
}

void mf_config_vfault_at(mf_config_faults *j, const mf_ini_entry *at, const char *nearest,
                         const char *fmt, va_list args)
{
    mf_problem p = {
        .code = MF_ECONFIG, .section = at->section, .key = at->key, .nearest = nearest};
    if (j->first != MF_OK && !j->sink) return;
    mf_vfail(MF_ECONFIG, fmt, args);
    tell(j, at, "", &p);
}

void mf_config_fault_at(mf_config_faults *j, const mf_ini_entry *at, const char *nearest,
                        const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_config_vfault_at(j, at, nearest, fmt, args);
    va_end(args);
}

void mf_config_judge_refused(mf_config_faults *j, const mf_ini *given)
{
    const mf_ini_entry *e;
    const char *why;
    for (int i = 0; (e = mf_ini_refused(given, i, &why)) != NULL; i++)
        mf_config_fault_at(j, e, NULL, "%s", why);
}

/* Returns the later of two entries: `at` and the entry of the key "SECTION.KEY" (NULL: no
 * other key). */
static const mf_ini_entry *later_of(mf_ini *ini, const mf_ini_entry *at, const char *other)
{
    char section[64];
    const char *dot = other ? strrchr(other, '.') : NULL;
    if (!dot) return at;
    snprintf(section, sizeof section, "%.*s", (int)(dot - other), other);
    const mf_ini_entry *second = mf_ini_get(ini, section, dot + 1);
    return !at || (second && second->index > at->index) ? second : at;
}

void mf_config_fault(mf_config_faults *j, const char *section, const char *key,
                     const char *other, const char *nearest, const char *fmt, ...)
{
    mf_problem p = {.code = MF_ECONFIG, .section = section, .key = key, .nearest = nearest};
    char what[160];
    va_list args;
    if (j->first != MF_OK && !j->sink) return;
    va_start(args, fmt);
    mf_vfail(MF_ECONFIG, fmt, args);
    va_end(args);
    snprintf(what, sizeof what, "'%s' in [%s]", key, section);
    tell(j, later_of(j->ini, mf_ini_get(j->ini, section, key), other), what, &p);
}
