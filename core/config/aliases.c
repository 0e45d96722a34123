/* config/aliases.c: old names of keys, live options and words, with the present names. Except
 * for lora_section.c, no other file of core has names from papers in its code. Old files and
 * command lines still describe the same run, bit for bit. */
#include "config/aliases.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "config/lora_section.h"

/* ---- words of the command line ---- */

const char mf_alias_skips_flag[] = "enable-unet";

const char *mf_alias_word(const char *option, const char *word)
{
    const bool layout = strcmp(option, "trainer") == 0 || strcmp(option, "format") == 0;
    return layout && strcmp(word, "lamoe") == 0 ? "vocab_dict" : word;
}

/* ---- keys ---- */

const char *const mf_alias_sections[] = {"lora", "film", NULL};

/* section.key = VALUE is replaced by to_section.to_key = VALUE. key NULL: every key of
 * the section. */
static const struct {
    const char *section, *key, *to_section, *to_key;
} moved[] = {
    {"model", "skip_form", "adapter.skip", "form"},
    {"model", "skip_rule", "adapter.skip", "rule"},
    {"model", "skip_scale", "adapter.skip", "scale"},
    {"model", "skip_lr", "adapter.skip", "lr"},
    {"model", "gate_init", "adapter.gates", "init"},
    {"model", "gate_form", "adapter.gates", "form"},
    {"model", "gate_start", "adapter.gates", "start"},
    {"model", "gate_bias", "adapter.gates", "bias"},
    {"model", "gate_lr", "adapter.gates", "lr"},
    {"film", NULL, "adapter.film", NULL},
};

/* section.key = value is replaced by to_section.plugin and an option of that plugin. The first
 * old key of a section creates the new section, which is off until its switch occurs. */
static const struct {
    const char *section, *key, *to_section;
    struct {
        const char *value, *plugin, *option, *option_value;
    } means[4];
} switches[] = {
    /* in the order in which blocks applied these options: norms before gates */
    {"model",
     "head_norm",
     "adapter.head_norm",
     {{"none", "none", NULL, NULL},
      {"token", "head_norm", "per", "token"},
      {"batch", "head_norm", "per", "batch"}}},
    {"model",
     "head_gates",
     "adapter.gates",
     {{"no", "none", NULL, NULL}, {"yes", "head_gates", NULL, NULL}}},
    {"model",
     "head_mean",
     "adapter.head_mean",
     {{"no", "none", NULL, NULL}, {"yes", "head_mean", NULL, NULL}}},
    {"model",
     "skip",
     "adapter.skip",
     {{"none", "none", NULL, NULL}, {"unet", "unet_skip", NULL, NULL}}},
    {"film",
     "mode",
     "adapter.film",
     {{"off", "none", NULL, NULL},
      {"per_expert", "film", "mode", "per_expert"},
      {"shared", "film", "mode", "shared"}}},
};
enum { SWITCHES = sizeof switches / sizeof *switches, MOVED = sizeof moved / sizeof *moved };

static int switch_of(const mf_ini_entry *e)
{
    for (int i = 0; i < SWITCHES; i++)
        if (strcmp(e->section, switches[i].section) == 0 &&
            strcmp(e->key, switches[i].key) == 0)
            return i;
    return -1;
}

static int moved_of(const mf_ini_entry *e)
{
    for (int i = 0; i < MOVED; i++)
        if (strcmp(e->section, moved[i].section) == 0 &&
            (!moved[i].key || strcmp(e->key, moved[i].key) == 0))
            return i;
    return -1;
}

/* Returns the new section of an old key; NULL: the key is not old. */
static const char *new_section(const mf_ini_entry *e)
{
    const int s = switch_of(e), k = moved_of(e);
    return s >= 0 ? switches[s].to_section : k >= 0 ? moved[k].to_section : NULL;
}

/* Returns the index of the meaning of a value; -1: none. yes and no may have any spelling that
 * INI files allow. */
static int meaning_of(int s, const char *value)
{
    const char *first = switches[s].means[0].value;
    bool on;
    if (strcmp(first, "no") == 0 && mf_parse_bool(value, &on)) return on;
    for (int i = 0; switches[s].means[i].value; i++)
        if (strcmp(switches[s].means[i].value, value) == 0) return i;
    return -1;
}

static int bad_value(mf_ini *from, const mf_ini_entry *e, int s)
{
    char list[96];
    int n = 0;
    for (int i = 0; switches[s].means[i].value; i++)
        n += snprintf(list + n, sizeof list - (size_t)n, "%s%s", i > 0 ? ", " : "",
                      switches[s].means[i].value);
    return mf_ini_refuse(from, e, "'%s' in [%s]: expected one of %s, found '%s'", e->key,
                         e->section, list, e->value);
}

