/* tree.h: all files of a folder, in memory. */
#ifndef MF_TESTS_TREE_H
#define MF_TESTS_TREE_H

#include <stddef.h>

typedef struct file {
    char name[256]; /* below the folder */
    char *data;
    size_t size;
} file;

typedef struct tree {
    file *files;
    int n;
} tree;

/* Free with tree_free. Takes the first 1,024 files. */
tree tree_read(const char *path);
void tree_free(tree *t);
const file *tree_find(const tree *t, const char *name); /* NULL: there is no such file */
void tree_write(const tree *t, const char *root);       /* replaces the present files */
void tree_remove(const char *path);

#endif
