/* report/board/board.h: the page of a folder of results. */
#ifndef MF_REPORT_BOARD_H
#define MF_REPORT_BOARD_H

#include "lab/result/board.h"

/* How far a result was verified: "same bits (2 runs, 1 whole)", "checked only", ... The text is
 * in the buffer. */
const char *mf_board_mark_text(const mf_board_mark *m, char *text, size_t size);
/* Writes the page to the file `out`. MF_EIO, MF_ENOMEM. */
int mf_report_board(const mf_board *b, const char *folder, const char *out);

#endif
