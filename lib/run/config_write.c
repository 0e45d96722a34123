/* run/config_write.c: writes the configuration as text: resolved, as a template with every key,
 * and as the manual's key lists. Reading a written text sets the same values. */
#include "run/config_write.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/ini_scan.h"
#include "run/sections/section_plugins.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 190 /* the same as MF_INI_LINE_MAX of base/text/ini_scan.h */

static void write_pair(FILE *out, const char *key, const char *value)
{
    fprintf(out, "%s = %s\n", key, value);
}

/* Makes an existing path absolute, so that the file has the same meaning from any folder. */
static const char *anywhere(const char *path, char buf[PATH_MAX])
{
    if (path[0] == '/' || path[0] == '\0' || strchr(path, '\n') != NULL) return path;
    if (realpath(path, buf) == NULL) {
        mf_fault_errno(path); /* if this is no fault, the file does not exist */
        return path;
    }
    if (strlen(buf) > LINE_MAX_BYTES - 20) return path;
    if (strpbrk(buf, ";#\"\n") != NULL || !mf_ini_is_value(buf, strlen(buf))) return path;
    return buf;
}

static bool is_path(const mf_section *s, const char *key)
{
    for (const char *const *p = s->paths; p && *p; p++)
        if (strcmp(*p, key) == 0) return true;
    return false;
}

/* Whether the text names something built in. byte, char and builtin:NAME are no paths, even if
 * a file of that name exists. */
static bool is_builtin(const char *text)
{
    return strcmp(text, "byte") == 0 || strcmp(text, "char") == 0 ||
           strncmp(text, "builtin:", 8) == 0;
}

static void write_section(const mf_section *s, const char *name, const void *conf, FILE *out)
{
    char text[4096], path[PATH_MAX];
    fprintf(out, "\n[%s]\n", name);
    for (const mf_option *o = s->options; o->name != NULL; o++) {
        const char *value = mf_option_string(o, conf);
        if (value != NULL && is_path(s, o->name) && !is_builtin(value) &&
            anywhere(value, path) == path) {
            write_pair(out, o->name, path);
            continue;
        }
        mf_option_text(o, conf, text, sizeof text);
        write_pair(out, o->name, text);
    }
}

/* Writes the keys of the plugin unchanged from the sources. */
static void write_as_given(mf_ini *ini, const mf_plugin_section *p, FILE *out)
{
    const char *const *reserved = p->reserved;
    for (const mf_ini_entry *e = mf_ini_first_of(ini, p->section); e; e = mf_ini_next_of(e)) {
        bool own = true;
        if (e->overridden || e->optional) continue;
        for (int k = 0; reserved[k] != NULL; k++)
            if (strcmp(reserved[k], e->key) == 0) own = false;
        if (own) write_pair(out, e->key, e->value);
    }
}

/* Writes all options of the plugin with their values. Returns false if the plugin cannot be
 * loaded or its options are not valid. */
static bool write_options(mf_ini *ini, const mf_plugin_section *p, FILE *out)
{
    mf_arena *arena = mf_arena_new();
    const mf_loaded *plugin;
    char text[4096], path[PATH_MAX];
    void *conf = NULL;
    bool ok = arena != NULL && mf_section_plugin(p, ini, arena, NULL, &plugin, &conf) == MF_OK;
    for (int i = 0; ok && i < plugin->schema.count; i++) {
        const mf_option *o = &plugin->schema.options[i];
        if (o->type == MF_OPT_STR && mf_option_string(o, conf) == NULL) continue;
        mf_option_text(o, conf, text, sizeof text);
        /* An option of this name is the path of a file that the plugin reads. */
        const bool file = o->type == MF_OPT_STR && strcmp(o->name, "file") == 0;
        write_pair(out, o->name, file ? anywhere(text, path) : text);
    }
    if (!ok) mf_error_clear(); /* the code that needs the plugin reports the error */
    mf_arena_free(arena);
    return ok;
}

/* Copies a section. For an adapter without `at`, sets the default of its plugin. */
static mf_plugin_section settled(const mf_plugin_section *p)
{
    mf_plugin_section s = *p;
    const mf_loaded *plugin;
    if (p->of->kind != MF_ADAPTER || (p->at && p->at[0] != '\0')) return s;
    if (mf_plugin_load(MF_ADAPTER, p->plugin, p->file, p->line, &plugin) == MF_OK)
        s.at = plugin->table.adapter.at;
    else
        mf_error_clear(); /* the code that needs the plugin reports the error */
    return s;
}

