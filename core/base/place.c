#include "base/place.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MARKER ".moefw-uninstalled"

typedef char place[PATH_MAX];

static struct {
    bool found, uninstalled;
    place program, source, plugins, presets, template, settings, dropins;
} here;

/* A path too long for the system cannot exist there either: it becomes "", which nothing
 * finds. */
static void join(place out, const char *root, const char *path)
{
    int n = snprintf(out, sizeof(place), "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof(place)) out[0] = '\0';
}

/* First line of the marker file in the folder. */
static bool read_marker(const char *folder, place source)
{
    place path;
    join(path, folder, "/" MARKER);
    FILE *f = fopen(path, "re");
    if (f == NULL) return false;
    bool ok = fgets(source, sizeof(place), f) != NULL;
    fclose(f);
    if (!ok) return false;
    source[strcspn(source, "\n")] = '\0';
    return source[0] == '/';
}

/* What stands before MF_BINDIR in the program's folder: the DESTDIR it was staged in, or "". */
static void staging_root(place folder)
{
    size_t n = strlen(folder), tail = strlen(MF_BINDIR);
    folder[n >= tail && strcmp(folder + n - tail, MF_BINDIR) == 0 ? n - tail : 0] = '\0';
}

static void find(void)
{
    place root = "";
    if (here.program[0] == '\0') {
        ssize_t n = readlink("/proc/self/exe", here.program, sizeof here.program - 1);
        here.program[n > 0 ? n : 0] = '\0';
    }
    memcpy(root, here.program, sizeof root);
    char *slash = strrchr(root, '/');
    if (slash != NULL) *slash = '\0';
    here.uninstalled = slash != NULL && read_marker(root, here.source);
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
    here.found = true;
}

static const char *get(const char *path)
{
    if (!here.found) find();
    return path;
}

void mf_place_set_program(const char *path)
{
    join(here.program, "", path);
    here.found = false;
}

const char *mf_place_program(void)
{
    return get(here.program);
}

const char *mf_place_plugins(void)
{
    return get(here.plugins);
}

const char *mf_place_presets(void)
{
    return get(here.presets);
}

const char *mf_place_template(void)
{
    return get(here.template);
}

const char *mf_place_settings(void)
{
    return get(here.settings);
}

const char *mf_place_dropins(void)
{
    return get(here.dropins);
}

const char *mf_place_source(void)
{
    return get(here.source);
}

const char *mf_place_called(void)
{
    place folder;
    if (!mf_place_uninstalled()) return "moefw";
    const size_t n = getcwd(folder, sizeof folder) != NULL ? strlen(folder) : 0;
    const bool below = n > 1 && strncmp(here.program, folder, n) == 0 && here.program[n] == '/';
    /* A shell looks for names without a slash elsewhere. */
    if (below && strchr(here.program + n + 1, '/') == NULL)
        return "./moefw"; /* moefw is what it is built as */
    return below ? here.program + n + 1 : here.program;
}

bool mf_place_uninstalled(void)
{
    get("");
    return here.uninstalled;
}
