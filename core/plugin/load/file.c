/* plugin/load/file.c: checks a plugin's file before it is mapped, and checks later that it is
 * still the same file. */
#include "plugin/load/file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/hint.h"
#include "base/mem.h"

#if defined(__x86_64__)
#define MACHINE      EM_X86_64
#define MACHINE_NAME "x86-64"
#elif defined(__aarch64__)
#define MACHINE      EM_AARCH64
#define MACHINE_NAME "AArch64"
#elif defined(__riscv)
#define MACHINE      EM_RISCV
#define MACHINE_NAME "RISC-V"
#elif defined(__powerpc64__)
#define MACHINE      EM_PPC64
#define MACHINE_NAME "PPC64"
#else
#error "plugin/load/file.c: add this machine's ELF number"
#endif

/* Checks the owner of the file, who can change it, and a group with write permission, which can
 * change it, too. The user's own group is accepted, because files have it under the usual umask
 * of 002. */
static int check_owner(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return mf_fail(MF_EPLUGIN,
                       "the file belongs to another user: expected number %u or 0, found %u; "
                       "copy it%s",
                       (unsigned)geteuid(), (unsigned)st->st_uid, mf_hint_text(MF_HINT_UNSAFE));
    if ((st->st_mode & S_IWGRP) != 0 && st->st_gid != getegid())
        return mf_fail(MF_EPLUGIN,
                       "the file can be written by group %u, which is not yours: expected mode "
                       "%03o, found %03o; run chmod g-w%s",
                       (unsigned)st->st_gid, (unsigned)st->st_mode & 0755,
                       (unsigned)st->st_mode & 0777, mf_hint_text(MF_HINT_UNSAFE));
    return MF_OK;
}

/* Whether other users can replace the file in the folder: everybody, or a group that is not the
 * user's own. In a sticky folder (/tmp) only root and the owners of file and folder can replace
 * it. trusted: the file belongs to the user or root. */
static bool is_open(const struct stat *folder, bool trusted, mf_file_trust trust)
{
    if ((folder->st_mode & S_ISVTX) != 0 && trusted) return false;
    const bool group = (folder->st_mode & S_IWGRP) != 0 && folder->st_gid != getegid();
    return (folder->st_mode & S_IWOTH) != 0 || (group && trust == MF_FILE_SAFE);
}

/* Returns a text like "everybody", or "group 100, which is not yours". */
static const char *who_writes(const struct stat *folder, char *out, size_t size)
{
    if ((folder->st_mode & S_IWOTH) != 0) return "everybody";
    snprintf(out, size, "group %u, which is not yours", (unsigned)folder->st_gid);
    return out;
}

/* Checks the folder of the file and all folders above it. Overwrites real. */
static int check_folders(char *real, bool trusted, mf_file_trust trust)
{
    struct stat folder;
    char who[64];
    for (char *slash; (slash = strrchr(real, '/')) != NULL && real[1] != '\0';) {
        const bool root = slash == real;
        slash[root] = '\0';
        if (stat(real, &folder) != 0)
            return mf_fail_errno(MF_EPLUGIN, "cannot look at %s", real);
        const bool strange = folder.st_uid != geteuid() && folder.st_uid != 0;
        if (strange && trust == MF_FILE_SAFE)
            return mf_fail(MF_EPLUGIN,
                           "its folder %s belongs to another user: expected number %u or 0, "
                           "found %u; move the plugin%s",
                           real, (unsigned)geteuid(), (unsigned)folder.st_uid,
                           mf_hint_text(MF_HINT_UNSAFE));
        if (is_open(&folder, trusted, trust))
            return mf_fail(MF_EPLUGIN,
                           "its folder can be written by %s: expected a folder of yours, found "
                           "mode %04o of %s; move the plugin%s",
                           who_writes(&folder, who, sizeof who),
                           (unsigned)folder.st_mode & 07777, real,
                           mf_hint_text(MF_HINT_UNSAFE));
        if (root) break;
    }
    return MF_OK;
}

/* Refuses files that other users could change. A user who may write the file, or may replace it
 * in its folder, could run code in our process. */
static int check_safe(const char *path, const struct stat *st, mf_file_trust trust)
{
    if ((st->st_mode & S_IWOTH) != 0)
        return mf_fail(
            MF_EPLUGIN,
            "the file can be written by everybody: expected mode %03o, found %03o; run "
            "chmod o-w%s",
            (unsigned)st->st_mode & 0775, (unsigned)st->st_mode & 0777,
            mf_hint_text(MF_HINT_UNSAFE));
    int rc = trust == MF_FILE_SAFE ? check_owner(st) : MF_OK;
    if (rc != MF_OK) return rc;
    char *real = realpath(path, NULL); /* a link in a safe folder may lead to an unsafe one */
    if (!real) return mf_fail_errno(MF_EPLUGIN, "cannot find its folder");
    rc = check_folders(real, st->st_uid == geteuid() || st->st_uid == 0, trust);
    free(real);
    return rc;
}

/* Describes the first bytes of a file, for the message if it is not ELF. */
static void first_bytes(const unsigned char *p, size_t n, char out[64])
{
    out[0] = '\0';
    for (size_t i = 0; i < n && i < 4; i++)
        snprintf(out + strlen(out), 64 - strlen(out), "%s%02x", i > 0 ? " " : "", p[i]);
    if (n == 0) snprintf(out, 64, "an empty file");
}

