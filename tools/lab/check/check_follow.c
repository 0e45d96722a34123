/* One mistake breaks many rules. This file finds the failed checks that only repeat an earlier
 * failure. Such a row is not counted, and names the check that it follows. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "lab/check/checks.h"

typedef struct follows {
    const char *cause;
    const char *effect[14]; /* ends with NULL */
} follows;

/* If the check `cause` has failed, the failures of its effects provide no
 * further information. */
static const follows table[] = {
    {"determinism",
     {"drawn models", "long runs", "gradients", "batch split", "causality", "decoding",
      "padding", "losses", "labels", "live options", "save and restore", "instances",
      "processes", NULL}},
    {"long runs",
     {"gradients", "batch split", "causality", "decoding", "padding", "losses", "labels",
      "live options", "save and restore", "instances", "processes", "bounds", NULL}},
    {"batch split", {"causality", "decoding", "padding", "odd numbers", NULL}},
    {"causality", {"decoding", "odd numbers", NULL}},
    {"gradients", {"parameters", NULL}},
    {"padding", {"losses", NULL}},
    {"labels", {"decoding", NULL}},
    {"statistics", {"save and restore", "instances", NULL}},
    {"save and restore", {"instances", NULL}}};

static bool listed(const char *cause, const char *effect)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int j = 0; strcmp(table[i].cause, cause) == 0 && table[i].effect[j]; j++)
            if (strcmp(table[i].effect[j], effect) == 0) return true;
    return false;
}

/* Writes the part of a message that says what is wrong, without the numbers. Two parts are
 * omitted: the text before ": ", which says when the error happened (except for a crash), and
 * the text in parentheses at the end, which names the draw. */
static void core_of(const char *detail, char *out, size_t size)
{
    const bool death = strncmp(detail, "killed", 6) == 0 || strncmp(detail, "ended", 5) == 0;
    const char *colon = strstr(detail, ": "), *end = strrchr(detail, '(');
    const char *from = colon && !death ? colon + 2 : detail;
    size_t n = 0;
    if (!end || end < from || detail[strlen(detail) - 1] != ')') end = detail + strlen(detail);
    for (const char *c = from; c < end && n + 1 < size; c++)
        if (!isdigit((unsigned char)*c)) out[n++] = *c;
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}

static bool same_words(const char *a, const char *b)
{
    char x[MF_CHECK_DETAIL], y[MF_CHECK_DETAIL];
    core_of(a, x, sizeof x);
    core_of(b, y, sizeof y);
    return x[0] != '\0' && strcmp(x, y) == 0;
}

const mf_check_row *mf_check_follows(const mf_check_report *r, const char *name,
                                     const char *detail)
{
    for (int i = 0; i < r->n; i++)
        if (!r->rows[i].pass &&
            (listed(r->rows[i].name, name) || same_words(r->rows[i].detail, detail)))
            return &r->rows[i];
    return NULL;
}
