/* moefw doctor: shows what this machine and this installation provide, and what prevents moefw
 * from working. It changes nothing. */
#include "base/error.h"
#include "base/file/io.h"
#include "io/http.h"
#include "io/json.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/file/paths.h"
#include "run/folder/processor.h"
#include "base/resident.h"
#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "cli/cli.h"
#include "cli/talk/line_edit.h"
#include "comm/world.h"
#include "graph/graph.h"
#include "kernels/kernel.h"
#include "run/backend.h"
#include "plugin/load/module.h"
#include "plugin/load/open.h"

#include <moefw/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The findings. They are printed at once as lines, or collected as JSON. Warnings come last. */
typedef struct doctor {
    mf_jw *json; /* NULL: findings are printed as text */
    int warnings;
    mf_arena *arena;
    const char *warning[16];
} doctor;

static void say(doctor *d, const char *key, const char *value)
{
    if (d->json)
        mf_jw_kv_string(d->json, key, value);
    else
        mf_wrap_line(stdout, 17, "%-16s %s", key, mf_shown(value));
}

static void warn(doctor *d, const char *text)
{
    if (d->warnings < 16) d->warning[d->warnings++] = text;
}

/* ---- the processor ---- */

static void processor(doctor *d)
{
    char name[MF_CPU_TEXT], features[MF_CPU_TEXT];
    mf_cpu_name(name);
    mf_cpu_features(features);
    say(d, "cpu", name);
    say(d, "cpu features", features[0] != '\0' ? features : "none that moefw looks for");
    say(d, "bf16",
        strstr(features, "amx_bf16")      ? "AMX"
        : strstr(features, "avx512_bf16") ? "AVX-512"
                                          : "no");
}

/* ---- kernels and libraries ---- */

static int kernels(doctor *d)
{
    int rc = mf_backend_init();
    if (rc != MF_OK) {
        warn(d, mf_arena_strdup(d->arena, mf_error_message()));
        say(d, "kernels", "none");
        return rc;
    }
    const mf_kernels *k = mf_backend_kernels();
    const char *isa = strcmp(k->name, "cpu") == 0 ? mf_kernels_isa() : NULL, *list = "";
    for (int i = 0; mf_kernels_isas()[i] != NULL; i++) {
        const char *longer =
            mf_arena_strf(d->arena, "%s%s%s", list, i > 0 ? " " : "", mf_kernels_isas()[i]);
        if (longer) list = longer;
    }
    say(d, "kernels", isa ? mf_arena_strf(d->arena, "%s, %s", k->name, isa) : k->name);
    say(d, "built for", list);
    say(d, "gemm", mf_kernels_gemm() ? mf_kernels_gemm() : "none");
    say(d, "BLAS", mf_kernels_blas() ? mf_kernels_blas() : "none");
    return MF_OK;
}

static void threads(doctor *d)
{
    char text[64];
    snprintf(text, sizeof text, "%d of %ld cores", mf_parallel_threads(),
             sysconf(_SC_NPROCESSORS_ONLN));
    say(d, "threads", text);
    for (const char *const *name =
             (const char *const[]){"OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES",
                                   "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "MOEFW_KERNELS",
                                   "MOEFW_ISA", "MOEFW_GEMM", "MOEFW_PLUGIN_PATH", NULL};
         *name != NULL; name++)
        if (getenv(*name)) say(d, *name, getenv(*name));
    if (getenv("OPENBLAS_CORETYPE"))
        warn(d, "OPENBLAS_CORETYPE is set: results differ from those of runs without it");
}

static void memory(doctor *d)
{
    char text[64];
    const double page = (double)sysconf(_SC_PAGESIZE), mib = 1048576;
    snprintf(text, sizeof text, "%.0f MiB, %.0f MiB free", mf_resident_machine() / mib,
             (double)sysconf(_SC_AVPHYS_PAGES) * page / mib);
    say(d, "memory", text);
}

typedef struct cuda_lines {
    doctor *d;
    int n;
} cuda_lines;

