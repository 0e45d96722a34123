/* paths: which relative paths lead only downwards (no empty names, no . and ..), and where the
 * program finds its own files. The test copies itself to other folders and runs the copies.
 * With the first argument "ask" it prints the folders that it finds. */
#include "check_main.h"

#include "base/file/io.h"
#include "base/file/paths.h"
#include "base/text/shown.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char scratch[] = "/tmp/check_paths.XXXXXX";

static void run(const char *command, char *out, size_t size)
{
    FILE *p = popen(command, "r");
    ck_assert_ptr_nonnull(p);
    size_t n = fread(out, 1, size - 1, p);
    out[n] = '\0';
    ck_assert_int_eq(pclose(p), 0);
}

/* Copies this program to scratch + folder and returns what the copy prints. */
static const char *ask(const char *folder, const char *marker)
{
    static char answer[8192];
    char command[4096];
    ck_assert_int_lt(snprintf(command, sizeof command,
                              "d=%s'%s' && mkdir -p \"$d\" && cp '%s' \"$d/moefw\" && %s && "
                              "\"$d/moefw\" ask",
                              scratch, folder, mf_paths_program(), marker),
                     (int)sizeof command);
    run(command, answer, sizeof answer);
    return answer;
}

START_TEST(in_place)
{
    char want[256];
    const char *answer = ask("/tree/build", "echo /some/source >\"$d/.moefw-uninstalled\"");
    ck_assert_ptr_nonnull(strstr(answer, "uninstalled 1\n"));
    snprintf(want, sizeof want, "plugins %s/tree/build/plugins\n", scratch);
    ck_assert_ptr_nonnull(strstr(answer, want));
    ck_assert_ptr_nonnull(strstr(answer, "presets /some/source/share/presets\n"));
    ck_assert_ptr_nonnull(strstr(answer, "template /some/source/share/template\n"));
    ck_assert_ptr_nonnull(strstr(answer, "dropins /some/source/etc/plugins.d\n"));
    ck_assert_ptr_nonnull(strstr(answer, "settings " MF_SYSCONFDIR "\n"));
    ck_assert_ptr_nonnull(strstr(answer, "source /some/source\n"));
    snprintf(want, sizeof want, "called %s/tree/build/moefw\n", scratch);
    ck_assert_ptr_nonnull(strstr(answer, want));
    /* started from the parent folder, and from its own folder */
    answer = ask("/tree/build", "cd \"$d/..\"");
    ck_assert_ptr_nonnull(strstr(answer, "called build/moefw\n"));
    answer = ask("/tree/build", "cd \"$d\"");
    ck_assert_ptr_nonnull(strstr(answer, "called ./moefw\n"));
}
END_TEST

/* A signal interrupts the read of the marker once. */
static ssize_t pread_interrupted(int fd, void *buf, size_t n, off_t offset)
{
    static bool once;
    if (once) return mf_io_default()->pread(fd, buf, n, offset);
    once = true;
    errno = EINTR;
    return -1;
}

START_TEST(in_place_with_a_signal)
{
    const char *answer = ask("/signal/build", "echo /some/source >\"$d/.moefw-uninstalled\" && "
                                              "export CHECK_PATHS_SIGNAL=1");
    ck_assert_ptr_nonnull(strstr(answer, "uninstalled 1\n"));
    ck_assert_ptr_nonnull(strstr(answer, "source /some/source\n"));
}
END_TEST

START_TEST(elsewhere)
{
    const char *answer = ask("/elsewhere", "true");
    ck_assert_ptr_nonnull(strstr(answer, "uninstalled 0\n"));
    ck_assert_ptr_nonnull(strstr(answer, "source \n"));
    ck_assert_ptr_nonnull(strstr(answer, "called moefw\n"));
    ck_assert_ptr_nonnull(strstr(answer, "plugins " MF_PLUGINDIR "\n"));
    ck_assert_ptr_nonnull(strstr(answer, "presets " MF_DATADIR "/presets\n"));
    ck_assert_ptr_nonnull(strstr(answer, "dropins " MF_SYSCONFDIR "/plugins.d\n"));
}
END_TEST

