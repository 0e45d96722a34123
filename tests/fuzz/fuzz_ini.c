/* fuzz_ini: any bytes are read completely, or refused with file and line. The entries can be
 * written and read again without change; nothing is truncated. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/text/ini.h"

#include <string.h>

const char *const fuzz_words[] = {"[",
                                  "]",
                                  "=",
                                  " = ",
                                  ";",
                                  " ;",
                                  "#",
                                  "\n",
                                  "\r\n",
                                  "\r",
                                  "\t",
                                  "[model]\n",
                                  "[plugin x]\n",
                                  "dim = 4\n",
                                  "key",
                                  ".",
                                  ":",
                                  "\"",
                                  "\xEF\xBB\xBF",
                                  "\xC3\xA4",
                                  "\xFF",
                                  " ",
                                  "  ",
                                  "v",
                                  NULL};

static void require_message(int rc)
{
    FUZZ_REQUIRE(rc == MF_ECONFIG);
    FUZZ_REQUIRE(mf_error_code() == MF_ECONFIG);
    FUZZ_REQUIRE(strlen(mf_error_message()) > 0);
}

/* Returns the entries in use as the text of a file. The caller frees it with free(). */
static char *written(mf_ini *ini, size_t *ret_size)
{
    size_t room = 1, n = 0;
    char *text;
    for (int i = 0; i < mf_ini_count(ini); i++) {
        const mf_ini_entry *e = mf_ini_at(ini, i);
        room += strlen(e->section) + strlen(e->key) + strlen(e->value) + 16;
    }
    text = malloc(room);
    FUZZ_REQUIRE(text != NULL);
    text[0] = '\0';
    for (int i = 0; i < mf_ini_count(ini); i++) {
        const mf_ini_entry *e = mf_ini_at(ini, i);
        if (!e->overridden)
            n += (size_t)sprintf(text + n, "[%s]\n%s = %s\n", e->section, e->key, e->value);
    }
    *ret_size = n;
    return text;
}

static void require_survival(mf_ini *ini)
{
    mf_ini *again = mf_ini_new();
    size_t size;
    char *text = written(ini, &size);
    int rc;
    /* Each entry is written with its section head, so the text of a file near the limit of 1
     * MiB may exceed the limit. */
    if (size <= 1024 * 1024) {
        rc = mf_ini_load_text(again, "again", text, size);
        FUZZ_REQUIRE(rc == MF_OK);
        for (int i = 0; i < mf_ini_count(ini); i++) {
            const mf_ini_entry *e = mf_ini_at(ini, i), *f;
            if (e->overridden) continue;
            f = mf_ini_get(again, e->section, e->key);
            FUZZ_REQUIRE(f && strcmp(e->value, f->value) == 0);
            FUZZ_REQUIRE(mf_ini_get(ini, e->section, e->key) == e);
        }
    }
    free(text);
    mf_ini_free(again);
}

/* Every key and value must occur in the text unchanged. */
static void require_whole(mf_ini *ini, const char *text, size_t size)
{
    for (int i = 0; i < mf_ini_count(ini); i++) {
        const mf_ini_entry *e = mf_ini_at(ini, i);
        FUZZ_REQUIRE(e->line >= 1);
        FUZZ_REQUIRE(strcmp(e->file, "input") == 0);
        FUZZ_REQUIRE(mf_ini_has_section(ini, e->section));
        FUZZ_REQUIRE(*e->key != '\0');
        FUZZ_REQUIRE(memmem(text, size, e->key, strlen(e->key)) != NULL);
        FUZZ_REQUIRE(memmem(text, size, e->value, strlen(e->value)) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_ini *ini = mf_ini_new();
    char *text = malloc(size + 1);
    long long i64;
    double f64;
    bool boolean;
    int rc;
    FUZZ_REQUIRE(ini && text);
    rc = mf_ini_load_text(ini, "input", (const char *)data, size);
    if (rc == MF_OK) {
        require_whole(ini, (const char *)data, size);
        require_survival(ini);
    } else {
        require_message(rc);
        FUZZ_REQUIRE(strncmp(mf_error_message(), "input:", 6) == 0);
        FUZZ_REQUIRE(mf_ini_count(ini) == 0);
    }
    if (size) memcpy(text, data, size);
    text[size] = '\0';
    rc = mf_ini_set(ini, text, 1);
    if (rc == MF_OK)
        require_survival(ini);
    else
        require_message(rc);
    for (int i = 0; i < mf_ini_count(ini); i++) {
        mf_parse_i64(mf_ini_at(ini, i)->value, &i64);
        mf_parse_f64(mf_ini_at(ini, i)->value, &f64);
        mf_parse_bool(mf_ini_at(ini, i)->value, &boolean);
    }
    free(text);
    mf_ini_free(ini);
    return 0;
}
