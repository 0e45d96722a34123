/* base/file/paths.h: finds the files of moefw.
 *
 * The real path of the library (or of the program that contains this code) tells which of three
 * cases applies:
 *
 *   in place    a file .moefw-uninstalled beside it names the source folder: plugins come from
 *               the build folder, presets, templates and drop-ins from the source folder,
 *               settings from the folder that configure set
 *   installed   the folders that configure set
 *   staged      installed below a DESTDIR: the same folders below that DESTDIR
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
/* holds routers/, experts/, regularizers/, controllers/, adapters/ */
const char *mf_paths_plugins(void);
const char *mf_paths_presets(void);  /* holds NAME.ini and quick/NAME.ini */
const char *mf_paths_template(void); /* the files that `plugin new` copies */
const char *mf_paths_settings(void); /* the folder of the system's moefw.ini */
const char *mf_paths_dropins(void);  /* holds one small INI file for each plugin */
bool mf_paths_uninstalled(void);     /* true if the program runs in place */
const char *mf_paths_source(void);   /* the source folder if in place, else "" */
/* The command that starts the program from the current folder: moefw; or, in place, its path,
 * relative to the current folder if it is below. */
const char *mf_paths_called(void);

/* For tests, while no other thread uses paths: pretends that the program is this file, until a
 * call with "". */
void mf_paths_set_program(const char *path);
/* For tests, likewise: pretends that this is the folder of the system's moefw.ini. */
void mf_paths_set_settings(const char *path);

#endif
