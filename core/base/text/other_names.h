/* base/text/other_names.h: names that other programs give to keys of the configuration.
 * Messages about unknown keys and options use them to name the key that a person means. */
#ifndef MF_BASE_OTHER_NAMES_H
#define MF_BASE_OTHER_NAMES_H

/* Returns the key that other programs call `name`, as "SECTION.KEY": for "batch-size" it
 * returns "train.batch". Case, '-' and '_' make no difference. NULL if the name is not in
 * the list. */
const char *mf_other_name(const char *name);

#endif
