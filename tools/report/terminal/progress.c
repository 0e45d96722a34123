/* Progress of long work: a live line on a terminal, plain lines elsewhere. At most one live
 * line exists at a time. A log message erases it first. */
#include "report/terminal/progress.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

#define DRAW_SECONDS  0.1  /* minimum seconds between two redraws */
#define PLAIN_LINES   20   /* number of plain lines over the whole work */
#define PLAIN_SECONDS 60.0 /* longest time in seconds without a plain line while steps end */
#define MAX_PARTS     6
#define BAR_MAX       30
#define BAR_MIN       8

struct mf_progress {
    mf_terminal t;
    char label[32], device[64];
    int64_t first, total, step;
    bool quiet, drawn;
    double began, last_draw, last_plain;
    int64_t last_plain_step;
    double loss, tokens_per_s, val_loss;
    double last;           /* duration in seconds of the validation after the last step */
    int64_t done, batches; /* numbers of batches of the running validation; batches 0: no
                            * validation runs */
    int width;             /* number of characters of the live line, if it is drawn */
};

static mf_progress *live_now; /* the progress whose line a log message must erase */

/* Erases the live line. If the terminal now has fewer columns, the line has wrapped, and the
 * cursor is on the last of its lines. */
static void erase(mf_progress *p)
{
    if (!p->drawn) return;
    const int columns = mf_terminal_columns(&p->t);
    if (p->width > columns) fprintf(p->t.out, "\033[%dA", (p->width - 1) / columns);
    fputs(p->width > columns ? "\r\033[J" : "\r\033[K", p->t.out);
    fflush(p->t.out);
    p->drawn = false;
}

static void before_log_line(void)
{
    if (live_now) erase(live_now);
}

mf_progress *mf_progress_new(const mf_terminal *t, const char *label, int64_t first,
                             int64_t total, bool quiet)
{
    mf_progress *p = mf_alloc(1, sizeof *p);
    if (!p) return NULL;
    p->t = *t;
    snprintf(p->label, sizeof p->label, "%s", label);
    p->first = p->step = p->last_plain_step = first;
    p->total = total;
    p->quiet = quiet;
    p->began = p->last_plain = mf_clock();
    p->loss = p->tokens_per_s = p->val_loss = NAN;
    if (!quiet && t->live) {
        live_now = p;
        mf_log_set_hook(before_log_line);
    }
    return p;
}

static double seconds_left(const mf_progress *p)
{
    const double done = (double)(p->step - p->first);
    if (p->total <= 0 || done <= 0) return NAN;
    return (mf_clock() - p->began) / done * (double)(p->total - p->step) + p->last;
}

/* Remaining time of the running validation if it is the one after the last step and its
 * duration is known; otherwise NaN. */
static double validation_left(const mf_progress *p)
{
    if (p->step < p->total || p->last <= 0) return NAN;
    return p->last * (double)(p->batches - p->done) / (double)p->batches;
}

/* ---- the live line: the least important parts are omitted until it fits ---- */

typedef struct part {
    char text[64];
    mf_ink ink;
    int rank; /* the part with the highest rank is omitted first */
} part;

MF_PRINTF(4, 5)
static void add_part(part *parts, int *n, part how, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(how.text, sizeof how.text, fmt, args);
    va_end(args);
    parts[(*n)++] = how;
}

static int parts_of(const mf_progress *p, part out[MAX_PARTS])
{
    char text[24];
    int n = 0;
    const double left = p->batches > 0 ? validation_left(p) : seconds_left(p);
    if (p->batches > 0)
        add_part(out, &n, (part){.rank = 1}, "validation %lld/%lld", (long long)p->done,
                 (long long)p->batches);
    else if (p->total > 0)
        add_part(out, &n, (part){.rank = 1}, "%lld/%lld", (long long)p->step,
                 (long long)p->total);
    else
        add_part(out, &n, (part){.rank = 1}, "%lld", (long long)p->step);
    if (!isnan(p->loss)) add_part(out, &n, (part){.ink = MF_INK_BOLD}, "loss %.4f", p->loss);
    if (!isnan(p->val_loss)) add_part(out, &n, (part){.rank = 4}, "val %.4f", p->val_loss);
    if (!isnan(p->tokens_per_s))
        add_part(out, &n, (part){.ink = MF_INK_DIM, .rank = 3}, "%s tokens/s",
                 mf_count_text(p->tokens_per_s, text));
    if (p->device[0] != '\0')
        add_part(out, &n, (part){.ink = MF_INK_DIM, .rank = 5}, "%s", p->device);
    if (!isnan(left))
        add_part(out, &n, (part){.ink = MF_INK_DIM, .rank = 2}, "%s left",
                 mf_duration_text(left, text));
    return n;
}

