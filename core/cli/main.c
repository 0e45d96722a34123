/* cli/main.c: the program. All code is in the library; moefw_main is the only function that
 * does what only a program may do: handle signals, print, restart itself. */
#include <moefw/command.h>

int main(int argc, char **argv)
{
    return moefw_main(argc, argv);
}
