/* base/file/paths.c: finds the folders of moefw from the location of this code: libmoefw.so.0,
 * or a test program that contains it. The first call finds all of them; after that they do
 * not change. */
#include "base/file/paths.h"

#include "base/error.h"
#include "base/file/io_raw.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARKER ".moefw-uninstalled"

typedef char place[PATH_MAX];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    bool uninstalled, given; /* given: a test has set the program's path */
    place program, library, source, plugins, presets, template, settings, dropins;
} here;
static place given_settings; /* set by a test; otherwise "" */

/* Joins two paths. A path that is too long for the system cannot exist; the result is then "",
 * which names no file. */
static void join(place out, const char *root, const char *path)
{
    int n = snprintf(out, sizeof(place), "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof(place)) out[0] = '\0';
}

/* Reads the first line of the marker file in the folder. */
static bool read_marker(const char *folder, place source)
{
    place path;
    join(path, folder, "/" MARKER);
    const int fd = mf_raw_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        mf_fault_errno(path);
        return false;
    }
    const ssize_t n = mf_raw_read(fd, source, sizeof(place) - 1, 0);
    if (n < 0) mf_fault_errno(path);
    mf_raw_close(fd);
    if (n <= 0) return false;
    source[n] = '\0';
    source[strcspn(source, "\n")] = '\0';
    return source[0] == '/';
}

/* Removes the folder of libraries or of programs that configure set from the end of the path
 * `folder`. The DESTDIR of a staged installation remains, or "". If the path ends in neither of
 * the two, it becomes "". */
static void staging_root(place folder)
{
    static const char *const tails[] = {MF_LIBDIR, MF_BINDIR};
    const size_t n = strlen(folder);
    for (int i = 0; i < 2; i++) {
        const size_t tail = strlen(tails[i]);
        if (n < tail || strcmp(folder + n - tail, tails[i]) != 0) continue;
        folder[n - tail] = '\0';
        return;
    }
    folder[0] = '\0';
}

/* Finds the file that contains this code: the library, or the program itself. */
static void find_object(place out)
{
    Dl_info info;
    if (!here.given && dladdr(&once, &info) != 0 && info.dli_fname &&
        strstr(info.dli_fname, ".so")) {
        if (realpath(info.dli_fname, out)) return;
        mf_fault_errno(info.dli_fname);
    }
    memcpy(out, here.program, sizeof(place));
}

static void find(void)
{
    place root = "";
    if (!here.given) {
        ssize_t n = readlink("/proc/self/exe", here.program, sizeof here.program - 1);
        if (n < 0) mf_fault_errno("/proc/self/exe");
        here.program[n > 0 ? n : 0] = '\0';
    }
    find_object(root);
    memcpy(here.library, root, sizeof(place));
    char *slash = strrchr(root, '/');
    if (slash) *slash = '\0';
    here.uninstalled = slash && read_marker(root, here.source);
    if (here.uninstalled) {
        join(here.plugins, root, "/plugins");
        join(here.presets, here.source, "/share/presets");
        join(here.template, here.source, "/share/template");
        join(here.settings, "", MF_SYSCONFDIR);
        join(here.dropins, here.source, "/etc/plugins.d");
    } else {
        here.source[0] = '\0';
        staging_root(root);
        join(here.plugins, root, MF_PLUGINDIR);
        join(here.presets, root, MF_DATADIR "/presets");
        join(here.template, root, MF_DATADIR "/template");
        join(here.settings, root, MF_SYSCONFDIR);
        join(here.dropins, root, MF_SYSCONFDIR "/plugins.d");
    }
}

static const char *get(const char *path)
{
    pthread_once(&once, find);
    return path;
}

void mf_paths_set_program(const char *path)
{
    join(here.program, "", path);
    here.given = path[0] != '\0';
    once = (pthread_once_t)PTHREAD_ONCE_INIT;
}

const char *mf_paths_library(void)
{
    return get(here.library);
}

const char *mf_paths_program(void)
{
    return get(here.program);
}

const char *mf_paths_plugins(void)
{
    return get(here.plugins);
}

const char *mf_paths_presets(void)
{
    return get(here.presets);
}

const char *mf_paths_template(void)
{
    return get(here.template);
}

void mf_paths_set_settings(const char *path)
{
    join(given_settings, "", path);
}

const char *mf_paths_settings(void)
{
    return given_settings[0] != '\0' ? given_settings : get(here.settings);
}

const char *mf_paths_dropins(void)
{
    return get(here.dropins);
}

const char *mf_paths_source(void)
{
    return get(here.source);
}

const char *mf_paths_called(void)
{
    place folder;
    if (!mf_paths_uninstalled()) return "moefw";
    const size_t n = getcwd(folder, sizeof folder) != NULL ? strlen(folder) : 0;
    const bool below = n > 1 && strncmp(here.program, folder, n) == 0 && here.program[n] == '/';
    /* A shell searches a name without a slash in PATH, so the path must contain a slash. */
    if (below && strchr(here.program + n + 1, '/') == NULL)
        return "./moefw"; /* the name that the build gives to the program */
    return below ? here.program + n + 1 : here.program;
}

bool mf_paths_uninstalled(void)
{
    get("");
    return here.uninstalled;
}
