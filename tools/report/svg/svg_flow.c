/* Draws a model's structure: a column of boxes with frames and residual paths, and the content
 * of a box with experts. Both fit the width of a telephone. The layout of the column visits the
 * items twice: the first visit measures, the second draws. */
#include "report/svg/svg_flow.h"

#include "report/svg/svg_parts.h"

#include <stdio.h>

#define LEFT    64.0  /* left edge of the boxes; frames and residual paths are beside them */
#define BOX     232.0 /* width of a box of the column */
#define GAP     15.0  /* distance between boxes, in which the arrow is drawn */
#define INSET   13.0  /* indentation of a frame inside another frame */
#define LABEL   36.0  /* height of a frame's label */
#define DEPTH   8     /* largest nesting depth of frames and of residual paths */
#define LINE    "stroke=\"currentColor\" stroke-opacity=\".7\" stroke-width=\"1.2\""
#define FAINT   "stroke=\"currentColor\" stroke-opacity=\".25\""
#define DETAIL  268.0 /* height of the content of a box with experts */
#define ADAPTER 44.0  /* additional height if there are adapters */
#define SHARED  95.0  /* width of the box of shared experts */

typedef struct flow {
    mf_doc *d;         /* NULL: only measure, do not draw */
    double left, x, y; /* left edge of the boxes, their middle, and the top of the next box */
    double frame[DEPTH], branch[DEPTH];
    const mf_flow_item *open[DEPTH];
    int frames, branches;
    bool begun; /* an item was drawn above, so an arrow is drawn to the next one */
} flow;

/* ---- marks ---- */

static void rect(mf_doc *d, const mf_box *b, const char *ink, bool dashed)
{
    mf_doc_printf(d,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"5\" "
                  "fill=\"%s\" fill-opacity=\".14\" stroke=\"%s\" stroke-width=\"1.3\"%s/>\n",
                  b->left, b->top, b->right - b->left, b->bottom - b->top, ink, ink,
                  dashed ? " stroke-dasharray=\"5 3\"" : "");
}

static void outline(mf_doc *d, const mf_box *b)
{
    mf_doc_printf(d,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"8\" "
                  "stroke=\"currentColor\" stroke-opacity=\".45\" stroke-dasharray=\"3 3\"/>\n",
                  b->left, b->top, b->right - b->left, b->bottom - b->top);
}

/* Draws an arrow downwards. */
static void arrow(mf_doc *d, double x, double from, double to)
{
    mf_svg_line(d, x, from, x, to - 4, LINE);
    mf_doc_printf(d, "<path d=\"M%.1f %.1fl-4 -6h8z\" fill=\"currentColor\"/>\n", x, to);
}

/* Writes a text in the middle of a box. If it is wider than the box, it is condensed. */
static void line(mf_doc *d, const mf_box *b, double y, const char *text)
{
    const double room = b->right - b->left - 8;
    mf_doc_printf(d, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\"",
                  (b->left + b->right) / 2, y);
    if (0.85 * mf_text_width(text) > room)
        mf_doc_printf(d, " textLength=\"%.0f\" lengthAdjust=\"spacingAndGlyphs\"", room);
    mf_doc_put(d, ">");
    mf_doc_text(d, text);
    mf_doc_put(d, "</text>\n");
}

static void words(mf_doc *d, const mf_box *b, const char *text, const char *note)
{
    const double y = (b->top + b->bottom) / 2;
    line(d, b, note ? y - 3 : y + 4, text);
    if (!note) return;
    mf_doc_put(d, "<g font-size=\"11\" opacity=\".75\">");
    line(d, b, y + 12, note);
    mf_doc_put(d, "</g>");
}

/* ---- the column ---- */

static void come_from_above(flow *f, double to)
{
    if (f->begun && f->d) arrow(f->d, f->x, f->y - GAP, to);
    f->begun = true;
}

static void put_box(flow *f, const mf_flow_item *item)
{
    const mf_box b = {f->left, f->y, f->left + BOX, f->y + 38};
    come_from_above(f, b.top);
    if (f->d) {
        rect(f->d, &b, mf_colour(item->colour), item->dashed);
        words(f->d, &b, item->text, item->note);
    }
    f->y = b.bottom + GAP;
}

