/* Reads the items of a task, one JSON object a line, into an arena of its own. Blank lines
 * are skipped. */
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"
#include "lab/tasks/tasks.h"

enum { CHOICES_MAX = 1000 };

static int wrong(const char *path, int line, const char *what)
{
    return mf_fail(MF_EINPUT, "%s:%d: %s", path, line, what);
}

static int take(mf_task_file *f, const char *path, int line, const mf_json *v,
                mf_task_item *ret)
{
    const mf_json *list = mf_json_get(v, "choices");
    const char *context = mf_json_string(mf_json_get(v, "context"), NULL);
    const size_t n = mf_json_typeof(list) == MF_JSON_ARRAY ? mf_json_size(list) : 0;
    int64_t gold;
    if (!context) return wrong(path, line, "expected \"context\", a text without NUL");
    if (n < 2 || n > CHOICES_MAX)
        return wrong(path, line, "expected \"choices\", an array of 2 to 1000 texts");
    if (!mf_json_int(mf_json_get(v, "gold"), &gold) || gold < 0 || gold >= (int64_t)n)
        return wrong(path, line, "expected \"gold\", the number of a choice, counted from 0");
    const char **choice = mf_arena_alloc(f->arena, n * sizeof *choice);
    *ret = (mf_task_item){.context = mf_arena_strdup(f->arena, context),
                          .n = (int)n,
                          .gold = (int)gold,
                          .choice = choice,
                          .score = mf_arena_alloc(f->arena, n * sizeof *ret->score)};
    if (!choice || !ret->context || !ret->score) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *text = mf_json_string(mf_json_at(list, i), NULL);
        if (!text || text[0] == '\0')
            return wrong(path, line, "choices: expected texts that are not empty");
        choice[i] = mf_arena_strdup(f->arena, text);
        if (!choice[i]) return MF_ENOMEM;
    }
    return MF_OK;
}

static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", text[i])) return false;
    return true;
}

static int read_lines(mf_task_file *f, const char *path, const char *text, size_t size)
{
    int line = 0, rc = MF_OK;
    for (size_t at = 0; rc == MF_OK && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - text) - at : size - at;
        mf_json *v = NULL;
        line++;
        if (!is_blank(text + at, n)) {
            char *name = mf_strf("%s:%d", path, line);
            rc = name ? mf_json_parse(name, text + at, n, &v) : MF_ENOMEM;
            if (rc == MF_OK) rc = take(f, path, line, v, &f->items[f->n]);
            if (rc == MF_OK) f->n++;
            mf_json_free(v);
            mf_free(name);
        }
        at += n + 1;
    }
    if (rc == MF_OK && f->n == 0)
        rc = mf_fail(MF_EINPUT, "%s: expected items, found none", path);
    return rc;
}

int mf_task_file_read(const char *path, mf_task_file **ret)
{
    mf_task_file *f = mf_alloc(1, sizeof *f);
    char *text = NULL;
    size_t size = 0, lines = 1;
    *ret = NULL;
    if (!f) return MF_ENOMEM;
    f->arena = mf_arena_new();
    f->name = f->arena ? mf_arena_strdup(f->arena, path) : NULL;
    int rc = f->name ? mf_read_input(path, 0, &text, &size) : MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < size; i++)
        lines += text[i] == '\n';
    if (rc == MF_OK) {
        f->items = mf_arena_alloc(f->arena, lines * sizeof *f->items);
        rc = f->items ? read_lines(f, path, text, size) : MF_ENOMEM;
    }
    mf_free(text);
    if (rc == MF_OK)
        *ret = f;
    else
        mf_task_file_free(f);
    return rc;
}

void mf_task_file_free(mf_task_file *f)
{
    if (!f) return;
    mf_arena_free(f->arena);
    mf_free(f);
}
