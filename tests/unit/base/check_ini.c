/* ini: every rule of base/text/ini.h, with the exact position and words of the message. A text
 * that is refused must leave the entries unchanged. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/text/ini.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int load(mf_ini *ini, const char *text)
{
    return mf_ini_load_text(ini, "f.ini", text, strlen(text));
}

static const char *value(mf_ini *ini, const char *section, const char *key)
{
    mf_ini_entry *e = mf_ini_get(ini, section, key);
    return e ? e->value : "(none)";
}

START_TEST(plain_file)
{
    mf_ini *ini = mf_ini_new();
    mf_ini_entry *e;
    ck_assert_int_eq(load(ini, "; head\n"
                               "# head too\n"
                               "[model]\n"
                               "dim = 128\n"
                               "layers=4 ; comment\n"
                               "\n"
                               "[plugin hadamard]\n"
                               "[regularizer.balance]   ; of routers\n"
                               "  plugin =\tload_balance\t; blanks and tabs\n"
                               "\tweight = 0.01  \n"
                               "[model]\n"
                               "heads = 2"),
                     MF_OK);
    ck_assert_int_eq(mf_ini_count(ini), 5);
    e = mf_ini_at(ini, 2);
    ck_assert_str_eq(e->section, "regularizer.balance");
    ck_assert_str_eq(e->key, "plugin");
    ck_assert_str_eq(e->value, "load_balance");
    ck_assert_str_eq(e->file, "f.ini");
    ck_assert_int_eq(e->line, 9);
    ck_assert(!e->overridden && !e->used);
    ck_assert_ptr_null(mf_ini_at(ini, 5));
    ck_assert_ptr_null(mf_ini_at(ini, -1));
    ck_assert_str_eq(value(ini, "model", "dim"), "128");
    ck_assert_str_eq(value(ini, "model", "layers"), "4");
    ck_assert_str_eq(value(ini, "model", "heads"), "2");
    ck_assert_int_eq(mf_ini_get(ini, "model", "heads")->line, 12);
    ck_assert_str_eq(value(ini, "regularizer.balance", "weight"), "0.01");
    ck_assert(mf_ini_at(ini, 0)->used);
    ck_assert(!mf_ini_at(ini, 2)->used);
    ck_assert_ptr_null(mf_ini_get(ini, "model", "none"));
    ck_assert_ptr_null(mf_ini_get(ini, "none", "dim"));
    ck_assert_ptr_null(mf_ini_get(ini, "model", "")); /* an empty name is the section itself,
                                                       * which is not an entry */
    ck_assert_ptr_null(mf_ini_get(ini, "model", "DIM"));
    ck_assert(mf_ini_has_section(ini, "plugin hadamard"));
    ck_assert(!mf_ini_has_section(ini, "plugin"));
    ck_assert_str_eq(mf_ini_section_at(ini, 0), "model");
    ck_assert_str_eq(mf_ini_section_at(ini, 1), "plugin hadamard");
    ck_assert_str_eq(mf_ini_section_at(ini, 2), "regularizer.balance");
    ck_assert_ptr_null(mf_ini_section_at(ini, 3));
    ck_assert_ptr_null(mf_ini_section_at(ini, -1));
    mf_ini_free(ini);
    mf_ini_free(NULL);
}
END_TEST

