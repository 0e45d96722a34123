/* cli/ranks.c: ends the ranks after an error. The launcher ends the other ranks as soon as one
 * rank has ended with an error, so no rank may end before the message is printed. */
#include "cli/ranks.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/text/shown.h"

bool mf_ranks_other(const mf_world *w, const char *comm)
{
    mf_launch l;
    if (w) return mf_world_rank(w) > 0;
    return mf_launch_find(&l) && l.rank > 0 && !(comm && strcmp(comm, "self") == 0);
}

static void tell_own(int rank, const char *host)
{
    char shown[4096];
    fprintf(stderr, "moefw: rank %d%s%s%s: %s\n", rank, *host ? " (" : "", host,
            *host ? ")" : "", mf_safe_text(mf_error_message(), false, shown, sizeof shown));
    fflush(NULL);
}

void mf_ranks_tell_agreed(mf_world *w)
{
    char shown[4096], told = 1;
    if (mf_world_rank(w) == 0) {
        fprintf(stderr, "moefw: %s\n",
                mf_safe_text(mf_error_message(), false, shown, sizeof shown));
        fflush(NULL);
    }
    mf_world_tell(w, "the end of the run", &told, sizeof told);
    mf_error_clear();
}

/* Ends a rank before the ranks have joined. The launcher's rank 0 has the same error and prints
 * it. An error of joining is the exception, because it may be this rank's own. */
static void end_apart(const char *comm, bool alone, int rc)
{
    mf_launch l;
    if (!mf_ranks_other(NULL, comm)) return;
    if (alone && rc != MF_EUSAGE && mf_launch_find(&l)) tell_own(l.rank, "");
    mf_error_clear();
}

void mf_ranks_end(mf_world *w, const char *comm, bool alone, int rc)
{
    const int rank = mf_world_rank(w);
    if (mf_world_ranks(w) == 1) {
        end_apart(comm, alone, rc);
    } else if (mf_world_agreed(w)) {
        mf_ranks_tell_agreed(w);
    } else {
        tell_own(rank, mf_world_place(w, rank)->host);
        mf_world_abort(w, mf_status_exit(rc));
    }
}
