/* plugin/trusted.c: reads and changes the list of code that the user has named. A user who can
 * write to the list can get code loaded, so the list is trusted only if no other user could
 * have written it. If a list cannot be used, the user only has to name the files again. */
#include "plugin/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "plugin/load/symbols.h"

enum { HEX = MF_SHA256_HEX - 1, SHORTEST = 8, LARGEST = 8 << 20 };

mf_code_id mf_code_id_of(const unsigned char *bytes, size_t size, const char *path)
{
    mf_code_id id = {.moves = mf_symbols_move(bytes, size), .path = path};
    mf_sha256_hex(bytes, size, id.hash);
    return id;
}

/* Finds the folder, and its base folder: $XDG_STATE_HOME or $HOME. false: there is none. */
static bool folder(mf_arena *arena, const char **ret, const char **ret_base)
{
    const char *state = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
    const bool own = state && state[0] == '/';
    if (!own && (!home || home[0] != '/')) return false;
    *ret_base = own ? state : home;
    *ret = mf_arena_strf(arena, "%s%s/moefw", *ret_base, own ? "" : "/.local/state");
    return *ret != NULL;
}

const char *mf_trusted_file(mf_arena *arena)
{
    const char *dir, *base;
    return folder(arena, &dir, &base) ? mf_arena_strf(arena, "%s/trusted", dir) : NULL;
}

/* Returns MF_OK if only this user could have written the file or folder. */
static int judge(const char *path, const struct stat *st, bool directory)
{
    if (directory ? !S_ISDIR(st->st_mode) : !S_ISREG(st->st_mode))
        return mf_fail(MF_EINPUT, "%s is not used: expected a %s, found %s", path,
                       directory ? "folder" : "regular file",
                       S_ISLNK(st->st_mode) ? "a link" : "something else");
    if (st->st_uid != geteuid())
        return mf_fail(MF_EINPUT, "%s is not used: it belongs to user %ld, expected %ld", path,
                       (long)st->st_uid, (long)geteuid());
    if ((st->st_mode & 022) != 0)
        return mf_fail(
            MF_EINPUT,
            "%s is not used: others can write to it; chmod go-w makes it yours alone", path);
    return MF_OK;
}

/* Returns MF_ENOTFOUND, without a message, if there is no such folder. */
static int judge_folder(const char *dir)
{
    struct stat st;
    if (lstat(dir, &st) == 0) return judge(dir, &st, true);
    return errno == ENOENT || errno == ENOTDIR ? MF_ENOTFOUND
                                               : mf_fail_errno(MF_EIO, "%s", dir);
}

static bool is_hash(const char *text)
{
    return strspn(text, "0123456789abcdef") == HEX;
}

/* Divides the text into lines; lines of another form are skipped. */
static int take_lines(mf_arena *arena, char *text, size_t size, mf_trusted **ret, int *ret_n)
{
    size_t room = 1;
    for (size_t i = 0; i < size; i++)
        room += text[i] == '\n';
    *ret = mf_arena_alloc(arena, room * sizeof **ret);
    if (!*ret) return MF_ENOMEM;
    for (char *at = text; at < text + size;) {
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        if (!end) break; /* a line without an end was cut */
        *end = '\0';
        if (strlen(at) == (size_t)(end - at) && is_hash(at) &&
            strncmp(at + HEX, "  /", 3) == 0) {
            at[HEX] = '\0';
            (*ret)[(*ret_n)++] = (mf_trusted){at, at + HEX + 2};
        }
        at = end + 1;
    }
    return MF_OK;
}

static int read_text(mf_arena *arena, const char *path, char **ret, size_t *ret_size)
{
    struct stat st;
    const int fd = mf_raw_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    *ret_size = 0;
    if (fd < 0 && errno == ENOENT) return MF_OK;
    if (fd < 0)
        return errno == ELOOP ? mf_fail(MF_EINPUT, "%s is not used: it is a link", path)
                              : mf_fail_errno(MF_EIO, "%s: cannot open", path);
    int rc = fstat(fd, &st) == 0 ? judge(path, &st, false) : mf_fail_errno(MF_EIO, "%s", path);
    if (rc == MF_OK && st.st_size > LARGEST)
        rc = mf_fail(MF_EINPUT, "%s is not used: it has more than %d bytes", path, LARGEST);
    const size_t size = rc == MF_OK ? (size_t)st.st_size : 0;
    *ret = rc == MF_OK ? mf_arena_alloc(arena, size + 1) : NULL;
    if (rc == MF_OK && !*ret) rc = MF_ENOMEM;
    const ssize_t got = rc == MF_OK ? mf_raw_read(fd, *ret, size, 0) : 0;
    if (got < 0) rc = mf_fail_errno(MF_EIO, "%s: cannot read", path);
    if (got > 0) *ret_size = (size_t)got;
    mf_raw_close(fd);
    return rc;
}

int mf_trusted_read(mf_arena *arena, mf_trusted **ret, int *ret_n)
{
    const char *dir, *base, *path;
    char *text = NULL;
    size_t size = 0;
    *ret = NULL;
    *ret_n = 0;
    if (!folder(arena, &dir, &base)) return MF_OK;
    int rc = judge_folder(dir);
    if (rc == MF_ENOTFOUND) return MF_OK;
    path = mf_arena_strf(arena, "%s/trusted", dir);
    if (rc == MF_OK) rc = path ? read_text(arena, path, &text, &size) : MF_ENOMEM;
    return rc == MF_OK && size > 0 ? take_lines(arena, text, size, ret, ret_n) : rc;
}

