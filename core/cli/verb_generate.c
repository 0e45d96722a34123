/* moefw generate: a trained run continues a text. */
#include <string.h>
#include "base/error.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/talker.h"

static const mf_cli_form forms[] = {{NULL, "RUN", 1, 1, "continue a text"}, MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = MF_CLI_TEXT,
     .arg = "TEXT",
     .help = "text to continue"},
    {.name = "file",
     .letter = 'f',
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "read the text from a file"},
    {.name = "tokens",
     .letter = 'n',
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e9,
     .help = "how many tokens to write (200)"},
    {.name = "temp",
     .kind = MF_CLI_REAL,
     .arg = "T",
     .lo = 0,
     .hi = 100,
     .help = "temperature (0.8); 0 takes the likeliest token"},
    {.name = "top-k",
     .kind = MF_CLI_INT,
     .arg = "K",
     .lo = 0,
     .hi = 1e9,
     .help = "draw from the K likeliest tokens; 0: all (40)"},
    {.name = "top-p",
     .kind = MF_CLI_REAL,
     .arg = "P",
     .lo = 0,
     .hi = 1,
     .help = "draw from the likeliest tokens that make up probability P (0.95)"},
    {.name = "repeat-penalty",
     .kind = MF_CLI_REAL,
     .arg = "R",
     .lo = 0.01,
     .hi = 100,
     .help = "above 1 makes tokens of the text so far less likely (1)"},
    {.name = "seed",
     .letter = 's',
     .kind = MF_CLI_INT,
     .arg = "SEED",
     .lo = 0,
     .hi = 9e15,
     .help = "the same seed gives the same text (0)"},
    {.name = "dtype",
     .kind = MF_CLI_ENUM,
     .arg = "TYPE",
     .choices = mf_config_dtypes,
     .help = "weights that products read: f32, or bf16, half the memory a token (as the run was "
             "trained)"},
    {.name = "no-cache",
     .kind = MF_CLI_FLAG,
     .help = "run the whole text again for each token, to check the cache against"},
    {.name = "interactive",
     .letter = 'i',
     .kind = MF_CLI_FLAG,
     .help = "a conversation: each line is continued; /help lists commands that look inside"},
    MF_CLI_END};

static int read_prompt(const mf_cli *cli, char **ret, size_t *ret_n)
{
    const char *text = mf_cli_text(cli, "prompt", NULL), *file = mf_cli_text(cli, "file", NULL);
    if (text && file)
        return mf_fail(MF_EUSAGE, "-p and -f both name the text; give one of them");
    if (file) return mf_read_file(file, (size_t)1 << 26, ret, ret_n);
    *ret = mf_strdup(text ? text : "\n");
    *ret_n = *ret ? strlen(*ret) : 0;
    return *ret ? MF_OK : MF_ENOMEM;
}

static int run(const mf_cli *cli)
{
    const mf_sampler_options sampling = {.temperature = mf_cli_real(cli, "temp", 0.8),
                                         .top_k = mf_cli_int(cli, "top-k", 40),
                                         .top_p = mf_cli_real(cli, "top-p", 0.95),
                                         .repeat_penalty =
                                             mf_cli_real(cli, "repeat-penalty", 1),
                                         .seed = (uint64_t)mf_cli_int(cli, "seed", 0)};
    mf_talker t;
    char *prompt = NULL;
    size_t n = 0;
    int rc = mf_talker_open(&t, mf_cli_operand(cli, 0), mf_cli_text(cli, "dtype", NULL),
                            !mf_cli_flag(cli, "no-cache"), &sampling,
                            mf_cli_int(cli, "tokens", 200));
    if (rc != MF_OK) return rc;
    if (mf_cli_flag(cli, "interactive")) {
        rc = mf_talk(&t);
    } else {
        rc = read_prompt(cli, &prompt, &n);
        if (rc == MF_OK) {
            const bool shown = mf_cli_text(cli, "prompt", NULL) || mf_cli_text(cli, "file", NULL);
            if (shown) mf_talker_put(prompt, n);
            rc = mf_talker_continue(&t, prompt, n, shown);
        }
    }
    mf_free(prompt);
    mf_talker_close(&t);
    return rc;
}

const mf_verb mf_verb_generate = {.name = "generate",
                                  .brief = "continue a text with a trained run",
                                  .forms = forms,
                                  .options = options,
                                  .run = run,
                                  .computes = true};