static void cuda_line(void *arg, const char *text)
{
    cuda_lines *l = arg;
    if (l->d->json)
        mf_jw_string(l->d->json, text);
    else
        mf_wrap_line(stdout, 17, "%-16s %s", l->n == 0 ? "CUDA" : "", mf_shown(text));
    l->n++;
}

static void gpu(doctor *d)
{
    const bool driver = access("/dev/nvidiactl", F_OK) == 0;
    cuda_lines lines = {.d = d};
    say(d, "GPU", driver ? "an NVIDIA driver is present" : "none: no NVIDIA driver is loaded");
    if (d->json) {
        mf_jw_key(d->json, "CUDA");
        mf_jw_array(d->json);
    }
    if (mf_backend_describe("cuda", cuda_line, &lines) != MF_OK) {
        cuda_line(&lines, mf_error_message());
        mf_error_clear();
    }
    if (d->json) mf_jw_end(d->json);
}

/* Reports an optional part that is not installed, and the command that installs it. adds NULL:
 * the part is installed. */
static void lacking(doctor *d, const char *part, const char *adds)
{
    const char *text = adds ? mf_arena_strf(d->arena, "not here; to add it: %s", adds) : NULL;
    if (text) say(d, part, text);
}

static bool find_module(doctor *d, const char *name)
{
    const char *folders, *file = mf_arena_strf(d->arena, "comm/%s.so", name);
    return file && mf_module_find(d->arena, file, &folders);
}

/* Reports the communicator modules, which runs of several processes need. */
static void communicators(doctor *d)
{
    static const char *const names[] = {"openmpi", "mpich", "nccl", NULL};
    const char *list = "";
    for (int i = 0; names[i]; i++) {
        if (!find_module(d, names[i])) continue;
        const char *longer =
            mf_arena_strf(d->arena, "%s%s%s", list, *list ? " " : "", names[i]);
        if (longer) list = longer;
    }
    say(d, "communicators", *list ? list : "none");
    lacking(d, "Open MPI", find_module(d, "openmpi") ? NULL : mf_world_adds("openmpi"));
    lacking(d, "MPICH", find_module(d, "mpich") ? NULL : mf_world_adds("mpich"));
    lacking(d, "NCCL", find_module(d, "nccl") ? NULL : mf_world_adds("nccl"));
}

/* Reports the libraries that the program opens when it needs them. */
static void opened(doctor *d)
{
    lacking(d, "line editing", mf_line_lacks());
    const bool http = mf_http_check() == MF_OK;
    lacking(d, "log.mlflow", http ? NULL : mf_arena_strdup(d->arena, mf_error_message()));
    if (!http) mf_error_clear();
}

/* ---- files ---- */

static void places(doctor *d)
{
    say(d, "program", mf_paths_program());
    say(d, "runs", mf_paths_uninstalled() ? "in place, from the build folder" : "installed");
    say(d, "presets", mf_paths_presets());
    say(d, "settings", mf_paths_settings());
    const char *const *folders = mf_find_folders(d->arena);
    if (d->json) {
        mf_jw_key(d->json, "plugin folders");
        mf_jw_array(d->json);
    }
    for (int i = 0; folders && folders[i]; i++)
        if (d->json)
            mf_jw_string(d->json, folders[i]);
        else
            printf("%-16s %s\n", i == 0 ? "plugin folders" : "", mf_shown(folders[i]));
    if (d->json) mf_jw_end(d->json);
}

/* Reports elements of MOEFW_PLUGIN_PATH that are ignored. */
static void judge_path(doctor *d)
{
    const char *path = secure_getenv("MOEFW_PLUGIN_PATH");
    char *rest = path ? mf_arena_strdup(d->arena, path) : NULL;
    const char *text;
    for (char *each; rest && (each = strsep(&rest, ":"));)
        if (each[0] != '/' || !mf_is_dir(each)) {
            text = mf_arena_strf(d->arena,
                                 "MOEFW_PLUGIN_PATH: '%s' is ignored: expected the "
                                 "absolute path of a folder",
                                 each);
            if (text) warn(d, text);
        }
}

