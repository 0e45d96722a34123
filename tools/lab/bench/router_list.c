/* Parses lists of routers with their options. In a list every ',' ends an entry. Within an
 * entry a '+' or ',' ends an option only before a letter, so values such as 1e+3 are
 * not split. */
#include "lab/bench/router_list.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "lab/plugin_groups.h"
#include "plugin/load/open.h"

/* Length of an option: up to a '+' or ',' before a letter, or up to the end of the text. */
static size_t option_length(const char *text)
{
    size_t n = 0;
    while (text[n] != '\0' &&
           !((text[n] == '+' || text[n] == ',') && isalpha((unsigned char)text[n + 1])))
        n++;
    return n;
}

static int add_option(mf_arena *arena, const char *label, const char *text, size_t n,
                      const char **ret)
{
    const char *equals = memchr(text, '=', n);
    if (!equals || equals == text)
        return mf_fail(MF_EUSAGE,
                       "router '%s': expected KEY=VALUE after the colon, found '%.*s'", label,
                       (int)n, text);
    const char *dot = memchr(text, '.', (size_t)(equals - text));
    *ret = mf_arena_strf(arena, "%s%.*s", dot ? "" : "router.", (int)n, text);
    return *ret ? MF_OK : MF_ENOMEM;
}

int mf_router_entry_read(mf_arena *arena, const char *text, mf_router_entry *ret)
{
    const char *colon = strchr(text, ':');
    const size_t name = colon ? (size_t)(colon - text) : strlen(text);
    const char **options = mf_arena_alloc(arena, (strlen(text) + 1) * sizeof *options);
    *ret = (mf_router_entry){.label = mf_arena_strdup(arena, text),
                             .plugin = mf_arena_strf(arena, "%.*s", (int)name, text),
                             .assignments = options};
    if (!ret->label || !ret->plugin || !options) return MF_ENOMEM;
    if (name == 0) return mf_fail(MF_EUSAGE, "routers: expected a name, found '%s'", text);
    if (!colon) return MF_OK;
    for (const char *at = colon + 1;; at++) {
        const size_t n = option_length(at);
        int rc = add_option(arena, text, at, n, &options[ret->n_options]);
        if (rc != MF_OK) return rc;
        ret->n_options++;
        at += n;
        if (*at == '\0') return MF_OK;
    }
}

typedef struct entries {
    mf_router_entry *at;
    int n, room;
} entries;

static int add(mf_arena *arena, entries *l, const char *text, bool general)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->at[i].label, text) == 0) {
            if (!general && !l->at[i].general)
                return mf_fail(MF_EUSAGE, "routers: '%s' is named twice", text);
            l->at[i].general = l->at[i].general && general;
            return MF_OK;
        }
    if (l->n == l->room) {
        const int room = 2 * l->room + 16;
        mf_router_entry *more = mf_arena_alloc(arena, (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        if (l->n > 0) memcpy(more, l->at, (size_t)l->n * sizeof *more);
        l->at = more;
        l->room = room;
    }
    const int rc = mf_router_entry_read(arena, text, &l->at[l->n]);
    if (rc != MF_OK) return rc;
    l->at[l->n++].general = general;
    return MF_OK;
}

static int add_all(mf_arena *arena, entries *l)
{
    mf_found *found;
    int n;
    int rc = mf_find_all(arena, MF_ROUTER, &found, &n);
    for (int i = 0; rc == MF_OK && i < n; i++)
        if (found[i].path) rc = add(arena, l, found[i].name, true);
    return rc;
}

static int add_list(mf_arena *arena, entries *l, const char *text, bool general)
{
    char *rest = mf_arena_strdup(arena, text), *one;
    int rc = rest ? MF_OK : MF_ENOMEM;
    while (rc == MF_OK && (one = strsep(&rest, ","))) {
        const char *recommended;
        if (*one == '\0') continue;
        if (strcmp(one, "all") == 0) {
            rc = add_all(arena, l);
        } else if (!general && strcmp(one, "recommended") == 0) {
            rc = mf_recommended_routers(arena, &recommended);
            if (rc == MF_OK) rc = add_list(arena, l, recommended, true);
        } else {
            rc = add(arena, l, one, general);
        }
    }
    return rc;
}

int mf_router_list(mf_arena *arena, const char *text, mf_router_entry **ret, int *ret_n)
{
    entries l = {.n = 0};
    int rc = add_list(arena, &l, text ? text : "all", false);
    *ret = l.at;
    *ret_n = l.n;
    if (rc == MF_OK && l.n == 0)
        rc = mf_fail(MF_EUSAGE, "routers: expected names, all or recommended, found no router");
    return rc;
}

/* Loads a file once, even if several names refer to it. *ret is NULL if it cannot be loaded. */
static int load(const char *plugin, const mf_loaded **ret)
{
    const unsigned long faults = mf_faults();
    const int rc = mf_plugin_load(MF_ROUTER, plugin, NULL, 0, ret);
    if (rc == MF_OK) return MF_OK;
    if (rc == MF_ENOMEM || mf_faults() != faults) return rc;
    *ret = NULL;
    mf_error_clear();
    return MF_OK;
}

int mf_router_list_find(const mf_router_entry *list, int n, const char *text, int *ret)
{
    const mf_loaded *wanted, *p;
    *ret = -1;
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].label, text) == 0) {
            *ret = i;
            return MF_OK;
        }
    int rc = load(text, &wanted);
    for (int i = 0; rc == MF_OK && wanted && *ret < 0 && i < n; i++) {
        if (list[i].n_options > 0) continue;
        rc = load(list[i].plugin, &p);
        if (rc == MF_OK && p == wanted) *ret = i;
    }
    return rc;
}