static int width_of(const mf_progress *p, const part *parts, int n)
{
    int width = (int)strlen(p->label);
    for (int i = 0; i < n; i++)
        width += 2 + (int)strlen(parts[i].text);
    return width;
}

static int fit(const mf_progress *p, part *parts, int n, int columns)
{
    while (n > 1 && width_of(p, parts, n) > columns) {
        int worst = 0;
        for (int i = 1; i < n; i++)
            if (parts[i].rank > parts[worst].rank) worst = i;
        memmove(&parts[worst], &parts[worst + 1], (size_t)(n - worst - 1) * sizeof *parts);
        n--;
    }
    return n;
}

static void put_bar(const mf_progress *p, int width)
{
    static const char *const full[] = {"#", "\xe2\x94\x81"}, *const rest[] = {"-",
                                                                              "\xe2\x94\x81"};
    const mf_terminal *t = &p->t;
    const bool fine = t->utf8 && t->colour; /* both parts of the bar are drawn with the
                                             * same character */
    const double share = p->batches > 0 ? (double)p->done / (double)p->batches
                                        : (double)p->step / (double)p->total;
    int filled = (int)(share * width);
    if (filled > width) filled = width;
    fprintf(t->out, "  %s", mf_ink_begin(t, MF_INK_GREEN));
    for (int i = 0; i < width; i++) {
        if (i == filled) fprintf(t->out, "%s%s", mf_ink_end(t), mf_ink_begin(t, MF_INK_DIM));
        fputs(i < filled ? full[fine] : rest[fine], t->out);
    }
    fputs(mf_ink_end(t), t->out);
}

static void draw(mf_progress *p)
{
    const mf_terminal *t = &p->t;
    part parts[MAX_PARTS];
    const int columns = mf_terminal_columns(t) - 1;
    const int n = fit(p, parts, parts_of(p, parts), columns);
    int bar = columns - width_of(p, parts, n) - 2;
    if (bar > BAR_MAX) bar = BAR_MAX;
    if (p->width > columns + 1) erase(p);
    p->width = width_of(p, parts, n) + (bar >= BAR_MIN && p->total > 0 ? bar + 2 : 0);
    fprintf(t->out, "\r\033[K%s%s%s", mf_ink_begin(t, MF_INK_BLUE), p->label, mf_ink_end(t));
    if (bar >= BAR_MIN && p->total > 0) put_bar(p, bar);
    for (int i = 0; i < n; i++)
        fprintf(t->out, "  %s%s%s", mf_ink_begin(t, parts[i].ink), parts[i].text,
                mf_ink_end(t));
    fflush(t->out);
    p->drawn = true;
}

/* ---- plain lines ---- */

static void begin_line(mf_progress *p, int64_t step)
{
    erase(p);
    if (p->total > 0) {
        const int width = snprintf(NULL, 0, "%lld", (long long)p->total);
        fprintf(p->t.out, "step %*lld/%lld", width, (long long)step, (long long)p->total);
    } else {
        fprintf(p->t.out, "step %lld", (long long)step);
    }
}

/* Writes a line of the history above the live line, shortened to the width of the terminal.
 * Work with an unknown total, or without a loss, has no such line: the bar shows
 * its progress. */
