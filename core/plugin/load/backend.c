/* plugin/load/backend.c: finds backends of devices in the plugin folders, checks their files
 * and maps them. A backend is mapped once, and never unmapped. */
#include "plugin/load/backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "graph/graph.h"
#include "plugin/load/file.h"
#include "plugin/load/find.h"

enum { MOST = 8, NAME_MAX_BYTES = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    dev_t device;
    ino_t inode;
    const mf_backend *backend;
} mapped[MOST];
static int n_mapped;

/* Splits "cuda:1" into the name and the index, which is 0 if there is none. MF_ECONFIG if the
 * text has another form. */
static int split(const char *device, char name[NAME_MAX_BYTES], int *ret_index)
{
    const size_t n = strcspn(device, ":");
    const char *index = device[n] == ':' ? device + n + 1 : "0";
    if (n == 0 || n >= NAME_MAX_BYTES ||
        strspn(device, "abcdefghijklmnopqrstuvwxyz0123456789_") != n || *index == '\0' ||
        strlen(index) > 4 || strspn(index, "0123456789") != strlen(index))
        return mf_fail(MF_ECONFIG, "expected a device NAME or NAME:NUMBER, found '%s'", device);
    memcpy(name, device, n);
    name[n] = '\0';
    *ret_index = atoi(index);
    return MF_OK;
}

static int missing(const char *name, const char *const *folders)
{
    char list[512] = "";
    size_t used = 0;
    for (; *folders && used < sizeof list; folders++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                 *folders);
    if (strcmp(name, "strict") == 0)
        return mf_fail(MF_EDEP,
                       "no backend_strict.so in %s; it is for tests: make check builds it in "
                       "tests/device, which MOEFW_PLUGIN_PATH must name",
                       list);
    return mf_fail(MF_EDEP,
                   "no backend_%s.so in %s; install the %s backend of this version of moefw "
                   "there, or use device cpu",
                   name, list, name);
}

static const char *find(mf_arena *arena, const char *const *folders, const char *name)
{
    for (; folders && *folders; folders++) {
        const char *path = mf_arena_strf(arena, "%s/backend_%s.so", *folders, name);
        if (path && mf_exists(path)) return path;
    }
    return NULL;
}

static int map(const char *path, const mf_backend **ret)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? NULL : dlerror();
    if (!handle) return mf_fail(MF_EDEP, "cannot be loaded: %s", why ? why : "no reason given");
    *ret = dlsym(handle, "moefw_backend");
    return *ret ? MF_OK : mf_fail(MF_EPLUGIN, "no symbol moefw_backend");
}

/* Gives the file's backend, which is mapped now or was mapped before. The caller holds
 * the lock. */
static int load(const char *path, const mf_backend **ret)
{
    struct stat st;
    int fd;
    int rc = mf_plugin_file_open(path, MF_FILE_OWN, &fd, &st);
    if (rc != MF_OK) return rc;
    for (int i = 0; i < n_mapped; i++)
        if (mapped[i].device == st.st_dev && mapped[i].inode == st.st_ino) {
            mf_io()->close(fd);
            *ret = mapped[i].backend;
            return MF_OK;
        }
    if (n_mapped == MOST) rc = mf_fail(MF_EDEP, "more than %d backends", MOST);
    mf_io()->close(fd);
    if (rc == MF_OK) rc = map(path, ret);
    if (rc != MF_OK) return rc;
    mapped[n_mapped].device = st.st_dev;
    mapped[n_mapped].inode = st.st_ino;
    mapped[n_mapped++].backend = *ret;
    return MF_OK;
}

static int open_named(mf_arena *arena, const char *name, int index, mf_device **ret)
{
    const char *const *folders = mf_find_folders(arena);
    if (!folders) return MF_ENOMEM;
    const char *path = find(arena, folders, name);
    const mf_backend *backend = NULL;
    if (!path) return missing(name, folders);
    pthread_mutex_lock(&lock);
    int rc = load(path, &backend);
    pthread_mutex_unlock(&lock);
    if (rc == MF_OK) rc = mf_device_open(backend, index, ret);
    return rc == MF_OK ? MF_OK : mf_fail_context(rc, "%s", path);
}

int mf_backend_open(const char *device, mf_device **ret)
{
    char name[NAME_MAX_BYTES];
    int index = 0;
    *ret = NULL;
    if (strcmp(device, "cpu") == 0) return mf_backend_init();
    int rc = split(device, name, &index);
    if (rc != MF_OK) return rc;
    mf_arena *arena = mf_arena_new();
    rc = arena ? open_named(arena, name, index, ret) : MF_ENOMEM;
    mf_arena_free(arena);
    return rc;
}
