/* moefw bench: measurements of routers on fixed activations. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "lab/router_bench.h"
#include "plugin/find.h"

static const mf_cli_form forms[] = {
    {"routers", NULL, 0, 0, "every router alone, on the same activations"}, MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "routers",
     .kind = MF_CLI_TEXT,
     .arg = "A,B|all",
     .help = "which; options of one: mlp:input_norm=none+hidden=64"},
    {.name = "dim",
     .kind = MF_CLI_INT,
     .arg = "D",
     .lo = 1,
     .hi = 65536,
     .help = "width (768)"},
    {.name = "experts",
     .kind = MF_CLI_INT,
     .arg = "E",
     .lo = 1,
     .hi = MF_BENCH_EXPERTS,
     .help = "experts (8)"},
    {.name = "top-k",
     .kind = MF_CLI_INT,
     .arg = "K",
     .lo = 1,
     .hi = MF_BENCH_EXPERTS,
     .help = "experts per token (2)"},
    {.name = "batch",
     .kind = MF_CLI_INT,
     .arg = "B",
     .lo = 1,
     .hi = 65536,
     .help = "sequences (16)"},
    {.name = "seq",
     .kind = MF_CLI_INT,
     .arg = "T",
     .lo = 1,
     .hi = 1048576,
     .help = "tokens of a sequence (128)"},
    {.name = "seeds",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 100000,
     .help = "draws of weights and activations that figures are means of (20)"},
    {.name = "repetitions",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 100000,
     .help = "timings, of which the median counts (21); 0: no timing"},
    {.name = "hidden",
     .kind = MF_CLI_INT,
     .arg = "H",
     .lo = 0,
     .hi = 1048576,
     .help = "hidden width of the experts; 0: 4 x dim"},
    {.name = "alpha",
     .kind = MF_CLI_REAL,
     .arg = "A",
     .lo = 0,
     .hi = 1e6,
     .help = "multiplies the auxiliary losses shown (0.01)"},
    {.name = "expert",
     .kind = MF_CLI_TEXT,
     .arg = "PLUGIN",
     .help = "what the experts are (mlp)"},
    {.name = "no-layer", .kind = MF_CLI_FLAG, .help = "routers alone, without experts"},
    MF_CLI_END};

/* ---- output ---- */

static void print_json(const mf_router_bench_spec *s, const mf_router_bench *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return;
    mf_jw_object(w);
    mf_jw_kv_string(w, "router", r->router);
    mf_jw_kv_int(w, "params", r->params);
    mf_jw_kv_int(w, "d_model", s->dim);
    mf_jw_kv_int(w, "experts", s->experts);
    mf_jw_kv_int(w, "top_k", s->top_k);
    mf_jw_kv_int(w, "tokens", (int64_t)s->batch * s->seq);
    mf_jw_kv_int(w, "threads", mf_parallel_threads());
    mf_jw_kv_int(w, "seeds", s->seeds);
    mf_jw_kv_real(w, "entropy_token", r->entropy_token);
    mf_jw_kv_real(w, "entropy_token_sd", r->entropy_sd);
    mf_jw_kv_real(w, "entropy_load", r->entropy_load);
    mf_jw_kv_real(w, "top_prob", r->top_prob);
    mf_jw_kv_real(w, "top_prob_sd", r->top_prob_sd);
    mf_jw_kv_real(w, "score_var", r->score_var);
    mf_jw_kv_real(w, "output_std", r->output_std);
    mf_jw_kv_real(w, "alpha", s->alpha);
    mf_jw_key(w, "losses");
    mf_jw_object(w);
    for (int i = 0; i < r->n_losses; i++)
        mf_jw_kv_real(w, r->losses[i].name, r->losses[i].value);
    mf_jw_end(w);
    mf_jw_kv_real(w, "ns_per_token_router", r->ns_router);
    mf_jw_kv_real(w, "ns_per_token_router_1", r->ns_router_1);
    mf_jw_kv_real(w, "ns_per_token_layer", r->ns_layer);
    mf_jw_kv_real(w, "ns_per_token_layer_1", r->ns_layer_1);
    mf_jw_key(w, "load");
    mf_jw_array(w);
    for (int32_t e = 0; e < s->experts; e++)
        mf_jw_float(w, r->load[e]);
    mf_jw_end(w);
    mf_jw_end(w);
    const char *text = mf_jw_text(w, NULL);
    if (text) puts(text);
    mf_jw_free(w);
    fflush(stdout);
}

static void number(double v, int width, int digits)
{
    if (v == v)
        printf(" %*.*f", width, digits, v);
    else
        printf(" %*s", width, "-");
}