static void history(mf_progress *p)
{
    part parts[MAX_PARTS];
    if (isnan(p->loss)) return;
    int n = 0;
    char count[24];
    const int width = snprintf(NULL, 0, "%lld", (long long)p->total);
    add_part(parts, &n, (part){.rank = 1}, "%*lld/%lld", width, (long long)p->step,
             (long long)p->total);
    add_part(parts, &n, (part){.rank = 0}, "loss %.4f", p->loss);
    if (!isnan(p->tokens_per_s))
        add_part(parts, &n, (part){.rank = 2}, "%s tokens/s",
                 mf_count_text(p->tokens_per_s, count));
    if (p->device[0] != '\0') add_part(parts, &n, (part){.rank = 3}, "%s", p->device);
    erase(p);
    n = fit(p, parts, n, mf_terminal_columns(&p->t) - 1);
    for (int i = 0; i < n; i++)
        fprintf(p->t.out, "%s%s", i > 0 ? "  " : "step ", parts[i].text);
    fputc('\n', p->t.out);
}

static void plain(mf_progress *p)
{
    char count[24];
    if (p->t.live) {
        history(p);
        return;
    }
    begin_line(p, p->step);
    if (!isnan(p->loss)) fprintf(p->t.out, "  loss %.4f", p->loss);
    if (!isnan(p->tokens_per_s))
        fprintf(p->t.out, "  %s tokens/s", mf_count_text(p->tokens_per_s, count));
    if (p->device[0] != '\0') fprintf(p->t.out, "  %s", p->device);
    const double left = seconds_left(p);
    if (!isnan(left) && p->step < p->total)
        fprintf(p->t.out, "  %s left", mf_duration_text(left, count));
    fputc('\n', p->t.out);
    fflush(p->t.out);
}

static bool plain_is_due(const mf_progress *p, double now)
{
    const int64_t every = p->total > PLAIN_LINES ? p->total / PLAIN_LINES : 1;
    if (p->total > 0 && p->step / every != p->last_plain_step / every) return true;
    if (p->total > 0 && p->step == p->total) return true;
    return !p->t.live && now - p->last_plain >= PLAIN_SECONDS;
}

void mf_progress_step(mf_progress *p, int64_t step, double loss, double tokens_per_s)
{
    if (!p) return;
    const double now = mf_clock();
    p->step = step;
    p->loss = loss;
    p->tokens_per_s = tokens_per_s;
    if (p->quiet) return;
    if (plain_is_due(p, now)) {
        p->last_plain = now;
        p->last_plain_step = step;
        plain(p);
    }
    if (!p->t.live || (now - p->last_draw < DRAW_SECONDS && step != p->total)) return;
    p->last_draw = now;
    draw(p);
}

void mf_progress_batch(mf_progress *p, int64_t done, int64_t total)
{
    if (!p || p->quiet) return;
    const double now = mf_clock();
    char text[24];
    p->done = done;
    p->batches = total;
    if (p->t.live && now - p->last_draw >= DRAW_SECONDS) {
        p->last_draw = now;
        draw(p);
    } else if (!p->t.live && now - p->last_plain >= PLAIN_SECONDS) {
        p->last_plain = now;
        begin_line(p, p->step);
        fprintf(p->t.out, "  validation %lld/%lld", (long long)done, (long long)total);
        if (!isnan(validation_left(p)))
            fprintf(p->t.out, "  %s left", mf_duration_text(validation_left(p), text));
        fputc('\n', p->t.out);
        fflush(p->t.out);
    }
    if (done == total) p->batches = 0;
}

void mf_progress_device(mf_progress *p, const char *text)
{
    if (p) snprintf(p->device, sizeof p->device, "%s", text);
}

void mf_progress_last(mf_progress *p, double seconds)
{
    if (p) p->last = seconds;
}

void mf_progress_eval(mf_progress *p, int64_t step, double loss, double floor,
                      const char *scores)
{
    if (!p) return;
    p->val_loss = loss;
    if (p->quiet) return;
    begin_line(p, step);
    fprintf(p->t.out, "  validation loss %s%.4f%s", mf_ink_begin(&p->t, MF_INK_BOLD), loss,
            mf_ink_end(&p->t));
    if (!isnan(floor)) fprintf(p->t.out, "  (floor %.4f)", floor);
    if (scores[0] != '\0') fprintf(p->t.out, "  %s", scores);
    fputc('\n', p->t.out);
    fflush(p->t.out);
}

void mf_progress_clear(mf_progress *p)
{
    if (p) erase(p);
}

void mf_progress_end(mf_progress *p)
{
    if (!p) return;
    erase(p);
    if (live_now == p) {
        live_now = NULL;
        mf_log_set_hook(NULL);
    }
    mf_free(p);
}
