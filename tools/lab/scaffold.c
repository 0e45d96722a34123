/* Writes the folder of a new plugin from the templates in share/template. If writing fails, the
 * folder is removed. */
#include "lab/scaffold.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <moefw/version.h>
#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/mem.h"
#include "base/file/paths.h"
#include "plugin/load/find.h"
#include "plugin/option.h"

/* A word that stands between two @ in a template, and its replacement. */
typedef struct word {
    const char *key, *value;
} word;

static bool good_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= 64 && name[0] >= 'a' && name[0] <= 'z' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* Whether the name is a keyword of C. The name is then refused, because the plugin's code uses
 * its name as an identifier. */
static bool reserved_word(const char *name)
{
    static const char *const words[] = {
        "auto",    "break",  "case",     "char",   "const",    "continue", "default",
        "do",      "double", "else",     "enum",   "extern",   "float",    "for",
        "goto",    "if",     "inline",   "int",    "long",     "register", "restrict",
        "return",  "short",  "signed",   "sizeof", "static",   "struct",   "switch",
        "typedef", "union",  "unsigned", "void",   "volatile", "while",    NULL};
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], name) == 0) return true;
    return false;
}

static void put_filled(mf_writer *w, const char *text, const word *words)
{
    while (*text != '\0') {
        const word *hit = NULL;
        for (const word *k = words; *text == '@' && k->key != NULL; k++)
            if (strncmp(text, k->key, strlen(k->key)) == 0) hit = k;
        if (hit != NULL) {
            mf_writer_put(w, hit->value, strlen(hit->value));
            text += strlen(hit->key);
        } else {
            size_t n = 1 + strcspn(text + 1, "@");
            mf_writer_put(w, text, n);
            text += n;
        }
    }
}

/* The kind of the plugin that a template is for. The template "op" is a router with ops of
 * its own. */
static const char *kind_of_template(const char *template)
{
    return strcmp(template, "op") == 0 ? "router" : template;
}

/* Writes FOLDER/FILE from a template. */
static int fill(const char *template, const char *folder, const char *file, const word *words)
{
    char *from = mf_path_join(mf_paths_template(), template);
    char *to = mf_path_join(folder, file);
    char *text = NULL;
    size_t size;
    mf_writer w;
    int rc = from != NULL && to != NULL ? mf_read_file(from, 1 << 20, &text, &size) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_writer_open(&w, to, true);
    if (rc == MF_OK) {
        put_filled(&w, text, words);
        rc = mf_writer_close(&w, false);
    }
    mf_free(from);
    mf_free(to);
    mf_free(text);
    return rc;
}

/* Compiler flags for the headers. They name the folders of the build tree if the program runs
 * from it and these names need no quoting in shell and make; otherwise pkg-config finds an
 * installed moefw. *ret_program: the program to call. */
static void headers(char *cflags, size_t size, const char **ret_program)
{
    const char *source = mf_paths_source(), *program = mf_paths_program();
    const char *slash = strrchr(program, '/');
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_-.+@";
    *ret_program = "moefw";
    snprintf(cflags, size, "`pkg-config --cflags moefw`");
    if (source[0] == '\0' || slash == NULL || source[strspn(source, plain)] != '\0' ||
        program[strspn(program, plain)] != '\0')
        return;
    *ret_program = program;
    snprintf(cflags, size, "-I%s/include -I%.*s/include", source, (int)(slash - program),
             program);
}

/* Compiler flags for the headers of kernels and the emulator. installed: pkg-config finds those
 * of an installed moefw; otherwise the flags name the folders of the source tree. */
static void cuda_headers(char *cflags, size_t size, bool installed)
{
    const char *source = mf_paths_source();
    if (installed)
        snprintf(cflags, size, "`pkg-config --cflags-only-I moefw-cuda`");
    else
        snprintf(cflags, size, "$(MOEFW_CFLAGS) -I%s/kernels/cuda -I%s/tests/cuda", source,
                 source);
}

