/* run/backend.c: finds the backend of a device in the plugin folders, and opens
 * the device. */
#include "run/backend.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"
#include "plugin/load/module.h"

enum { NAME_MAX_BYTES = 32 };

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

static int missing(const char *name, const char *list)
{
    if (strcmp(name, "strict") == 0)
        return mf_fail(MF_EDEP,
                       "no backend_strict.so in %s; it is for tests: make check builds it in "
                       "tests/device, which MOEFW_PLUGIN_PATH must name",
                       list);
    if (strcmp(name, "cuda") == 0)
        return mf_fail(MF_EDEP,
                       "no backend_cuda.so in %s; install the CUDA backend of this version of "
                       "moefw there (./configure --with-cuda=yes builds it), or use device cpu",
                       list);
    return mf_fail(MF_EDEP,
                   "no backend_%s.so in %s; install the %s backend of this version of moefw "
                   "there, or use device cpu",
                   name, list, name);
}

/* Finds and loads a backend. ret_path: for messages. */
static int load_named(mf_arena *arena, const char *name, const mf_backend **ret,
                      const char **ret_path)
{
    const char *list, *file = mf_arena_strf(arena, "backend_%s.so", name);
    const void *backend = NULL;
    if (!file) return MF_ENOMEM;
    *ret_path = mf_module_find(arena, file, &list);
    if (!*ret_path) return list ? missing(name, list) : MF_ENOMEM;
    const int rc = mf_module_load(*ret_path, false, "moefw_backend", &backend);
    *ret = backend;
    return rc == MF_OK ? MF_OK : mf_fail_context(rc, "%s", *ret_path);
}

static int open_named(mf_arena *arena, const char *name, int index, mf_device **ret)
{
    const mf_backend *backend;
    const char *path;
    int rc = load_named(arena, name, &backend, &path);
    if (rc != MF_OK) return rc;
    rc = mf_device_open(backend, index, ret);
    return rc == MF_OK ? MF_OK : mf_fail_context(rc, "%s", path);
}

int mf_backend_describe(const char *name, void (*line)(void *arg, const char *text), void *arg)
{
    const mf_backend *backend = NULL;
    const char *path;
    char text[512];
    mf_arena *arena = mf_arena_new();
    int rc = arena ? load_named(arena, name, &backend, &path) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_device_judge(backend);
    for (int i = 0; rc == MF_OK && backend->describe && backend->describe(i, text, sizeof text);
         i++)
        line(arg, text);
    mf_arena_free(arena);
    return rc;
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