static void write_plugin_section(mf_ini *ini, const mf_plugin_section *p, FILE *out)
{
    char text[4096], path[PATH_MAX];
    fprintf(out, "\n[%s]\n", p->section);
    write_pair(out, "plugin",
               strchr(p->plugin, '/') != NULL ? anywhere(p->plugin, path) : p->plugin);
    const mf_plugin_section resolved = settled(p);
    for (const mf_option *o = p->of->options; o->name != NULL; o++) {
        if (strcmp(o->name, "plugin") == 0) continue;
        mf_option_text(o, &resolved, text, sizeof text);
        write_pair(out, o->name, text);
    }
    if (!write_options(ini, p, out)) write_as_given(ini, p, out);
}

/* Returns the INI section from which `one`, an element of a named section, was read. */
static const char *section_of(const mf_section *s, const void *one)
{
    return s->plugin ? ((const mf_plugin_section *)one)->section
                     : ((const mf_named_section *)one)->section;
}

void mf_sections_write(const mf_section_at *all, const void *conf, mf_ini *ini, FILE *out)
{
    for (const mf_section_at *a = all; a->section; a++) {
        const mf_section *s = a->section;
        const char *one = (const char *)conf + a->offset;
        int n = 1;
        if (mf_section_named(s)) {
            n = *(const int *)(const void *)((const char *)conf + a->count);
            one = *(const char *const *)(const void *)one;
        }
        for (int i = 0; i < n; i++, one += s->size) {
            if (s->plugin)
                write_plugin_section(ini, (const mf_plugin_section *)(const void *)one, out);
            else
                write_section(s, mf_section_named(s) ? section_of(s, one) : s->name, one, out);
        }
    }
}

/* ---- texts made from the tables ---- */

static const char *type_text(const mf_option *o, char *buf, size_t size)
{
    if (o->type == MF_OPT_STR)
        snprintf(buf, size, "text");
    else
        mf_option_expected(o, buf, size);
    return buf;
}

/* Writes a text as lines of comment that are short enough for an INI file. */
static void put_comment(FILE *out, const char *text)
{
    enum { COMMENT_MAX = 150 };
    while (*text != '\0') {
        size_t n = strlen(text);
        if (n > COMMENT_MAX)
            for (n = COMMENT_MAX; n > 1 && text[n] != ' ';)
                n--;
        fprintf(out, "; %.*s\n", (int)n, text);
        text += n;
        text += strspn(text, " ");
    }
}

void mf_sections_template(const mf_section_at *all, FILE *out)
{
    char type[512];
    fprintf(
        out,
        "; moefw.ini: every key of the configuration with its default; see moefw.ini(5).\n"
        "; What is set here holds for all users and is overridden by\n"
        "; $XDG_CONFIG_HOME/moefw/moefw.ini, by the configuration of a run, and by --set.\n");
    for (const mf_section_at *a = all; a->section; a++) {
        const mf_section *s = a->section;
        const bool named = mf_section_named(s);
        fprintf(out, "\n; ---- %s ----\n%s[%s%s]\n", s->help, named ? ";" : "", s->name,
                named ? "NAME" : "");
        for (const mf_option *o = s->options; o->name != NULL; o++) {
            put_comment(out, o->help);
            fprintf(out, "; (%s)\n", type_text(o, type, sizeof type));
            fprintf(out, ";%s =%s%s\n", o->name,
                    o->value != NULL && o->value[0] != '\0' ? " " : "",
                    o->value != NULL ? o->value : "");
        }
    }
}

void mf_sections_manual(const mf_section_at *all, FILE *out)
{
    char type[512];
    for (const mf_section_at *a = all; a->section; a++) {
        const mf_section *s = a->section;
        const bool named = mf_section_named(s);
        fprintf(out, ".Ss [%s%s]: %s\n.Bl -tag -width indent\n", s->name, named ? "NAME" : "",
                s->help);
        for (const mf_option *o = s->options; o->name != NULL; o++) {
            const bool given = o->value != NULL && o->value[0] != '\0';
            fprintf(out, ".It Cm %s\n%s\n.Pq %s%s%s\n", o->name, o->help,
                    type_text(o, type, sizeof type), given ? "; by default " : "",
                    given ? o->value : "");
        }
        if (s->plugin)
            fprintf(out, ".It Ar KEY\nany option of the plugin, as\n.Nm moefw Cm plugin info "
                         "Ar NAME\nlists them\n");
        fprintf(out, ".El\n");
    }
}
