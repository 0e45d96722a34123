/* cli/table.h: a table of texts on standard output that fits the width of a terminal. */
#ifndef MF_CLI_TABLE_H
#define MF_CLI_TABLE_H

#include "base/mem.h"

typedef struct mf_table {
    mf_arena *arena;   /* owner of the cells */
    const char **cell; /* [rows][columns]; the first row has the headings */
    int rows, columns, room;
} mf_table;

/* Begins a table with this number of columns. The caller frees it with mf_table_clear, also
 * after a failure. Can fail with MF_ENOMEM. */
int mf_table_start(mf_table *t, int columns);
/* Adds a row of empty cells. Can fail with MF_ENOMEM. */
int mf_table_row(mf_table *t);
/* Sets a cell of the last row; the text is copied. text NULL: the cell shows "-". Can fail
 * with MF_ENOMEM. */
int mf_table_put(mf_table *t, int column, const char *text);
/* Prints the table in at most `width` columns of text. If it is wider, it is printed in several
 * parts below one another, each of which begins with the first column. Columns of numbers are
 * aligned right. A cell that is wider than the line is not cut. */
void mf_table_print(const mf_table *t, int width);
void mf_table_clear(mf_table *t);

#endif
