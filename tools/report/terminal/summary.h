/* report/terminal/summary.h: the few lines that the program prints at the end of a
 * training run. */
#ifndef MF_REPORT_SUMMARY_H
#define MF_REPORT_SUMMARY_H

#include "report/terminal/terminal.h"
#include <stdint.h>

typedef struct mf_summary {
    const char *run;         /* run directory */
    const char *report;      /* path of report.html; NULL: not written */
    const char *unit;        /* unit of the loss: "byte", "char", "token"; NULL: not in nats */
    const char *predictions; /* scores of classification and regression; NULL: no such task */
    const char *router;      /* plugin in use; if there are MoE layers, the summary proposes
                              * another router */
    bool generates;          /* whether the model can continue text */
    int64_t steps, tokens;
    double wall_s, tokens_per_s;
    const char *device;     /* use of the device in words; NULL: CPU */
    double val_loss, floor; /* nats per `unit` if `unit` is not NULL; NaN: not known */
    double bits_per_byte;   /* the validation loss in another unit; NaN: not known */
    const char *tokenizer;  /* tokenizer in words, if `unit` is a token; NULL: unknown */
    int64_t batches;        /* number of batches of the last validation; 0: not known */
    /* the best validation among those with best_batches batches. best_step < 0: not known;
     * best_batches 0: their number is not known */
    int64_t best_step, best_batches;
    const char *best_what; /* measure of the best validation: "loss", "accuracy" */
    double best;
    int n_layers;                   /* number of MoE layers */
    const int32_t *layers;          /* [n_layers] block numbers of the MoE layers; NULL: 0,
                                     * 1, ... */
    const double *nmi, *nmi_random; /* [n_layers] or NULL; NaN: not known */
} mf_summary;

/* Prints the known ones of: the validation loss and the floor, the scores, NMI(expert, label)
 * of each layer and under random routing, the speed, the report's path, and up to three
 * commands to try next. */
void mf_summary_print(const mf_terminal *t, const mf_summary *s);

#endif
