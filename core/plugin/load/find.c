/* plugin/load/find.c: finds the file of a plugin by name, in drop-ins and plugin folders. An
 * entry that is found earlier hides later entries of the same kind and name. No plugin
 * is loaded. */
#include "plugin/load/find.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text/ini.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/file/paths.h"
#include "plugin/load/file.h"
#include "plugin/load/open.h"
#include "plugin/load/symbols.h"
#include "plugin/option.h"

static const struct {
    mf_kind kind;
    const char *name, *a_name, *folder;
} kinds[] = {{MF_ROUTER, "router", "a router", "routers"},
             {MF_EXPERT, "expert", "an expert", "experts"},
             {MF_REGULARIZER, "regularizer", "a regularizer", "regularizers"},
             {MF_CONTROLLER, "controller", "a controller", "controllers"},
             {MF_ADAPTER, "adapter", "an adapter", "adapters"}};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

static bool is_kind(mf_kind kind)
{
    return (int)kind >= 1 && (int)kind <= KINDS;
}

const char *mf_kind_name(mf_kind kind)
{
    return is_kind(kind) ? kinds[kind - 1].name : NULL;
}

const char *mf_kind_a_name(mf_kind kind)
{
    return is_kind(kind) ? kinds[kind - 1].a_name : NULL;
}

const char *mf_kind_folder(mf_kind kind)
{
    return is_kind(kind) ? kinds[kind - 1].folder : NULL;
}

mf_kind mf_kind_of(const char *name)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) return kinds[i].kind;
    return 0;
}

/* ---- the catalogue ---- */

typedef struct catalog {
    mf_arena *arena;
    const char *const *folders;
    mf_found *items;
    int n, room;
    bool failed; /* no memory was left */
    bool tell;   /* log files that are skipped; done once per process, not at every search */
} catalog;

/* Returns the earlier entry of the same kind and name that hides this entry, or NULL. */
static const mf_found *known(const catalog *c, mf_kind kind, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (c->items[i].kind == kind && strcmp(c->items[i].name, name) == 0)
            return &c->items[i];
    return NULL;
}

static void add(catalog *c, const mf_found *item)
{
    if (c->n == c->room) {
        int room = c->room == 0 ? 64 : 2 * c->room;
        mf_found *items = mf_arena_alloc(c->arena, (size_t)room * sizeof *items);
        c->failed |= !items;
        if (!items) return;
        if (c->n > 0) memcpy(items, c->items, (size_t)c->n * sizeof *items);
        c->items = items;
        c->room = room;
    }
    c->items[c->n++] = *item;
}

static bool is_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0) return !S_ISDIR(st.st_mode);
    mf_fault_errno(path);
    return false;
}

