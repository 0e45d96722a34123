/* moefw import: makes a run of a pretrained model. The verb only parses and prints;
 * pretrained/import.h imports. */
#include <stdio.h>
#include "base/error.h"
#include "io/json.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "pretrained/import.h"

static const mf_cli_form forms[] = {
    {NULL, "FOLDER|FILE.gguf", 1, 1,
     "a folder of Hugging Face: config.json and safetensors files, or an adapter of PEFT; or a "
     "GGUF file, read to f32"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "RUN",
     .help = "the run directory, new or empty (runs/FOLDER-N)"},
    {.name = "copy",
     .kind = MF_CLI_FLAG,
     .help = "read the weights to f32, so that the run does not need the folder"},
    {.name = "upcycle",
     .kind = MF_CLI_TEXT,
     .arg = "KEYS",
     .help = "make experts of the dense blocks, with the same results: experts=4,top_k=2"},
    {.name = "no-tokenizer",
     .kind = MF_CLI_FLAG,
     .help = "leave the tokenizer out: the run takes files of ids only"},
    {.name = "onto",
     .kind = MF_CLI_TEXT,
     .arg = "BASE",
     .help = "the run that an adapter of PEFT belongs to: an import, or trained from one"},
    MF_CLI_END};

static int print_json(const mf_import_report *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "family", r->family);
    mf_jw_kv_int(w, "params", r->params);
    mf_jw_kv_int(w, "params_active", r->params_active);
    mf_jw_kv_string(w, "dtype", r->dtype);
    mf_jw_key(w, "tensors");
    mf_jw_object(w);
    mf_jw_kv_int(w, "used", r->used);
    mf_jw_kv_int(w, "skipped", r->skipped);
    mf_jw_kv_int(w, "unknown", 0);
    mf_jw_end(w);
    mf_jw_kv_int(w, "params_in_files", r->stored);
    mf_jw_kv_bool(w, "tokenizer", r->tokenizer);
    mf_jw_kv_string(w, "run", r->run);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

static int run(const mf_cli *cli)
{
    const char *folder = mf_cli_operand(cli, 0), *out = mf_cli_text(cli, "out", NULL),
               *onto = mf_cli_text(cli, "onto", NULL);
    mf_import_report r = {0};
    const mf_import_options o = {.upcycle = mf_cli_text(cli, "upcycle", NULL),
                                 .copy = mf_cli_flag(cli, "copy"),
                                 .no_tokenizer = mf_cli_flag(cli, "no-tokenizer")};
    int rc = MF_OK;
    if (onto && (o.upcycle || o.no_tokenizer))
        rc = mf_fail(MF_EUSAGE, "--onto and --%s exclude each other",
                     o.upcycle ? "upcycle" : "no-tokenizer");
    else if (!onto && mf_import_is_adapter(folder))
        rc = mf_fail(MF_EUSAGE,
                     "%s is an adapter of PEFT: expected --onto BASE, the run of its model",
                     folder);
    if (rc == MF_OK)
        rc = onto ? mf_import_adapter(folder, onto, out, &r) : mf_import(folder, &o, out, &r);
    if (rc == MF_OK && mf_cli_json(cli)) {
        rc = print_json(&r);
    } else if (rc == MF_OK) {
        if (!mf_cli_quiet(cli))
            printf("%s: %lld parameters, %lld for each token; %lld tensors used, %lld "
                   "skipped%s%s\n",
                   r.family, (long long)r.params, (long long)r.params_active, (long long)r.used,
                   (long long)r.skipped, r.stored > 0 ? "; weights stay in the folder" : "",
                   r.tokenizer ? "" : "; no tokenizer");
        puts(mf_shown_on(stdout, r.run));
    }
    mf_free(r.run);
    return rc;
}

const mf_verb mf_verb_import = {.name = "import",
                                .brief = "make a run of a pretrained model",
                                .forms = forms,
                                .options = options,
                                .run = run,
                                .plain = true,
                                .notes = "The folder is not changed. moefw-pretrained(7) lists "
                                         "the families.\n"};
