/* A temporary folder for each test program (scratch.h). Only the process that made it removes
 * it, so the forked children of a suite do not remove it. */
#include "tests/lib/scratch.h"

#include "base/file/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[512];
static pid_t owner;

/* Paths that were returned; they stay valid until the program ends. */
typedef struct named {
    struct named *next;
    char path[];
} named;
static named *paths;

static void clean_up(void)
{
    /* the forked children of a suite must not remove the folder */
    if (getpid() == owner) mf_remove_tree(folder);
    for (named *next; paths; paths = next) {
        next = paths->next;
        free(paths);
    }
}

const char *scratch_dir(void)
{
    const char *base = getenv("TMPDIR");
    if (*folder) return folder;
    snprintf(folder, sizeof folder, "%s/moefw-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        abort();
    }
    owner = getpid();
    atexit(clean_up);
    return folder;
}

const char *scratch_path(const char *name)
{
    size_t room = strlen(scratch_dir()) + strlen(name) + 2;
    named *one;
    for (one = paths; one; one = one->next)
        if (strcmp(one->path + strlen(folder) + 1, name) == 0) return one->path;
    one = malloc(sizeof *one + room);
    if (!one) abort();
    snprintf(one->path, room, "%s/%s", folder, name);
    one->next = paths;
    paths = one;
    return one->path;
}

void scratch_write(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        abort();
    }
}

char *scratch_read(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    size_t n = 0, room = 4096, got;
    char *data;
    if (!f) return NULL;
    data = malloc(room);
    while (data && (got = fread(data + n, 1, room - 1 - n, f)) > 0) {
        n += got;
        if (n == room - 1) data = realloc(data, room *= 2);
    }
    fclose(f);
    if (!data) abort();
    data[n] = '\0';
    if (ret_n) *ret_n = n;
    return data;
}
