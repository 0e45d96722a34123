/* data/members/unread.c: names of members that nothing reads. A file has few of them, so a
 * short list is enough. If there are more, the warning says so without their names. */
#include "data/members/unread.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text/shown.h"

void mf_unread_note(mf_unread *u, const char *of, const char *member)
{
    char name[MF_UNREAD_NAME];
    snprintf(name, sizeof name, "%s%s%.40s", of, *of ? "." : "", member);
    for (int i = 0; i < u->n; i++)
        if (strcmp(u->name[i], name) == 0) return;
    if (u->n == MF_UNREAD_MAX)
        u->more = true;
    else
        memcpy(u->name[u->n++], name, sizeof name);
}

void mf_unread_tell(const mf_unread *u, const char *path)
{
    char list[MF_UNREAD_MAX * (MF_UNREAD_NAME + 2)] = "";
    size_t at = 0;
    for (int i = 0; i < u->n; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "",
                               u->name[i]);
    if (u->n > 0)
        mf_log(MF_LOG_WARN, "%s: members that are not read: %s%s", path, mf_shown(list),
               u->more ? " and others" : "");
}
