/* The constructor or destructor (WHEN) runs the code ACT in the program itself, but not in the
 * child processes that try and check a plugin first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef ACT
#define ACT _exit(0)
#endif
#ifndef WHEN
#define WHEN constructor
#endif
__attribute__((WHEN)) static void act(void)
{
    char words[256] = "";
    FILE *f = fopen("/proc/self/cmdline", "r");
    const size_t n = f ? fread(words, 1, sizeof words - 1, f) : 0;
    const char *verb = memchr(words, '\0', n);
    if (f) fclose(f);
    if (verb && strncmp(verb + 1, "--", 2) != 0) ACT;
}
#include "../bad.h"