START_TEST(staged)
{
    char want[4096];
    const char *answer = ask("/stage" MF_BINDIR, "true");
    snprintf(want, sizeof want, "plugins %s/stage" MF_PLUGINDIR "\n", scratch);
    ck_assert_ptr_nonnull(strstr(answer, want));
    snprintf(want, sizeof want, "settings %s/stage" MF_SYSCONFDIR "\n", scratch);
    ck_assert_ptr_nonnull(strstr(answer, want));
}
END_TEST

/* A test that sets the settings folder reads no settings of the machine. */
START_TEST(settings_of_a_test)
{
    mf_paths_set_settings("/nowhere");
    ck_assert_str_eq(mf_paths_settings(), "/nowhere");
    mf_paths_set_settings("");
    ck_assert_str_ne(mf_paths_settings(), "/nowhere");
}
END_TEST

START_TEST(marker_without_a_path_is_ignored)
{
    const char *answer = ask("/odd", ": >\"$d/.moefw-uninstalled\"");
    ck_assert_ptr_nonnull(strstr(answer, "uninstalled 0\n"));
    answer = ask("/odd", "echo relative >\"$d/.moefw-uninstalled\"");
    ck_assert_ptr_nonnull(strstr(answer, "uninstalled 0\n"));
}
END_TEST

START_TEST(paths_that_go_down)
{
    static const char *const down[] = {"", "a", "a/b", "a/b/c", ".a", "..a/b", "a/...", "a.."};
    static const char *const other[] = {"/",    "/a",  ".",      "..",   "./a", "../a",
                                        "a/..", "a/.", "a/../b", "a//b", "a/",  "a/b/.."};
    for (size_t i = 0; i < sizeof down / sizeof *down; i++)
        ck_assert_msg(mf_path_goes_down(down[i]), "%s", down[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        ck_assert_msg(!mf_path_goes_down(other[i]), "%s", other[i]);
}
END_TEST

/* A word that was cut is still one word, and the shell reads the beginning of the text. */
START_TEST(words_of_a_shell)
{
    static const char *const texts[] = {"it's 'b' and 'c'", "", "a b", "plain", "$x \"y\""};
    char word[80], command[120], read[80];
    for (int i = 0; i < 5; i++)
        for (size_t size = 3; size < sizeof word; size++) {
            mf_shell_word(texts[i], word, size);
            ck_assert_uint_lt(strlen(word), size);
            snprintf(command, sizeof command, "printf %%s %s", word);
            run(command, read, sizeof read);
            ck_assert(strncmp(read, texts[i], strlen(read)) == 0);
            if (size >= 4 * strlen(texts[i]) + 6) ck_assert_str_eq(read, texts[i]);
        }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("paths");
    TCase *c = tcase_create("paths");
    tcase_add_test(c, paths_that_go_down);
    tcase_add_test(c, in_place);
    tcase_add_test(c, in_place_with_a_signal);
    tcase_add_test(c, elsewhere);
    tcase_add_test(c, staged);
    tcase_add_test(c, settings_of_a_test);
    tcase_add_test(c, marker_without_a_path_is_ignored);
    tcase_add_test(c, words_of_a_shell);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "ask") == 0) {
        mf_io_table table = *mf_io_default();
        table.pread = pread_interrupted;
        if (getenv("CHECK_PATHS_SIGNAL")) mf_io_set_table(&table);
        printf("uninstalled %d\nplugins %s\npresets %s\ntemplate %s\nsettings %s\ndropins %s\n"
               "source %s\ncalled %s\n",
               mf_paths_uninstalled(), mf_paths_plugins(), mf_paths_presets(),
               mf_paths_template(), mf_paths_settings(), mf_paths_dropins(), mf_paths_source(),
               mf_paths_called());
        return 0;
    }
    if (!mkdtemp(scratch)) return 99;
    int status = check_run(suite(), CK_NOFORK);
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command) != 0 ? 99 : status;
}
