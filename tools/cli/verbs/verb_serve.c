/* moefw serve: a run behind the completions interface, at 127.0.0.1. The verb opens the run and
 * the port; lab/serve answers. */
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "lab/serve/serve.h"
#include "run/sections/run_sections.h"

enum { PORT = 8123 };

static const mf_cli_form forms[] = {
    {NULL, "RUN|CHECKPOINT", 1, 1,
     "answer the requests of programs on this machine, such as lm-evaluation-harness"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "port",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 65535,
     .help = "port of 127.0.0.1; 0: any that is free (8123)"},
    {.name = "step",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "the run's checkpoint of this step instead of the newest"},
    {.name = "dtype",
     .kind = MF_CLI_ENUM,
     .arg = "TYPE",
     .choices = mf_config_dtypes,
     .help = "type of the gemms: f32 or bf16 (as the run was trained)"},
    MF_CLI_END};

static void tell(void *arg, int level, const char *line)
{
    (void)arg;
    mf_log((mf_log_level)level, "%s", line);
}

static bool stop(void)
{
    return mf_signals_stop() != 0;
}

static int announce(const mf_cli *cli, const moefw_run *run, const char *name, int port)
{
    const mf_model *m = run->session->model;
    if (mf_cli_json(cli)) {
        mf_jw *w = mf_jw_new();
        if (!w) return MF_ENOMEM;
        char url[64];
        snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
        mf_jw_object(w);
        mf_jw_kv_string(w, "url", url);
        mf_jw_kv_int(w, "port", port);
        mf_jw_kv_string(w, "model", name);
        mf_jw_kv_int(w, "step", run->step);
        mf_jw_kv_int(w, "window", m->config->model.seq);
        mf_jw_end(w);
        const int rc = mf_cli_print_json(w);
        fflush(stdout);
        return rc;
    }
    printf("%s, step %lld, at http://127.0.0.1:%d/v1/completions\n", mf_shown(name),
           (long long)run->step, port);
    printf("window of %lld tokens, %d ids; Ctrl-C ends the server\n",
           (long long)m->config->model.seq, (int)m->dims.vocab);
    fflush(stdout);
    return MF_OK;
}

static int serve(const mf_cli *cli, moefw_run *run)
{
    const char *name = mf_cli_operand(cli, 0);
    int fd, port;
    mf_served s;
    int rc = mf_served_open(&s, run, name, stop);
    if (rc == MF_OK) rc = mf_server_listen((int)mf_cli_int(cli, "port", PORT), &fd, &port);
    if (rc == MF_OK) {
        mf_signals_catch(NULL, false);
        rc = announce(cli, run, name, port);
        if (rc == MF_OK) rc = mf_server_run(&s, fd);
        mf_signals_release();
        mf_log(MF_LOG_INFO, "%lld requests, %lld prompts, %lld tokens answered",
               (long long)s.requests, (long long)s.prompts, (long long)s.tokens);
    }
    mf_served_close(&s);
    return rc;
}

static int run_verb(const mf_cli *cli)
{
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    o.step = mf_cli_int(cli, "step", -1);
    o.dtype = mf_cli_text(cli, "dtype", NULL);
    o.device = mf_cli_text(cli, "device", NULL);
    o.threads = (int)mf_cli_int(cli, "threads", 0);
    o.generate_only = 1;
    int rc = mf_cli_run_stays(cli, mf_cli_operand(cli, 0));
    if (rc != MF_OK) return rc;
    moefw_run *run = moefw_run_new();
    if (!run) return MF_ENOMEM;
    moefw_run_on_log(run, (int)mf_log_get_level(), tell, NULL);
    rc = moefw_run_open(run, mf_cli_operand(cli, 0), &o);
    if (rc == MF_OK) rc = serve(cli, run);
    moefw_run_free(run);
    return rc;
}

const mf_verb mf_verb_serve = {.name = "serve",
                               .brief = "answer requests for completions on this machine",
                               .forms = forms,
                               .options = options,
                               .run = run_verb};
