/* Finds manual pages by the words that people use for them: moefw help pretrained shows
 * moefw-pretrained(7). If the pages are not installed, the page comes from the
 * source folder. */
#include "cli/meant/page.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/paths.h"

enum { AT_NAME = 2 }; /* index of the name, after the section and a blank */

const char *mf_cli_page(const char *word)
{
    static const char *const pages[] = {
        "7 moefw-adapters", "7 moefw-controllers", "7 moefw-experts",      "3 moefw-library",
        "7 moefw-parallel", "7 moefw-plugin",      "7 moefw-pretrained",   "7 moefw-routers",
        "5 moefw-run",      "5 moefw-trace",       "7 moefw-regularizers", "5 moefw.ini",
        "1 moefw"};
    const size_t prefix = AT_NAME + strlen("moefw-");
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (strcmp(pages[i] + AT_NAME, word) == 0 ||
            (strlen(pages[i]) > prefix && strcmp(pages[i] + prefix, word) == 0))
            return pages[i];
    return NULL;
}

int mf_cli_page_show(const char *page)
{
    const char section[] = {page[0], '\0'}, *name = page + AT_NAME;
    char path[PATH_MAX];
    fflush(stdout);
    if (mf_paths_uninstalled()) {
        snprintf(path, sizeof path, "%s/man/%s.%s", mf_paths_source(), name, section);
        execlp("man", "man", "-l", path, (char *)NULL);
    } else {
        snprintf(path, sizeof path, "%s(%s)", name, section);
        execlp("man", "man", section, name, (char *)NULL);
    }
    return mf_fail_errno(MF_EDEP, "help: the program man cannot show %s", path);
}
