/* lab/result/result.h: result.json, in which a run or a comparison can be verified by others.
 *
 * It contains, for every run, the resolved configuration with the names of files instead of
 * their paths, the SHA-256 of all inputs and plugins, the losses of all logged steps, and the
 * SHA-256 of the metrics and of the checkpoints that were kept. moefw-run(5) describes the
 * members. The last member, "self", is the SHA-256 of the text with an empty "self". */
#ifndef MF_LAB_RESULT_H
#define MF_LAB_RESULT_H

#include "base/sha256.h"
#include "lab/compare/compare.h"

/* ---- writing ---- */

/* Writes the object of a run. router: its label in the comparison. Fails with MF_EINPUT if the
 * run has no metrics or a file of it cannot be read, MF_EIO, MF_ENOMEM. */
int mf_result_put_run(mf_jw *w, const char *run, const char *router);
/* Writes the result of a run, or of a comparison with its table, to the file `out`. */
int mf_result_write_run(const char *run, const char *out);
int mf_result_write_comparison(const mf_compare_table *t, const char *out);
/* SHA-256 of a file, and its size (ret_bytes may be NULL). MF_EINPUT, MF_EIO. */
int mf_result_sha256(const char *path, uint64_t *ret_bytes, char ret[MF_SHA256_HEX]);

/* ---- reading ---- */

typedef struct mf_result {
    mf_json *json;
    const mf_json *runs, *table; /* table: NULL for the result of a single run */
    char self[MF_SHA256_HEX];
} mf_result;
/* Reads a result. Fails with MF_EINPUT if the file is not one, or if "self" is not the hash of
 * its text. */
int mf_result_read(const char *path, mf_result **ret);
void mf_result_free(mf_result *r);
/* Whether version, compiler and C library of the result are those of this program. */
bool mf_result_same_program(const mf_result *r);
/* Computes the table again from the runs. *ret_tests: number of tests. Returns MF_ERUN with the
 * first value that differs in the message. */
int mf_result_check_table(const mf_result *r, int *ret_tests);

/* ---- inputs ---- */

/* Finds the files of a run's inputs below the folder `data`, and plugins that were files below
 * the folder `own` (NULL: nowhere), by their SHA-256; other plugins by name. Plugins below
 * `own` may then be loaded. The configuration comes from others: keys of a machine and its user
 * are dropped, and a path that is not one of the inputs counts as missing. *ret_config: the
 * configuration with the paths that were found, freed with mf_free; NULL if something is
 * missing. each: called for every input, with what was found: "ok", or what is wrong.
 * MF_ECONFIG if the configuration is no INI text, MF_ENOMEM. */
typedef void (*mf_result_input_function)(void *arg, const char *what, const char *name,
                                         const char *state);
int mf_result_inputs(const mf_json *run, const char *data, const char *own,
                     mf_result_input_function each, void *arg, char **ret_config);

/* ---- runs ---- */

typedef enum mf_result_how {
    MF_RESULT_SAME,
    MF_RESULT_ROUNDED,
    MF_RESULT_DIFFERENT
} mf_result_how;
typedef struct mf_result_judgement {
    mf_result_how how;
    bool same_kernels; /* kernel set and BLAS are those of the result */
    bool same_program; /* so are version, compiler and C library */
    int64_t compared;  /* number of logged values that were compared */
    int64_t until;     /* step up to which they were compared */
    double worst;      /* largest relative difference of a loss */
    char first[160];   /* the first value that differs; "": none */
} mf_result_judgement;
/* Compares the run in the folder `here`, which has trained the steps after `from` up to `to`,
 * with the run of the result. With the same kernels and the same program, all values must be
 * equal, and for a whole run also the hashes of metrics and weights. With another program, or
 * other kernels, they may be, too. If not, the losses of the first MF_RESULT_NEAR steps must
 * agree within 1e-5, and gradient norms within 1e-4: later steps differ because training
 * amplifies rounding errors. Fails with MF_EINPUT if the run has no value to compare. */
#define MF_RESULT_NEAR 20
int mf_result_judge(const mf_json *run, const char *here, int64_t from, int64_t to,
                    bool same_program, mf_result_judgement *ret);
/* Copies the run `from` to the new folder `to` with its checkpoint of `step` alone, as it was
 * when it had been saved, and with the text `config`. Fails with MF_ERUN if the checkpoint is
 * not the one of the result. */
int mf_result_copy_segment(const mf_json *run, const char *from, int64_t step,
                           const char *config, const char *to);

#endif