static bool same(const mf_trusted *line, const mf_code_id *file)
{
    return strcmp(line->hash, file->hash) == 0 &&
           (file->moves || (file->path && strcmp(line->path, file->path) == 0));
}

static bool listed(const mf_trusted *lines, int n, const mf_code_id *file)
{
    for (int i = 0; i < n; i++)
        if (same(&lines[i], file)) return true;
    return false;
}

bool mf_trusted_has(const mf_code_id *file)
{
    mf_trusted *lines;
    int n = 0;
    mf_arena *arena = mf_arena_new();
    const bool has =
        arena && mf_trusted_read(arena, &lines, &n) == MF_OK && listed(lines, n, file);
    mf_arena_free(arena);
    return has;
}

/* ---- changes ---- */

/* Creates the folder if the folder of the user's state belongs to the user. So root, for
 * example, creates no folder in the home of the user for whom it acts. */
static int make_folder(const char *dir, const char *base)
{
    struct stat st;
    int rc = judge_folder(dir);
    if (rc != MF_ENOTFOUND) return rc;
    if (stat(base, &st) == 0 && st.st_uid != geteuid())
        return mf_fail(MF_EINPUT, "%s belongs to user %ld, expected %ld", base, (long)st.st_uid,
                       (long)geteuid());
    char *parent = mf_parent_of(dir);
    rc = parent ? mf_mkdirs(parent) : MF_ENOMEM;
    mf_free(parent);
    if (rc == MF_OK && mf_io()->mkdir(dir, 0700) != 0 && errno != EEXIST)
        rc = mf_fail_errno(MF_EIO, "%s: cannot create", dir);
    return rc == MF_OK ? judge_folder(dir) : rc;
}

/* Locks the list. It waits a second at most, because on some file systems a lock of a lost
 * machine is never released. */
static int lock_list(mf_arena *arena, const char *dir, int *ret_fd)
{
    enum { TRIES = 100 };
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const char *path = mf_arena_strf(arena, "%s/trusted.lock", dir);
    if (!path) return MF_ENOMEM;
    const int fd = mf_raw_open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return mf_fail_errno(MF_EIO, "%s: cannot open", path);
    for (int i = 0; i < TRIES; i++) {
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *ret_fd = fd;
            return MF_OK;
        }
        if (errno != EAGAIN && errno != EACCES) break;
        nanosleep(&(struct timespec){0, 10000000L}, NULL);
    }
    const int rc = mf_fail_errno(MF_EIO, "%s: cannot lock", path);
    mf_raw_close(fd);
    return rc;
}

static int write_list(mf_arena *arena, const char *path, const mf_trusted *lines, int n,
                      const mf_code_id *new)
{
    size_t size = 0, room = 1;
    const int first = n + (new != NULL) > MF_TRUSTED_MOST ? n + 1 - MF_TRUSTED_MOST : 0;
    for (int i = first; i < n; i++)
        room += HEX + strlen(lines[i].path) + 3;
    if (new) room += HEX + strlen(new->path) + 3;
    char *text = mf_arena_alloc(arena, room);
    if (!text) return MF_ENOMEM;
    for (int i = first; i < n; i++)
        size += (size_t)snprintf(text + size, room - size, "%s  %s\n", lines[i].hash,
                                 lines[i].path);
    if (new)
        size += (size_t)snprintf(text + size, room - size, "%s  %s\n", new->hash, new->path);
    return mf_write_file_private(path, text, size);
}

/* Changes the list, and calls nothing else while it holds the lock. new: the line to add; NULL:
 * removes `what`. */
static int change(const mf_code_id *new, const char *what, int *ret_removed)
{
    const char *dir, *base;
    mf_trusted *lines = NULL;
    int n = 0, left = 0, fd = -1;
    mf_arena *arena = mf_arena_new();
    int rc = arena ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && !folder(arena, &dir, &base))
        rc = mf_fail(MF_ENOTFOUND, "there is no home folder: set HOME or XDG_STATE_HOME");
    if (rc == MF_OK) rc = make_folder(dir, base);
    if (rc == MF_OK) rc = lock_list(arena, dir, &fd);
    if (rc == MF_OK) rc = mf_trusted_read(arena, &lines, &n);
    for (int i = 0; rc == MF_OK && i < n; i++)
        if (!what || (strncmp(lines[i].hash, what, strlen(what)) != 0 &&
                      strcmp(lines[i].path, what) != 0))
            lines[left++] = lines[i];
    *ret_removed = n - left;
    const bool add = rc == MF_OK && new && !listed(lines, n, new);
    const char *path = rc == MF_OK ? mf_arena_strf(arena, "%s/trusted", dir) : NULL;
    if (rc == MF_OK && !path) rc = MF_ENOMEM;
    if (rc == MF_OK && (add || left < n))
        rc = write_list(arena, path, lines, left, add ? new : NULL);
    if (fd >= 0) mf_raw_close(fd);
    mf_arena_free(arena);
    return rc;
}

int mf_trusted_add(const mf_code_id *file)
{
    int removed;
    if (!file->path || strchr(file->path, '\n'))
        return mf_fail(MF_EINPUT, "its path has more than one line");
    if (mf_trusted_has(file)) return MF_OK;
    return change(file, NULL, &removed);
}

int mf_trusted_remove(const char *what, int *ret_n)
{
    *ret_n = 0;
    if (what[0] != '/' && (strspn(what, "0123456789abcdef") != strlen(what) ||
                           strlen(what) < SHORTEST || strlen(what) > HEX))
        return mf_fail(MF_EINPUT, "'%s': expected a hash or a path from /", what);
    return change(NULL, what, ret_n);
}
