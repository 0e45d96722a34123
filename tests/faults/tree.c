/* tree.c: implements tree.h. */
#include "tests/faults/tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 1024, PATH = 4096 };

static tree *walked;
static size_t walked_root;

static char *read_all(const char *path, size_t *ret)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) abort();
    char *data = malloc((size_t)st.st_size + 1);
    const ssize_t got = read(fd, data, (size_t)st.st_size);
    if (got < 0) abort();
    close(fd);
    data[got] = '\0';
    *ret = (size_t)got;
    return data;
}

static int walk_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)f;
    if (type != FTW_F || walked->n == FILES) return 0;
    file *one = &walked->files[walked->n++];
    snprintf(one->name, sizeof one->name, "%s", path + walked_root);
    one->data = read_all(path, &one->size);
    return 0;
}

tree tree_read(const char *path)
{
    tree t = {.files = calloc(FILES, sizeof *t.files)};
    walked = &t;
    walked_root = strlen(path) + 1;
    nftw(path, walk_one, 16, FTW_PHYS);
    return t;
}

void tree_free(tree *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->files[i].data);
    free(t->files);
}

const file *tree_find(const tree *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->files[i].name, name) == 0) return &t->files[i];
    return NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

void tree_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void tree_write(const tree *t, const char *root)
{
    char path[PATH];
    tree_remove(root);
    mkdir(root, 0777);
    for (int i = 0; i < t->n; i++) {
        snprintf(path, sizeof path, "%s/%s", root, t->files[i].name);
        for (char *s = path + strlen(root) + 1; *s; s++) {
            if (*s != '/') continue;
            *s = '\0';
            mkdir(path, 0777);
            *s = '/';
        }
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (write(fd, t->files[i].data, t->files[i].size) != (ssize_t)t->files[i].size) abort();
        close(fd);
    }
}
