/* folder/processor.c: reads the name and the instruction sets of the processor from
 * /proc/cpuinfo. A missing file or line results in an empty text. A file that cannot be read
 * does so, too, with a warning. */
#include "run/folder/processor.h"

#include "base/file/io_raw.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* maximum bytes that are read of /proc/cpuinfo; the lines of the first processor are at its
 * beginning and are shorter than this */
enum { CPUINFO_MAX = 16384 };

/* Copies the value of the first line that begins with key to `out`; "" if there is none. */
static void value_of(const char *key, char out[CPUINFO_MAX])
{
    static const char path[] = "/proc/cpuinfo";
    const int fd = mf_raw_open(path, O_RDONLY | O_CLOEXEC, 0);
    const ssize_t n = fd >= 0 ? mf_raw_read(fd, out, CPUINFO_MAX - 1, 0) : -1;
    if (n < 0 && errno != ENOENT)
        mf_log(MF_LOG_WARN, "%s: cannot read the %s of the processor: %s", path, key,
               strerror(errno));
    if (fd >= 0) mf_raw_close(fd);
    out[n > 0 ? n : 0] = '\0';
    for (char *line = out; *line; line += strcspn(line, "\n"), line += *line != '\0') {
        char *value = line + strcspn(line, ":\n");
        if (strncmp(line, key, strlen(key)) != 0 || *value != ':') continue;
        value += 1 + strspn(value + 1, " \t");
        const size_t length = strcspn(value, "\n");
        memmove(out, value, length);
        out[length] = '\0';
        return;
    }
    out[0] = '\0';
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
    char name[CPUINFO_MAX];
    value_of("model name", name);
    snprintf(out, MF_CPU_TEXT, "%.*s", MF_CPU_TEXT - 1, name);
}

void mf_cpu_features(char out[MF_CPU_TEXT])
{
    static const char *const wanted[] = {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"};
    char flags[CPUINFO_MAX];
    size_t n = 0;
    value_of("flags", flags);
    out[0] = '\0';
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (has_word(flags, wanted[i]))
            n +=
                (size_t)snprintf(out + n, MF_CPU_TEXT - n, "%s%s", n > 0 ? " " : "", wanted[i]);
}
