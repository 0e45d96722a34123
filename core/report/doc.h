/* report/doc.h: a growing text for SVG and HTML. An error sticks: check once, at the end. */
#ifndef MF_REPORT_DOC_H
#define MF_REPORT_DOC_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct mf_doc mf_doc;

mf_doc *mf_doc_new(void);
void mf_doc_free(mf_doc *d);
void mf_doc_put(mf_doc *d, const char *text); /* as it is */
void mf_doc_printf(mf_doc *d, const char *fmt, ...) MF_PRINTF(2, 3);
/* Text of any origin: & < > " ' are escaped; what XML forbids becomes U+FFFD. */
void mf_doc_text(mf_doc *d, const char *text);
/* A coordinate: at most two decimals, no trailing zeros; what is not finite becomes 0. */
void mf_doc_number(mf_doc *d, double x);
/* The text so far, NUL-terminated; NULL when memory ran out. */
const char *mf_doc_string(const mf_doc *d, size_t *ret_length);

#endif
