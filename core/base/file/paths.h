/* base/file/paths.h: finds the files of moefw.
 *
 * The real path of the library (or of the program that contains this code) decides which of
 * three cases applies:
 *
 *   in place    a file .moefw-uninstalled beside it names the source folder: plugins come from
 *               the build folder, presets, templates and drop-ins from the source folder,
 *               settings from the folder that configure set
 *   installed   all files come from the folders that configure set
 *   staged      installed below a DESTDIR: all files come from the same folders below that
 *               DESTDIR
 *
 * A result is an absolute path, or "" if there is none; only mf_paths_called may return a
 * relative path. Paths are found once and stay valid until the process ends. Any thread may
 * call these functions. */
#ifndef MF_BASE_PATHS_H
#define MF_BASE_PATHS_H

#include <stdbool.h>

const char *mf_paths_program(void); /* the executable; "" if the system does not report it */
/* the file that contains this code: the library, or the program */
const char *mf_paths_library(void);
/* the folder of routers/, experts/, regularizers/, controllers/, adapters/ */
const char *mf_paths_plugins(void);
const char *mf_paths_presets(void);  /* the folder of NAME.ini and quick/NAME.ini */
const char *mf_paths_template(void); /* the folder of the files that `plugin new` copies */
const char *mf_paths_settings(void); /* the folder of the system's moefw.ini */
const char *mf_paths_dropins(void);  /* the folder with one small INI file for each plugin */
bool mf_paths_uninstalled(void);     /* true if the program runs in place */
const char *mf_paths_source(void);   /* the source folder if in place, else "" */
/* Returns the command that starts the program from the current folder. This is "moefw" if
 * installed. In place it is the path of the program, which is relative if the program is below
 * the current folder. */
const char *mf_paths_called(void);

/* For tests, while no other thread uses paths: pretends that the program is the file `path`,
 * until the next call with "". */
void mf_paths_set_program(const char *path);
/* For tests, under the same condition: pretends that `path` is the folder of the
 * system's moefw.ini. */
void mf_paths_set_settings(const char *path);

#endif