static void put_text(flow *f, const mf_flow_item *item)
{
    come_from_above(f, f->y);
    if (f->d) mf_svg_text(f->d, f->x, f->y + 13, "middle", item->text);
    f->y += 19 + GAP;
}

static void put_branch(flow *f)
{
    if (f->branches < DEPTH) f->branch[f->branches++] = f->y - GAP + 3;
}

static void put_sum(flow *f)
{
    const double y = f->y + 9, x = f->left - 14;
    come_from_above(f, f->y);
    if (f->branches > 0 && f->d) {
        mf_doc_printf(f->d, "<path d=\"M%.1f %.1fH%.1fV%.1fH%.1f\" %s/>\n", f->x,
                      f->branch[f->branches - 1], x, y, f->x - 13, LINE);
        mf_doc_printf(f->d, "<path d=\"M%.1f %.1fl-6 -4v8z\" fill=\"currentColor\"/>\n",
                      f->x - 9, y);
    }
    if (f->branches > 0) f->branches--;
    if (f->d)
        mf_doc_printf(f->d,
                      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"9\" %s/>"
                      "<path d=\"M%.1f %.1fh10M%.1f %.1fv10\" %s/>\n",
                      f->x, y, LINE, f->x - 5, y, f->x, y - 5, LINE);
    f->y += 18 + GAP;
}

static void open_frame(flow *f, const mf_flow_item *item)
{
    if (f->frames == DEPTH) return;
    f->open[f->frames] = item;
    f->frame[f->frames++] = f->y - 4;
    if (f->begun && f->d) mf_svg_line(f->d, f->x, f->y - GAP, f->x, f->y + LABEL - GAP, LINE);
    f->y += LABEL;
}

static void close_frame(flow *f)
{
    if (f->frames == 0) return;
    const double inset = INSET * f->frames--;
    const mf_box b = {f->left - LEFT - 3 + inset, f->frame[f->frames],
                      f->left + BOX + LEFT + 3 - inset, f->y - GAP + 12};
    if (f->d) {
        outline(f->d, &b);
        mf_svg_line(f->d, f->x, f->y - GAP, f->x, b.bottom, LINE);
        mf_svg_text(f->d, b.left + 10, b.top + 17, "start", f->open[f->frames]->text);
        if (f->open[f->frames]->note)
            mf_svg_text(f->d, b.right - 10, b.top + 17, "end", f->open[f->frames]->note);
    }
    f->y = b.bottom + GAP;
}

static void walk(flow *f, int n, const mf_flow_item *items)
{
    for (int i = 0; i < n; i++) {
        const mf_flow_item *item = &items[i];
        switch (item->kind) {
        case MF_FLOW_TEXT:
            put_text(f, item);
            break;
        case MF_FLOW_BOX:
            put_box(f, item);
            break;
        case MF_FLOW_BRANCH:
            put_branch(f);
            break;
        case MF_FLOW_SUM:
            put_sum(f);
            break;
        case MF_FLOW_OPEN:
            open_frame(f, item);
            break;
        case MF_FLOW_CLOSE:
            close_frame(f);
            break;
        }
    }
}

/* ---- a box with experts ---- */

static double middle(const mf_box *b)
{
    return (b->left + b->right) / 2;
}

static void link_to(mf_doc *d, const mf_box *from, const mf_box *to, const char *style)
{
    mf_doc_printf(d, "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" %s/>\n",
                  middle(from), from->bottom, middle(from), from->bottom + 16, middle(to),
                  to->top - 16, middle(to), to->top, style);
}

static void boxed(mf_doc *d, const mf_box *b, int colour, const char *text, const char *note)
{
    rect(d, b, mf_colour(colour), false);
    words(d, b, text, note);
}

static void put_expert(mf_doc *d, const mf_flow_detail *t, const mf_box *b, int number)
{
    char name[32];
    snprintf(name, sizeof name, "expert %d", number);
    rect(d, b, number < t->chosen ? mf_colour(1) : "#888888", false);
    line(d, b, b->top + 17, name);
    mf_doc_put(d, "<g font-size=\"11\" opacity=\".8\">");
    line(d, b, b->top + 33, t->expert);
    if (t->expert_note) line(d, b, b->top + 48, t->expert_note);
    mf_doc_put(d, "</g>");
}

