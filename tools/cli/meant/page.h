/* cli/meant/page.h: moefw help PAGE, for the manual pages that belong to no verb. */
#ifndef MF_CLI_PAGE_H
#define MF_CLI_PAGE_H

/* Section and full name of the manual page that a word names, such as "7 moefw-pretrained";
 * NULL if no page has this name. */
const char *mf_cli_page(const char *word);
/* Shows a page with man(1), which replaces this process. If moefw is not installed, the page of
 * the source folder is shown. Returns only if it fails: MF_EDEP, and the message names
 * the page. */
int mf_cli_page_show(const char *page);

#endif
