/* io/json.c: reads JSON. jansson parses the text. Its values are then copied into arrays, where
 * a member is found by position in constant time and by name in logarithmic time. A document's
 * arena owns everything; jansson's values are freed before reading returns.
 *
 * If an allocation of jansson's scanner fails, jansson continues: it loses characters of a name
 * or a number without a message, or an assertion ends the process. Therefore, while a thread
 * reads JSON here, jansson's memory on that thread comes from an arena, and the first failure
 * leaves the parser by longjmp. All other code of the process keeps the allocation functions
 * that were set in jansson before. */
#include "io/json.h"
#include "base/error.h"
#include "io/lfs.h"
#include "base/mem.h"
#include "io/json_numbers.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

struct mf_json {
    mf_json_type type;
    uint32_t n; /* number of items, or of bytes of a text */
    const char *key;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *text;
        struct mf_json *items; /* in the order of the file */
    } as;
    /* Objects with more than LINEAR members: the same members, sorted by key. */
    const struct mf_json **by_key;
};

enum { LINEAR = 8 };

typedef struct document {
    mf_json root; /* must be the first member, because callers hold a pointer to it */
    mf_arena *arena;
} document;

/* Counts the nesting depth of the text from the brackets outside of strings. For a text that is
 * not JSON the result may be wrong, but it is never less than the depth that jansson reaches
 * before it finds the error. */
static int depth_of(const char *text, size_t size)
{
    int depth = 0, deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > deepest) deepest = depth;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return deepest;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp((*(const mf_json *const *)a)->key, (*(const mf_json *const *)b)->key);
}

static int sort_members(mf_arena *arena, mf_json *object)
{
    if (object->n <= LINEAR) return MF_OK;
    object->by_key = mf_arena_alloc(arena, object->n * sizeof *object->by_key);
    if (!object->by_key) return MF_ENOMEM;
    for (uint32_t i = 0; i < object->n; i++)
        object->by_key[i] = &object->as.items[i];
    qsort(object->by_key, object->n, sizeof *object->by_key, compare_keys);
    return MF_OK;
}

/* Copies n bytes and adds a NUL. */
static int copy_text(mf_arena *arena, const char *from, size_t n, const char **ret)
{
    char *text = mf_arena_alloc(arena, n + 1);
    if (!text) return MF_ENOMEM;
    memcpy(text, from, n);
    *ret = text;
    return MF_OK;
}

/* The memory into which a document is copied, and the numbers in it that jansson did
 * not read. */
typedef struct layout {
    mf_arena *arena;
    const mf_json_numbers *numbers;
    size_t n; /* numbers copied so far, in the order of the text */
} layout;

static int lay_out(layout *l, json_t *from, mf_json *to);

static int lay_out_object(layout *l, json_t *from, mf_json *to)
{
    mf_arena *arena = l->arena;
    const char *key;
    json_t *value;
    uint32_t i = 0;
    to->type = MF_JSON_OBJECT;
    to->n = (uint32_t)json_object_size(from);
    to->as.items = mf_arena_alloc(arena, to->n * sizeof *to->as.items);
    if (!to->as.items) return MF_ENOMEM;
    json_object_foreach(from, key, value)
    {
        int rc = lay_out(l, value, &to->as.items[i]);
        if (rc == MF_OK) rc = copy_text(arena, key, strlen(key), &to->as.items[i++].key);
        if (rc != MF_OK) return rc;
    }
    return sort_members(arena, to);
}

