/* plugin/load/open.c: opens plugins. It is the only file that calls the dynamic linker for
 * plugins. The list of plugins belongs to the process, like the dynamic linker's list. A
 * function holds the lock while it uses the list; entries are added and never removed. */
#include "plugin/load/open.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/text/ini.h"
#include "plugin/load/allow.h"
#include "plugin/load/deadline.h"
#include "plugin/load/file.h"
#include "plugin/load/mapped.h"
#include "plugin/load/symbols.h"
#include "plugin/guard.h"
#include "plugin/host.h"
#include "plugin/missing.h"
#include "plugin/output.h"
#include "plugin/load/probe.h"

typedef struct opened {
    struct opened *next;
    /* real: absolute path without links; name: path for the dynamic linker */
    const char *real, *name;
    struct stat st; /* state of the file when it was checked */
    char hash[33];  /* hash of the bytes that were checked */
    mf_code_id id;  /* hash of the same bytes for the list of trusted files, if the file is not
                     * part of the program */
    const char *host_names;
    int fd;
    bool tried; /* a child process has tried it without a crash */
    void *handle;
    const mf_loaded *plugin; /* NULL until it is accepted */
} opened;

typedef struct linked {
    struct linked *next;
    mf_loaded plugin;
} linked;

/* The mutex is recursive, because the search for a plugin's name also reads the list of
 * linked plugins. */
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
#else
static pthread_mutex_t lock;
__attribute__((constructor)) static void make_lock(void)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}
#endif
static struct {
    mf_arena *arena;
    opened *first, **last;
    linked *linked;
} all = {.last = &all.first};

static int have_arena(void)
{
    if (!all.arena) all.arena = mf_arena_new();
    return all.arena ? MF_OK : MF_ENOMEM;
}

static int check_allowed(const mf_found *found, const opened *o)
{
    if (!found->as_given) return MF_OK;
    return mf_plugin_check_allowed(&o->st, &o->id, "a plugin of a plugin folder or a drop-in",
                                   found->path);
}

const void *mf_loaded_vtable(const mf_loaded *plugin)
{
    return &plugin->table;
}

