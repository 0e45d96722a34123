/* plugin/open.c: the only file that speaks to the dynamic linker about plugins. */
#include "plugin/open.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "plugin/file.h"
#include "plugin/guard.h"
#include "plugin/host.h"
#include "plugin/probe.h"

typedef struct opened {
    struct opened *next;
    dev_t device;
    ino_t inode;
    int fd;
    bool tried; /* a child process has survived it */
    void *handle;
    const mf_loaded *plugin; /* NULL until it is accepted */
} opened;

static struct {
    mf_arena *arena;
    opened *first, **last;
    bool unsafe;
} all = {.last = &all.first};

void mf_plugin_allow_unsafe(bool allow)
{
    all.unsafe = allow;
}

const void *mf_loaded_vtable(const mf_loaded *plugin)
{
    return &plugin->table;
}

const mf_loaded *mf_plugin_loaded(int i)
{
    for (const opened *o = all.first; o != NULL; o = o->next)
        if (o->plugin != NULL && i-- == 0) return o->plugin;
    return NULL;
}

/* Every message about a file begins with where it was asked for and which file it is. */
static int refuse(int code, const char *path, const char *file, int line)
{
    if (code != MF_EPLUGIN) return code;
    mf_fail_context(code, "plugin '%s' refused", path);
    if (file != NULL && strncmp(file, "--", 2) != 0) mf_fail_context(code, "%s:%d", file, line);
    return code;
}

/* The record of an opened and checked file; a new one only when the file is new. */
static int open_file(const char *path, opened **ret)
{
    struct stat st;
    int fd;
    int rc = mf_plugin_file_open(path, all.unsafe, &fd, &st);
    if (rc != MF_OK) return rc;
    for (opened *o = all.first; o != NULL; o = o->next) {
        if (o->device == st.st_dev && o->inode == st.st_ino) {
            mf_io()->close(fd);
            *ret = o;
            return MF_OK;
        }
    }
    opened *o = mf_arena_alloc(all.arena, sizeof *o);
    if (o == NULL) {
        mf_io()->close(fd);
        return MF_ENOMEM;
    }
    *o = (opened){.device = st.st_dev, .inode = st.st_ino, .fd = fd};
    *all.last = o;
    all.last = &o->next;
    *ret = o;
    return MF_OK;
}

/* What dlerror says, with the cause that plugin authors meet first. */
static int map_failed(void)
{
    const char *why = dlerror();
    why = why != NULL ? why : "no reason given";
    const char *symbol = strstr(why, "undefined symbol: ");
    const char *after = strncmp(why, "/proc/self/fd/", 14) == 0 ? strstr(why, ": ") : NULL;
    if (symbol != NULL && strncmp(symbol + 18, "mf_", 3) == 0)
        return mf_fail(
            MF_EPLUGIN,
            "cannot be loaded: expected no undefined symbol, found %s; a plugin reaches "
            "moefw through its host table only: include <moefw/moefw.h>, link with "
            "-Wl,-z,defs",
            symbol + 18);
    return mf_fail(MF_EPLUGIN,
                   "cannot be loaded: %s; link it with -Wl,-z,defs to see what is missing",
                   after != NULL ? after + 2 : why);
}

static int map_file(opened *o)
{
    char name[32];
    mf_guard guard;
    if (o->handle != NULL) return MF_OK;
    snprintf(name, sizeof name, "/proc/self/fd/%d", o->fd);
    mf_guard_save(&guard);
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    int rc = mf_guard_check(&guard, "when it is loaded");
    if (handle == NULL) return map_failed();
    if (rc == MF_OK) o->handle = handle;
    return rc;
}

