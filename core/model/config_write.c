/* The configuration as text: resolved, and as a template with every key. */
#include "base/error.h"
#include "base/mem.h"
#include "model/config_load.h"
#include "model/config_tables.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 190 /* what base/ini.h reads */

static void write_pair(FILE *out, const char *key, const char *value)
{
    fprintf(out, "%s = %s\n", key, value);
}

/* A path that exists becomes absolute, so that the file means the same from any folder. */
static const char *anywhere(const char *path, char buf[PATH_MAX])
{
    if (path[0] == '/' || path[0] == '\0' || strchr(path, '\n') != NULL) return path;
    if (realpath(path, buf) == NULL || strlen(buf) > LINE_MAX_BYTES - 20) return path;
    return strpbrk(buf, ";#\"\n") == NULL ? buf : path;
}

static bool is_path(const char *section, const char *key)
{
    if (strcmp(section, "train") == 0) return strcmp(key, "from") == 0;
    return strcmp(section, "data") == 0 &&
           (strcmp(key, "path") == 0 || strcmp(key, "val_path") == 0 ||
            strcmp(key, "tokenizer") == 0);
}

/* byte and char name tokenizers even where a file of that name lies about. */
static bool is_builtin(const char *text)
{
    return strcmp(text, "byte") == 0 || strcmp(text, "char") == 0 ||
           strncmp(text, "builtin:", 8) == 0;
}

static void write_section(const mf_config_section *s, const char *name, const void *conf,
                          FILE *out)
{
    char text[4096], path[PATH_MAX];
    fprintf(out, "\n[%s]\n", name);
    for (const mf_option *o = s->options; o->name != NULL; o++) {
        const char *value = mf_option_string(o, conf);
        if (value != NULL && is_path(s->name, o->name) && !is_builtin(value) &&
            anywhere(value, path) == path) {
            write_pair(out, o->name, path);
            continue;
        }
        mf_option_text(o, conf, text, sizeof text);
        write_pair(out, o->name, text);
    }
}

/* Further keys of the section, as they stand in the sources. */
static void write_as_given(const mf_config *c, const mf_plugin_section *p, FILE *out)
{
    const char *const *reserved = mf_config_reserved(p);
    for (int i = 0; i < mf_ini_count(c->ini); i++) {
        const mf_ini_entry *e = mf_ini_at(c->ini, i);
        bool own = true;
        if (strcmp(e->section, p->section) != 0 || e->overridden || e->optional) continue;
        for (int k = 0; reserved[k] != NULL; k++)
            if (strcmp(reserved[k], e->key) == 0) own = false;
        if (own) write_pair(out, e->key, e->value);
    }
}

/* All options of the plugin with their values; false when it cannot be loaded or judged. */
static bool write_options(const mf_config *c, const mf_plugin_section *p, FILE *out)
{
    mf_arena *arena = mf_arena_new();
    const mf_loaded *plugin;
    char text[4096], path[PATH_MAX];
    void *conf = NULL;
    bool ok = arena != NULL && mf_config_plugin(c, p, arena, NULL, &plugin, &conf) == MF_OK;
    for (int i = 0; ok && i < plugin->schema.count; i++) {
        const mf_option *o = &plugin->schema.options[i];
        if (o->type == MF_OPT_STR && mf_option_string(o, conf) == NULL) continue;
        mf_option_text(o, conf, text, sizeof text);
        /* An option of this name is a file that the plugin reads. */
        const bool file = o->type == MF_OPT_STR && strcmp(o->name, "file") == 0;
        write_pair(out, o->name, file ? anywhere(text, path) : text);
    }
    if (!ok) mf_error_clear(); /* whoever needs the plugin will say so */
    mf_arena_free(arena);
    return ok;
}

static void write_plugin_section(const mf_config *c, const mf_plugin_section *p, FILE *out)
{
    const mf_config_section *s = mf_config_section_find(p->section);
    char text[4096], path[PATH_MAX];
    fprintf(out, "\n[%s]\n", p->section);
    write_pair(out, "plugin",
               strchr(p->plugin, '/') != NULL ? anywhere(p->plugin, path) : p->plugin);
    for (const mf_option *o = s->options; o->name != NULL; o++) {
        if (strcmp(o->name, "plugin") == 0) continue;
        mf_option_text(o, p, text, sizeof text);
        write_pair(out, o->name, text);
    }
    if (!write_options(c, p, out)) write_as_given(c, p, out);
}

int mf_config_write(const mf_config *c, FILE *out)
{
    fprintf(out, "; %s: every key resolved. To repeat: moefw train config.ini\n", c->name);
    for (const mf_config_section *s = mf_config_sections; s->name != NULL; s++) {
        if (!s->plugin && !mf_config_section_named(s))
            write_section(s, s->name, (const char *)c + s->offset, out);
        if (strcmp(s->name, "task.") == 0)
            for (int i = 0; i < c->n_tasks; i++)
                write_section(s, c->tasks[i].section, &c->tasks[i], out);
        if (strcmp(s->name, "router") == 0) write_plugin_section(c, &c->router, out);
        if (strcmp(s->name, "expert") == 0) write_plugin_section(c, &c->expert, out);
        if (strcmp(s->name, "regularizer.") == 0)
            for (int i = 0; i < c->n_regularizers; i++)
                write_plugin_section(c, &c->regularizers[i], out);
        if (strcmp(s->name, "controller.") == 0)
            for (int i = 0; i < c->n_controllers; i++)
                write_plugin_section(c, &c->controllers[i], out);
    }
    return ferror(out) ? mf_fail_errno(MF_EIO, "cannot write the configuration") : MF_OK;
}

/* ---- made from the tables ---- */

static const char *type_text(const mf_option *o, char *buf, size_t size)
{
    if (o->type == MF_OPT_STR)
        snprintf(buf, size, "text");
    else
        mf_option_expected(o, buf, size);
    return buf;
}

void mf_config_template(FILE *out)
{
    char type[512];
    fprintf(
        out,
        "; moefw.ini: every key of the configuration with its default; see moefw.ini(5).\n"
        "; What is set here holds for all users and is overridden by\n"
        "; $XDG_CONFIG_HOME/moefw/moefw.ini, by the configuration of a run, and by --set.\n");
    for (const mf_config_section *s = mf_config_sections; s->name != NULL; s++) {
        const bool named = mf_config_section_named(s);
        fprintf(out, "\n; ---- %s ----\n%s[%s%s]\n", s->help, named ? ";" : "", s->name,
                named ? "NAME" : "");
        for (const mf_option *o = s->options; o->name != NULL; o++) {
            fprintf(out, "; %s\n; (%s)\n", o->help, type_text(o, type, sizeof type));
            fprintf(out, ";%s =%s%s\n", o->name,
                    o->value != NULL && o->value[0] != '\0' ? " " : "",
                    o->value != NULL ? o->value : "");
        }
    }
}

void mf_config_manual(FILE *out)
{
    char type[512];
    for (const mf_config_section *s = mf_config_sections; s->name != NULL; s++) {
        const bool named = mf_config_section_named(s);
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