START_TEST(plain_values)
{
    static const char *const table[][2] = {
        {"k = a;b", "a;b"},
        {"k = a ;b", "a"},
        {"k = a\t; b ; c", "a"},
        {"k = a # b", "a # b"},
        {"k = a#b", "a#b"},
        {"k =", ""},
        {"k = ; only a comment", ""},
        {"k = a = b", "a = b"},
        {"k = a:b", "a:b"},
        {"k = \"quoted text\"", "\"quoted text\""},
        {"k = 'single'", "'single'"},
        {"k = [not a section]", "[not a section]"},
        {"k = C:\\path\\", "C:\\path\\"},
        {"k = gr\xC3\xBC\xC3\x9F \xF0\x9F\x99\x82", "gr\xC3\xBC\xC3\x9F \xF0\x9F\x99\x82"},
        {"k   =   inner  blanks  stay   ", "inner  blanks  stay"},
        {"k=v\r", "v"},
        {"   k = indented", "indented"},
        {"k = %s %n", "%s %n"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[256];
        mf_ini *ini = mf_ini_new();
        snprintf(text, sizeof text, "[s]\n%s\n", table[i][0]);
        ck_assert_msg(load(ini, text) == MF_OK, "'%s': %s", table[i][0], mf_error_message());
        ck_assert_int_eq(mf_ini_count(ini), 1);
        ck_assert_str_eq(value(ini, "s", "k"), table[i][1]);
        mf_ini_free(ini);
    }
}
END_TEST

START_TEST(whole_texts)
{
    static const struct {
        const char *text;
        int entries;
    } table[] = {{"", 0},
                 {"\n\n\n", 0},
                 {"\xEF\xBB\xBF", 0},
                 {"\xEF\xBB\xBF[s]\nk=v", 1},
                 {"[s]\r\nk = v\r\n; c\r\n\r\nl = w\r\n", 2},
                 {"[s]\r\nk = v", 1},
                 {"; only comment", 0},
                 {"[s]", 0},
                 {"[ s ]\nk=v", 1},
                 {"[s];\n", -1},
                 {"[s]\t; c\nk=v", 1}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mf_ini *ini = mf_ini_new();
        int rc = load(ini, table[i].text);
        ck_assert_int_eq(rc, table[i].entries < 0 ? MF_ECONFIG : MF_OK);
        if (rc == MF_OK) ck_assert_int_eq(mf_ini_count(ini), table[i].entries);
        if (table[i].entries > 0) ck_assert_str_eq(value(ini, "s", "k"), "v");
        mf_ini_free(ini);
    }
}
END_TEST

#define TEN        "abcdefghij"
#define FORTYEIGHT TEN TEN TEN TEN "abcdefgh"
#define NAMES      "expected 1 to 48 letters, digits, _ -"

/* Each text has one error; the message must be exactly this. */
START_TEST(bad_texts)
{
    static const struct {
        const char *text, *message;
    } table[] = {
        {"[s]\nk", "f.ini:2: expected key = value, found 'k'"},
        {"[s]\n\n\nno value here", "f.ini:4: expected key = value, found 'no value here'"},
        {"[s]\nk: v", "f.ini:2: expected key = value, found 'k: v'"},
        {"[s]\nk = v\n  more", "f.ini:3: expected key = value, found 'more' (a value cannot "
                               "continue in the next line)"},
        {"k = v", "f.ini:1: key 'k' before any section: expected [section] first"},
        {"; c\n\nk = v\n[s]", "f.ini:3: key 'k' before any section: expected [section] first"},
        {"[s]\n= v", "f.ini:2: key '': " NAMES},
        {"[s]\na b = v", "f.ini:2: key 'a b': " NAMES},
        {"[s]\na.b = v", "f.ini:2: key 'a.b': a file has the section on a line of its own; "
                         "expected b below [a]"},
        {"[s]\n\xC3\xA4 = v", "f.ini:2: key '\xC3\xA4': " NAMES},
        {"[s]\nk ; c = v", "f.ini:2: key 'k ; c': " NAMES},
        {"[s]\nk =;v",
         "f.ini:2: key 'k': a value cannot begin with ';' (a comment needs a blank "
         "before it)"},
        {"[s]\nk:a = v", "f.ini:2: key 'k:a': " NAMES},
        {"[s]\n" FORTYEIGHT "x = v", "f.ini:2: key '" FORTYEIGHT "x': " NAMES},
        {"[]", "f.ini:1: section '': " NAMES " . and single blanks"},
        {"[ ]", "f.ini:1: section '': " NAMES " . and single blanks"},
        {"[a  b]", "f.ini:1: section 'a  b': " NAMES " . and single blanks"},
        {"[a;b]", "f.ini:1: section 'a;b': " NAMES " . and single blanks"},
        {"[a/b]", "f.ini:1: section 'a/b': " NAMES " . and single blanks"},
        {"[[a]", "f.ini:1: section '[a': " NAMES " . and single blanks"},
        {"[[a]]", "f.ini:1: expected nothing after [section], found ']'"},
        {"[" FORTYEIGHT "x]",
         "f.ini:1: section '" FORTYEIGHT "x': " NAMES " . and single blanks"},
        {"\n[s", "f.ini:2: expected [section], found '[s': no ']'"},
        {"[s] k = v", "f.ini:1: expected nothing after [section], found 'k = v'"},
        {"[s] # c", "f.ini:1: expected nothing after [section], found '# c'"},
        {"[s];c", "f.ini:1: expected nothing after [section], found ';c'"},
        {"[s]\nk = 1\nk = 2", "f.ini:3: key 'k' of [s] is already given on line 2"},
        {"[s]\nk = 1\n[t]\nk = 2\n\n[s]\nl = 3\nk = 4",
         "f.ini:8: key 'k' of [s] is already given on line 2"},
        {"[s]\nk = a\x01z", "f.ini:2: control character 0x01 at column 6: expected text"},
        {"[s]\nk = a\xC2\x9Bz", "f.ini:2: control character U+009B at column 6: expected text"},
        {"[s]\nk = a\x7F", "f.ini:2: control character 0x7f at column 6: expected text"},
        {"[s]\n; bell \a in a comment",
         "f.ini:2: control character 0x07 at column 8: expected text"},
        {"[s]\nk = a\rb", "f.ini:2: control character 0x0d at column 6: expected text"},
        {"[s]\nk = a\r\r\nl = b", "f.ini:2: control character 0x0d at column 6: expected text"},
        {"[s]\nk = \xFF", "f.ini:2: byte 0xff at column 5: expected UTF-8"},
        {"[s]\nk = \xC0\xAF", "f.ini:2: byte 0xc0 at column 5: expected UTF-8"},
        {"[s]\nk = \xED\xA0\x80", "f.ini:2: byte 0xed at column 5: expected UTF-8"},
        {"[s]\nk = \xE2\x82", "f.ini:2: byte 0xe2 at column 5: expected UTF-8"},
        {"\xFF\xFE[", "f.ini:1: text is UTF-16: expected UTF-8"},
        {"\xFE\xFF", "f.ini:1: text is UTF-16: expected UTF-8"},
        {"[s]\n\xEF\xBB\xBFk = v", "f.ini:2: key '\xEF\xBB\xBFk': " NAMES},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mf_ini *ini = mf_ini_new();
        ck_assert_int_eq(load(ini, "[old]\nkept = 1"), MF_OK);
        ck_assert_msg(load(ini, table[i].text) == MF_ECONFIG, "accepted: %s", table[i].text);
        ck_assert_str_eq(mf_error_message(), table[i].message);
        ck_assert_int_eq(mf_ini_count(ini), 1); /* no entry has changed */
        ck_assert(!mf_ini_has_section(ini, "s"));
        ck_assert_str_eq(value(ini, "old", "kept"), "1");
        mf_ini_free(ini);
    }
}
END_TEST

START_TEST(nul_bytes)
{
    static const char text[] = "[s]\nk = a\0b\n";
    mf_ini *ini = mf_ini_new();
    ck_assert_int_eq(mf_ini_load_text(ini, "f.ini", text, sizeof text - 1), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(),
                     "f.ini:2: control character 0x00 at column 6: expected text");
    mf_ini_free(ini);
}
END_TEST

/* Values at the limits and just above them. Nothing is ever truncated. */
START_TEST(limits)
{
    char text[1200], want[512];
    mf_ini *ini = mf_ini_new();
    memset(want, 'v', sizeof want);
    want[190 - 4] = '\0'; /* "k = " and the value have 190 bytes together */
    snprintf(text, sizeof text, "[s]\nk = %s\n", want);
    ck_assert_int_eq(load(ini, text), MF_OK);
    ck_assert_str_eq(value(ini, "s", "k"), want);
    snprintf(text, sizeof text, "[t]\nk = %s\r\n", want); /* the CR is not counted */
    ck_assert_int_eq(load(ini, text), MF_OK);
    ck_assert_str_eq(value(ini, "t", "k"), want);
    snprintf(text, sizeof text, "[u]\nk = v%s\n", want);
    ck_assert_int_eq(load(ini, text), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(), "f.ini:2: line of 191 bytes: expected at most 190");
    snprintf(text, sizeof text, "[u]\n; %s%s\n", want, want);
    ck_assert_int_eq(load(ini, text), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(), "f.ini:2: line of 374 bytes: expected at most 190");
    snprintf(text, sizeof text, "[u]\nk=v%s\n", want); /* fits as "k=v...", but not as "k
                                                        * = v..." */
    ck_assert_int_eq(load(ini, text), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(),
                     "f.ini:2: key 'k' and its value have 188 bytes: expected at most 187");
    ck_assert_int_eq(load(ini, "[" FORTYEIGHT "]\n" FORTYEIGHT " = 1"), MF_OK);
    ck_assert_str_eq(value(ini, FORTYEIGHT, FORTYEIGHT), "1");
    mf_ini_free(ini);
}
END_TEST

START_TEST(big_texts)
{
    enum { MIB = 1 << 20 };
    char *text = malloc(MIB + 2);
    mf_ini *ini = mf_ini_new();
    memset(text, '\n', MIB + 2);
    memcpy(text, "[s]\nk=v", 7);
    ck_assert_int_eq(mf_ini_load_text(ini, "f.ini", text, MIB), MF_OK);
    ck_assert_int_eq(mf_ini_load_text(ini, "g.ini", text, MIB + 1), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(),
                     "g.ini: file is too large: expected at most 1048576 bytes");
    /* A file with as many keys and sections as allowed, and a text without an end of line at
     * its end. */
    size_t n = 0;
    int keys = 0;
    for (; keys < 5000; keys++)
        n += (size_t)sprintf(text + n, "[s%x]\nk%x=\n", (unsigned)keys, (unsigned)keys);
    memset(text + n, '\n', MIB - n);
    n = MIB;
    ck_assert_int_eq(mf_ini_load_text(ini, "h.ini", text, n), MF_OK);
    ck_assert_int_eq(mf_ini_count(ini), keys + 1);
    char section[32], key[32];
    sprintf(section, "s%x", (unsigned)keys - 1);
    sprintf(key, "k%x", (unsigned)keys - 1);
    ck_assert_int_eq(mf_ini_get(ini, section, key)->line, 2 * keys);
    mf_ini_free(ini);
    free(text);
}
END_TEST

START_TEST(files)
{
    const char *path = scratch_path("good.ini");
    char want[1200];
    mf_ini *ini = mf_ini_new();
    scratch_write(path, "[s]\nk = v\n", 10);
    ck_assert_int_eq(mf_ini_load(ini, path), MF_OK);
    ck_assert_str_eq(mf_ini_get(ini, "s", "k")->file, path);
    ck_assert_int_eq(mf_ini_load(ini, scratch_path("none.ini")), MF_ENOTFOUND);
    ck_assert_int_eq(mf_ini_load(ini, scratch_dir()),
                     MF_ECONFIG); /* inih would treat the text as an empty file */
    snprintf(want, sizeof want, "%s: expected a regular file, found a directory",
             scratch_dir());
    ck_assert_str_eq(mf_error_message(), want);
    path = scratch_path("bad.ini");
    scratch_write(path, "[s]\nk\n", 6);
    ck_assert_int_eq(mf_ini_load(ini, path), MF_ECONFIG);
    snprintf(want, sizeof want, "%s:2: expected key = value, found 'k'", path);
    ck_assert_str_eq(mf_error_message(), want);
    fault_io(2, FAULT_ONCE, EIO);
    ck_assert_int_eq(mf_ini_load(ini, path), MF_ECONFIG);
    fault_off();
    snprintf(want, sizeof want, "bad.ini: cannot read: %s", strerror(EIO));
    ck_assert_ptr_nonnull(strstr(mf_error_message(), want));
    mf_ini_free(ini);
}
END_TEST

START_TEST(later_sources_win)
{
    mf_ini *ini = mf_ini_new();
    ck_assert_int_eq(mf_ini_load_text(ini, "a", "[s]\nx = 1\ny = 1\n", 15), MF_OK);
    ck_assert_int_eq(mf_ini_load_text(ini, "b", "[s]\nx = 2\n[t]\nz = 2\n", 20), MF_OK);
    ck_assert_int_eq(mf_ini_set(ini, "s.x=3", 1), MF_OK);
    ck_assert_int_eq(mf_ini_set(ini, "s.x = 4", 2), MF_OK); /* the last assignment wins */
    ck_assert_int_eq(mf_ini_set(ini, "new.w=5", 3), MF_OK);
    ck_assert_str_eq(value(ini, "s", "x"), "4");
    ck_assert_str_eq(value(ini, "s", "y"), "1");
    ck_assert_str_eq(value(ini, "t", "z"), "2");
    ck_assert_str_eq(value(ini, "new", "w"), "5");
    ck_assert_int_eq(mf_ini_count(ini), 7);
    static const bool overridden[] = {true, false, true, false, true, false, false};
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(mf_ini_at(ini, i)->overridden, overridden[i]);
    ck_assert_str_eq(mf_ini_get(ini, "s", "x")->file, MF_INI_SET);
    ck_assert_int_eq(mf_ini_get(ini, "s", "x")->line, 2);
    ck_assert_str_eq(mf_ini_section_at(ini, 2), "new");
    ck_assert_ptr_null(mf_ini_section_at(ini, 3));
    mf_ini_free(ini);
}
END_TEST

/* Entries must not move, because other code keeps pointers to them. */
START_TEST(entries_do_not_move)
{
    mf_ini *ini = mf_ini_new();
    ck_assert_int_eq(load(ini, "[s]\nk = v"), MF_OK);
    mf_ini_entry *e = mf_ini_get(ini, "s", "k");
    for (int i = 0; i < 500; i++) {
        char text[64];
        snprintf(text, sizeof text, "s.k%d=%d", i, i);
        ck_assert_int_eq(mf_ini_set(ini, text, i), MF_OK);
    }
    ck_assert_ptr_eq(mf_ini_get(ini, "s", "k"), e);
    ck_assert_ptr_eq(mf_ini_at(ini, 0), e);
    ck_assert_str_eq(value(ini, "s", "k499"), "499");
    mf_ini_free(ini);
}
END_TEST

START_TEST(set_options)
{
    static const char *const good[][4] = {
        {"model.dim=128", "model", "dim", "128"},
        {"regularizer.z.weight=0.5", "regularizer.z", "weight", "0.5"},
        {" a . b = c ", "a", "b", "c"},
        {"data.path=/a.b/c=d", "data", "path", "/a.b/c=d"},
        {"a.b=", "a", "b", ""},
        {"a.b=x;y", "a", "b", "x;y"},
        {"plugin hadamard.file=x.so", "plugin hadamard", "file", "x.so"},
    };
    static const char *const bad[][2] = {
        {"", "'': expected SECTION.KEY=VALUE"},
        {"dim=4", "'dim=4': expected SECTION.KEY=VALUE"},
        {"model.dim", "'model.dim': expected SECTION.KEY=VALUE"},
        {"dim=4.5", "'dim=4.5': expected SECTION.KEY=VALUE"},
        {".dim=4", "'.dim=4': section '': " NAMES " . and single blanks"},
        {"model.=4", "'model.=4': key '': " NAMES},
        {"a/b.c=4", "'a/b.c=4': section 'a/b': " NAMES " . and single blanks"},
        {"a.b c=4", "'a.b c=4': key 'b c': " NAMES},
        {"a.b=c ; d", "a.b: value: expected UTF-8 without control characters and without "
                      "';' at its start or after a blank, where a comment would begin"},
        {"a.b=;d", "a.b: value: expected UTF-8 without control characters and without ';' "
                   "at its start or after a blank, where a comment would begin"},
        {"a.b=c\nd", "a.b: value: expected UTF-8 without control characters and without "
                     "';' at its start or after a blank, where a comment would begin"},
        {"a.b=\xFF", "a.b: value: expected UTF-8 without control characters and without "
                     "';' at its start or after a blank, where a comment would begin"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        mf_ini *ini = mf_ini_new();
        ck_assert_msg(mf_ini_set(ini, good[i][0], 1) == MF_OK, "%s", mf_error_message());
        ck_assert_str_eq(value(ini, good[i][1], good[i][2]), good[i][3]);
        ck_assert(mf_ini_has_section(ini, good[i][1]));
        mf_ini_free(ini);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mf_ini *ini = mf_ini_new();
        ck_assert_int_eq(mf_ini_set(ini, bad[i][0], 1), MF_ECONFIG);
        ck_assert_str_eq(mf_error_message(), bad[i][1]);
        ck_assert_int_eq(mf_ini_count(ini), 0);
        mf_ini_free(ini);
    }
    char text[300] = "a.b=";
    mf_ini *ini = mf_ini_new();
    memset(text + 4, 'v', 187);
    ck_assert_int_eq(mf_ini_set(ini, text, 1), MF_ECONFIG); /* "b = " and 187 bytes are 191 */
    ck_assert_str_eq(mf_error_message(),
                     "a.b: key and value have 188 bytes: expected at most 187");
    text[4 + 186] = '\0';
    ck_assert_int_eq(mf_ini_set(ini, text, 1), MF_OK);
    ck_assert_str_eq(value(ini, "a", "b"), text + 4);
    mf_ini_free(ini);
}
END_TEST

/* Whatever mf_ini_set accepts can be written to a file and read again. */
START_TEST(set_survives_writing)
{
    static const char *const values[] = {
        "", "a;b", "x # y", "= =", "[z]", "\"q\"", "a\tb", ":"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[256];
        mf_ini *a = mf_ini_new(), *b = mf_ini_new();
        snprintf(text, sizeof text, "s.k=%s", values[i]);
        ck_assert_int_eq(mf_ini_set(a, text, 1), MF_OK);
        snprintf(text, sizeof text, "[s]\nk = %s\n", value(a, "s", "k"));
        ck_assert_int_eq(load(b, text), MF_OK);
        ck_assert_str_eq(value(b, "s", "k"), values[i]);
        mf_ini_free(a);
        mf_ini_free(b);
    }
}
END_TEST

START_TEST(without_memory)
{
    for (int form = FAULT_ONCE; form <= FAULT_FROM; form++)
        for (long n = 1;; n++) {
            char text[4000] = "[s]\n";
            for (int i = 0; i < 100; i++)
                sprintf(text + strlen(text), "key%d = %d\n[t%d]\n[s]\n", i, i, i);
            fault_alloc(n, (fault_form)form);
            mf_ini *ini = mf_ini_new();
            int rc = MF_ENOMEM, count = 0;
            if (ini) {
                rc = load(ini, text);
                if (rc == MF_OK) count = 100;
                ck_assert_int_eq(mf_ini_count(ini), count); /* on failure no assignment
                                                             * takes effect */
                if (rc == MF_OK) rc = mf_ini_set(ini, "s.key5=x", 1);
                if (rc == MF_OK) count++;
                ck_assert_int_eq(mf_ini_count(ini), count);
            }
            bool hit = fault_hit();
            mf_ini_free(ini);
            fault_off();
            ck_assert_int_eq(fault_alloc_live(), 0);
            ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
            if (!hit) {
                ck_assert_int_gt(n, 10);
                break;
            }
        }
}
END_TEST

/* The entries of section a come from a text, from an assignment and from a second text, in
 * this order. */
START_TEST(entries_of_a_section)
{
    static const char *const keys[] = {"plugin", "x", "plugin", "y"};
    mf_ini *ini = mf_ini_new();
    ck_assert_int_eq(load(ini, "[a]\nplugin = 1\n[b]\nz = 0\n[a]\nx = 2\n[empty]\n"), MF_OK);
    ck_assert_int_eq(mf_ini_set(ini, "a.plugin=3", 1), MF_OK);
    ck_assert_int_eq(mf_ini_load_text(ini, "g.ini", "[a]\ny = 4\n", 10), MF_OK);
    int n = 0, before = -1;
    for (const mf_ini_entry *e = mf_ini_first_of(ini, "a"); e; e = mf_ini_next_of(e), n++) {
        ck_assert_int_lt(n, 4);
        ck_assert_str_eq(e->section, "a");
        ck_assert_str_eq(e->key, keys[n]);
        ck_assert_int_eq(e->value[0], '1' + n);
        ck_assert_int_gt(e->index, before);
        ck_assert_ptr_eq(mf_ini_at(ini, before = e->index), e);
    }
    ck_assert_int_eq(n, 4);
    ck_assert(mf_ini_first_of(ini, "a")->overridden);
    ck_assert_ptr_null(mf_ini_next_of(mf_ini_first_of(ini, "b")));
    ck_assert_ptr_null(mf_ini_first_of(ini, "empty"));
    ck_assert_ptr_null(mf_ini_first_of(ini, "none"));
    mf_ini_free(ini);
}
END_TEST

START_TEST(the_greatest_number_of_lines)
{
    static char text[10001 * 8];
    size_t n = 0;
    mf_ini *ini = mf_ini_new();
    for (int i = 0; i < 5000; i++) /* comments and empty lines do not count */
        n += (size_t)sprintf(text + n, "[%d]\n;\n\nk=\n", i);
    ck_assert_int_eq(load(ini, text), MF_OK);
    ck_assert_int_eq(mf_ini_count(ini), 5000);
    mf_ini_free(ini);
    ini = mf_ini_new();
    strcpy(text + n, "l=\n");
    ck_assert_int_eq(load(ini, text), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(),
                     "f.ini:20001: more sections and keys than 10000, which is the most");
    ck_assert_int_eq(mf_ini_count(ini), 0);
    mf_ini_free(ini);
}
END_TEST

/* Standard input is read once. After a failed read it can be read again. */
START_TEST(standard_input)
{
    const int before = dup(STDIN_FILENO);
    char *data;
    size_t n;
    ck_assert_int_ge(before, 0);
    int fd = open(scratch_dir(), O_RDONLY);
    ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    close(fd);
    ck_assert_int_eq(mf_read_input("-", 0, &data, &n), MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "standard input: cannot read"));
    ck_assert_ptr_nonnull(strstr(mf_error_message(), strerror(EISDIR)));
    /* more bytes than the first reads return */
    enum { LONG = 200000 };
    static char text[LONG];
    for (int i = 0; i < LONG; i++)
        text[i] = (char)('a' + i % 23);
    scratch_write(scratch_path("input"), text, LONG);
    fd = open(scratch_path("input"), O_RDONLY);
    ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    close(fd);
    ck_assert_int_eq(mf_read_input("-", 9, &data, &n), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(),
                     "standard input is too large: expected at most 9 bytes");
    for (size_t most = 0; most <= LONG; most += LONG) {
        ck_assert_int_eq(mf_read_input("-", most, &data, &n), MF_OK);
        ck_assert_uint_eq(n, LONG);
        ck_assert_mem_eq(data, text, LONG);
        ck_assert_int_eq(data[LONG], '\0');
        mf_free(data);
    }
    ck_assert_int_eq(dup2(before, STDIN_FILENO), STDIN_FILENO);
    close(before);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ini");
    TCase *c = tcase_create("ini");
    tcase_add_test(c, plain_file);
    tcase_add_test(c, plain_values);
    tcase_add_test(c, whole_texts);
    tcase_add_test(c, bad_texts);
    tcase_add_test(c, nul_bytes);
    tcase_add_test(c, limits);
    tcase_add_test(c, big_texts);
    tcase_add_test(c, files);
    tcase_add_test(c, standard_input);
    tcase_add_test(c, later_sources_win);
    tcase_add_test(c, entries_do_not_move);
    tcase_add_test(c, set_options);
    tcase_add_test(c, set_survives_writing);
    tcase_add_test(c, entries_of_a_section);
    tcase_add_test(c, the_greatest_number_of_lines);
    tcase_add_test(c, without_memory);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
