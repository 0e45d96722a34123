/* Prints a table as text. Each column is as wide as its widest cell. Columns that do not fit
 * beside the others are printed below, in a further part of the table. */
#include "cli/table.h"

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/shown.h"
#include "report/terminal/terminal.h"

#include <stdio.h>
#include <string.h>

enum { GAP = 2, COLUMNS_MAX = 128, CELL_MAX = 512 };

int mf_table_start(mf_table *t, int columns)
{
    *t = (mf_table){.columns = columns, .arena = mf_arena_new()};
    if (columns > COLUMNS_MAX)
        return mf_fail(MF_EUSAGE, "a table has at most %d columns, not %d", COLUMNS_MAX,
                       columns);
    return t->arena ? MF_OK : MF_ENOMEM;
}

int mf_table_row(mf_table *t)
{
    if (t->rows == t->room) {
        const int room = t->room ? 2 * t->room : 32;
        const size_t width = (size_t)t->columns * sizeof *t->cell;
        const char **larger =
            mf_realloc(t->cell, (size_t)t->rows * width, (size_t)room * width);
        if (!larger) return MF_ENOMEM;
        t->cell = larger;
        t->room = room;
    }
    for (int i = 0; i < t->columns; i++)
        t->cell[t->rows * t->columns + i] = "";
    t->rows++;
    return MF_OK;
}

int mf_table_put(mf_table *t, int column, const char *text)
{
    char safe[CELL_MAX];
    const char *copy =
        mf_arena_strdup(t->arena, mf_safe_text(text ? text : "-", false, safe, sizeof safe));
    if (!copy) return MF_ENOMEM;
    t->cell[(t->rows - 1) * t->columns + column] = copy;
    return MF_OK;
}

static const char *cell(const mf_table *t, int row, int column)
{
    return t->cell[row * t->columns + column];
}

/* Number of characters: continuation bytes of UTF-8 do not count. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static int column_width(const mf_table *t, int column)
{
    int width = 0;
    for (int r = 0; r < t->rows; r++)
        if (width_of(cell(t, r, column)) > width) width = width_of(cell(t, r, column));
    return width;
}

/* Whether every cell below the heading is a number, or "-" for a missing value. */
static bool has_numbers(const mf_table *t, int column)
{
    double x;
    for (int r = 1; r < t->rows; r++)
        if (strcmp(cell(t, r, column), "-") != 0 && !mf_parse_f64(cell(t, r, column), &x))
            return false;
    return t->rows > 1;
}

static void print_cell(const mf_table *t, int row, int column, bool last)
{
    const char *text = cell(t, row, column);
    const int space = column_width(t, column) - width_of(text);
    const bool right = has_numbers(t, column);
    printf("%*s%s", right ? space : 0, "", text);
    if (!last) printf("%*s", (right ? 0 : space) + GAP, "");
}

void mf_table_print(const mf_table *t, int width)
{
    for (int from = 1, end; from == 1 || from < t->columns; from = end) {
        int used = column_width(t, 0);
        for (end = from; end < t->columns; end++) {
            used += GAP + column_width(t, end);
            if (used >= width && end > from) break;
        }
        if (from > 1) putchar('\n');
        for (int r = 0; r < t->rows; r++) {
            print_cell(t, r, 0, end == 1);
            for (int c = from; c < end; c++)
                print_cell(t, r, c, c == end - 1);
            putchar('\n');
        }
        if (end == from) break;
    }
}

void mf_table_clear(mf_table *t)
{
    mf_free(t->cell);
    mf_arena_free(t->arena);
    *t = (mf_table){0};
}
