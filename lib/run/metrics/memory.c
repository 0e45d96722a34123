/* run/metrics/memory.c: writes and reads memory.jsonl, with one line per validation. A file
 * that does not exist is read as empty. */
#include "run/metrics/memory.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/resident.h"

int mf_memory_put(mf_step_file *f, int64_t step)
{
    const mf_resident memory = mf_resident_read();
    if (memory.peak == 0) return MF_OK;
    mf_jw *w = mf_step_file_line(f);
    mf_jw_object(w);
    mf_jw_kv_int(w, "step", step);
    mf_jw_kv_real(w, "peak_rss_mib", (double)memory.peak / 1048576);
    mf_jw_end(w);
    return mf_step_file_put(f);
}

typedef struct reader {
    mf_memory_past *m;
    size_t room;
} reader;

static bool larger(double **list, size_t room, size_t more)
{
    double *grown = mf_realloc(*list, room * sizeof *grown, more * sizeof *grown);
    if (grown != NULL) *list = grown;
    return grown != NULL;
}

static int add_line(void *arg, const mf_json *v, bool *ret_damaged)
{
    reader *rd = arg;
    mf_memory_past *m = rd->m;
    int64_t step;
    double peak;
    if (!mf_json_int(mf_json_get(v, "step"), &step) ||
        !mf_json_real(mf_json_get(v, "peak_rss_mib"), &peak)) {
        *ret_damaged = true;
        return MF_OK;
    }
    if ((size_t)m->n == rd->room) {
        const size_t more = rd->room > 0 ? 2 * rd->room : 64;
        if (!larger(&m->step, rd->room, more) || !larger(&m->peak_mib, rd->room, more))
            return MF_ENOMEM;
        rd->room = more;
    }
    m->step[m->n] = (double)step;
    m->peak_mib[m->n++] = peak;
    return MF_OK;
}

int mf_memory_read(const char *path, mf_memory_past *ret)
{
    reader rd = {ret, 0};
    *ret = (mf_memory_past){0};
    int rc = mf_step_file_read(path, add_line, &rd, &ret->damage);
    if (rc != MF_ENOTFOUND) return rc;
    mf_error_clear();
    return MF_OK;
}

void mf_memory_free(mf_memory_past *m)
{
    mf_free(m->step);
    mf_free(m->peak_mib);
    *m = (mf_memory_past){0};
}
