/* base/place.h: where the program's own files are.
 *
 * Three cases, told apart by where the executable really is (/proc/self/exe):
 *   in place    a file .moefw-uninstalled beside it names the source folder: plugins come from
 *               the build folder, presets, templates and drop-ins from the source folder
 *   installed   the folders that configure fixed
 *   staged      installed below a DESTDIR: the same folders, below the same root
 * All results are absolute, found once, and valid for ever. Not thread-safe on the first call.
 */
#ifndef MF_BASE_PLACE_H
#define MF_BASE_PLACE_H

#include <stdbool.h>

const char *mf_place_program(void);  /* the executable itself; "" when the system will not
                                        say */
const char *mf_place_plugins(void);  /* holds routers/, experts/, regularizers/, controllers/ */
const char *mf_place_presets(void);  /* holds NAME.ini */
const char *mf_place_template(void); /* what `plugin new` copies */
const char *mf_place_settings(void); /* the system's settings: holds moefw.ini */
const char *mf_place_dropins(void);  /* holds one small INI a plugin */
bool mf_place_uninstalled(void);     /* run in place? */
const char *mf_place_source(void);   /* in place: the source folder; else "" */
/* What a shell in the current folder calls the program by: moefw, or in place its path, from
 * the current folder if it lies below. Valid until the next call. */
const char *mf_place_called(void);

/* For tests, before the first call of the others: as if the program were this file. */
void mf_place_set_program(const char *path);

#endif
