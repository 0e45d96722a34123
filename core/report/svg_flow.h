/* report/svg_flow.h: the structure of a model as a picture: a column of boxes from top to
 * bottom, and beside it, magnified, what one box with experts holds.
 *
 * Blocks that are alike are given once, in a frame that says how many there are.
 */
#ifndef MF_REPORT_SVG_FLOW_H
#define MF_REPORT_SVG_FLOW_H

#include "report/doc.h"
#include <stdbool.h>

typedef enum mf_flow_kind {
    MF_FLOW_TEXT,   /* what goes in and what comes out */
    MF_FLOW_BOX,    /* text, and note below it */
    MF_FLOW_BRANCH, /* a residual path leaves here */
    MF_FLOW_SUM,    /* the last one that left comes back */
    MF_FLOW_OPEN,   /* a frame begins: text is its label, note stands on the right: "x 12" */
    MF_FLOW_CLOSE
} mf_flow_kind;

typedef struct mf_flow_item {
    mf_flow_kind kind;
    const char *text, *note; /* note: or NULL */
    int colour;              /* of mf_colour */
    bool dashed;             /* there in some of the blocks only */
    bool detailed;           /* the box that is magnified */
} mf_flow_item;

typedef struct mf_flow_detail {
    const char *title;
    const char *router, *router_note;
    const char *choice; /* beside the router: "top 2 of 8" */
    int experts, chosen;
    const char *expert, *expert_note; /* in each box */
    const char *film, *film_note;     /* NULL: there is none */
    bool film_shared;
    const char *shared, *shared_note; /* experts for all tokens; NULL: none */
    const char *sum;
    const char *note; /* below; NULL */
} mf_flow_detail;

/* detail: NULL when no item is detailed. */
void mf_svg_flow(mf_doc *d, const char *title, int n, const mf_flow_item *items,
                 const mf_flow_detail *detail);

#endif
