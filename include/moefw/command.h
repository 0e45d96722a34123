/* moefw/command.h: the command line of the program `moefw`, as one function of libmoefw.
 *
 * This is the whole of the program but its main. It behaves as a program does, in contrast to
 * all that moefw/run.h declares: it prints to standard output and standard error, handles
 * signals (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU, and fatal ones, to name a plugin that
 * crashes), ignores SIGPIPE and SIGXFSZ, and may execute /proc/self/exe again with the same
 * arguments (once, with settings that the OpenMP runtime reads when it is loaded) or with
 * arguments of its own (to try a plugin in a child process). A main that calls it must
 * therefore do nothing before it, and hand on all its arguments. */
#ifndef MOEFW_COMMAND_H
#define MOEFW_COMMAND_H

#if !defined(MOEFW_API)
#if defined(__GNUC__)
#define MOEFW_API __attribute__((visibility("default")))
#else
#define MOEFW_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the command line and returns the exit status: 0, or the one that MF_STATUS_LIST of
 * moefw/status.h has for the failure. Call this once, from main, while the process has no other
 * thread. argv: argc strings, then NULL; the order of the strings may be changed. */
MOEFW_API int moefw_main(int argc, char **argv);

/* Ends the process at once with the status, as _exit does. If a function of a plugin is
 * running, this function says so on standard error, and the status is 4. A main that calls
 * moefw_main can define _exit as a call of moefw_exit, as that of moefw does: then no plugin
 * ends a run as if it had succeeded. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
MOEFW_API void moefw_exit(int status);

#ifdef __cplusplus
}
#endif
#endif
