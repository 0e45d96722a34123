/* run/metrics/events.h: event files of TensorBoard.
 *
 * A file is a sequence of TFRecords: length (8 bytes, little endian), its masked CRC-32C,
 * the message Event in the wire format of Protocol Buffers, the masked CRC-32C of the message.
 * Each record is passed to the system at once, so a reader sees it while the run continues.
 *
 * Writing:  mf_events_begin(e, step); mf_events_scalar(e, "loss", x); ... mf_events_put(e);
 *
 * One thread at a time may use a file. */
#ifndef MF_RUN_EVENTS_H
#define MF_RUN_EVENTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct mf_events mf_events;

/* Makes the new file FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS.N, where SECONDS is
 * greater than in all existing files. The folder is made if it is missing, but its parent is
 * not. resumed_at >= 0: the run continues after this step, so TensorBoard drops the values of
 * later steps in earlier files. MF_EIO, MF_ENOMEM. */
int mf_events_open(const char *folder, int64_t resumed_at, mf_events **ret);
/* Begins the event of a step. Values that were added but not written are dropped. */
void mf_events_begin(mf_events *e, int64_t step);
/* Adds a number, which TensorBoard keeps as f32. */
void mf_events_scalar(mf_events *e, const char *tag, double value);
/* Adds a histogram of n bins: bin i reaches from i to i + 1 and has the weight count[i]. */
void mf_events_histogram(mf_events *e, const char *tag, int n, const float *count);
/* Adds a text, shown as Markdown. */
void mf_events_text(mf_events *e, const char *tag, const char *text);
/* Writes the event; writes nothing if it has no value. MF_EIO; MF_ENOMEM, also for earlier
 * calls that added values. */
int mf_events_put(mf_events *e);
int mf_events_close(mf_events *e); /* NULL is allowed */

/* CRC-32C (Castagnoli) of n bytes, and the masked form that TFRecord uses. */
uint32_t mf_crc32c(const void *data, size_t n);
uint32_t mf_crc32c_masked(const void *data, size_t n);

#endif
