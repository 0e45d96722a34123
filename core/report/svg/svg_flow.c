/* Draws a model's structure: a column of boxes with frames and residual paths, and one box
 * magnified. The layout visits the items twice: first it measures, then it draws. */
#include "report/svg/svg_flow.h"

#include "report/svg/svg_parts.h"

#include <stdio.h>

#define WIDTH   1140.0
#define BOX     300.0 /* width of a box of the column */
#define GAP     15.0  /* between boxes; holds the arrow */
#define INSET   13.0  /* indentation of a frame inside a frame */
#define LABEL   36.0  /* height of a frame's label */
#define DEPTH   8     /* most nested frames or residual paths */
#define LINE    "stroke=\"currentColor\" stroke-opacity=\".7\" stroke-width=\"1.2\""
#define FAINT   "stroke=\"currentColor\" stroke-opacity=\".25\""
#define DETAIL  268.0 /* height of the magnified part */
#define ADAPTER 44.0  /* additional height of adapters */

typedef struct flow {
    mf_doc *d;         /* NULL: only measure */
    double left, x, y; /* left edge and middle of the boxes; top of the next one */
    double frame[DEPTH], branch[DEPTH];
    const mf_flow_item *open[DEPTH];
    int frames, branches;
    bool begun; /* there is an item above, so an arrow is drawn */
    double detail_top, detail_bottom;
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

/* An arrow downwards. */
static void arrow(mf_doc *d, double x, double from, double to)
{
    mf_svg_line(d, x, from, x, to - 4, LINE);
    mf_doc_printf(d, "<path d=\"M%.1f %.1fl-4 -6h8z\" fill=\"currentColor\"/>\n", x, to);
}

static void words(mf_doc *d, const mf_box *b, const char *text, const char *note)
{
    const double x = (b->left + b->right) / 2, y = (b->top + b->bottom) / 2;
    mf_svg_text(d, x, note ? y - 3 : y + 4, "middle", text);
    if (!note) return;
    mf_doc_put(d, "<g font-size=\"11\" opacity=\".75\">");
    mf_svg_text(d, x, y + 12, "middle", note);
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
    if (item->detailed) {
        f->detail_top = b.top;
        f->detail_bottom = b.bottom;
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
    const mf_box b = {f->left - 82 + inset, f->frame[f->frames], f->left + BOX + 60 - inset,
                      f->y - GAP + 12};
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

/* ---- the magnified box ---- */

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
    const double x = middle(b);
    snprintf(name, sizeof name, "expert %d", number);
    rect(d, b, number < t->chosen ? mf_colour(1) : "#888888", false);
    mf_svg_text(d, x, b->top + 17, "middle", name);
    mf_doc_put(d, "<g font-size=\"11\" opacity=\".8\">");
    mf_svg_text(d, x, b->top + 33, "middle", t->expert);
    if (t->expert_note) mf_svg_text(d, x, b->top + 48, "middle", t->expert_note);
    mf_doc_put(d, "</g>");
}

/* Draws router, experts, their adapters, shared experts and the sum within the frame. */
static void put_detail(mf_doc *d, const mf_flow_detail *t, const mf_box *frame)
{
    const int most = 5, shown = t->experts > most ? most : t->experts;
    const bool more = t->experts > shown;
    const double width = frame->right - frame->left - 30 - (t->shared ? 130 : 0);
    const double pitch = width / (shown + more * 0.35), side = pitch - 10;
    const double x = frame->left + 15 + width / 2, top = frame->top + 34;
    const mf_box router = {x - 130, top, x + 130, top + 38};
    const double adapter = t->adapter ? ADAPTER : 0;
    const mf_box sum = {x - 130, top + 176 + adapter, x + 130, top + 204 + adapter};
    const mf_box one_adapter = {frame->left + 20, top + 146, frame->left + 10 + width,
                                top + 182};
    mf_svg_text(d, frame->left + 12, frame->top + 20, "start", t->title);
    boxed(d, &router, 3, t->router, t->router_note);
    if (t->choice) mf_svg_text(d, router.right + 10, top + 24, "start", t->choice);
    for (int i = 0; i < shown; i++) {
        /* If not all experts are drawn, the last one is drawn after the dots. */
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
        const mf_box b = {frame->right - 130, top + 74, frame->right - 15, top + 134};
        boxed(d, &b, 2, t->shared, t->shared_note);
        link_to(d, &b, &sum, LINE);
    }
    rect(d, &sum, mf_colour(0), false);
    words(d, &sum, t->sum, NULL);
    if (t->note) {
        mf_doc_put(d, "<g font-size=\"11\" opacity=\".75\">");
        mf_svg_text(d, frame->left + 12, frame->bottom - 9, "start", t->note);
        mf_doc_put(d, "</g>");
    }
}

static void magnify(flow *f, const mf_flow_detail *t, double height)
{
    const double tall = DETAIL + (t->adapter ? ADAPTER : 0);
    double top = (f->detail_top + f->detail_bottom - tall) / 2;
    if (top + tall > height - 8) top = height - 8 - tall;
    if (top < 8) top = 8;
    const mf_box frame = {f->left + BOX + 110, top, WIDTH - 10, top + tall};
    mf_svg_line(f->d, f->left + BOX, f->detail_top, frame.left, frame.top + 8, FAINT);
    mf_svg_line(f->d, f->left + BOX, f->detail_bottom, frame.left, frame.bottom - 8, FAINT);
    outline(f->d, &frame);
    put_detail(f->d, t, &frame);
}

void mf_svg_flow(mf_doc *d, const char *title, int n, const mf_flow_item *items,
                 const mf_flow_detail *detail)
{
    const double left = detail ? 92 : (WIDTH - BOX) / 2;
    const flow begin = {.left = left, .x = left + BOX / 2, .y = 10};
    flow f = begin;
    walk(&f, n, items);
    const double height = fmax(f.y - GAP + 6, detail ? DETAIL + ADAPTER + 16 : 0);
    f = begin;
    f.d = d;
    mf_svg_begin(d, WIDTH, height, title);
    walk(&f, n, items);
    if (detail && f.detail_bottom > 0) magnify(&f, detail, height);
    mf_svg_end(d);
}
