/* comm/table.h: the table of a communicator module, comm/NAME.so in a plugin folder.
 *
 * A module moves bytes between the processes (ranks) of a run, and does nothing else: the
 * program computes sums itself, in a fixed order. The engine is the library that the module
 * calls for this, for example MPI. A module belongs to one version of moefw; other versions
 * refuse it. Only one thread, always the same, calls these functions.
 *
 * The sums of MPI would depend on the number of ranks and on the algorithm that MPI chooses.
 * Instead, slice r of all partial sums goes to rank r, which adds them in the tree
 * (train/parallel/tree.h). A rank never waits inside MPI: it tests whether a transfer is done,
 * so a lost peer ends the run with a message. */
#ifndef MF_COMM_TABLE_H
#define MF_COMM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mf_comm mf_comm;
typedef struct mf_comm_wait mf_comm_wait;

/* A rank, and the node on which it runs. */
typedef struct mf_comm_place {
    int32_t rank, ranks;
    int32_t node;       /* lowest rank on the same node */
    int32_t node_ranks; /* number of ranks on the same node */
    char host[64];
} mf_comm_place;

/* Bytes that are sent to a peer or received from it. */
typedef struct mf_comm_piece {
    int32_t peer; /* another rank */
    void *data;
    int64_t bytes; /* may be 0 */
} mf_comm_piece;

#define MF_COMM_MAGIC UINT64_C(0x6d6d6f636665676d) /* the bytes "mgefcomm" */

/* Exported as `moefw_comm`. */
typedef struct mf_comm_table {
    uint64_t magic;
    uint32_t size, reserved;
    const char *version; /* must be MOEFW_VERSION */
    const char *name;    /* value of parallel.comm */
    /* Joins the ranks that a launcher has started. chunk: maximum size of a message in bytes.
     * On failure returns nonzero and writes the reason to text [size]. */
    int (*open)(int64_t chunk, mf_comm_place *ret_place, mf_comm **ret, char *text,
                size_t size);
    /* Starts to send and to receive. Pieces between two ranks arrive in the order in which both
     * name them, also over several calls; both must name the same number of bytes. The memory
     * belongs to the transfer until `test` has set *ret_done; then *ret is no longer valid.
     * Nonzero: the engine has failed. */
    int (*start)(mf_comm *c, int32_t n_send, const mf_comm_piece *send, int32_t n_recv,
                 const mf_comm_piece *recv, mf_comm_wait **ret);
    int (*test)(mf_comm *c, mf_comm_wait *w, bool *ret_done);
    /* Whether a transfer that is not done still waits for bytes from or to this peer. */
    bool (*waits_for)(mf_comm_wait *w, int32_t peer);
    void (*abort)(mf_comm *c, int code); /* ends all ranks with this exit code */
    void (*close)(mf_comm *c);           /* all ranks must call this */
} mf_comm_table;

#endif
