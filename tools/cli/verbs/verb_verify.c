/* moefw verify: makes runs of a result again and says whether they are the same. The verb only
 * parses and prints; lab/result does the work. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "base/thread/parallel.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "lab/result/verify.h"
#include "report/terminal/progress.h"
#include "report/terminal/terminal.h"

static const mf_cli_form forms[] = {
    {NULL, "RESULT", 1, 1,
     "check the table of result.json, make some of its runs again, and compare them"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "data",
     .kind = MF_CLI_TEXT,
     .arg = "DIR",
     .help = "folder with the files that the runs read, which are found by their hashes (.)"},
    {.name = "plugins",
     .kind = MF_CLI_TEXT,
     .arg = "DIR",
     .help = "folder with plugin files of others that the runs use; they are loaded if their "
             "hashes are those of the result"},
    {.name = "seeds",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = MF_SEEDS_MAX,
     .help = "make N runs again, drawn at random (1)"},
    {.name = "router",
     .kind = MF_CLI_TEXT,
     .arg = "ROUTER",
     .help = "only runs of this router, named as in the result"},
    {.name = "seed",
     .kind = MF_CLI_INT,
     .arg = "S",
     .lo = 0,
     .hi = 9007199254740992.0,
     .help = "only runs with this seed"},
    {.name = "steps",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1e15,
     .help = "only N steps of each run, from its beginning or from a checkpoint"},
    {.name = "from",
     .kind = MF_CLI_TEXT,
     .arg = "RUN",
     .help = "begin at a checkpoint of this run, which must be one of the result's"},
    {.name = "fresh",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = MF_SEEDS_MAX,
     .help = "also train a router and the baseline with N seeds that the result has not"},
    {.name = "launch",
     .kind = MF_CLI_TEXT,
     .arg = "WORDS",
     .help = "train each run behind these words, such as 'mpirun -n 2': as many ranks, the "
             "same bits"},
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "DIR",
     .help = "new folder for the runs and verified.json (runs/verify-N)"},
    MF_CLI_END};

/* ---- what is shown ---- */

typedef struct view {
    const mf_cli *cli;
    mf_terminal terminal;
    mf_progress *progress;
    char told[8192]; /* the lines about inputs that were shown */
    bool quiet;
} view;

static void on_input(void *arg, const char *what, const char *name, const char *state)
{
    view *v = arg;
    char line[512];
    snprintf(line, sizeof line, "input      %s %s: %s", what, name, state);
    if (mf_cli_json(v->cli) || strstr(v->told, line)) return;
    if (strlen(v->told) + strlen(line) < sizeof v->told) strcat(v->told, line);
    puts(mf_shown(line));
}

static void on_tick(void *arg, int64_t step, int64_t to)
{
    view *v = arg;
    if (!v->progress) v->progress = mf_progress_new(&v->terminal, "verify", 0, to, v->quiet);
    mf_progress_step(v->progress, step, (double)NAN, (double)NAN);
}

static int should_stop(void *arg)
{
    (void)arg;
    return mf_signals_stop();
}

static const char *how_text(const mf_result_judgement *j)
{
    return j->how == MF_RESULT_SAME      ? "same bits"
           : j->how == MF_RESULT_ROUNDED ? "same within rounding"
                                         : "DIFFERENT";
}

/* "mlp seed 5, steps 1 to 60" */
static const char *name_of(const mf_verified_run *v, char *text, size_t size)
{
    snprintf(text, size, "%s%sseed %lld, steps %lld to %lld", v->router,
             v->router[0] != '\0' ? " " : "", (long long)v->seed, (long long)v->from + 1,
             (long long)v->to);
    return text;
}

static void put_run(const mf_verified_run *v)
{
    const mf_result_judgement *j = &v->judgement;
    char name[256];
    printf("run        %s: %s", mf_shown(name_of(v, name, sizeof name)), how_text(j));
    if (j->how == MF_RESULT_SAME) printf(", %lld values", (long long)j->compared);
    putchar('\n');
    if (j->how != MF_RESULT_SAME) printf("           first: %s\n", mf_shown(j->first));
    if (j->how == MF_RESULT_ROUNDED)
        printf("           losses differ by %.1e at most (1e-5 is allowed)\n", j->worst);
    if (j->same_kernels && !j->same_program)
        puts("           another program than that of the result: version, compiler or C "
             "library");
    if (!j->same_kernels)
        printf("           another kernel set than that of the result: steps up to %lld were "
               "compared\n",
               (long long)j->until);
}

