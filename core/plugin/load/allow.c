/* plugin/load/allow.c: decides which files of code may be loaded. The list belongs to the
 * process, like the list of files that the dynamic linker has mapped. */
#include "plugin/load/allow.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/hint.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/shown.h"

typedef struct allowed {
    struct allowed *next;
    dev_t device;
    ino_t inode;
    const char *path; /* absolute, because a child process may have another working folder */
} allowed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    mf_arena *arena;
    allowed *first, **last;
    bool unsafe, restricted, remembers;
} all = {.last = &all.first};

void mf_plugin_allow_unsafe(bool allow)
{
    pthread_mutex_lock(&lock);
    all.unsafe = allow;
    pthread_mutex_unlock(&lock);
}

mf_file_trust mf_plugin_trust(bool own)
{
    pthread_mutex_lock(&lock);
    const bool unsafe = all.unsafe;
    pthread_mutex_unlock(&lock);
    return unsafe ? MF_FILE_ANY : own ? MF_FILE_OWN : MF_FILE_SAFE;
}

static void restrict_to(bool restricted)
{
    pthread_mutex_lock(&lock);
    all.restricted = restricted;
    pthread_mutex_unlock(&lock);
}

void mf_plugin_restrict_paths(void)
{
    pthread_mutex_lock(&lock);
    all.remembers = true;
    pthread_mutex_unlock(&lock);
    restrict_to(true);
}

void mf_plugin_allow_paths(void)
{
    restrict_to(false);
}

/* Adds a file. Without memory the file stays refused, and loading it reports the refusal. */
static void add(const struct stat *st, const char *real)
{
    if (!all.arena) all.arena = mf_arena_new();
    allowed *a = all.arena ? mf_arena_alloc(all.arena, sizeof *a) : NULL;
    const char *path = a ? mf_arena_strdup(all.arena, real) : NULL;
    if (!path) return;
    *a = (allowed){NULL, st->st_dev, st->st_ino, path};
    *all.last = a;
    all.last = &a->next;
}

void mf_plugin_allow_file(const char *path)
{
    struct stat st;
    const bool there = stat(path, &st) == 0;
    char *real = there && S_ISREG(st.st_mode) ? realpath(path, NULL) : NULL;
    if (!there || !real) mf_fault_errno(path);
    if (!real) return;
    pthread_mutex_lock(&lock);
    add(&st, real);
    pthread_mutex_unlock(&lock);
    free(real);
}

/* Whether the file was allowed by its name. The caller holds the lock. */
static bool named(const struct stat *file)
{
    for (const allowed *a = all.first; a; a = a->next)
        if (a->device == file->st_dev && a->inode == file->st_ino) return true;
    return false;
}

int mf_plugin_check_allowed(const struct stat *file, const mf_code_id *id, const char *what,
                            const char *path)
{
    char word[4200];
    pthread_mutex_lock(&lock);
    const bool may = !all.restricted || named(file);
    pthread_mutex_unlock(&lock);
    if (may) return MF_OK;
    mf_error_clear(); /* clears earlier errors, so an error below comes from reading the list of
                       * trusted files */
    if (mf_trusted_has(id)) return MF_OK;
    if (mf_error_code() == MF_EINPUT) mf_log(MF_LOG_WARN, "%s", mf_error_message());
    const char *hint = mf_hint_text(MF_HINT_PATHS);
    return mf_fail(
        MF_EPLUGIN,
        "only a configuration names it, which may come from anybody: expected %s%s%s", what,
        hint, hint[0] != '\0' ? mf_shell_word(path, word, sizeof word) : "");
}

void mf_plugin_remember(const struct stat *file, const mf_code_id *id)
{
    pthread_mutex_lock(&lock);
    const bool want = all.remembers && named(file);
    pthread_mutex_unlock(&lock);
    if (!want || mf_trusted_add(id) == MF_OK) return;
    mf_log(MF_LOG_DEBUG, "%s is not remembered as trusted: %s", id->path, mf_error_message());
    mf_error_clear();
}

bool mf_plugin_paths_allowed(void)
{
    pthread_mutex_lock(&lock);
    const bool may = !all.restricted;
    pthread_mutex_unlock(&lock);
    return may;
}

const char *mf_plugin_allowed_file(int i)
{
    pthread_mutex_lock(&lock);
    const allowed *a = all.first;
    while (a && i-- > 0)
        a = a->next;
    pthread_mutex_unlock(&lock);
    return a ? a->path : NULL;
}
