/* config/section.c: finds sections in tables, and says what a section allows. lib/run fills the
 * structs of sections from files. */
#include "config/section.h"

#include <string.h>

const char *const mf_section_auto[] = {"auto", NULL};

bool mf_section_named(const mf_section *s)
{
    return s->name[strlen(s->name) - 1] == '.';
}

const mf_section *mf_section_find(const mf_section_at *all, const char *name)
{
    for (const mf_section_at *a = all; a->section; a++) {
        const mf_section *s = a->section;
        const size_t n = strlen(s->name);
        if (strcmp(s->name, name) == 0) return s;
        if (mf_section_named(s) && strncmp(s->name, name, n) == 0 && name[n] != '\0') return s;
    }
    return NULL;
}

const char *const mf_section_all_keys[] = {"*", NULL};

static bool lists(const char *const *keys, const char *key)
{
    for (const char *const *k = keys; k && *k; k++)
        if (strcmp(*k, "*") == 0 || strcmp(*k, key) == 0) return true;
    return false;
}

bool mf_section_local(const mf_section *s, const char *key)
{
    return lists(s->local, key);
}

bool mf_section_fixed(const mf_section *s, const char *key)
{
    return lists(s->fixed, key);
}
