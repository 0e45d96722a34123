/* Reads lines through libedit. The library is opened when the first line is read, so moefw also
 * works without it. Without libedit or a terminal, plain lines are read. */
#include "cli/talk/line_edit.h"

#include <config.h>
#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct editor {
    char *(*read)(const char *prompt);
    int (*remember)(const char *line);
} editor;

#if defined(HAVE_EDIT)
static void *open_library(void)
{
    static const char *const names[] = {"libedit.so.2", "libedit.so.0", "libedit.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle) return handle;
    }
    return NULL;
}

static editor find_editor(void)
{
    editor e = {0};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)) return e;
    void *handle = open_library();
    if (!handle) return e;
    FILE **out = dlsym(handle, "rl_outstream");
    *(void **)&e.read = dlsym(handle, "readline");
    *(void **)&e.remember = dlsym(handle, "add_history");
    if (!e.read || !e.remember) return (editor){0};
    if (out) *out = stderr;  /* the prompt is not part of the results on stdout */
    setlocale(LC_CTYPE, ""); /* so that libedit treats a character of several bytes as
                              * one character */
    return e;
}

const char *mf_line_lacks(void)
{
    return open_library() ? NULL : "apt-get install libedit2";
}
#else
const char *mf_line_lacks(void)
{
    return "apt-get install libedit-dev && ./quickstart build";
}

static editor find_editor(void)
{
    return (editor){0};
}
#endif

static bool read_plain(const char *prompt, char *line, size_t size, bool *ret_long)
{
    fputs(prompt, stderr);
    if (!fgets(line, (int)size, stdin)) return false;
    const size_t n = strcspn(line, "\r\n");
    *ret_long = line[n] == 0 && n + 1 == size;
    line[n] = 0;
    for (int c = 0; *ret_long && c != '\n' && c != EOF;)
        c = getchar();
    return true;
}

bool mf_line_read(const char *prompt, char *line, size_t size, bool *ret_long)
{
    static editor e; /* static without a lock: only the thread of the command line
                      * reads lines */
    static bool known;
    if (!known) e = find_editor();
    known = true;
    fflush(stdout);
    if (!e.read) return read_plain(prompt, line, size, ret_long);
    char *text = e.read(prompt);
    if (!text) return false;
    *ret_long = strlen(text) + 2 > size;
    snprintf(line, size, "%s", text);
    if (text[0]) e.remember(text);
    free(text);
    return true;
}
