/* Reads groups of plugins, and the recommended routers. Lists of names are kept as texts. They
 * are short, so each lookup scans them. */
#include "lab/plugin_groups.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/paths.h"
#include "base/text/ini.h"

typedef struct group {
    const char *kind; /* name of the section: "routers" */
    const char *words;
    const char *names; /* names separated by commas, without blanks: "linear,mlp" */
} group;

struct mf_plugin_groups {
    int n;
    group *list;
    const char *recommended; /* NULL: the file does not contain the key */
};

/* A copy of the text in which the character `from` is replaced by `to`; to 0: removed. */
static const char *with(mf_arena *arena, const char *text, char from, char to)
{
    char *copy = mf_arena_strdup(arena, text);
    if (!copy) return NULL;
    char *end = copy;
    for (const char *at = copy; *at != '\0'; at++)
        if (*at != from)
            *end++ = *at;
        else if (to != '\0')
            *end++ = to;
    *end = '\0';
    return copy;
}

static int take(mf_arena *arena, mf_ini *ini, mf_plugin_groups *f)
{
    for (int i = 0; i < mf_ini_count(ini); i++) {
        const mf_ini_entry *e = mf_ini_at(ini, i);
        const char *names = with(arena, e->value, ' ', '\0');
        if (!names) return MF_ENOMEM;
        if (strcmp(e->section, "compare") == 0) {
            if (strcmp(e->key, "recommended") == 0) f->recommended = names;
            continue;
        }
        group *at = &f->list[f->n++];
        *at = (group){.kind = mf_arena_strdup(arena, e->section),
                      .words = with(arena, e->key, '-', ' '),
                      .names = names};
        if (!at->kind || !at->words) return MF_ENOMEM;
    }
    return MF_OK;
}

int mf_plugin_groups_read(mf_arena *arena, mf_plugin_groups **ret)
{
    mf_plugin_groups *f = mf_arena_alloc(arena, sizeof *f);
    const char *path = mf_arena_strf(arena, "%s/../plugin_groups.ini", mf_paths_presets());
    mf_ini *ini = mf_ini_new();
    int rc = f && path && ini ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) *f = (mf_plugin_groups){0};
    if (rc == MF_OK) rc = mf_ini_load(ini, path);
    if (rc == MF_ENOTFOUND) {
        mf_error_clear();
        rc = MF_OK;
    }
    if (rc == MF_OK) {
        f->list = mf_arena_alloc(arena, ((size_t)mf_ini_count(ini) + 1) * sizeof *f->list);
        rc = f->list ? take(arena, ini, f) : MF_ENOMEM;
    }
    mf_ini_free(ini);
    *ret = f;
    return rc;
}

static bool names(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0')) return true;
    }
    return false;
}

const char *mf_plugin_group_of(const mf_plugin_groups *f, mf_kind kind, const char *name,
                               int *ret_place)
{
    const char *folder = mf_kind_folder(kind);
    *ret_place = INT_MAX;
    for (int i = 0; folder && i < f->n; i++)
        if (strcmp(f->list[i].kind, folder) == 0 && names(f->list[i].names, name)) {
            *ret_place = i;
            return f->list[i].words;
        }
    return NULL;
}

int mf_recommended_routers(mf_arena *arena, const char **ret)
{
    mf_plugin_groups *f;
    int rc = mf_plugin_groups_read(arena, &f);
    *ret = rc == MF_OK ? f->recommended : NULL;
    if (rc == MF_OK && !*ret)
        rc = mf_fail(MF_ENOTFOUND,
                     "%s/../plugin_groups.ini, which says which routers are "
                     "recommended, is not there",
                     mf_paths_presets());
    return rc;
}