static void refused(doctor *d, const mf_found *f, const char *message)
{
    if (d->json) {
        mf_jw_object(d->json);
        mf_jw_kv_string(d->json, "name", f->name ? f->name : "");
        mf_jw_kv_string(d->json, "message", message);
        mf_jw_end(d->json);
    } else {
        mf_wrap_line(stdout, 17, "%-16s %s", "  refused", mf_shown(message));
    }
}

static int plugins(doctor *d)
{
    mf_found *found;
    int n, count[MF_ADAPTER + 1] = {0}, bad = 0;
    int rc = mf_find_all(d->arena, 0, &found, &n);
    if (rc != MF_OK) return rc;
    if (d->json) {
        mf_jw_key(d->json, "refused");
        mf_jw_array(d->json);
    }
    for (int i = 0; i < n; i++) {
        const mf_loaded *p;
        const char *message = found[i].fault;
        if (!message && mf_plugin_load_found(&found[i], NULL, 0, &p) != MF_OK)
            message = mf_arena_strdup(d->arena, mf_error_message());
        if (!message) {
            count[p->kind]++;
            continue;
        }
        refused(d, &found[i], message);
        bad++;
    }
    if (d->json) mf_jw_end(d->json);
    char text[128];
    snprintf(text, sizeof text,
             "%d routers, %d experts, %d regularizers, %d controllers, %d adapters, %d refused",
             count[MF_ROUTER], count[MF_EXPERT], count[MF_REGULARIZER], count[MF_CONTROLLER],
             count[MF_ADAPTER], bad);
    say(d, "plugins", text);
    if (bad > 0) warn(d, "some plugins are refused: see 'moefw plugin list'");
    if (n == 0) warn(d, "no plugin found: the installation is not complete");
    return MF_OK;
}

static void environment(doctor *d)
{
    if (getenv("LD_PRELOAD"))
        warn(d, "LD_PRELOAD is set: code of others runs inside this program");
    if (getenv("LD_AUDIT")) warn(d, "LD_AUDIT is set: code of others runs inside this program");
    if (getenv("LD_LIBRARY_PATH"))
        warn(d, "LD_LIBRARY_PATH is set: BLAS and other libraries may not be the system's");
}

static void tell_warnings(doctor *d)
{
    if (d->json) {
        mf_jw_key(d->json, "warnings");
        mf_jw_array(d->json);
    }
    for (int i = 0; i < d->warnings; i++)
        if (d->json)
            mf_jw_string(d->json, d->warning[i] ? d->warning[i] : "");
        else
            mf_wrap_line(stdout, 0, "warning: %s", mf_shown(d->warning[i]));
    if (d->json) mf_jw_end(d->json);
}

static int examine(doctor *d)
{
    struct utsname os;
    say(d, "moefw", MOEFW_VERSION);
    if (uname(&os) == 0)
        say(d, "system",
            mf_arena_strf(d->arena, "%s %s %s", os.sysname, os.release, os.machine));
    processor(d);
    int rc = kernels(d);
    threads(d);
    memory(d);
    gpu(d);
    communicators(d);
    opened(d);
    places(d);
    judge_path(d);
    int plugins_rc = plugins(d);
    environment(d);
    tell_warnings(d);
    return rc != MF_OK ? rc : plugins_rc;
}

static int run(const mf_cli *cli)
{
    doctor d = {.json = mf_cli_json(cli) ? mf_jw_new() : NULL, .arena = mf_arena_new()};
    if (!d.arena) return MF_ENOMEM;
    mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
    if (d.json) mf_jw_object(d.json);
    int rc = examine(&d);
    if (d.json) {
        mf_jw_end(d.json);
        const char *text = mf_jw_text(d.json, NULL);
        if (text) puts(text);
        if (!text) rc = MF_ENOMEM;
        mf_jw_free(d.json);
    }
    mf_arena_free(d.arena);
    return rc;
}

static const mf_cli_form forms[] = {{NULL, NULL, 0, 0, NULL}, MF_CLI_FORM_END};

const mf_verb mf_verb_doctor = {
    .name = "doctor",
    .brief = "show what this machine and this installation offer",
    .forms = forms,
    .run = run,
    .plain = true,
};