const mf_loaded *mf_plugin_loaded(int i)
{
    const mf_loaded *found = NULL;
    pthread_mutex_lock(&lock);
    for (const opened *o = all.first; o && !found; o = o->next)
        if (o->plugin && i-- == 0) found = o->plugin;
    for (const linked *l = all.linked; l && !found; l = l->next)
        if (i-- == 0) found = &l->plugin;
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- plugins that are linked into the program ---- */

const mf_loaded *mf_plugin_linked(mf_kind kind, const char *name)
{
    const mf_loaded *found = NULL;
    pthread_mutex_lock(&lock);
    for (const linked *l = all.linked; l && !found; l = l->next)
        if ((kind == 0 || l->plugin.kind == kind) && strcmp(l->plugin.name, name) == 0)
            found = &l->plugin;
    pthread_mutex_unlock(&lock);
    return found;
}

static int add_linked(const mf_plugin *d)
{
    for (const linked *l = all.linked; l; l = l->next)
        if (l->plugin.descriptor == d) return MF_OK;
    linked *new = mf_arena_alloc(all.arena, sizeof *new);
    if (!new) return MF_ENOMEM;
    int rc = mf_judge(d, 0, 0, NULL, NULL, all.arena, &new->plugin);
    if (rc != MF_OK) return mf_fail_context(rc, "plugin of this program refused");
    for (const linked *l = all.linked; l; l = l->next)
        if (l->plugin.kind == new->plugin.kind && strcmp(l->plugin.name, new->plugin.name) == 0)
            return mf_fail(
                MF_EPLUGIN,
                "plugin of this program refused: name: expected one that no other %s "
                "of this program has, found '%s' again",
                mf_kind_name(new->plugin.kind), new->plugin.name);
    new->plugin.path = "(this program)";
    new->plugin.own = true;
    *d->host = mf_plugin_host();
    new->next = all.linked;
    all.linked = new;
    return MF_OK;
}

int mf_plugin_register(const mf_plugin *descriptor)
{
    if (!descriptor) return mf_fail(MF_EINVAL, "plugin: expected its descriptor, found NULL");
    pthread_mutex_lock(&lock);
    int rc = have_arena();
    if (rc == MF_OK) rc = add_linked(descriptor);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* ---- plugins in files ---- */

/* Begins the message of a refusal with the configuration line and the plugin's file. */
static int refuse(int code, const char *path, const char *file, int line)
{
    if (code != MF_EPLUGIN) return code;
    mf_fail_context(code, "plugin '%s' refused", path);
    if (mf_ini_is_file(file)) mf_fail_context(code, "%s:%d", file, line);
    return code;
}

/* Sets the paths. The dynamic linker first compares names. So a new file with the path of a
 * loaded file needs another spelling of the path: one more "/.". */
static int set_paths(const char *path, opened *o)
{
    char *real = realpath(path, NULL);
    if (!real) return mf_fail_errno(MF_EPLUGIN, "cannot find its folder");
    const char *dots = "", *slash = strrchr(real, '/');
    o->real = mf_arena_strdup(all.arena, real);
    for (const opened *other = all.first; other && dots; other = other->next)
        if (strcmp(other->real, real) == 0) dots = mf_arena_strf(all.arena, "%s/.", dots);
    if (dots)
        o->name = mf_arena_strf(all.arena, "%.*s%s%s", (int)(slash - real), real, dots, slash);
    free(real);
    return o->real && o->name ? MF_OK : MF_ENOMEM;
}

/* Reads the file once, so that the hash belongs to the same bytes whose symbols
 * were checked. */
static int read_file(const char *path, bool own, opened *o)
{
    unsigned char *bytes;
    int rc = mf_plugin_file_read(path, o->fd, &o->st, &bytes);
    if (rc != MF_OK) return rc;
    rc = mf_plugin_symbols(bytes, (size_t)o->st.st_size);
    mf_hash_bytes(bytes, (size_t)o->st.st_size, o->hash);
    o->host_names = mf_plugin_host_names(bytes, (size_t)o->st.st_size, all.arena);
    if (rc == MF_OK) rc = set_paths(path, o);
    if (rc == MF_OK && !own) o->id = mf_code_id_of(bytes, (size_t)o->st.st_size, o->real);
    mf_free(bytes);
    return rc;
}

/* Opens and checks a file and returns its record. A file that is already open keeps
 * its record. */
static int open_file(const char *path, bool own, opened **ret)
{
    struct stat st;
    int fd;
    int rc = mf_plugin_file_open(path, mf_plugin_trust(own), &fd, &st);
    if (rc != MF_OK) return rc;
    for (opened *o = all.first; o != NULL; o = o->next) {
        if (o->st.st_dev == st.st_dev && o->st.st_ino == st.st_ino) {
            mf_io()->close(fd);
            *ret = o;
            return MF_OK;
        }
    }
    opened *o = mf_arena_alloc(all.arena, sizeof *o);
    if (!o) {
        mf_io()->close(fd);
        return MF_ENOMEM;
    }
    *o = (opened){.st = st, .fd = fd};
    rc = read_file(path, own, o);
    if (rc != MF_OK) {
        mf_io()->close(fd);
        return rc;
    }
    *all.last = o;
    all.last = &o->next;
    *ret = o;
    return MF_OK;
}

/* Fails with the text of dlerror, or with advice if a function mf_* is undefined. */
static int map_failed(const char *path)
{
    const char *why = dlerror();
    why = why ? why : "no reason given";
    const char *symbol = strstr(why, "undefined symbol: ");
    const size_t n = strlen(path);
    const bool named = strncmp(why, path, n) == 0 && why[n] == ':' && why[n + 1] == ' ';
    if (symbol && strncmp(symbol + 18, "mf_", 3) == 0)
        return mf_fail(
            MF_EPLUGIN,
            "cannot be loaded: expected no undefined symbol, found %s; a plugin reaches "
            "moefw through its host table only: include <moefw/moefw.h>, link with "
            "-Wl,-z,defs",
            symbol + 18);
    return mf_fail(MF_EPLUGIN,
                   "cannot be loaded: %s; link it with -Wl,-z,defs to see what is missing",
                   named ? why + n + 2 : why);
}

/* Calls the dynamic linker, which runs the file's constructors. They returned in the child that
 * tried the file, but may behave differently here. The file is mapped by its path, because
 * debuggers and profilers can open the path, too. */
static void *run_constructors(const opened *o, bool own)
{
    const mf_site site = {NULL, o->real, "a constructor", NULL};
    mf_deadline deadline;
    if (!own) mf_output_needed();
    if (!own) mf_deadline_begin(&deadline, &site, mf_probe_seconds());
    const mf_site *outer = mf_crash_site(&site);
    mf_output_begin();
    void *handle = dlopen(o->name, RTLD_NOW | RTLD_LOCAL);
    mf_output_end(o->real, site.function, NULL);
    mf_crash_site(outer);
    if (!own) mf_deadline_end(&deadline);
    return handle;
}

static int map_file(opened *o, bool own)
{
    mf_guard guard;
    if (o->handle) return MF_OK;
    int rc = mf_plugin_file_same(o->real, &o->st);
    if (rc != MF_OK) return rc;
    mf_guard_save(&guard);
    void *handle = run_constructors(o, own);
    rc = mf_guard_check(&guard, "when it is loaded");
    if (!handle) return map_failed(o->name);
    if (rc == MF_OK) rc = mf_plugin_file_same(o->real, &o->st);
    if (rc == MF_OK && !own) rc = mf_plugin_mapped_is(handle, o->real, o->fd, &o->st, o->hash);
    if (rc == MF_OK) o->handle = handle;
    return rc;
}

static int find_descriptor(void *handle, const mf_plugin **ret, size_t *ret_bytes)
{
    const void *symbol = dlsym(handle, "moefw_plugin");
    if (!symbol)
        return mf_fail(MF_EPLUGIN,
                       "no symbol: expected an exported constant 'moefw_plugin', found "
                       "none; write MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(...)");
    Dl_info info;
    const ElfW(Sym) *entry = NULL;
    *ret_bytes = 0;
#ifdef __GLIBC__
    dladdr1(symbol, &info, (void **)(void *)&entry, RTLD_DL_SYMENT);
#else
    (void)info; /* this C library does not report symbols, so the size stays unknown */
#endif
    /* mf_plugin_symbols has refused symbols that are functions */
    if (entry) *ret_bytes = entry->st_size;
    *ret = symbol;
    return MF_OK;
}

/* Checks the descriptor of a mapped plugin, its kind and its name. */
static int judge(const opened *o, const mf_found *found, mf_arena *arena,
                 const mf_plugin **ret_descriptor, mf_loaded *ret)
{
    size_t bytes = 0;
    int rc = find_descriptor(o->handle, ret_descriptor, &bytes);
    if (rc != MF_OK) return rc;
    return mf_judge(*ret_descriptor, bytes, found->kind, found->name,
                    found->dropin ? found->dropin : "its file's name", arena, ret);
}

/* Compares a plugin that was accepted before with the required kind and name. The check makes a
 * copy of its descriptor, which is freed, so memory does not grow with the number of loads. */
static int accept_again(const opened *o, const mf_found *found)
{
    const mf_plugin *descriptor;
    mf_arena *scratch = mf_arena_new();
    mf_loaded *plugin = scratch ? mf_arena_alloc(scratch, sizeof *plugin) : NULL;
    int rc = plugin ? judge(o, found, scratch, &descriptor, plugin) : MF_ENOMEM;
    mf_arena_free(scratch);
    return rc;
}

/* Checks a mapped plugin and records it. */
static int accept(opened *o, const mf_found *found)
{
    const mf_plugin *descriptor = NULL;
    if (o->plugin) return accept_again(o, found);
    mf_loaded *plugin = mf_arena_alloc(all.arena, sizeof *plugin);
    if (!plugin) return MF_ENOMEM;
    int rc = judge(o, found, all.arena, &descriptor, plugin);
    if (rc != MF_OK) return rc;
    plugin->path = mf_arena_strdup(all.arena, found->path);
    plugin->own = found->own;
    if (!plugin->path) return MF_ENOMEM;
    memcpy(plugin->hash, o->hash, sizeof plugin->hash);
    plugin->host_names = o->host_names;
    mf_missing_tell(plugin);
    *descriptor->host = mf_plugin_host();
    o->plugin = plugin;
    return MF_OK;
}

static int load_file(const mf_found *found, const char *file, int line, const mf_loaded **ret)
{
    opened *o = NULL;
    int rc = have_arena();
    if (rc == MF_OK) rc = open_file(found->path, found->own, &o);
    if (rc == MF_OK) rc = check_allowed(found, o);
    if (rc == MF_OK && !found->own && !o->tried && !o->plugin) {
        int bad;
        rc = mf_probe(1, &found->path, &bad);
        o->tried = rc == MF_OK;
    }
    if (rc == MF_OK) rc = map_file(o, found->own);
    if (rc == MF_OK) rc = accept(o, found);
    if (rc != MF_OK) return refuse(rc, found->path, file, line);
    if (found->as_given) mf_plugin_remember(&o->st, &o->id);
    *ret = o->plugin;
    return MF_OK;
}

int mf_plugin_load_found(const mf_found *found, const char *file, int line,
                         const mf_loaded **ret)
{
    if (found->linked) {
        *ret = found->linked;
        return MF_OK;
    }
    pthread_mutex_lock(&lock);
    const int rc = load_file(found, file, line, ret);
    pthread_mutex_unlock(&lock);
    return rc;
}

int mf_plugin_load(mf_kind kind, const char *plugin, const char *file, int line,
                   const mf_loaded **ret)
{
    mf_found found;
    mf_arena *scratch = mf_arena_new();
    int rc = scratch ? mf_find(scratch, plugin, kind, file, line, &found) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_plugin_load_found(&found, file, line, ret);
    mf_arena_free(scratch);
    return rc;
}

static int try_files(mf_arena *scratch, const mf_want *wants, int n)
{
    int rc = have_arena(), m = 0, bad = 0;
    const char **paths = mf_arena_alloc(scratch, (size_t)n * sizeof *paths + 1);
    opened **files = mf_arena_alloc(scratch, (size_t)n * sizeof *files + 1);
    const mf_want **who = mf_arena_alloc(scratch, (size_t)n * sizeof *who + 1);
    if (!paths || !files || !who) rc = MF_ENOMEM;
    for (int i = 0; i < n && rc == MF_OK; i++) {
        mf_found found;
        opened *o;
        rc = mf_find(scratch, wants[i].plugin, wants[i].kind, wants[i].file, wants[i].line,
                     &found);
        if (rc != MF_OK || found.own || found.linked) continue;
        rc = open_file(found.path, false, &o);
        if (rc == MF_OK) rc = check_allowed(&found, o);
        if (rc != MF_OK) refuse(rc, found.path, wants[i].file, wants[i].line);
        bool listed = rc != MF_OK || o->tried || o->plugin;
        for (int j = 0; j < m && !listed; j++)
            listed = files[j] == o;
        if (listed) continue;
        paths[m] = found.path;
        files[m] = o;
        who[m++] = &wants[i];
    }
    if (rc == MF_OK && m > 0 && (rc = mf_probe(m, paths, &bad)) != MF_OK)
        refuse(rc, paths[bad], who[bad]->file, who[bad]->line);
    for (int j = 0; j < m && rc == MF_OK; j++)
        files[j]->tried = true;
    return rc;
}

int mf_plugins_try(const mf_want *wants, int n)
{
    mf_arena *scratch = mf_arena_new();
    if (!scratch) return MF_ENOMEM;
    pthread_mutex_lock(&lock);
    const int rc = try_files(scratch, wants, n);
    pthread_mutex_unlock(&lock);
    mf_arena_free(scratch);
    return rc;
}
