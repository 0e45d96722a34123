/* plugin/load/module.c: finds modules in the plugin folders, checks their files and maps them.
 * The list of mapped modules belongs to the process. */
#include "plugin/load/module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file/io.h"
#include "plugin/load/allow.h"
#include "plugin/load/file.h"
#include "plugin/load/find.h"
#include "plugin/load/symbols.h"

enum { MOST = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    dev_t device;
    ino_t inode;
    const void *table;
} mapped[MOST];
static int n_mapped;

const char *mf_module_find(mf_arena *arena, const char *name, const char **ret_list)
{
    const char *const *folders = mf_find_folders(arena);
    *ret_list = folders ? "" : NULL;
    for (; *ret_list && *folders; folders++) {
        const char *path = mf_arena_strf(arena, "%s/%s", *folders, name);
        if (path && mf_exists(path)) return path;
        *ret_list =
            path ? mf_arena_strf(arena, "%s%s%s", *ret_list, **ret_list ? ", " : "", *folders)
                 : NULL;
    }
    return NULL;
}

/* Refuses a file without the symbol by its bytes, because mapping the file would run
 * its constructors. */
static int check_bytes(const char *path, bool as_given, int fd, const struct stat *st,
                       const char *symbol, mf_code_id *id)
{
    unsigned char *bytes;
    int rc = mf_plugin_file_read(path, fd, st, &bytes);
    if (rc != MF_OK) return rc;
    if (as_given) {
        *id = mf_code_id_of(bytes, (size_t)st->st_size, id->path);
        rc = mf_plugin_check_allowed(st, id, "the name of a module in a plugin folder", path);
    }
    if (rc == MF_OK && !mf_symbols_export(bytes, (size_t)st->st_size, symbol))
        rc = mf_fail(MF_EPLUGIN, "no symbol %s", symbol);
    mf_free(bytes);
    return rc;
}

static int map(const char *path, const char *symbol, const void **ret)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? NULL : dlerror();
    if (!handle)
        return mf_fail(MF_EDEP, "cannot be loaded: %s; install the libraries that it needs",
                       why ? why : "no reason given");
    *ret = dlsym(handle, symbol);
    return *ret ? MF_OK : mf_fail(MF_EPLUGIN, "no symbol %s", symbol);
}

/* Maps a file that was checked, and keeps its table. */
static int map_new(const char *path, const struct stat *st, const char *symbol,
                   const void **ret)
{
    if (n_mapped == MOST) return mf_fail(MF_EDEP, "more than %d modules", MOST);
    int rc = mf_plugin_file_same(path, st);
    if (rc == MF_OK) rc = map(path, symbol, ret);
    if (rc == MF_OK) rc = mf_plugin_file_same(path, st);
    if (rc != MF_OK) return rc;
    mapped[n_mapped].device = st->st_dev;
    mapped[n_mapped].inode = st->st_ino;
    mapped[n_mapped++].table = *ret;
    return MF_OK;
}

/* Returns the file's table, and maps the file if it is not mapped yet. The caller holds
 * the lock. */
static int load(const char *path, bool as_given, const char *symbol, const void **ret)
{
    struct stat st;
    int fd;
    int rc = mf_plugin_file_open(path, mf_plugin_trust(!as_given), &fd, &st);
    if (rc != MF_OK) return rc;
    char *real = realpath(path, NULL);
    mf_code_id id = {.path = real};
    rc = real ? check_bytes(path, as_given, fd, &st, symbol, &id)
              : mf_fail_errno(MF_EPLUGIN, "cannot find its folder");
    mf_io()->close(fd);
    const void *table = NULL;
    for (int i = 0; i < n_mapped; i++)
        if (mapped[i].device == st.st_dev && mapped[i].inode == st.st_ino)
            table = mapped[i].table;
    if (rc == MF_OK && !table) rc = map_new(path, &st, symbol, &table);
    if (rc == MF_OK && as_given) mf_plugin_remember(&st, &id);
    if (rc == MF_OK) *ret = table;
    free(real);
    return rc;
}

int mf_module_load(const char *path, bool as_given, const char *symbol, const void **ret)
{
    pthread_mutex_lock(&lock);
    const int rc = load(path, as_given, symbol, ret);
    pthread_mutex_unlock(&lock);
    return rc;
}
