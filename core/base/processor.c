/* base/processor.c: reads the name and the instruction sets of the processor from
 * /proc/cpuinfo. A missing file or line gives an empty text; a file that cannot be read, too,
 * with a warning. */
#include "base/processor.h"

#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the value of the first line that begins with key, NULL if there is none. The caller
 * frees it with free(). /proc/cpuinfo is not a regular file, so it is read line by line. */
static char *value_of(const char *key)
{
    static const char path[] = "/proc/cpuinfo";
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (f && !found && getline(&line, &room, f) > 0) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        memmove(line, colon, strlen(colon) + 1);
        line[strcspn(line, "\n")] = '\0';
        found = true;
    }
    /* getline ends without the mark of an error where it has no memory. */
    if (f ? !found && !feof(f) : errno != ENOENT)
        mf_log(MF_LOG_WARN, "%s: cannot read the %s of the processor: %s", path, key,
               strerror(errno));
    if (f) fclose(f);
    if (found) return line;
    free(line);
    return NULL;
}

static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

void mf_cpu_name(char out[MF_CPU_TEXT])
{
    char *name = value_of("model name");
    snprintf(out, MF_CPU_TEXT, "%s", name ? name : "");
    free(name);
}

void mf_cpu_features(char out[MF_CPU_TEXT])
{
    static const char *const wanted[] = {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"};
    char *flags = value_of("flags");
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; flags && i < sizeof wanted / sizeof *wanted; i++)
        if (has_word(flags, wanted[i]))
            n +=
                (size_t)snprintf(out + n, MF_CPU_TEXT - n, "%s%s", n > 0 ? " " : "", wanted[i]);
    free(flags);
}
