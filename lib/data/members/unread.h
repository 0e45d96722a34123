/* data/members/unread.h: the members of jsonl objects that no reader uses. One warning for each
 * file names these members, because the file's author may believe that the model is trained
 * on them. */
#ifndef MF_DATA_UNREAD_H
#define MF_DATA_UNREAD_H

#include <stdbool.h>

enum { MF_UNREAD_MAX = 12, MF_UNREAD_NAME = 56 };

typedef struct mf_unread {
    char name[MF_UNREAD_MAX][MF_UNREAD_NAME];
    int n;
    bool more; /* there were more members than `name` holds */
} mf_unread;   /* {0} is empty */

/* Notes a member that no reader uses. of: name of the object that has the member, "" for the
 * object of the line. */
void mf_unread_note(mf_unread *u, const char *of, const char *member);
/* Logs a warning that names the noted members, if there are any. */
void mf_unread_tell(const mf_unread *u, const char *path);

#endif
