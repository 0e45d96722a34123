/* moefw quantize: writes a run with weights of four or eight bits, and reports how the loss
 * changes. The verb only parses and prints; pretrained/quantize/quantize.h quantizes. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "io/json.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "pretrained/quantize/quantize.h"

static const mf_cli_form forms[] = {
    {NULL, "RUN", 1, 1,
     "write the weights of an imported run in four or eight bits, as a new run"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "bits",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 32,
     .help = "bits of a weight: 4 or 8 (4)"},
    {.name = "group",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = -1,
     .hi = 65536,
     .help = "inputs that share a scale: 32, 64, 128, or -1 for all of them (128)"},
    {.name = "gptq",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e6,
     .help = "balance rounding errors by GPTQ, with inputs from N batches; 0: round to nearest "
             "(0)"},
    {.name = "calibrate",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .set = "data.path",
     .help =
         "text of the calibration and of the report, instead of the run's; means --gptq 16"},
    {.name = "damp",
     .kind = MF_CLI_REAL,
     .arg = "X",
     .lo = 0,
     .hi = 1e3,
     .help = "GPTQ: share of the mean of the diagonal of H that is added to it (0.01)"},
    {.name = "act-order", .help = "GPTQ: round the inputs with the largest values first"},
    {.name = "batches",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "measure on at most N batches of the validation split; 0: all of it (8)"},
    {.name = "no-measure",
     .kind = MF_CLI_FLAG,
     .help = "do not measure what it costs: no loss, no KL, no routing"},
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "NEWRUN",
     .help =
         "the new run, a directory that is new or empty (runs/RUN-int4-N, runs/RUN-int8-N)"},
    MF_CLI_END};

static int print_json(const mf_quantize_report *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_int(w, "quantized", r->quantized);
    mf_jw_kv_int(w, "rounded", r->rounded);
    mf_jw_kv_int(w, "left", r->left);
    mf_jw_key(w, "layers");
    mf_jw_array(w);
    for (int32_t i = 0; i < r->n_layers; i++) {
        mf_jw_object(w);
        mf_jw_kv_int(w, "layer", r->layers[i].layer);
        mf_jw_kv_real(w, "changed", r->layers[i].changed);
        mf_jw_kv_real(w, "overlap", r->layers[i].overlap);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_kv_real(w, "kl_next_token", r->kl_next_token);
    mf_jw_kv_real(w, "loss_before", r->loss_before);
    mf_jw_kv_real(w, "loss_after", r->loss_after);
    mf_jw_kv_int(w, "batches", r->batches);
    mf_jw_kv_int(w, "tokens", r->tokens);
    mf_jw_kv_string(w, "folder", r->folder);
    mf_jw_kv_string(w, "run", r->run);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

static void print_text(const mf_quantize_report *r, const mf_quantize_options *o)
{
    printf("%lld weights have %s bits, %lld matrices stay as they are\n",
           (long long)r->quantized, o->bits == 8 ? "eight" : "four", (long long)r->left);
    if (o->calibrate > 0 && r->rounded > 0)
        printf("%lld of them are rounded to nearest: the calibration never reached them\n",
               (long long)r->rounded);
    if (r->n_layers > 0) printf("layer  tokens with other experts  overlap of the sets\n");
    for (int32_t i = 0; i < r->n_layers; i++)
        printf("%5d  %25.4f  %19.4f\n", (int)r->layers[i].layer, r->layers[i].changed,
               r->layers[i].overlap);
    if (r->batches == 0)
        printf("not measured: %s\n", o->unmeasured ? "--no-measure" : "the run has no data");
    else
        printf("KL of predictions %.6f, loss %.6f -> %.6f, on %lld batches\n", r->kl_next_token,
               r->loss_before, r->loss_after, (long long)r->batches);
    printf("%s, weights in %s\n", mf_shown_on(stdout, r->run), mf_shown_on(stdout, r->folder));
}

static int judge(const mf_cli *cli, const mf_quantize_options *o)
{
    if (o->bits != 4 && o->bits != 8)
        return mf_fail(MF_EUSAGE, "--bits=%d: expected 4 or 8", o->bits);
    if (o->group != -1 && (o->group < 8 || o->group % 8 != 0))
        return mf_fail(MF_EUSAGE, "--group %lld: expected -1 or a multiple of 8, as 128",
                       (long long)o->group);
    if (o->calibrate == 0 && (o->act_order || mf_cli_text(cli, "damp", NULL)))
        return mf_fail(MF_EUSAGE, "--act-order and --damp are of GPTQ: add --gptq N");
    return MF_OK;
}

static int run(const mf_cli *cli)
{
    const int64_t all = mf_cli_text(cli, "calibrate", NULL) ? 16 : 0;
    mf_quantize_options o = {.bits = (int)mf_cli_int(cli, "bits", 4),
                             .unmeasured = mf_cli_flag(cli, "no-measure"),
                             .group = mf_cli_int(cli, "group", 128),
                             .calibrate = mf_cli_int(cli, "gptq", all),
                             .damp = mf_cli_real(cli, "damp", 0.01),
                             .act_order = mf_cli_flag(cli, "act-order"),
                             .batches = mf_cli_int(cli, "batches", 8),
                             .run = mf_cli_text(cli, "out", NULL)};
    mf_quantize_report *r = NULL;
    mf_assignment *set = NULL;
    int rc = judge(cli, &o);
    if (rc != MF_OK) return rc;
    mf_arena *arena = mf_arena_new();
    rc = arena ? mf_cli_assignments(cli, arena, &set, &o.n_set) : MF_ENOMEM;
    o.set = set;
    if (rc == MF_OK) rc = mf_quantize(mf_cli_operand(cli, 0), &o, &r);
    if (rc == MF_OK && mf_cli_json(cli))
        rc = print_json(r);
    else if (rc == MF_OK)
        print_text(r, &o);
    mf_quantize_report_free(r);
    mf_arena_free(arena);
    return rc;
}

const mf_verb mf_verb_quantize = {
    .name = "quantize",
    .brief = "an imported run's weights in four or eight bits, and what this costs",
    .forms = forms,
    .options = options,
    .run = run,
    .notes =
        "Routers, norms, embeddings, heads and gates of shared experts stay as they are.\n"};
