/* replay_changes: repeats the changes of live options of another run at the same steps. It
 * reads the changes from that run's metrics.jsonl. If the configuration is otherwise the same,
 * without the controllers that made the changes, the new run has the same bits.
 *
 * It repeats only changes of options whose names begin with `only` (empty: all) and changes
 * that were made by the section `by` (empty: any). Call it after every step (`every = 1`,
 * the default). */
#include <moefw/moefw.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *file, *only, *by;
} conf;

enum { NAME = 96 };

typedef struct {
    int64_t step;
    double to;
    char option[NAME], by[NAME];
} entry;

typedef struct {
    const conf *c;
    entry *list;
    size_t n, room, next;
} controller;

/* ---- reading lines in the form that moefw writes, and in no other ---- */

/* Returns the text after `"key":` before the object ends; NULL if the object has no
 * such key. */
static const char *value_of(const char *object, const char *end, const char *key)
{
    char quoted[32];
    const int n = snprintf(quoted, sizeof quoted, "\"%s\":", key);
    for (const char *p = object; (p = strstr(p, quoted)) != NULL && p < end; p++)
        if (p == object + 1 || p[-1] == ',') return p + n;
    return NULL;
}

static bool read_text(const char *from, char out[NAME])
{
    const char *end = from && *from == '"' ? strchr(from + 1, '"') : NULL;
    const size_t n = end ? (size_t)(end - from - 1) : NAME;
    if (n >= NAME || memchr(from, '\\', n)) return false;
    memcpy(out, from + 1, n);
    out[n] = 0;
    return true;
}

/* Returns the end of the object that begins here: its '}' outside of texts. NULL: the object
 * has no end. */
static const char *object_end(const char *p)
{
    bool text = false;
    for (; *p; p++) {
        if (text && *p == '\\' && p[1])
            p++;
        else if (*p == '"')
            text = !text;
        else if (!text && *p == '}')
            return p;
    }
    return NULL;
}

static bool read_entry(const char *object, const char *end, entry *e)
{
    const char *step = value_of(object, end, "step"), *to = value_of(object, end, "to");
    char *rest;
    if (!step || !to || !read_text(value_of(object, end, "option"), e->option) ||
        !read_text(value_of(object, end, "by"), e->by))
        return false;
    e->step = strtoll(step, &rest, 10);
    if (rest == step) return false;
    e->to = strtod(to, &rest);
    return rest != to;
}

static bool wanted(const conf *c, const entry *e)
{
    return strncmp(e->option, c->only, strlen(c->only)) == 0 &&
           (c->by[0] == 0 || strcmp(c->by, e->by) == 0);
}

static int keep(controller *s, mf_ctx *ctx, const entry *e)
{
    if (!wanted(s->c, e)) return MF_OK;
    const int rc = mf->want_live(ctx, e->option);
    if (rc != MF_OK) return rc;
    if (s->n == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        entry *more = realloc(s->list, room * sizeof *more);
        if (!more) return mf->fail(ctx, MF_ENOMEM, "no memory for %zu changes", room);
        s->list = more;
        s->room = room;
    }
    s->list[s->n++] = *e;
    return MF_OK;
}

static int read_line(controller *s, mf_ctx *ctx, const char *line, int64_t number)
{
    const char *p = strstr(line, "\"turns\":[");
    int rc = MF_OK;
    if (!p) return MF_OK;
    for (p += strlen("\"turns\":["); rc == MF_OK && *p == '{';) {
        entry e;
        const char *end = object_end(p);
        if (!end || !read_entry(p, end, &e))
            return mf->fail(ctx, MF_EINPUT,
                            "%s:%lld: expected \"turns\" as metrics.jsonl has them", s->c->file,
                            (long long)number);
        rc = keep(s, ctx, &e);
        p = end + 1;
        if (*p == ',') p++;
    }
    return rc;
}

/* Reads the whole file and adds a NUL; NULL after an error has been reported. */
static char *read_all(const controller *s, mf_ctx *ctx)
{
    size_t n = 0, room = 1 << 16;
    char *text = malloc(room);
    FILE *f = fopen(s->c->file, "r");
    if (!f)
        mf->fail(ctx, MF_ECONFIG, "file = %s: cannot open: %s", s->c->file, strerror(errno));
    while (f && text) {
        n += fread(text + n, 1, room - n - 1, f);
        if (n < room - 1) break;
        char *more = realloc(text, room *= 2);
        if (!more) free(text);
        text = more;
    }
    if (f && !text) mf->fail(ctx, MF_ENOMEM, "no memory for %s", s->c->file);
    if (f && text && ferror(f)) {
        mf->fail(ctx, errno == EISDIR ? MF_ECONFIG : MF_EIO, "file = %s: cannot read: %s",
                 s->c->file, strerror(errno));
        free(text);
        text = NULL;
    }
    if (f) fclose(f);
    if (f && text) {
        text[n] = 0;
        return text;
    }
    free(text);
    return NULL;
}

static int read_file(controller *s, mf_ctx *ctx, int *ret_found)
{
    char *text = read_all(s, ctx);
    int64_t number = 0;
    int rc = text ? MF_OK : MF_ECONFIG;
    for (char *line = text, *next; rc == MF_OK && line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        rc = read_line(s, ctx, line, ++number);
    }
    free(text);
    *ret_found = s->n > 0;
    return rc;
}

/* ---- the controller ---- */

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *s = self;
    (void)dims;
    s->c = conf_;
    int found = 0;
    const int rc = s->c->file[0] ? read_file(s, ctx, &found) : MF_OK;
    if (rc == MF_OK && !found && s->c->file[0])
        mf->log(ctx, 1, "%s: it has no changes that are wanted here", s->c->file);
    if (rc != MF_OK) free(s->list);
    return rc;
}

static void fini(void *self)
{
    free(((controller *)self)->list);
}

static int on_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    controller *s = self;
    /* The list is in the order of the steps. If the run has gone back to an earlier step, the
     * search restarts at the first entry. Entries of earlier steps are skipped, for example
     * after a resume. */
    if (s->next > 0 && s->list[s->next - 1].step >= step->step) s->next = 0;
    while (s->next < s->n && s->list[s->next].step < step->step)
        s->next++;
    for (; s->next < s->n && s->list[s->next].step == step->step; s->next++) {
        const entry *e = &s->list[s->next];
        char why[96];
        snprintf(why, sizeof why, "as %.60s did", e->by);
        const int rc = mf->set_live(ctx, e->option, e->to, why);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_STR(conf, file, "", "metrics.jsonl of the run whose changes are repeated"),
    MF_OPTION_STR(conf, only, "", "options whose names begin so; empty: all"),
    MF_OPTION_STR(conf, by, "", "section whose changes are repeated; empty: all"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), MF_CONTROLLER_BLIND, init, fini,
                                     on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "replay_changes", "1.0", "MIT",
                                  "repeats the changes of another run at the same steps",
                                  options, conf, controller, &vtable);
