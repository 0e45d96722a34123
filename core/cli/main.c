/* cli/main.c: the program. All code is in the library; moefw_main is the only function that
 * does what only a program may do: handle signals, print, restart itself. Here is besides what
 * only an executable can do: its _exit is found before that of libc, by plugins, too. */
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