static int fill_all(const char *what, const char *name, const char *folder, bool cuda)
{
    char source[128], ini[128], template[64], cflags[2 * PATH_MAX + 32];
    char kernels[128], cuda_cflags[2 * PATH_MAX + 64];
    const char *program, *kind = kind_of_template(what);
    if (cuda) what = "op_cuda";
    headers(cflags, sizeof cflags, &program);
    cuda_headers(cuda_cflags, sizeof cuda_cflags, strcmp(program, "moefw") == 0);
    snprintf(kernels, sizeof kernels, "%s.cu", name);
    snprintf(source, sizeof source, "%s.c", name);
    snprintf(ini, sizeof ini, "%s.ini", name);
    snprintf(template, sizeof template, "%s.c.in", what);
    const word words[] = {{"@NAME@", name},
                          {"@KIND@", kind},
                          {"@A_KIND@", mf_kind_a_name(mf_kind_of(kind))},
                          {"@KINDS@", mf_kind_folder(mf_kind_of(kind))},
                          {"@VERSION@", MOEFW_VERSION},
                          {"@MOEFW@", program},
                          {"@CFLAGS@", cflags},
                          {"@CUDA_CFLAGS@", cuda_cflags},
                          {NULL, NULL}};
    int rc = fill(template, folder, source, words);
    if (rc == MF_OK)
        rc = fill(cuda ? "Makefile_cuda.in" : "Makefile.in", folder, "Makefile", words);
    if (rc == MF_OK && cuda) rc = fill("op_cuda.cu.in", folder, kernels, words);
    if (rc == MF_OK) rc = fill("plugin.ini.in", folder, ini, words);
    if (rc == MF_OK) rc = fill("README.in", folder, "README", words);
    return rc;
}

/* Removes the folder after a failure. The message of that failure is kept. */
static void take_back(int code, const char *folder)
{
    char why[1024];
    snprintf(why, sizeof why, "%s", mf_error_message());
    if (mf_remove_tree(folder) != MF_OK)
        mf_fail(code, "%s; its folder %s could not be removed", why, folder);
}

int mf_scaffold(const char *kind, const char *name, const char *folder, bool cuda,
                char **ret_folder)
{
    static const char *const kinds[] = {"router",  "expert", "regularizer", "controller",
                                        "adapter", "op",     NULL};
    char hint[128];
    if (mf_kind_of(kind_of_template(kind)) == 0)
        return mf_fail(MF_EUSAGE,
                       "kind: expected router, expert, regularizer, controller, adapter or op, "
                       "found '%s'%s",
                       kind, mf_did_you_mean(kind, kinds, hint, sizeof hint));
    if (cuda && strcmp(kind, "op") != 0)
        return mf_fail(MF_EUSAGE,
                       "--cuda: expected kind op, found '%s': other kinds run on "
                       "devices by the ops that they use",
                       kind);
    if (!good_name(name) || reserved_word(name))
        return mf_fail(MF_EUSAGE,
                       "name: expected a word of at most 64 of [a-z0-9_] that begins with "
                       "a letter and is none of C's, found '%s'",
                       name);
    char *where = mf_strdup(folder != NULL ? folder : name);
    if (where == NULL) return MF_ENOMEM;
    int rc = MF_OK;
    if (mf_exists(where))
        rc =
            mf_fail(MF_EUSAGE, "%s is there already: expected the name of a new folder", where);
    else if (mf_io()->mkdir(where, 0777) != 0)
        rc = mf_fail_errno(errno == ENOENT ? MF_EUSAGE : MF_EIO, "%s: cannot make the folder",
                           where);
    else if ((rc = fill_all(kind, name, where, cuda)) != MF_OK)
        take_back(rc, where);
    if (rc != MF_OK) {
        mf_free(where);
        return rc;
    }
    *ret_folder = where;
    return MF_OK;
}