static void put_json_run(mf_jw *w, const mf_verified_run *v)
{
    const mf_result_judgement *j = &v->judgement;
    mf_jw_object(w);
    mf_jw_kv_string(w, "router", v->router);
    mf_jw_kv_int(w, "seed", v->seed);
    mf_jw_kv_int(w, "from", v->from);
    mf_jw_kv_int(w, "to", v->to);
    mf_jw_kv_int(w, "steps", v->steps);
    mf_jw_kv_string(w, "how",
                    j->how == MF_RESULT_SAME      ? "same"
                    : j->how == MF_RESULT_ROUNDED ? "rounded"
                                                  : "different");
    mf_jw_kv_bool(w, "same_kernels", j->same_kernels);
    mf_jw_kv_int(w, "compared", j->compared);
    mf_jw_kv_int(w, "until", j->until);
    if (j->first[0] != '\0') mf_jw_kv_string(w, "first", j->first);
    mf_jw_end(w);
}

/* Writes verified.json, and the same object to stdout with --json. */
static int put_record(const mf_cli *cli, const mf_result *r, const mf_verify_spec *s, int n,
                      const mf_verified_run *runs, const mf_fresh *fresh)
{
    mf_jw *w = mf_jw_new();
    char *path = mf_path_join(s->out, "verified.json");
    const char *text = NULL;
    size_t size = 0;
    if (w) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "format", "moefw-verified");
        mf_jw_kv_string(w, "result", r->self);
        mf_jw_kv_bool(w, "table", r->table != NULL);
        mf_jw_key(w, "runs");
        mf_jw_array(w);
        for (int i = 0; i < n; i++)
            put_json_run(w, &runs[i]);
        mf_jw_end(w);
        if (fresh->n > 0) {
            mf_jw_key(w, "fresh");
            mf_jw_object(w);
            mf_jw_kv_string(w, "router", fresh->router);
            mf_jw_kv_int(w, "n", fresh->n);
            mf_jw_kv_real(w, "mean", fresh->mean);
            mf_jw_kv_real(w, "lo", fresh->lo);
            mf_jw_kv_real(w, "hi", fresh->hi);
            mf_jw_end(w);
        }
        mf_jw_end(w);
        text = mf_jw_text(w, &size);
    }
    int rc = text && path ? mf_mkdirs(s->out) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_write_file_atomic(path, text, size);
    if (rc == MF_OK && mf_cli_json(cli)) puts(text);
    mf_jw_free(w);
    mf_free(path);
    return rc;
}

/* ---- the verification ---- */

/* The last line, and the status: MF_ERUN if anything differs. */
static int conclude(const mf_cli *cli, const mf_result *r, int n, const mf_verified_run *runs,
                    const mf_fresh *fresh)
{
    const int all = (int)mf_json_size(r->runs);
    int same = 0, whole = 0;
    const mf_verified_run *wrong = NULL;
    char name[256];
    for (int i = 0; i < n; i++) {
        same += runs[i].judgement.how == MF_RESULT_SAME;
        whole +=
            runs[i].from == 0 && runs[i].to == runs[i].steps && runs[i].judgement.same_kernels;
        if (runs[i].judgement.how == MF_RESULT_DIFFERENT && !wrong) wrong = &runs[i];
    }
    if (wrong)
        return mf_fail(MF_ERUN, "the result is not what this program computes: %s: %s",
                       name_of(wrong, name, sizeof name), wrong->judgement.first);
    if (fresh->n > 0 && !(fresh->mean >= fresh->lo && fresh->mean <= fresh->hi))
        return mf_fail(MF_ERUN,
                       "fresh seeds do not agree with the result: the mean difference of "
                       "%s over %d of them is %+.4f, expected %+.4f to %+.4f",
                       fresh->router, fresh->n, fresh->mean, fresh->lo, fresh->hi);
    if (mf_cli_json(cli)) return MF_OK;
    if (n == 0)
        puts("CHECKED: the file and its table; no run was repeated");
    else
        printf("VERIFIED%s: %d of %d run%s, %d of them whole, %s\n",
               whole == all && same == all ? "" : " IN PART", n, all, all == 1 ? "" : "s",
               whole, same == n ? "same bits" : "same within rounding");
    return MF_OK;
}

static int check_table(const mf_cli *cli, const mf_result *r)
{
    int tests = 0;
    const int rc = mf_result_check_table(r, &tests);
    if (rc != MF_OK)
        return mf_fail(MF_ERUN, "the table is not that of the runs: %s", mf_error_message());
    if (!mf_cli_json(cli) && r->table)
        printf("table      %d runs, %d test%s: computed again, equal\n",
               (int)mf_json_size(r->runs), tests, tests == 1 ? "" : "s");
    return MF_OK;
}