/* Draws router, experts, their adapters, shared experts and the sum within the frame. */
static void put_detail(mf_doc *d, const mf_flow_detail *t, const mf_box *frame)
{
    const int most = t->shared ? 2 : 3, shown = t->experts > most ? most : t->experts;
    const bool more = t->experts > shown;
    const double width = frame->right - frame->left - 30 - (t->shared ? SHARED + 15 : 0);
    const double half = fmin(130, width / 2);
    const double pitch = width / (shown + more * 0.35), side = pitch - 10;
    const double x = frame->left + 15 + width / 2, top = frame->top + 34;
    const mf_box router = {x - half, top, x + half, top + 38};
    const double adapter = t->adapter ? ADAPTER : 0;
    const mf_box sum = {x - half, top + 176 + adapter, x + half, top + 204 + adapter};
    const mf_box one_adapter = {frame->left + 20, top + 146, frame->left + 10 + width,
                                top + 182};
    mf_svg_text(d, frame->left + 12, frame->top + 20, "start", t->title);
    boxed(d, &router, 3, t->router, t->router_note);
    if (t->choice) mf_svg_text(d, frame->right - 12, frame->top + 20, "end", t->choice);
    for (int i = 0; i < shown; i++) {
        /* If not all experts are drawn, the last expert is drawn after the dots. */
        const bool last = more && i == shown - 1;
        const double left = frame->left + 15 + (i + (last ? 0.35 : 0)) * pitch + 5;
        const char *style = i < t->chosen && !last ? LINE : FAINT;
        mf_box b = {left, top + 74, left + side, top + 134};
        link_to(d, &router, &b, style);
        put_expert(d, t, &b, last ? t->experts - 1 : i);
        if (last)
            mf_svg_text(d, left - 0.175 * pitch - 5, (b.top + b.bottom) / 2 + 4, "middle",
                        "\xe2\x80\xa6");
        if (t->adapter && t->adapter_shared) {
            mf_svg_line(d, middle(&b), b.bottom, middle(&b), one_adapter.top, style);
            continue;
        }
        if (t->adapter) {
            const mf_box m = {b.left, b.bottom + 8, b.right, b.bottom + 44};
            boxed(d, &m, 4, t->adapter, t->adapter_note);
            b = m;
        }
        link_to(d, &b, &sum, style);
    }
    if (t->adapter && t->adapter_shared) {
        boxed(d, &one_adapter, 4, t->adapter, t->adapter_note);
        link_to(d, &one_adapter, &sum, LINE);
    }
    if (t->shared) {
        const mf_box b = {frame->right - 15 - SHARED, top + 74, frame->right - 15, top + 134};
        boxed(d, &b, 2, t->shared, t->shared_note);
        link_to(d, &b, &sum, LINE);
    }
    rect(d, &sum, mf_colour(0), false);
    words(d, &sum, t->sum, NULL);
    if (t->note) {
        mf_doc_put(d, "<g font-size=\"11\" opacity=\".75\">");
        line(d, &(mf_box){frame->left + 8, 0, frame->right - 8, 0}, frame->bottom - 9, t->note);
        mf_doc_put(d, "</g>");
    }
}

void mf_svg_flow(mf_doc *d, const char *title, int n, const mf_flow_item *items)
{
    const flow begin = {.left = LEFT, .x = LEFT + BOX / 2, .y = 10};
    flow f = begin;
    walk(&f, n, items);
    const double height = f.y - GAP + 6;
    f = begin;
    f.d = d;
    mf_svg_begin(d, MF_FIGURE_WIDTH, height, title);
    walk(&f, n, items);
    mf_svg_end(d);
}

void mf_svg_flow_detail(mf_doc *d, const mf_flow_detail *detail)
{
    const double height = DETAIL + (detail->adapter ? ADAPTER : 0);
    const mf_box frame = {5, 5, MF_FIGURE_WIDTH - 5, 5 + height};
    mf_svg_begin(d, MF_FIGURE_WIDTH, height + 10, detail->title);
    outline(d, &frame);
    put_detail(d, detail, &frame);
    mf_svg_end(d);
}
