/* Lists names for completion. The possible words depend on the plugins, presets and runs that
 * exist when the shell completes, so the completion scripts call the program. Entries that
 * cannot be read are skipped. */
#include "cli/words.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "run/sections/sources.h"
#include "plugin/load/find.h"
#include "run/folder/rundir.h"
#include "run/run_config.h"

#include <stdio.h>
#include <string.h>

static int print_presets(mf_arena *arena)
{
    const char *const *names = mf_config_preset_names(arena);
    for (int i = 0; names[i]; i++)
        puts(names[i]);
    return MF_OK;
}

static void print_runs_in(const char *folder)
{
    char **names;
    int n;
    if (mf_list_dir(folder, &names, &n) != MF_OK) {
        mf_error_clear();
        return;
    }
    for (int i = 0; i < n; i++) {
        char *path =
            strcmp(folder, ".") == 0 ? mf_strdup(names[i]) : mf_path_join(folder, names[i]);
        if (path && mf_shown(path) == path && mf_rundir_is(path)) puts(path);
        mf_free(path);
    }
    mf_list_free(names, n);
}

/* Prints the names of the plugins of a kind; kind 0: of all kinds. */
static int print_plugins(mf_arena *arena, mf_kind kind)
{
    mf_found *found;
    int n = 0;
    const int rc = mf_find_all(arena, kind, &found, &n);
    for (int i = 0; rc == MF_OK && i < n; i++)
        if (found[i].name && mf_shown(found[i].name) == found[i].name) puts(found[i].name);
    return rc;
}

static mf_kind kind_of_folder(const char *folder)
{
    for (int kind = 1; mf_kind_name((mf_kind)kind); kind++)
        if (strcmp(mf_kind_folder((mf_kind)kind), folder) == 0) return (mf_kind)kind;
    return 0;
}

/* ---- keys ---- */

static void print_keys(void)
{
    for (const mf_section_at *at = mf_config_sections; at->section; at++)
        for (const mf_option *o = at->section->options; o->name; o++)
            if (mf_section_named(at->section))
                printf("%sNAME.%s\n", at->section->name, o->name);
            else
                printf("%s.%s\n", at->section->name, o->name);
    puts("router.plugin\nexpert.plugin");
}

/* Prints the columns by which moefw runs sorts, ranks, shows and filters. */
static void print_columns(void)
{
    puts("run\nrouter\nstep\nval_loss\nbits_per_byte\nparams\ntokens\nseed\nfinished\nloss\n"
         "task_loss\nppl\naccuracy\nmacro_f1\ntokens_per_s\nwall_s\nmoe.0.load_cv\nmoe.0."
         "entropy\n"
         "moe.0.drop_rate");
    print_keys();
}

/* Prints the kinds of plugins that moefw plugin new can write. */
static void print_kinds(void)
{
    for (int kind = 1; mf_kind_name((mf_kind)kind); kind++)
        puts(mf_kind_name((mf_kind)kind));
    puts("op");
}

/* The kind of plugins of a section such as "router" or "regularizer.balance". */
static mf_kind kind_of_section(const char *section)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(section, "."), section);
    return mf_kind_of(name);
}

static int print_values(mf_arena *arena, const char *key)
{
    char section[128];
    const char *dot = strrchr(key, '.');
    if (!dot || (size_t)(dot - key) >= sizeof section) return MF_OK;
    snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
    if (strcmp(dot + 1, "plugin") == 0) return print_plugins(arena, kind_of_section(section));
    const mf_section *s = mf_section_find(mf_config_sections, section);
    for (const mf_option *o = s ? s->options : NULL; o && o->name; o++) {
        if (strcmp(o->name, dot + 1) != 0) continue;
        for (int i = 0; o->choices && o->choices[i]; i++)
            puts(o->choices[i]);
        if (o->type == MF_OPT_BOOL)
            puts("yes\nno");
        else if (!o->choices && o->value && o->value[0])
            puts(o->value); /* the default value */
    }
    return MF_OK;
}

int mf_words_print(const char *kind, const char *key)
{
    mf_arena *arena = mf_arena_new();
    int rc = arena ? MF_OK : MF_ENOMEM;
    if (rc != MF_OK) return rc;
    if (strcmp(kind, "presets") == 0)
        rc = print_presets(arena);
    else if (strcmp(kind, "runs") == 0)
        print_runs_in("runs"), print_runs_in(".");
    else if (strcmp(kind, "plugins") == 0)
        rc = print_plugins(arena, 0);
    else if (kind_of_folder(kind) != 0)
        rc = print_plugins(arena, kind_of_folder(kind));
    else if (strcmp(kind, "keys") == 0)
        print_keys();
    else if (strcmp(kind, "columns") == 0)
        print_columns();
    else if (strcmp(kind, "kinds") == 0)
        print_kinds();
    else if (strcmp(kind, "tokenizers") == 0)
        puts("byte\nchar\nbpe\nbpe_bytes\nwordpiece");
    else if (strcmp(kind, "values") == 0 && key)
        rc = print_values(arena, key);
    else
        rc = mf_fail(MF_EUSAGE, "no words of kind '%s'", kind);
    mf_arena_free(arena);
    return rc;
}
