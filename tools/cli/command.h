/* cli/command.h: the command line of the program, without its main. */
#ifndef MF_CLI_COMMAND_H
#define MF_CLI_COMMAND_H

/* Runs the command line and returns the exit status: 0, or the status that MF_STATUS_LIST of
 * moefw/status.h lists for the failure. Call this once, from main, while the process has no
 * other thread. It prints, handles signals, and may execute the program again (to try a plugin
 * in a child process). argv: argc strings, then NULL; their order may be changed. */
int moefw_main(int argc, char **argv);

/* Ends the process at once, like _exit. If a function of a plugin is running, this function
 * reports that on standard error, and the status is 4. */
_Noreturn void moefw_exit(int status);

#endif
