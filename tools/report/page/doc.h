/* report/page/doc.h: a growing text for SVG and HTML. The document remembers a failure, so it
 * is enough to check the result of mf_doc_string at the end. */
#ifndef MF_REPORT_DOC_H
#define MF_REPORT_DOC_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct mf_doc mf_doc;

mf_doc *mf_doc_new(void);
void mf_doc_free(mf_doc *d);
void mf_doc_put(mf_doc *d, const char *text); /* appends text without escaping */
void mf_doc_printf(mf_doc *d, const char *fmt, ...) MF_PRINTF(2, 3);
/* Appends text of any origin. & < > " ' are escaped. Control characters except tab and LF,
 * marks that change the direction of writing (base/text/shown.h), U+FFFE, U+FFFF and invalid
 * UTF-8 become U+FFFD. */
void mf_doc_text(mf_doc *d, const char *text);
/* Appends a path without escaping for HTML, quoted for the shell if necessary. */
void mf_doc_put_path(mf_doc *d, const char *path);
/* Appends a coordinate with at most two decimals and without trailing zeros; 0 if it is
 * not finite. */
void mf_doc_number(mf_doc *d, double x);
/* Sets texts that later calls need: the headings of the open table. NULL: none. They must stay
 * valid until the next call of mf_doc_set_names. */
void mf_doc_set_names(mf_doc *d, const char *const *names);
const char *const *mf_doc_names(const mf_doc *d);
/* The text so far, NUL-terminated. d owns it. NULL if an allocation failed. */
const char *mf_doc_string(const mf_doc *d, size_t *ret_length);

#endif
