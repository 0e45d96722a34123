/* cli/meant/page.h: moefw help PAGE, for the manual pages that belong to no verb. */
#ifndef MF_CLI_PAGE_H
#define MF_CLI_PAGE_H

/* Section and full name of the manual page that a word names, as "7 moefw-pretrained"; NULL: it
 * names none. */
const char *mf_cli_page(const char *word);
/* Shows a page by man(1), which takes the place of this process; in place that of the source
 * folder. Returns only if it fails: MF_EDEP, the message names the page. */
int mf_cli_page_show(const char *page);

#endif
