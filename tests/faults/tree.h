/* tree.h: reads all files of a folder into memory, and writes them back. */
#ifndef MF_TESTS_TREE_H
#define MF_TESTS_TREE_H

#include <stddef.h>

typedef struct file {
    char name[256]; /* path below the folder */
    char *data;
    size_t size;
} file;

typedef struct tree {
    file *files;
    int n;
} tree;

/* Reads at most the first 1,024 files. Free with tree_free. */
tree tree_read(const char *path);
void tree_free(tree *t);
const file *tree_find(const tree *t, const char *name); /* NULL: there is no file of
                                                         * this name */
void tree_write(const tree *t, const char *root);       /* replaces the files of the folder */
void tree_remove(const char *path);

#endif
