/* cli/main.c: the program's entry. */
#include <stdio.h>
#include <string.h>

#include "moefw/version.h"

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return printf("moefw %s\n", MOEFW_VERSION) < 0;
    fprintf(stderr, "usage: moefw --version\n");
    return 2;
}
