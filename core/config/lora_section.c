/* config/lora_section.c: translates [lora]. Three keys of [lora] together determine one key of
 * the adapter. So each of the three sets that key to the value determined so far, and the last
 * one counts. */
#include "config/lora_section.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char into[] = "adapter.lora";

/* The keys of [lora]. The other keys of the adapter are set in the adapter's own section. */
static const char *const keys[] = {"rank",   "alpha",   "dropout", "targets", "rslora",
                                   "router", "experts", "layers",  "lr",      NULL};

/* Words that are allowed in targets; other values are names or patterns of linear layers. */
static const struct {
    const char *word, *layers;
} targets[] = {
    {"q", "attention.q"},      {"k", "attention.k"},      {"v", "attention.v"},
    {"o", "attention.o"},      {"q_proj", "attention.q"}, {"k_proj", "attention.k"},
    {"v_proj", "attention.v"}, {"o_proj", "attention.o"}, {"router", "router.*"},
    {"experts", "expert.*"},   {"head", "head"},          {"lm_head", "head"},
};

bool mf_lora_section(const char *section)
{
    return strcmp(section, "lora") == 0;
}

int mf_lora_begin(mf_ini *to, const mf_ini_entry *at)
{
    const int rc = mf_ini_put(to, into, "plugin", "lora", at->file, at->line);
    return rc == MF_OK ? mf_ini_put(to, "train", "freeze", "*", at->file, at->line) : rc;
}

/* ---- where ---- */

typedef struct names {
    char text[160]; /* maximum length of the list plus its NUL; a longer list is refused */
    size_t n;
    bool full;
} names;

/* Adds a name unless the list contains it. A word of `targets` is replaced by its linear
 * layers. Sets `full` if there is no space. */
static void add(names *l, const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strlen(targets[i].word) == n && memcmp(targets[i].word, word, n) == 0) {
            word = targets[i].layers;
            n = strlen(word);
            break;
        }
    for (const char *p = l->text; *p;) {
        const size_t m = strcspn(p, ",");
        if (m == n && memcmp(p, word, n) == 0) return;
        p += m + strspn(p + m, ", ");
    }
    const size_t before = l->n > 0 ? 2 : 0;
    if (l->n + before + n >= sizeof l->text) {
        l->full = true;
        return;
    }
    l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%s%.*s",
                             before ? ", " : "", (int)n, word);
}

static void add_all(names *l, const char *list)
{
    for (const char *p = list + strspn(list, ", \t"); *p;) {
        const size_t n = strcspn(p, ", \t");
        add(l, p, n);
        p += n + strspn(p + n, ", \t");
    }
}

static int wrong(mf_ini *from, const mf_ini_entry *e, const char *expected)
{
    return mf_ini_refuse(from, e, "'%s' in [lora]: expected %s, found '%s'", e->key, expected,
                         e->value);
}

/* Sets the key from the last value of targets, and of the two switches, up to entry i. */
static int put_places(mf_ini *from, int i, mf_ini *to)
{
    const mf_ini_entry *e = mf_ini_at(from, i);
    const char *list = "q, v";
    bool router = false, experts = false;
    names l = {0};
    for (int j = 0; j <= i; j++) {
        const mf_ini_entry *f = mf_ini_at(from, j);
        if (!mf_lora_section(f->section)) continue;
        if (strcmp(f->key, "targets") == 0) list = f->value;
        bool *on = strcmp(f->key, "router") == 0    ? &router
                   : strcmp(f->key, "experts") == 0 ? &experts
                                                    : NULL;
        if (on && !mf_parse_bool(f->value, on) && j == i) return wrong(from, f, "yes or no");
    }
    add_all(&l, list);
    if (router) add_all(&l, "router");
    if (experts) add_all(&l, "experts");
    if (l.full) return wrong(from, e, "at most 160 characters of names");
    return mf_ini_put_for(to, into, "at", l.text, e, keys);
}

int mf_lora_put(mf_ini *from, int i, mf_ini *to)
{
    const mf_ini_entry *e = mf_ini_at(from, i);
    if (strcmp(e->key, "targets") == 0 || strcmp(e->key, "router") == 0 ||
        strcmp(e->key, "experts") == 0)
        return put_places(from, i, to);
    return mf_ini_put_for(to, into, e->key, e->value, e, keys);
}