static bool is_name(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && n <= 64 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* ---- folders ---- */

/* Returns $variable/tail, or $HOME/fallback/tail; NULL if neither variable is an
 * absolute path. */
static const char *user_folder(mf_arena *arena, const char *variable, const char *fallback,
                               const char *tail)
{
    const char *base = secure_getenv(variable), *home = secure_getenv("HOME");
    if (base && base[0] == '/') return mf_arena_strf(arena, "%s/%s", base, tail);
    if (home && home[0] == '/') return mf_arena_strf(arena, "%s/%s/%s", home, fallback, tail);
    return NULL;
}

const char *const *mf_find_folders(mf_arena *arena)
{
    const char *path = secure_getenv("MOEFW_PLUGIN_PATH");
    char *rest = mf_arena_strdup(arena, path ? path : "");
    if (!rest) return NULL;
    size_t n = 0, room = 4;
    for (const char *p = rest; *p != '\0'; p++)
        room += *p == ':';
    const char **folders = mf_arena_alloc(arena, room * sizeof *folders);
    if (!folders) return NULL;
    /* Relative and empty elements would refer to the current folder, so they are ignored. */
    for (char *element; (element = strsep(&rest, ":")) != NULL;)
        if (element[0] == '/') folders[n++] = element;
    const char *user = user_folder(arena, "XDG_DATA_HOME", ".local/share", "moefw/plugins");
    if (user) folders[n++] = user;
    folders[n++] = mf_paths_plugins();
    return folders;
}

/* Reads the kind of a file that is directly in a plugin folder. *ret 0: the file is damaged or
 * no shared object; loading it reports this. MF_ENOTFOUND: the file is a shared object without
 * a descriptor, so it is no plugin. */
static int read_kind(const char *path, mf_kind *ret)
{
    struct stat st;
    int fd;
    uint32_t kind = 0;
    unsigned char *bytes = NULL;
    bool exports = true;
    *ret = 0;
    int rc = mf_plugin_file_open(path, MF_FILE_ANY, &fd, &st);
    if (rc == MF_OK) {
        rc = mf_plugin_file_read(path, fd, &st, &bytes);
        mf_io()->close(fd);
    }
    if (rc == MF_OK) exports = mf_plugin_symbols_kind(bytes, (size_t)st.st_size, &kind);
    mf_free(bytes);
    if (rc == MF_ENOMEM) return rc;
    mf_error_clear();
    if (is_kind((mf_kind)kind)) *ret = (mf_kind)kind;
    return exports ? MF_OK : MF_ENOTFOUND;
}

/* Adds <folder>/<kind>s/NAME.so; kind 0: <folder>/NAME.so. A folder that cannot be read counts
 * as empty. If memory is missing, sets c->failed; without this flag, a plugin that exists would
 * be reported as unknown. */
static void scan_folder(catalog *c, const char *folder, mf_kind kind)
{
    char **names;
    int n;
    const char *path =
        kind == 0 ? folder : mf_arena_strf(c->arena, "%s/%s", folder, mf_kind_folder(kind));
    c->failed |= !path;
    if (!path || !mf_is_dir(path)) return;
    int rc = mf_list_dir(path, &names, &n);
    c->failed |= rc == MF_ENOMEM;
    if (rc != MF_OK) return;
    for (int i = 0; i < n; i++) {
        size_t stem = strlen(names[i]) - (strlen(names[i]) >= 3 ? 3 : 0);
        if (strcmp(names[i] + stem, ".so") == 0) {
            const char *file = mf_arena_strf(c->arena, "%s/%s", path, names[i]);
            names[i][stem] = '\0';
            mf_found item = {.kind = kind,
                             .name = mf_arena_strdup(c->arena, names[i]),
                             .path = file,
                             .own = strcmp(folder, mf_paths_plugins()) == 0};
            c->failed |= !item.path || !item.name;
            bool is = !c->failed && is_name(item.name);
            if (is && kind == 0) {
                is = strncmp(item.name, "backend_", 8) != 0 && is_file(item.path);
                rc = is ? read_kind(item.path, &item.kind) : MF_OK;
                c->failed |= rc == MF_ENOMEM;
                is = is && rc == MF_OK;
            }
            if (is && known(c, item.kind, item.name) == NULL) add(c, &item);
        }
        mf_free(names[i]);
    }
    mf_free(names);
}

/* ---- drop-ins ---- */

/* Whether the path has a part "..", so it may lead out of the folder to which it
 * is relative. */
static bool climbs(const char *path)
{
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) return true;
    }
    return false;
}

/* Returns the file that a drop-in names; NULL if the file does not exist. */
static const char *dropin_file(catalog *c, const char *ini, const char *file, bool *ret_own)
{
    if (file[0] == '/') return is_file(file) ? mf_arena_strdup(c->arena, file) : NULL;
    if (strncmp(file, "./", 2) == 0 || strncmp(file, "../", 3) == 0) {
        const char *slash = strrchr(ini, '/');
        const char *path =
            mf_arena_strf(c->arena, "%.*s%s", slash ? (int)(slash - ini + 1) : 0, ini, file);
        return path && is_file(path) ? path : NULL;
    }
    for (int i = 0; c->folders[i] != NULL && !climbs(file); i++) {
        const char *path = mf_arena_strf(c->arena, "%s/%s", c->folders[i], file);
        if (path && is_file(path)) {
            *ret_own = strcmp(c->folders[i], mf_paths_plugins()) == 0;
            return path;
        }
    }
    return NULL;
}

/* Returns the first entry of the section that is no key of a drop-in; NULL if there is none. */
static const mf_ini_entry *strange_key(mf_ini *ini, const char *section)
{
    for (const mf_ini_entry *e = mf_ini_first_of(ini, section); e; e = mf_ini_next_of(e))
        if (strcmp(e->key, "kind") != 0 && strcmp(e->key, "file") != 0) return e;
    return NULL;
}