static int find_descriptor(void *handle, const mf_plugin **ret, size_t *ret_bytes)
{
    const void *symbol = dlsym(handle, "moefw_plugin");
    if (symbol == NULL)
        return mf_fail(MF_EPLUGIN,
                       "no symbol: expected an exported constant 'moefw_plugin', found "
                       "none; write MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(...)");
    Dl_info info;
    const ElfW(Sym) *entry = NULL;
    *ret_bytes = 0;
    if (dladdr1(symbol, &info, (void **)(void *)&entry, RTLD_DL_SYMENT) != 0 && entry != NULL) {
        if (ELF64_ST_TYPE(entry->st_info) == STT_FUNC)
            return mf_fail(MF_EPLUGIN,
                           "the symbol moefw_plugin: expected a constant, found a "
                           "function; write MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(...)");
        *ret_bytes = entry->st_size;
    }
    *ret = symbol;
    return MF_OK;
}

/* Judges what was mapped. A plugin that was accepted before is only held against the wishes. */
static int accept(opened *o, const mf_found *found)
{
    const mf_plugin *descriptor = NULL;
    size_t bytes = 0;
    const char *by = found->dropin != NULL ? found->dropin : "its file's name";
    int rc = find_descriptor(o->handle, &descriptor, &bytes);
    mf_loaded *plugin = rc == MF_OK ? mf_arena_alloc(all.arena, sizeof *plugin) : NULL;
    if (plugin == NULL) return rc != MF_OK ? rc : MF_ENOMEM;
    rc = mf_judge(descriptor, bytes, found->kind, found->name, by, all.arena, plugin);
    if (rc != MF_OK || o->plugin != NULL) return rc;
    plugin->path = mf_arena_strdup(all.arena, found->path);
    plugin->own = found->own;
    if (plugin->path == NULL) return MF_ENOMEM;
    rc = mf_hash_file(found->path, plugin->hash);
    if (rc != MF_OK) return rc;
    *descriptor->host = mf_plugin_host();
    o->plugin = plugin;
    return MF_OK;
}

int mf_plugin_load_found(const mf_found *found, const char *file, int line,
                         const mf_loaded **ret)
{
    opened *o = NULL;
    if (all.arena == NULL && (all.arena = mf_arena_new()) == NULL) return MF_ENOMEM;
    int rc = open_file(found->path, &o);
    if (rc == MF_OK && !found->own && !o->tried && o->plugin == NULL) {
        int bad;
        rc = mf_probe(1, &found->path, &bad);
        o->tried = rc == MF_OK;
    }
    if (rc == MF_OK) rc = map_file(o);
    if (rc == MF_OK) rc = accept(o, found);
    if (rc != MF_OK) return refuse(rc, found->path, file, line);
    *ret = o->plugin;
    return MF_OK;
}

int mf_plugin_load(mf_kind kind, const char *plugin, const char *file, int line,
                   const mf_loaded **ret)
{
    mf_found found;
    mf_arena *scratch = mf_arena_new();
    int rc = scratch != NULL ? mf_find(scratch, plugin, kind, file, line, &found) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_plugin_load_found(&found, file, line, ret);
    mf_arena_free(scratch);
    return rc;
}

int mf_plugins_try(const mf_want *wants, int n)
{
    int rc = MF_OK, m = 0, bad = 0;
    mf_arena *scratch = mf_arena_new();
    if (all.arena == NULL) all.arena = mf_arena_new();
    const char **paths =
        scratch ? mf_arena_alloc(scratch, (size_t)n * sizeof *paths + 1) : NULL;
    opened **files = scratch ? mf_arena_alloc(scratch, (size_t)n * sizeof *files + 1) : NULL;
    const mf_want **who = scratch ? mf_arena_alloc(scratch, (size_t)n * sizeof *who + 1) : NULL;
    if (all.arena == NULL || paths == NULL || files == NULL || who == NULL) rc = MF_ENOMEM;
    for (int i = 0; i < n && rc == MF_OK; i++) {
        mf_found found;
        opened *o;
        rc = mf_find(scratch, wants[i].plugin, wants[i].kind, wants[i].file, wants[i].line,
                     &found);
        if (rc != MF_OK || found.own) continue;
        rc = open_file(found.path, &o);
        if (rc != MF_OK) refuse(rc, found.path, wants[i].file, wants[i].line);
        bool listed = rc != MF_OK || o->tried || o->plugin != NULL;
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
    mf_arena_free(scratch);
    return rc;
}
