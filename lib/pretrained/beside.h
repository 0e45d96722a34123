/* pretrained/beside.h: writes a new folder such that an interrupted export leaves no folder
 * that looks complete. The folder is written under a temporary name beside its final name, and
 * renamed at the end. */
#ifndef MF_PRETRAINED_BESIDE_H
#define MF_PRETRAINED_BESIDE_H

/* Calls write with the path of an empty folder, and renames this folder to `folder` if write
 * succeeds; else removes it. MF_EUSAGE if `folder` or `folder`.tmp exists; MF_EIO;
 * the error of write. */
int mf_write_beside(const char *folder, int (*write)(void *arg, const char *to), void *arg);

#endif
