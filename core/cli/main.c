/* cli/main.c: the program. All other code is in the library, where only moefw_main and its
 * verbs handle signals, print results, or restart the program. _exit is defined here, because
 * only an executable can replace that of libc, also for plugins. */
#include <moefw/command.h>
#include <stdlib.h>
#include <unistd.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
MOEFW_API void _exit(int status)
{
    moefw_exit(status);
}

MOEFW_API void _Exit(int status)
{
    moefw_exit(status);
}
#endif

int main(int argc, char **argv)
{
    return moefw_main(argc, argv);
}
