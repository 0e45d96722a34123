/* lab/check/checks.h: the single checks, which the runner calls. Only the files of lab/check
 * and tests include this header. */
#ifndef MF_LAB_CHECKS_H
#define MF_LAB_CHECKS_H

#include "lab/check/check.h"
#include "lab/harness.h"

typedef enum mf_verdict { MF_CHECK_PASS, MF_CHECK_FAIL, MF_CHECK_SKIP } mf_verdict;

#define MF_CHECK_DETAIL 700
/* One check. It writes a detail for every verdict. */
typedef mf_verdict (*mf_check_fn)(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);

typedef struct mf_check {
    const char *name;
    mf_check_fn run;
} mf_check;
extern const mf_check mf_checks[]; /* ends with an entry whose name is NULL */

mf_verdict mf_check_options(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_shapes(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_drawn(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_gradients(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_ops(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_device(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_determinism(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_long_runs(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_batch_split(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_causality(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_decoding(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_padding(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_losses(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_records(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_labels(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_statistics(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_sums(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_live(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_inactive(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_odd_numbers(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_restore(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_leaks(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_bounds(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_instances(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_parameters(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_process(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);
mf_verdict mf_check_speed(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL]);

/* Digest of some training steps. It is compared with the digest of another process. */
int mf_check_digest(const mf_loaded *plugin, char hash[33]);

/* The failed row that a failed check only repeats; NULL: it repeats none. */
const mf_check_row *mf_check_follows(const mf_check_report *r, const char *name,
                                     const char *detail);

/* ---- shared by the checks ---- */

/* Seed of the inputs of ops that run alone, and of their random numbers. */
#define MF_CHECK_SEED 20240607
/* Draws the elements of input i of an example into data. data NULL: does nothing. */
void mf_check_fill(const mf_op_example *e, int i, void *data);

/* Whether the user has requested the thorough check (--thorough), which has more sizes and
 * ranges of values, and more draws of each. */
bool mf_check_thorough(void);

/* The seed of all random draws of the checks (--seed). */
uint64_t mf_check_seed(void);
/* A whole number from lo to hi. It depends on the seed, the number of a draw, and the
 * purpose `what`. */
int32_t mf_check_number(int draw, int what, int32_t lo, int32_t hi);
/* Draws a value of an option between its bounds. Returns false for strings, which cannot
 * be drawn. */
bool mf_check_value(const mf_option *o, int draw, int what, char *out, size_t size);

/* Whether a run left a sound record: a token chooses no expert twice, gates are numbers of at
 * least 0 with the promised sum, probabilities are not negative, and values are finite. why:
 * says what is wrong. */
bool mf_check_sound(const mf_harness *harness, char *why, size_t size);

/* Which random ops the plugin adds: dropout, which has no effect in evaluation, and other
 * random ops. */
typedef struct mf_draws {
    bool dropout, other;
} mf_draws;
/* Like mf_harness_new, but also records the random ops. */
int mf_check_harness(const mf_harness_spec *spec, mf_harness **ret, mf_draws *ret_draws);
/* Whether the plugin declares that it reads later tokens. */
bool mf_check_looks_ahead(const mf_loaded *plugin);
/* Whether token t of a and token u of b have nearly equal probabilities and outputs, and the
 * same choices. why: describes the difference. */
bool mf_check_same_token(const mf_harness *a, int64_t t, const mf_harness *b, int64_t u,
                         double tolerance, char *why, size_t size);
bool mf_check_close(double a, double b, double tolerance);
/* Writes the reason why a check is skipped, and returns MF_CHECK_SKIP. */
mf_verdict mf_check_skip(char detail[MF_CHECK_DETAIL], const char *why);

/* The spec of a small harness: one layer for routers and experts, two for the other kinds. */
mf_harness_spec mf_check_spec(const mf_loaded *plugin);
/* Sets the numbers of experts and of experts per token, unless the user has chosen them. If
 * top_k exceeds the number of experts, the number that the user did not choose is set equal to
 * the other. */
void mf_check_sizes(mf_harness_spec *spec, int32_t experts, int32_t top_k);
/* Writes the detail and returns MF_CHECK_FAIL. */
mf_verdict mf_check_failed(char detail[MF_CHECK_DETAIL], const char *fmt, ...);
/* Appends text to a detail. */
void mf_check_add(char detail[MF_CHECK_DETAIL], const char *text);
/* Like mf_check_failed, with the last error as the reason. */
mf_verdict mf_check_broke(char detail[MF_CHECK_DETAIL], const char *when);
/* Whether rc means that the plugin declines an option or a shape: MF_ECONFIG, or out
 * of memory. */
bool mf_check_declined(int rc);

#endif
