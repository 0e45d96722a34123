/* plugin/load/probe.c: tries third-party plugins in a child process. A file counts as tried
 * only after its constructors, init and fini have run there without a crash. */
#include "plugin/load/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/text/ini.h"
#include "base/mem.h"
#include "plugin/load/allow.h"
#include "plugin/load/child.h"
#include "plugin/instance.h"
#include "plugin/load/open.h"

/* The lines of the report; FILE is the index of a file:
 *   at FILE PHASE        PHASE (loading, init or fini) begins; a crash is attributed to it
 *   bad FILE STATUS TEXT the file is refused
 *   done                 all files were tried */
enum { PROBE_SECONDS = 10 };

int mf_probe_seconds(void)
{
    const char *text = secure_getenv("MOEFW_PROBE_SECONDS");
    long long n;
    return text && mf_parse_i64(text, &n) && n >= 1 && n <= 3600 ? (int)n : PROBE_SECONDS;
}

/* ---- the child ---- */

/* Makes an instance in a small model. The result of init does not matter here; init only has
 * to return. */
static void try_init(int i, const mf_loaded *plugin)
{
    const mf_dims dims = {.size = sizeof dims,
                          .layer = 0,
                          .n_layers = 2,
                          .dim = 16,
                          .expert_dim = 16,
                          .model_dim = 16,
                          .experts = 4,
                          .top_k = 2,
                          .heads = 2,
                          .kv_heads = 2,
                          .vocab = 64,
                          .seq = 16,
                          .causal = 1,
                          .moe_layers = 2,
                          .labels = 4,
                          .train_steps = 100};
    mf_store *store = mf_store_new();
    mf_plughost *host = store ? mf_plughost_new(store) : NULL;
    mf_ini *ini = mf_ini_new();
    mf_ctx *instance = NULL;
    if (host && ini)
        (void)mf_instance_new(host, plugin, "layers.0.probe", ini, "probe", NULL, "probe",
                              &dims, &instance);
    mf_child_say("at %d fini", i);
    mf_instance_free(instance);
    mf_plughost_free(host);
    mf_store_free(store);
    mf_ini_free(ini);
}

static bool try_file(int i, const char *path)
{
    const mf_loaded *plugin;
    const mf_found found = {.path = path};
    char prefix[4200];
    mf_child_say("at %d loading", i);
    int rc = mf_plugin_load_found(&found, NULL, 0, &plugin);
    if (rc != MF_OK) {
        const char *why = mf_error_message();
        int n = snprintf(prefix, sizeof prefix, "plugin '%s' refused: ", path);
        mf_child_say("bad %d %d %s", i, rc,
                     strncmp(why, prefix, (size_t)n) == 0 ? why + n : why);
        return false;
    }
    mf_child_say("at %d init", i);
    try_init(i, plugin);
    return true;
}

int mf_probe_main(int argc, char **argv)
{
    int rc = mf_child_begin(argc, argv, mf_probe_seconds() * argc);
    if (rc != MF_OK) return mf_status_exit(rc);
    mf_plugin_allow_unsafe(true); /* the parent has already checked owner and permissions */
    for (int i = 3; i < argc; i++)
        if (!try_file(i - 3, argv[i])) return 0;
    mf_child_say("done");
    return 0;
}

/* ---- the parent ---- */

typedef struct probe {
    int n, at, code; /* code: status of the refusal */
    bool done;
    char phase[16];
    char why[MF_CHILD_LINE];
} probe;

static void take_line(void *arg, char *line)
{
    probe *p = arg;
    int at = 0, code = 0, chars = 0;
    char phase[16];
    if (strcmp(line, "done") == 0) {
        p->done = true;
    } else if (sscanf(line, "bad %d %d %n", &at, &code, &chars) == 2 && chars > 0 && at >= 0 &&
               at < p->n && code < 0) {
        p->at = at;
        p->code = code;
        snprintf(p->why, sizeof p->why, "%s", line + chars);
    } else if (sscanf(line, "at %d %15s", &at, phase) == 2 && at >= 0 && at < p->n) {
        p->at = at;
        snprintf(p->phase, sizeof p->phase, "%s", phase);
    }
}

int mf_probe(int n, const char *const *paths, int *ret_bad)
{
    probe p = {.n = n, .phase = "loading"};
    mf_child_end end;
    *ret_bad = 0;
    if (n == 0 || !mf_child_possible()) return MF_OK;
    const int seconds = mf_probe_seconds();
    const mf_child_limits limits = {seconds, 0};
    int rc = mf_child_run(MF_PROBE_VERB, n, paths, limits, take_line, &p, &end);
    if (rc != MF_OK) return rc;
    *ret_bad = p.at;
    if (p.code != 0) return mf_fail(p.code, "%s", p.why);
    const bool loading = strcmp(p.phase, "loading") == 0;
    const char *phase = strcmp(p.phase, "fini") == 0 ? "fini" : "init";
    if (!end.in_time)
        return mf_fail(
            MF_EPLUGIN,
            "does not return %s%s: expected an end within %d s, found it still running; "
            "MOEFW_PROBE_SECONDS=N allows more",
            loading ? "when it is loaded (from a constructor)" : "from ", loading ? "" : phase,
            seconds);
    if (p.done && WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0) return MF_OK;
    return mf_fail(
        MF_EPLUGIN,
        "%s %s%s: expected %s to return, found that it did not; try it alone with `moefw "
        "plugin check FILE`",
        end.text, loading ? "while it was loaded (in a constructor)" : "in ",
        loading ? "" : phase, loading ? "loading" : phase);
}