static int make_runs(const mf_result *r, const mf_verify_spec *s, view *v, mf_arena *arena,
                     mf_verified_run **ret, int *ret_n)
{
    int rc = s->runs > 0 ? mf_verify_choose(arena, r, s, ret, ret_n) : MF_OK;
    char name[256];
    for (int i = 0; rc == MF_OK && i < *ret_n; i++)
        mf_log(MF_LOG_INFO, "drawn: %s", mf_shown(name_of(&(*ret)[i], name, sizeof name)));
    for (int i = 0; rc == MF_OK && i < *ret_n; i++) {
        rc = mf_verify_run(s, i + 1, &(*ret)[i]);
        mf_progress_end(v->progress);
        v->progress = NULL;
        if (rc == MF_OK && !mf_cli_json(v->cli)) put_run(&(*ret)[i]);
    }
    return rc;
}

static int make_fresh(const mf_result *r, const mf_verify_spec *s, view *v, mf_fresh *ret)
{
    int rc = s->fresh > 0 ? mf_verify_fresh(r, s, ret) : MF_OK;
    mf_progress_end(v->progress);
    v->progress = NULL;
    if (rc == MF_OK && ret->n > 0 && !mf_cli_json(v->cli))
        printf("fresh      %s, %d seed%s: mean difference %+.4f, expected %+.4f to %+.4f\n",
               mf_shown(ret->router), ret->n, ret->n == 1 ? "" : "s", ret->mean, ret->lo,
               ret->hi);
    return rc;
}

static const char *choose_out(mf_arena *arena)
{
    for (int n = 1;; n++) {
        const char *out = mf_arena_strf(arena, "runs/verify-%d", n);
        if (!out || !mf_exists(out)) return out;
    }
}

static int verify(const mf_cli *cli, mf_arena *arena, const mf_result *r)
{
    view v = {.cli = cli, .terminal = mf_terminal_of(stderr), .quiet = mf_cli_quiet(cli)};
    mf_verified_run *runs = NULL;
    mf_fresh fresh = {.n = 0};
    int n = 0;
    const mf_verify_spec s = {.data = mf_cli_text(cli, "data", "."),
                              .plugins = mf_cli_text(cli, "plugins", NULL),
                              .out = mf_cli_text(cli, "out", choose_out(arena)),
                              .router = mf_cli_text(cli, "router", NULL),
                              .seed = mf_cli_int(cli, "seed", -1),
                              .runs = (int32_t)mf_cli_int(cli, "seeds", 1),
                              .steps = mf_cli_int(cli, "steps", 0),
                              .from = mf_cli_text(cli, "from", NULL),
                              .fresh = (int32_t)mf_cli_int(cli, "fresh", 0),
                              .launch = mf_cli_text(cli, "launch", NULL),
                              .threads =
                                  mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0)),
                              .input = on_input,
                              .tick = on_tick,
                              .should_stop = should_stop,
                              .same_program = mf_result_same_program(r),
                              .arg = &v};
    if (!s.out) return MF_ENOMEM;
    if (s.launch && s.launch[strspn(s.launch, " ")] == '\0')
        return mf_fail(MF_EUSAGE,
                       "--launch: expected the words of a launcher, as 'mpirun -n 2'");
    if (mf_exists(s.out)) return mf_fail(MF_EUSAGE, "--out %s: expected a new folder", s.out);
    int rc = check_table(cli, r);
    mf_signals_catch(NULL, false);
    if (rc == MF_OK) rc = make_runs(r, &s, &v, arena, &runs, &n);
    if (rc == MF_OK) rc = make_fresh(r, &s, &v, &fresh);
    mf_signals_release();
    if (rc == MF_OK && (n > 0 || fresh.n > 0)) rc = put_record(cli, r, &s, n, runs, &fresh);
    return rc == MF_OK ? conclude(cli, r, n, runs, &fresh) : rc;
}

static int run(const mf_cli *cli)
{
    mf_result *r = NULL;
    mf_arena *arena = mf_arena_new();
    int rc = arena ? mf_result_read(mf_cli_operand(cli, 0), &r) : MF_ENOMEM;
    if (rc == MF_OK) rc = verify(cli, arena, r);
    mf_result_free(r);
    mf_arena_free(arena);
    if (rc == MF_ESIGNAL) mf_signals_end();
    return rc;
}

const mf_verb mf_verb_verify = {
    .name = "verify",
    .brief = "make runs of a published result again, and compare them",
    .forms = forms,
    .options = options,
    .run = run,
    .notes =
        "The status is 0 if all repeated runs are the same (same bits, or within\n"
        "rounding on another kernel set), 1 if something differs, 3 if inputs are missing.\n"
        "RESULT runs plugins and reads files of others: only installed plugins, and those "
        "below\n"
        "--plugins, are loaded; files are opened only below --data.\n"};