static void add_dropin(catalog *c, mf_ini *ini, const char *path, const char *section)
{
    const char *name = section + strlen("plugin ");
    mf_ini_entry *kind = mf_ini_get(ini, section, "kind");
    mf_ini_entry *file = mf_ini_get(ini, section, "file");
    const mf_ini_entry *strange = strange_key(ini, section);
    int line = kind ? kind->line : file ? file->line : 1;
    mf_found item = {.kind = kind ? mf_kind_of(kind->value) : 0};
    item.name = mf_arena_strdup(c->arena, name);
    item.dropin = mf_arena_strf(c->arena, "%s:%d", path, line);
    if (!is_name(name))
        item.fault =
            mf_arena_strf(c->arena, "%s: [%s]: expected a name of [a-z0-9_], at most 64 long",
                          item.dropin, section);
    else if (item.kind == 0)
        item.fault = mf_arena_strf(c->arena,
                                   "%s: kind in [%s]: expected router, expert, regularizer, "
                                   "controller or adapter, found '%s'",
                                   item.dropin, section, kind ? kind->value : "nothing");
    else if (!file)
        item.fault =
            mf_arena_strf(c->arena, "%s: [%s] has no key 'file': expected the plugin's .so",
                          item.dropin, section);
    else if (strange)
        item.fault = mf_arena_strf(c->arena,
                                   "%s:%d: unknown key '%s' in [%s]; valid keys: kind, file "
                                   "(options go into the configuration)",
                                   path, strange->line, strange->key, section);
    else if ((item.path = dropin_file(c, path, file->value, &item.own)) == NULL)
        item.fault = mf_arena_strf(c->arena,
                                   "%s:%d: file '%s' of plugin %s is not there: expected an "
                                   "absolute path, one below a plugin folder, or ./FILE beside "
                                   "the drop-in",
                                   path, file->line, file->value, name);
    c->failed |= !item.name || !item.dropin;
    const mf_found *first = c->failed ? NULL : known(c, item.kind, name);
    if (first)
        mf_log(MF_LOG_DEBUG, "%s: plugin %s is hidden by %s", item.dropin, name, first->dropin);
    else if (!c->failed)
        add(c, &item);
}

static void scan_dropins(catalog *c, const char *folder)
{
    char **names;
    int n;
    if (!folder || !mf_is_dir(folder) || mf_list_dir(folder, &names, &n) != MF_OK) return;
    for (int i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        const char *path = mf_arena_strf(c->arena, "%s/%s", folder, names[i]);
        mf_ini *ini = mf_ini_new();
        c->failed |= !path || !ini;
        if (!c->failed && length > 4 && strcmp(names[i] + length - 4, ".ini") == 0) {
            /* An invalid drop-in must not hide the valid drop-ins, so it is logged
             * and skipped. */
            if (mf_ini_load(ini, path) != MF_OK && c->tell)
                mf_log(MF_LOG_WARN, "drop-in passed over: %s", mf_error_message());
            const char *section;
            for (int s = 0; (section = mf_ini_section_at(ini, s)) != NULL; s++) {
                if (strncmp(section, "plugin ", 7) == 0)
                    add_dropin(c, ini, path, section);
                else if (c->tell)
                    mf_log(MF_LOG_WARN, "%s: [%s] passed over: expected [plugin NAME]", path,
                           section);
            }
        }
        mf_ini_free(ini);
        mf_free(names[i]);
    }
    mf_free(names);
}

static int make_catalog(catalog *c, mf_arena *arena)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    *c = (catalog){.arena = arena,
                   .folders = mf_find_folders(arena),
                   .tell = !atomic_flag_test_and_set(&told)};
    const unsigned long faults = mf_faults();
    if (!c->folders) return MF_ENOMEM;
    scan_dropins(c, user_folder(arena, "XDG_CONFIG_HOME", ".config", "moefw/plugins.d"));
    scan_dropins(c, mf_paths_dropins());
    for (int i = 0; c->folders[i] != NULL; i++) {
        for (int k = 0; k < KINDS; k++)
            scan_folder(c, c->folders[i], kinds[k].kind);
        scan_folder(c, c->folders[i], 0);
    }
    if (c->failed) return mf_fail(MF_ENOMEM, "out of memory while looking for plugins");
    if (mf_faults() == faults) return MF_OK;
    int code = MF_EIO;
    const char *why = mf_fault_last(&code);
    return mf_fail(code, "while looking for plugins: %s", why);
}

static int by_kind_and_name(const void *a_, const void *b_)
{
    const mf_found *a = a_, *b = b_;
    return a->kind != b->kind ? (int)a->kind - (int)b->kind : strcmp(a->name, b->name);
}

int mf_find_all(mf_arena *arena, mf_kind kind, mf_found **ret, int *ret_n)
{
    catalog c;
    int rc = make_catalog(&c, arena), n = 0;
    if (rc != MF_OK) return rc;
    for (int i = 0; i < c.n; i++)
        if (kind == 0 || c.items[i].kind == kind) c.items[n++] = c.items[i];
    if (n > 1) qsort(c.items, (size_t)n, sizeof *c.items, by_kind_and_name);
    *ret = c.items;
    *ret_n = n;
    return MF_OK;
}

