/* From the command line to a configuration: --plugin, --set and the options that stand for a
 * key, in their order. */
#include "base/mem.h"
#include "base/parallel.h"
#include "cli/cli_parse.h"

#include <stdio.h>
#include <string.h>

static int collect(const mf_cli *cli, mf_arena *arena, mf_assignment **ret, int *ret_n)
{
    mf_assignment *a = mf_arena_alloc(arena, ((size_t)cli->n_given + 1) * sizeof *a);
    int n = 0;
    *ret = a;
    if (a == NULL) return MF_ENOMEM;
    for (int i = 0; i < cli->n_given; i++) {
        const mf_cli_given *g = &cli->given[i];
        if (strcmp(g->option->name, "set") == 0)
            a[n++] = (mf_assignment){g->text, "--set"};
        else if (g->option->set != NULL)
            a[n++] = (mf_assignment){mf_arena_strf(arena, "%s=%s", g->option->set,
                                                   g->text != NULL ? g->text : "yes"),
                                     mf_arena_strf(arena, "--%s", g->option->name)};
        if (n > 0 && (a[n - 1].text == NULL || a[n - 1].origin == NULL)) return MF_ENOMEM;
    }
    *ret_n = n;
    return MF_OK;
}

int mf_cli_config_told(const mf_cli *cli, const char *config, const mf_problem_sink *sink,
                       mf_config **ret)
{
    mf_arena *arena = mf_arena_new();
    mf_assignment *assignments;
    int n = 0;
    *ret = NULL;
    int rc = arena != NULL ? collect(cli, arena, &assignments, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_config_load_from(config, n, assignments, sink, ret);
    if (*ret != NULL) mf_parallel_set_threads((int)(*ret)->train.threads);
    mf_arena_free(arena);
    return rc;
}

int mf_cli_config(const mf_cli *cli, const char *config, mf_config **ret)
{
    return mf_cli_config_told(cli, config, NULL, ret);
}
