/* Makes the configuration from the command line: --plugin, --set and the options for single
 * keys, in the order in which they were given, so the last one applies. */
#include "base/file/io.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "cli/cli_parse.h"
#include "plugin/load/open.h"
#include "run/sections/section_plugins.h"

#include <stdio.h>
#include <string.h>

/* The assignment that --plugin FILE means. It replaces the plugin of the same kind.
 * Regularizers, controllers and adapters are added under their own names instead, because there
 * can be several of them. */
static int plugin_assignment(mf_arena *arena, const char *text, const char **ret)
{
    const mf_loaded *plugin;
    char *set;
    int rc = mf_plugin_load(0, text, NULL, 0, &plugin);
    if (rc == MF_OK) rc = mf_section_plugin_place(plugin->kind, plugin->name, text, &set);
    if (rc != MF_OK) return rc;
    *ret = mf_arena_strdup(arena, set);
    mf_free(set);
    return *ret ? MF_OK : MF_ENOMEM;
}

int mf_cli_assignments(const mf_cli *cli, mf_arena *arena, mf_assignment **ret, int *ret_n)
{
    mf_assignment *a = mf_arena_alloc(arena, ((size_t)cli->n_given + 1) * sizeof *a);
    int n = 0, rc = MF_OK;
    *ret = a;
    if (!a) return MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < cli->n_given; i++) {
        const mf_cli_given *g = &cli->given[i];
        mf_assignment *next = &a[n];
        next->origin = mf_arena_strf(arena, "--%s", g->option->name);
        if (strcmp(g->option->name, "set") == 0)
            next->text = g->text;
        else if (strcmp(g->option->name, "plugin") == 0)
            rc = plugin_assignment(arena, g->text, &next->text);
        else if (g->option->set)
            next->text =
                mf_arena_strf(arena, "%s=%s", g->option->set, g->text ? g->text : "yes");
        else
            continue;
        if (rc == MF_OK && (!next->text || !next->origin)) rc = MF_ENOMEM;
        n++;
    }
    *ret_n = n;
    return rc;
}

bool mf_cli_names_config(const char *what)
{
    const char *path;
    mf_arena *arena = mf_arena_new();
    const bool is = mf_is_standard_input(what) || mf_exists(what) ||
                    (arena && mf_config_preset(arena, what, NULL, &path) == MF_OK);
    mf_arena_free(arena);
    return is;
}

int mf_cli_config_told(const mf_cli *cli, const char *config, const mf_problem_sink *sink,
                       mf_config **ret)
{
    mf_arena *arena = mf_arena_new();
    mf_assignment *assignments;
    int n = 0;
    *ret = NULL;
    int rc = arena ? mf_cli_assignments(cli, arena, &assignments, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_config_load_from(config, n, assignments, sink, ret);
    if (*ret) mf_parallel_set_threads((int)(*ret)->train.threads);
    mf_arena_free(arena);
    return rc;
}

int mf_cli_config(const mf_cli *cli, const char *config, mf_config **ret)
{
    return mf_cli_config_told(cli, config, NULL, ret);
}
