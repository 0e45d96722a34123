/* pretrained/checksums.h: checksums of the files of a model folder, in the form of xxh128sum:
 * lines of 32 hexadecimal digits, two blanks, and the name of a file in the folder. */
#ifndef MF_PRETRAINED_CHECKSUMS_H
#define MF_PRETRAINED_CHECKSUMS_H

#include <stdint.h>

#define MF_CHECKSUMS "checksums.xxh128"

/* Writes to `to` the checksums of the named files of a folder. known: such checksums that were
 * verified before, which are copied; NULL: none. MF_EIO, MF_EINPUT, MF_ENOMEM. */
int mf_checksums_write(const char *folder, const char *const *names, int64_t n,
                       const char *known, const char *to);
/* Compares the files of a folder with the checksums in file. MF_EINPUT: names the first file
 * that is missing or differs, or the line that has another form. */
int mf_checksums_verify(const char *file, const char *folder);

#endif