/* ---- looking up ---- */

/* Returns the prefix of a message: "file:line: "; "file: " if file is only an origin
 * (mf_ini_is_file); "" if file is NULL. */
static const char *where(mf_arena *arena, const char *file, int line)
{
    const char *text = !mf_ini_is_file(file)
                           ? mf_arena_strf(arena, file ? "%s: " : "%s", file ? file : "")
                           : mf_arena_strf(arena, "%s:%d: ", file, line);
    return text ? text : "";
}

/* Lists the names of the kind, as a NULL-terminated array and as one text. */
static int known_names(const catalog *c, mf_kind kind, const char *const **ret_names,
                       const char **ret_text)
{
    const char **names = mf_arena_alloc(c->arena, ((size_t)c->n + 1) * sizeof *names);
    const char *text = "";
    int n = 0;
    if (!names) return MF_ENOMEM;
    for (int i = 0; i < c->n && text; i++) {
        if (kind != 0 && c->items[i].kind != kind) continue;
        names[n++] = c->items[i].name;
        text = mf_arena_strf(c->arena, "%s%s%s", text, n > 1 ? ", " : "", c->items[i].name);
    }
    *ret_names = names;
    *ret_text = text && text[0] != '\0' ? text : "none";
    return MF_OK;
}

/* Old names of plugins that are part of the program; configurations may still contain them. */
static const struct {
    mf_kind kind;
    const char *old, *now;
} renamed[] = {{MF_CONTROLLER, "replay_turns", "replay_changes"}};

/* Returns the plugin's present name; NULL if the name is not an old one. */
static const char *renamed_to(mf_kind kind, const char *name)
{
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if ((kind == 0 || kind == renamed[i].kind) && strcmp(name, renamed[i].old) == 0)
            return renamed[i].now;
    return NULL;
}

/* Returns "in FOLDER, in FOLDER", preceded by `first` if `first` is not empty; NULL
 * without memory. */
static const char *looked_in(const catalog *c, const char *first)
{
    const char *text = first;
    for (int i = 0; c->folders[i] && text; i++)
        text = mf_arena_strf(c->arena, "%s%sin %s", text, text[0] != '\0' ? ", " : "",
                             c->folders[i]);
    return text;
}

/* Returns a file WHAT.so that is directly in a plugin folder; NULL: there is none. No plugin
 * with that name was found, so the file has no descriptor. */
static const char *no_plugin(const catalog *c, const char *what)
{
    for (int i = 0; is_name(what) && c->folders[i]; i++) {
        const char *path = mf_arena_strf(c->arena, "%s/%s.so", c->folders[i], what);
        if (path && is_file(path)) return path;
    }
    return NULL;
}

static int find_name(const catalog *c, const char *what, mf_kind kind, const char *at,
                     mf_found *ret)
{
    const mf_found *hit = NULL, *other = NULL;
    for (int i = 0; i < c->n; i++) {
        const mf_found *f = &c->items[i];
        if (strcmp(f->name, what) != 0) continue;
        if (kind != 0 && f->kind != kind && f->kind != 0)
            other = f;
        else if (!hit)
            hit = f;
        else if (hit->kind != 0 && f->kind != 0 && f->kind != hit->kind)
            return mf_fail(MF_ECONFIG,
                           "%splugin '%s' is %s and %s: expected a name of one kind; name the "
                           "file instead (%s/%s.so)",
                           at, what, mf_kind_a_name(hit->kind), mf_kind_a_name(f->kind),
                           mf_kind_folder(hit->kind), what);
    }
    if (hit && hit->fault) return mf_fail(MF_ECONFIG, "%s%s", at, hit->fault);
    if (hit) {
        *ret = *hit;
        return MF_OK;
    }
    if (!other && renamed_to(kind, what))
        return find_name(c, renamed_to(kind, what), kind, at, ret);
    const char *const *names, *list;
    char hint[256];
    if (known_names(c, kind, &names, &list) != MF_OK) return MF_ENOMEM;
    if (other && other->kind != 0)
        return mf_fail(MF_ECONFIG, "%splugin '%s': expected %s, found %s; known %s: %s", at,
                       what, mf_kind_a_name(kind), mf_kind_a_name(other->kind),
                       mf_kind_folder(kind), list);
    mf_did_you_mean(what, names, hint, sizeof hint);
    const char *looked = looked_in(c, ""), *library = no_plugin(c, what);
    return mf_fail(MF_ENOTFOUND,
                   "%sunknown %s%splugin '%s'%s known %s: %s; looked in drop-ins, %s%s%s%s", at,
                   kind != 0 ? mf_kind_name(kind) : "", kind != 0 ? " " : "", what,
                   hint[0] != '\0' ? hint : ";", kind != 0 ? mf_kind_folder(kind) : "plugins",
                   list, looked ? looked : "", library ? "; " : "", library ? library : "",
                   library ? " exports no 'moefw_plugin'" : "");
}

