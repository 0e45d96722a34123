/* pretrained/beside.h: writes a new folder so that an interrupted export leaves none that looks
 * complete: beside its name first, which it gets at the end. */
#ifndef MF_PRETRAINED_BESIDE_H
#define MF_PRETRAINED_BESIDE_H

/* Calls write with the path of an empty folder, and renames this folder to `folder` if write
 * succeeds; else removes it. MF_EUSAGE if `folder` or `folder`.tmp exists; MF_EIO;
 * the error of write. */
int mf_write_beside(const char *folder, int (*write)(void *arg, const char *to), void *arg);

#endif