static int lay_out_array(layout *l, json_t *from, mf_json *to)
{
    to->type = MF_JSON_ARRAY;
    to->n = (uint32_t)json_array_size(from);
    to->as.items = mf_arena_alloc(l->arena, to->n * sizeof *to->as.items);
    if (!to->as.items) return MF_ENOMEM;
    for (uint32_t i = 0; i < to->n; i++) {
        int rc = lay_out(l, json_array_get(from, i), &to->as.items[i]);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* Copies jansson's values. MF_JSON_DEPTH_MAX limits the recursion; MF_JSON_SIZE_MAX limits
 * the counts. */
static int lay_out(layout *l, json_t *from, mf_json *to)
{
    switch (json_typeof(from)) {
    case JSON_OBJECT:
        return lay_out_object(l, from, to);
    case JSON_ARRAY:
        return lay_out_array(l, from, to);
    case JSON_STRING:
        to->type = MF_JSON_STRING;
        to->n = (uint32_t)json_string_length(from);
        return copy_text(l->arena, json_string_value(from), to->n, &to->as.text);
    case JSON_INTEGER:
        to->type = MF_JSON_INT;
        to->as.integer = json_integer_value(from);
        l->n++;
        break;
    case JSON_REAL:
        to->type = MF_JSON_REAL;
        to->as.real = json_real_value(from);
        mf_json_numbers_give(l->numbers, l->n++, &to->as.real);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        to->type = MF_JSON_BOOL;
        to->as.boolean = json_is_true(from);
        break;
    case JSON_NULL:
        to->type = MF_JSON_NULL;
        break;
    }
    return MF_OK;
}

/* jansson quotes the text at the error. Control characters of this text must not reach
 * a terminal. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F) *text = '?';
}

/* ---- jansson's memory ---- */

typedef struct reading {
    mf_arena *memory;
    jmp_buf failed;
} reading;

static _Thread_local reading *reading_now; /* reading of this thread; NULL: the thread reads
                                            * nothing here */
static json_malloc_t other_malloc;
static json_free_t other_free;

static void *take(size_t n)
{
    reading *r = reading_now;
    if (!r) return other_malloc(n);
    void *block = mf_arena_alloc(r->memory, n);
    if (!block) longjmp(r->failed, 1);
    return block;
}

static void give_back(void *block)
{
    if (!reading_now) other_free(block);
}

static void wrap_memory(void)
{
    json_get_alloc_funcs(&other_malloc, &other_free);
    json_set_alloc_funcs(take, give_back);
}

/* ---- parsing ---- */

/* Returns the end of the string that begins at `at`, behind its quote; n if it has no end. */
static size_t string_end(const char *text, size_t n, size_t at)
{
    for (at++; at < n && text[at] != '"'; at++)
        if (text[at] == '\\') at++;
    return at < n ? at + 1 : n;
}

/* Whether the string that ends at `at` is a key. */
static bool is_key(const char *text, size_t n, size_t at)
{
    while (at < n && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    return at < n && text[at] == ':';
}

/* Writes MF_JSON_NUL instead of each \\u0000 of keys, which jansson refuses. */
static int mark_nul(mf_arena *arena, const char **text, size_t *size)
{
    static const char nul[] = "\\u0000";
    enum { NUL = sizeof nul - 1, MARK = sizeof MF_JSON_NUL - 1 };
    const char *from = *text;
    const size_t n = *size;
    char *out = mf_arena_alloc(arena, n / NUL * MARK + n % NUL + 1);
    size_t made = 0;
    if (!out) return MF_ENOMEM;
    for (size_t at = 0, end; at < n; at = end) {
        end = from[at] == '"' ? string_end(from, n, at) : at + 1;
        const bool key = from[at] == '"' && is_key(from, n, end);
        for (size_t i = at, step; i < end; i += step) {
            const bool escape = key && from[i] == '\\' && end - i >= NUL;
            const bool is = escape && memcmp(from + i, nul, NUL) == 0;
            step = is ? NUL : from[i] == '\\' && end - i >= 2 ? 2 : 1;
            memcpy(out + made, is ? MF_JSON_NUL : from + i, is ? MARK : step);
            made += is ? MARK : step;
        }
    }
    *text = out;
    *size = made;
    return MF_OK;
}

static int parse_into(document *doc, const char *name, const char *text, size_t size, bool nul)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t error = {.text = ""};
    mf_json_numbers numbers = {0};
    layout l = {.arena = doc->arena, .numbers = &numbers};
    json_t *root = json_loadb(text, size, flags, &error);
    if (!root && nul && json_error_code(&error) == json_error_null_byte_in_key) {
        const int rc = mark_nul(reading_now->memory, &text, &size);
        if (rc != MF_OK) return rc;
        root = json_loadb(text, size, flags, &error);
    }
    if (!root && error.text[0] != '\0') {
        const int rc = mf_json_numbers_find(text, size, reading_now->memory, &numbers);
        if (rc != MF_OK) return rc;
        if (numbers.n > 0) text = numbers.text;
        if (numbers.n > 0) root = json_loadb(text, size, flags, &error);
    }
    if (!root && nul && json_error_code(&error) == json_error_null_byte_in_key) {
        const int rc = mark_nul(reading_now->memory, &text, &size);
        if (rc != MF_OK) return rc;
        root = json_loadb(text, size, flags, &error);
    }
    if (!root && (json_error_code(&error) == json_error_out_of_memory || error.text[0] == '\0'))
        return mf_fail(MF_ENOMEM, "%s: out of memory while reading JSON", name);
    if (!root) {
        if (mf_lfs_judge_binary(name, text, size) != MF_OK) return MF_EINPUT;
        make_printable(error.text);
        return mf_fail(MF_EINPUT, "%s:%d:%d: bad JSON: %s", name, error.line, error.column,
                       error.text);
    }
    const int rc = lay_out(&l, root, &doc->root);
    json_decref(root);
    return rc;
}

/* Parses with memory of an arena. If this memory runs out, longjmp returns into this function;
 * the variables that it then reads do not change after setjmp. */
static int parse_in_arena(document *doc, const char *name, const char *text, size_t size,
                          bool nul)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    reading r = {.memory = mf_arena_new()};
    int rc;
    if (!r.memory) return MF_ENOMEM;
    pthread_once(&once, wrap_memory);
    reading_now = &r;
    if (setjmp(r.failed) == 0)
        rc = parse_into(doc, name, text, size, nul);
    else
        rc = mf_fail(MF_ENOMEM, "%s: out of memory while reading JSON", name);
    reading_now = NULL;
    mf_arena_free(r.memory);
    return rc;
}

static int parse(const char *name, const char *text, size_t size, bool nul, mf_json **ret)
{
    mf_arena *arena;
    document *doc;
    int depth, rc;
    if (size > MF_JSON_SIZE_MAX)
        return mf_fail(MF_EINPUT, "%s: JSON of %zu bytes: expected at most %d", name, size,
                       MF_JSON_SIZE_MAX);
    depth = depth_of(text, size);
    if (depth > MF_JSON_DEPTH_MAX)
        return mf_fail(MF_EINPUT, "%s: JSON nested %d deep: expected at most %d", name, depth,
                       MF_JSON_DEPTH_MAX);
    arena = mf_arena_new();
    if (!arena) return MF_ENOMEM;
    doc = mf_arena_alloc(arena, sizeof *doc);
    if (!doc) {
        mf_arena_free(arena);
        return MF_ENOMEM;
    }
    doc->arena = arena;
    rc = parse_in_arena(doc, name, text, size, nul);
    if (rc != MF_OK) {
        mf_arena_free(arena);
        return rc;
    }
    *ret = &doc->root;
    return MF_OK;
}

int mf_json_parse(const char *name, const char *text, size_t size, mf_json **ret)
{
    return parse(name, text, size, false, ret);
}

int mf_json_parse_nul(const char *name, const char *text, size_t size, mf_json **ret)
{
    return parse(name, text, size, true, ret);
}

void mf_json_free(mf_json *root)
{
    if (root) mf_arena_free(((document *)root)->arena);
}

mf_json_type mf_json_typeof(const mf_json *v)
{
    return v ? v->type : MF_JSON_NULL;
}

const mf_json *mf_json_get(const mf_json *object, const char *key)
{
    size_t low = 0, high;
    if (mf_json_typeof(object) != MF_JSON_OBJECT) return NULL;
    if (!object->by_key) {
        for (uint32_t i = 0; i < object->n; i++)
            if (strcmp(object->as.items[i].key, key) == 0) return &object->as.items[i];
        return NULL;
    }
    high = object->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(key, object->by_key[middle]->key);
        if (order == 0) return object->by_key[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const mf_json *mf_json_at(const mf_json *array, size_t i)
{
    if (mf_json_typeof(array) != MF_JSON_ARRAY || i >= array->n) return NULL;
    return &array->as.items[i];
}

size_t mf_json_size(const mf_json *array_or_object)
{
    mf_json_type type = mf_json_typeof(array_or_object);
    return type == MF_JSON_ARRAY || type == MF_JSON_OBJECT ? array_or_object->n : 0;
}

bool mf_json_member(const mf_json *object, size_t i, const char **key, const mf_json **value)
{
    if (mf_json_typeof(object) != MF_JSON_OBJECT || i >= object->n) return false;
    *key = object->as.items[i].key;
    *value = &object->as.items[i];
    return true;
}

const char *mf_json_string(const mf_json *v, size_t *ret_len)
{
    if (mf_json_typeof(v) != MF_JSON_STRING) return NULL;
    if (ret_len)
        *ret_len = v->n;
    else if (strlen(v->as.text) != v->n)
        return NULL;
    return v->as.text;
}

bool mf_json_int(const mf_json *v, int64_t *out)
{
    if (mf_json_typeof(v) != MF_JSON_INT) return false;
    *out = v->as.integer;
    return true;
}

bool mf_json_real(const mf_json *v, double *out)
{
    switch (mf_json_typeof(v)) {
    case MF_JSON_REAL:
        if (!isfinite(v->as.real)) return false;
        *out = v->as.real;
        return true;
    case MF_JSON_INT:
        *out = (double)v->as.integer;
        return true;
    default:
        return false;
    }
}

bool mf_json_bool(const mf_json *v, bool *out)
{
    if (mf_json_typeof(v) != MF_JSON_BOOL) return false;
    *out = v->as.boolean;
    return true;
}

double mf_json_real_or_nan(const mf_json *object, const char *key)
{
    double v;
    return mf_json_real(mf_json_get(object, key), &v) ? v : (double)NAN;
}

int64_t mf_json_int_or_0(const mf_json *object, const char *key)
{
    int64_t v;
    return mf_json_int(mf_json_get(object, key), &v) ? v : 0;
}
