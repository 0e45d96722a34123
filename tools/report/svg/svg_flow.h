/* report/svg/svg_flow.h: draws the structure of a model: a column of boxes from top to bottom,
 * and the content of one box with experts.
 *
 * Equal blocks are drawn once, in a frame whose note shows how many there are. */
#ifndef MF_REPORT_SVG_FLOW_H
#define MF_REPORT_SVG_FLOW_H

#include "report/page/doc.h"
#include <stdbool.h>

typedef enum mf_flow_kind {
    MF_FLOW_TEXT,   /* input or output of the model */
    MF_FLOW_BOX,    /* text, with note below it */
    MF_FLOW_BRANCH, /* a residual path begins here */
    MF_FLOW_SUM,    /* the last open residual path ends here */
    MF_FLOW_OPEN,   /* a frame begins: text is its label, note its right-hand label: "x 12" */
    MF_FLOW_CLOSE
} mf_flow_kind;

typedef struct mf_flow_item {
    mf_flow_kind kind;
    const char *text, *note; /* note may be NULL */
    int colour;              /* index of mf_colour */
    bool dashed;             /* only some of the blocks contain this item */
} mf_flow_item;

typedef struct mf_flow_detail {
    const char *title;
    const char *router, *router_note;
    const char *choice; /* text beside the title: "2 of 8 a token" */
    int experts, chosen;
    const char *expert, *expert_note;   /* texts in each expert's box */
    const char *adapter, *adapter_note; /* texts of the adapters' boxes; NULL: no adapters */
    bool adapter_shared;
    const char *shared, *shared_note; /* texts of the box of experts for all tokens;
                                       * NULL: none */
    const char *sum;
    const char *note; /* text below the picture; NULL: none */
} mf_flow_detail;

/* Appends the column. */
void mf_svg_flow(mf_doc *d, const char *title, int n, const mf_flow_item *items);
/* Appends the content of a box with experts. */
void mf_svg_flow_detail(mf_doc *d, const mf_flow_detail *detail);

#endif