static int check_header(const Elf64_Ehdr *h, size_t n)
{
    char found[64];
    first_bytes((const unsigned char *)h, n, found);
    if (n < SELFMAG || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return mf_fail(
            MF_EPLUGIN,
            "not an ELF shared object: expected the bytes 7f 45 4c 46 at its start, found "
            "%s; build it with cc -shared -fPIC",
            found);
    if (n < sizeof *h)
        return mf_fail(MF_EPLUGIN,
                       "truncated ELF file: expected at least %zu bytes, found %zu; "
                       "build or copy it again",
                       sizeof *h, n);
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != MACHINE)
        return mf_fail(MF_EPLUGIN,
                       "built for another machine: expected 64-bit " MACHINE_NAME
                       " (ELF machine %d), found %s-bit machine %d; build it for this one",
                       MACHINE, h->e_ident[EI_CLASS] == ELFCLASS64 ? "64" : "32", h->e_machine);
    if (h->e_type != ET_DYN)
        return mf_fail(MF_EPLUGIN,
                       "not a shared object: expected ELF type %d (DYN), found %d%s; link "
                       "it with cc -shared",
                       ET_DYN, h->e_type, h->e_type == ET_REL ? " (an object file)" : "");
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0)
        return mf_fail(MF_EPLUGIN,
                       "damaged ELF file: expected program headers of %zu bytes, found %d "
                       "of %d bytes",
                       sizeof(Elf64_Phdr), h->e_phnum, h->e_phentsize);
    return MF_OK;
}

/* Reads by mf_file_read_at, because short reads and interrupts are no faults of a file. */
static int read_at(int fd, const char *path, void *to, size_t n, uint64_t offset)
{
    int rc = mf_file_read_at(fd, path, to, n, offset);
    return rc == MF_OK || rc == MF_ENOMEM ? rc : mf_fail_context(MF_EPLUGIN, "cannot read it");
}

/* Checks that the file is complete. A truncated file can be mapped, but reading its missing
 * pages kills the process. */
static int check_complete(int fd, const char *path, const Elf64_Ehdr *h, uint64_t size)
{
    uint64_t need = 0, end;
    for (int i = 0; i < h->e_phnum; i++) {
        Elf64_Phdr p;
        if (__builtin_add_overflow(h->e_phoff, (uint64_t)(i + 1) * sizeof p, &end))
            end = UINT64_MAX;
        if (end > size) {
            need = end;
            break;
        }
        int rc = read_at(fd, path, &p, sizeof p, end - sizeof p);
        if (rc != MF_OK) return rc;
        if (__builtin_add_overflow(p.p_offset, p.p_filesz, &end)) end = UINT64_MAX;
        if (p.p_type == PT_LOAD && end > need) need = end;
    }
    if (need > size)
        return mf_fail(MF_EPLUGIN,
                       "truncated ELF file: expected at least %llu bytes, found %llu; "
                       "build or copy it again",
                       (unsigned long long)need, (unsigned long long)size);
    return MF_OK;
}

static int check_file(const char *path, int fd, mf_file_trust trust, struct stat *st)
{
    Elf64_Ehdr header = {0};
    if (fstat(fd, st) != 0) return mf_fail_errno(MF_EPLUGIN, "cannot look at it");
    if (!S_ISREG(st->st_mode))
        return mf_fail(MF_EPLUGIN, "expected a regular file, found %s",
                       S_ISDIR(st->st_mode) ? "a folder" : "a device, socket or pipe");
    int rc = trust == MF_FILE_ANY ? MF_OK : check_safe(path, st, trust);
    if (rc != MF_OK) return rc;
    const size_t there = (size_t)st->st_size;
    const size_t n = there < sizeof header ? there : sizeof header;
    rc = read_at(fd, path, &header, n, 0);
    if (rc == MF_OK) rc = check_header(&header, n);
    return rc != MF_OK ? rc : check_complete(fd, path, &header, (uint64_t)there);
}

int mf_plugin_file_read(const char *path, int fd, const struct stat *st, unsigned char **ret)
{
    const size_t n = (size_t)st->st_size;
    *ret = NULL;
    if (st->st_size > MF_PLUGIN_FILE_MAX)
        return mf_fail(MF_EPLUGIN, "its file has %lld bytes: expected at most %d",
                       (long long)st->st_size, MF_PLUGIN_FILE_MAX);
    unsigned char *bytes = mf_alloc_raw(n + 1);
    if (!bytes) return MF_ENOMEM;
    int rc = read_at(fd, path, bytes, n, 0);
    if (rc == MF_OK)
        *ret = bytes;
    else
        mf_free(bytes);
    return rc;
}

int mf_plugin_file_same(const char *path, const struct stat *was)
{
    struct stat now;
    if (stat(path, &now) != 0)
        return mf_fail_errno(MF_EPLUGIN, "it was there when it was checked, and is gone");
    if (now.st_dev == was->st_dev && now.st_ino == was->st_ino && now.st_size == was->st_size &&
        now.st_ctim.tv_sec == was->st_ctim.tv_sec &&
        now.st_ctim.tv_nsec == was->st_ctim.tv_nsec)
        return MF_OK;
    return mf_fail(MF_EPLUGIN,
                   "it changed while it was loaded: expected the file that was checked (inode "
                   "%llu, %lld bytes), found another or a changed one (inode %llu, %lld "
                   "bytes); try again",
                   (unsigned long long)was->st_ino, (long long)was->st_size,
                   (unsigned long long)now.st_ino, (long long)now.st_size);
}

int mf_plugin_file_open(const char *path, mf_file_trust trust, int *ret_fd,
                        struct stat *ret_stat)
{
    /* With O_NONBLOCK, opening a pipe does not wait for its other end. */
    int fd = mf_raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return mf_fail_errno(MF_EPLUGIN, "cannot open it");
    int rc = check_file(path, fd, trust, ret_stat);
    if (rc != MF_OK) {
        mf_io()->close(fd);
        return rc;
    }
    *ret_fd = fd;
    return MF_OK;
}
