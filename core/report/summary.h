/* report/summary.h: the few lines that close a training run. */
#ifndef MF_REPORT_SUMMARY_H
#define MF_REPORT_SUMMARY_H

#include "report/terminal.h"
#include <stdint.h>

typedef struct mf_summary {
    const char *run;     /* run directory */
    const char *report;  /* path of report.html, NULL: none was written */
    const char *unit;    /* what the loss is of: "byte", "char", "token"; NULL: no nats */
    const char *answers; /* what classes or numbers were answered how well; NULL: none are */
    const char *router;  /* plugin in use: where there are layers of experts another one is
                            proposed */
    bool generates;      /* the model continues text */
    int64_t steps, tokens;
    double wall_s, tokens_per_s;
    double val_loss, floor;         /* nats a token; NaN: unknown */
    int n_layers;                   /* MoE layers */
    const int32_t *layers;          /* [n_layers] their block numbers; NULL: 0, 1, ... */
    const double *nmi, *nmi_random; /* [n_layers] or NULL; NaN: unknown */
} mf_summary;

/* Loss against the floor, NMI(expert, topic) a layer beside that of random routing, speed,
 * where the report is, and three commands to go on with. */
void mf_summary_print(const mf_terminal *t, const mf_summary *s);

#endif