static int put(mf_ini *to, const char *section, const char *key, const char *value,
               const mf_ini_entry *at)
{
    if (strcmp(at->section, section) == 0 || !*at->key)
        return mf_ini_put(to, section, key, value, at->file, at->line);
    return mf_ini_put_for(to, section, key, value, at, NULL);
}

static int put_switch(mf_ini *from, mf_ini *to, const mf_ini_entry *e, int s)
{
    const int i = meaning_of(s, e->value);
    if (i < 0) return bad_value(from, e, s);
    const char *section = switches[s].to_section, *option = switches[s].means[i].option;
    int rc = put(to, section, "plugin", switches[s].means[i].plugin, e);
    if (rc == MF_OK && option)
        rc = put(to, section, option, switches[s].means[i].option_value, e);
    return rc;
}

static int put_entry(mf_ini *from, mf_ini *to, const mf_ini_entry *e)
{
    const int s = switch_of(e), k = moved_of(e);
    char section[64];
    if (s >= 0) return put_switch(from, to, e, s);
    if (k >= 0)
        return put(to, moved[k].to_section, moved[k].to_key ? moved[k].to_key : e->key,
                   e->value, e);
    /* [adapter NAME] is stored as [adapter.NAME] */
    snprintf(section, sizeof section, "%s", e->section);
    if (strncmp(section, "adapter ", 8) == 0) section[7] = '.';
    return put(to, section, e->key, e->value, e);
}

/* Copies sections in the order of their first appearance. Sections made from old keys come
 * before new adapters, in the order of the table. */
static int put_sections(mf_ini *from, mf_ini *to)
{
    int rc = MF_OK;
    for (int s = 0; s < SWITCHES && rc == MF_OK; s++) {
        const mf_ini_entry *first = NULL;
        for (int i = 0; i < mf_ini_count(from) && !first; i++) {
            const mf_ini_entry *e = mf_ini_at(from, i);
            const char *section = new_section(e);
            if (section && strcmp(section, switches[s].to_section) == 0) first = e;
        }
        if (!first || mf_ini_has_section(from, switches[s].to_section)) continue;
        rc = put(to, switches[s].to_section, "plugin", "none", first);
    }
    for (int i = 0; rc == MF_OK && mf_ini_section_at(from, i); i++) {
        mf_ini_entry e = *mf_ini_section_entry(from, i);
        e.value = "";
        if (mf_lora_section(e.section))
            rc = mf_lora_begin(to, &e);
        else if (strcmp(e.section, "film") != 0)
            rc = put_entry(from, to, &e);
    }
    return rc;
}

int mf_config_translate(mf_ini *from, mf_ini *to, int n_sources, int *end)
{
    int rc = put_sections(from, to), source = 0;
    for (int i = 0; rc == MF_OK && i < mf_ini_count(from); i++) {
        while (source < n_sources && i == end[source])
            end[source++] = mf_ini_count(to);
        const mf_ini_entry *e = mf_ini_at(from, i);
        rc = mf_lora_section(e->section) ? mf_lora_put(from, i, to) : put_entry(from, to, e);
    }
    while (source < n_sources)
        end[source++] = mf_ini_count(to);
    return rc;
}

static void say(const mf_ini_entry *e, char *out, size_t size)
{
    const int s = switch_of(e), k = moved_of(e), i = s >= 0 ? meaning_of(s, e->value) : -1;
    int n = snprintf(out, size, "%s.%s = %s is now [%s] ", e->section, e->key, e->value,
                     new_section(e));
    if (s < 0) {
        snprintf(out + n, size - (size_t)n, "%s = %s",
                 moved[k].to_key ? moved[k].to_key : e->key, e->value);
    } else if (i >= 0) {
        n += snprintf(out + n, size - (size_t)n, "plugin = %s", switches[s].means[i].plugin);
        if (switches[s].means[i].option)
            snprintf(out + n, size - (size_t)n, ", %s = %s", switches[s].means[i].option,
                     switches[s].means[i].option_value);
    }
}

void mf_config_translations(mf_ini *from,
                            void (*note)(void *arg, const char *file, int line,
                                         const char *text),
                            void *arg)
{
    for (int i = 0; i < mf_ini_count(from); i++) {
        const mf_ini_entry *e = mf_ini_at(from, i);
        char text[512];
        if (e->overridden || !new_section(e)) continue;
        say(e, text, sizeof text);
        note(arg, e->file, e->line, text);
    }
}

const char *mf_config_switched(int i, const char **ret_plugin)
{
    if (i >= SWITCHES) return NULL;
    *ret_plugin = switches[i].means[1].plugin;
    return switches[i].to_section;
}

/* ---- live options ---- */

int mf_config_alias_live(mf_plughost *h)
{
    return mf_live_alias(h, "model.skip_scale", "adapter.skip.scale");
}
