/* train/run/remove.h: removes runs, and only what belongs to them. */
#ifndef MF_TRAIN_REMOVE_H
#define MF_TRAIN_REMOVE_H

/* Whether the path names a run that mf_run_remove may remove: not by a link, not by "." or ".."
 * at its end, and not one that the process is in. MF_EUSAGE, MF_EINPUT, MF_EIO. */
int mf_run_removable(const char *path);
/* Removes the files that moefw wrote in the run, and the folder if nothing else is in it.
 * *ret_kept: the first file that stays, since moefw did not write it; NULL: none. The caller
 * frees it with mf_free. MF_ERUN: a process writes to the run. MF_EINPUT, MF_EIO, MF_ENOMEM. */
int mf_run_remove(const char *path, char **ret_kept);

#endif