/* Returns the path of `what` in a plugin folder or, if it has no '/', in the folder of a kind;
 * NULL if there is no such file. */
static const char *below(const catalog *c, const char *folder, const char *what, mf_kind kind)
{
    const char *path = mf_arena_strf(c->arena, "%s/%s", folder, what);
    if (!path || is_file(path) || strchr(what, '/') != NULL)
        return path && is_file(path) ? path : NULL;
    for (int k = 0; k < KINDS; k++) {
        path = mf_arena_strf(c->arena, "%s/%s/%s", folder, kinds[k].folder, what);
        if ((kind == 0 || kinds[k].kind == kind) && path && is_file(path)) return path;
    }
    return NULL;
}

/* Whether the path names a file below a plugin folder. */
static bool in_folders(const catalog *c, const char *path)
{
    char *real = realpath(path, NULL);
    bool found = false;
    if (!real) mf_fault_errno(path);
    for (int i = 0; real && !found && c->folders[i]; i++) {
        char *folder = realpath(c->folders[i], NULL);
        const size_t n = folder ? strlen(folder) : 0;
        if (!folder) mf_fault_errno(c->folders[i]);
        found = n > 0 && strncmp(real, folder, n) == 0 && real[n] == '/';
        free(folder);
    }
    free(real);
    return found;
}

static int find_file(const catalog *c, const char *what, mf_kind kind, const char *at,
                     mf_found *ret)
{
    *ret = (mf_found){.kind = kind};
    const bool has_slash = strchr(what, '/') != NULL;
    /* A path with ".." is not searched in the plugin folders, because it would lead out of them
     * to files that were not installed. */
    const bool exact = what[0] == '/' || strncmp(what, "./", 2) == 0 || climbs(what);
    for (int i = 0; !exact && !ret->path && c->folders[i]; i++) {
        ret->path = below(c, c->folders[i], what, kind);
        ret->own = ret->path && strcmp(c->folders[i], mf_paths_plugins()) == 0;
    }
    if (!ret->path && has_slash && is_file(what)) {
        ret->path = mf_arena_strdup(c->arena, what);
        ret->as_given = ret->path && !in_folders(c, ret->path);
    }
    if (ret->path) return MF_OK;
    if (has_slash && mf_is_dir(what))
        return mf_fail(MF_ENOTFOUND, "%splugin '%s': expected a file, found a directory", at,
                       what);
    /* The nearest name is searched for the file's name without ".so". */
    const char *const *names, *list;
    const char *slash = strrchr(what, '/'), *base = slash ? slash + 1 : what;
    size_t n = strlen(base);
    char stem[80], hint[256];
    snprintf(stem, sizeof stem, "%.*s",
             (int)(n > 3 && strcmp(base + n - 3, ".so") == 0 ? n - 3 : n), base);
    if (known_names(c, kind, &names, &list) != MF_OK) return MF_ENOMEM;
    const char *given = has_slash ? "as given" : "";
    const char *looked = what[0] == '/' || climbs(what) ? given : looked_in(c, given);
    return mf_fail(MF_ENOTFOUND, "%splugin file '%s' not found: looked %s%s%s%s", at, what,
                   looked ? looked : "", mf_did_you_mean(stem, names, hint, sizeof hint),
                   has_slash || !is_file(what) ? ""
                                               : "; for the one in the current folder write ./",
                   has_slash || !is_file(what) ? "" : what);
}

int mf_find(mf_arena *arena, const char *what, mf_kind kind, const char *file, int line,
            mf_found *ret)
{
    catalog c;
    size_t n = strlen(what);
    bool is_path = strchr(what, '/') != NULL || (n > 3 && strcmp(what + n - 3, ".so") == 0);
    const mf_loaded *linked = is_path ? NULL : mf_plugin_linked(kind, what);
    if (linked) {
        *ret = (mf_found){.kind = linked->kind,
                          .name = linked->name,
                          .path = linked->path,
                          .own = true,
                          .linked = linked};
        return MF_OK;
    }
    int rc = make_catalog(&c, arena);
    if (rc != MF_OK) return rc;
    return (is_path ? find_file : find_name)(&c, what, kind, where(arena, file, line), ret);
}