static void print_head(const mf_router_bench_spec *s)
{
    printf("%d wide, %d experts, top %d, %d x %d tokens, %d thread(s), means over %d seeds\n",
           s->dim, s->experts, s->top_k, s->batch, s->seq, mf_parallel_threads(), s->seeds);
    printf("%-28s %9s %8s %8s %8s %10s %9s %9s %9s %9s %10s\n", "router", "params", "H(token)",
           "H(load)", "top-k p", "var(p)", "out sd", "ns/token", "alone", "layer",
           "layer alone");
}

static void print_row(const mf_router_bench *r)
{
    printf("%-28s %9lld", r->router, (long long)r->params);
    number(r->entropy_token, 8, 4);
    number(r->entropy_load, 8, 4);
    number(r->top_prob, 8, 4);
    number(r->score_var, 10, 6);
    number(r->output_std, 9, 5);
    number(r->ns_router, 9, 1);
    number(r->ns_router_1, 9, 0);
    number(r->ns_layer, 9, 0);
    number(r->ns_layer_1, 10, 0);
    putchar('\n');
    fflush(stdout);
}

static void print_losses(const mf_router_bench_spec *s, const mf_router_bench *all, int n)
{
    if (n == 0 || all[0].n_losses == 0) return;
    printf("\nauxiliary losses x %g\n%-28s", s->alpha, "router");
    for (int i = 0; i < all[0].n_losses; i++)
        printf(" %*s", (int)strlen(all[0].losses[i].name) + 1, all[0].losses[i].name);
    putchar('\n');
    for (int r = 0; r < n; r++) {
        printf("%-28s", all[r].router);
        for (int i = 0; i < all[r].n_losses; i++)
            number(all[r].losses[i].value, (int)strlen(all[r].losses[i].name) + 1, 5);
        putchar('\n');
    }
}

/* ---- the routers asked for ---- */

#define MAX_ROUTERS 128

static int list_routers(mf_arena *arena, const char *text, const char **out, int *ret_n)
{
    *ret_n = 0;
    if (text && strcmp(text, "all") != 0) {
        char *rest = mf_arena_strdup(arena, text), *one;
        if (!rest) return MF_ENOMEM;
        while ((one = strsep(&rest, ",")) != NULL && *ret_n < MAX_ROUTERS) {
            for (char *c = one; *c; c++)
                if (*c == '+') *c = ','; /* between options of one router */
            if (*one) out[(*ret_n)++] = one;
        }
        return MF_OK;
    }
    mf_found *found;
    int n;
    int rc = mf_find_all(arena, MF_ROUTER, &found, &n);
    for (int i = 0; rc == MF_OK && i < n && *ret_n < MAX_ROUTERS; i++)
        if (found[i].path) out[(*ret_n)++] = found[i].name;
    return rc;
}

static int run(const mf_cli *cli)
{
    mf_router_bench_spec s;
    mf_arena *arena = mf_arena_new();
    mf_router_bench *all = mf_alloc(MAX_ROUTERS, sizeof *all);
    const char *names[MAX_ROUTERS];
    int n = 0, done = 0;
    mf_router_bench_defaults(&s);
    s.dim = (int32_t)mf_cli_int(cli, "dim", s.dim);
    s.experts = (int32_t)mf_cli_int(cli, "experts", s.experts);
    s.top_k = (int32_t)mf_cli_int(cli, "top-k", s.top_k < s.experts ? s.top_k : s.experts);
    s.batch = (int32_t)mf_cli_int(cli, "batch", s.batch);
    s.seq = (int32_t)mf_cli_int(cli, "seq", s.seq);
    s.seeds = (int32_t)mf_cli_int(cli, "seeds", s.seeds);
    s.repetitions = (int32_t)mf_cli_int(cli, "repetitions", s.repetitions);
    s.hidden = (int32_t)mf_cli_int(cli, "hidden", s.hidden);
    s.alpha = mf_cli_real(cli, "alpha", s.alpha);
    s.expert = mf_cli_text(cli, "expert", s.expert);
    s.layer = !mf_cli_flag(cli, "no-layer");
    mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
    int rc = arena && all ? list_routers(arena, mf_cli_text(cli, "routers", NULL), names, &n)
                          : MF_ENOMEM;
    if (rc == MF_OK && !mf_cli_json(cli)) print_head(&s);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        rc = mf_router_bench_run(&s, names[i], &all[done]);
        if (rc != MF_OK) break;
        if (mf_cli_json(cli))
            print_json(&s, &all[done]);
        else
            print_row(&all[done]);
        done++;
    }
    if (rc == MF_OK && !mf_cli_json(cli)) print_losses(&s, all, done);
    mf_free(all);
    mf_arena_free(arena);
    return rc;
}

const mf_verb mf_verb_bench = {.name = "bench",
                               .brief = "measure routers",
                               .forms = forms,
                               .options = options,
                               .run = run};
