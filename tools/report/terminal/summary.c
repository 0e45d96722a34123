/* The last lines of a training run. Each proposed command can be pasted into a shell: words are
 * quoted if necessary, and a command that cannot work is not proposed. */
#include "report/terminal/summary.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/file/paths.h"
#include "base/text/shown.h"

#include <math.h>
#include <string.h>

#define COLUMN         20
#define NAME_MAX_BYTES 64

static void row(const mf_terminal *t, const char *title)
{
    fprintf(t->out, "%s%-*s%s", mf_ink_begin(t, MF_INK_DIM), COLUMN, title, mf_ink_end(t));
}

static void put_loss(const mf_terminal *t, const mf_summary *s)
{
    if (isnan(s->val_loss)) return;
    row(t, "validation loss");
    fprintf(t->out, "%s%.4f%s", mf_ink_begin(t, MF_INK_BOLD), s->val_loss, mf_ink_end(t));
    if (s->unit) fprintf(t->out, " nats/%s", s->unit);
    if (!isnan(s->bits_per_byte)) fprintf(t->out, ", %.4f bits/byte", s->bits_per_byte);
    fputc('\n', t->out);
    if (s->tokenizer || (s->batches > 0 && s->batches != s->best_batches)) {
        row(t, "");
        if (s->batches > 0) fprintf(t->out, "over %lld batches", (long long)s->batches);
        if (s->tokenizer)
            fprintf(t->out, "%stokens of %s", s->batches > 0 ? "; " : "",
                    mf_shown(s->tokenizer));
        fputc('\n', t->out);
    }
    if (!(s->floor > 0)) return;
    row(t, ""); /* together with the loss, the line would be longer than 80 columns */
    fprintf(t->out, "%.3f x the entropy floor of %.4f in its windows\n", s->val_loss / s->floor,
            s->floor);
}

static void put_best(const mf_terminal *t, const mf_summary *s)
{
    if (s->best_step < 0 || !s->best_what) return;
    row(t, "best validation");
    fprintf(t->out, "step %lld, %s %.4f", (long long)s->best_step, s->best_what, s->best);
    if (s->best_batches > 0)
        fprintf(t->out, " over the %lld batches of each", (long long)s->best_batches);
    fputc('\n', t->out);
}

/* Prints NMI(expert, label) of each layer. It is 0 if both are independent, and 1 if each
 * determines the other. */
static void put_nmi(const mf_terminal *t, const mf_summary *s)
{
    int best = -1;
    for (int i = 0; s->nmi && i < s->n_layers; i++)
        if (!isnan(s->nmi[i]) && (best < 0 || s->nmi[i] > s->nmi[best])) best = i;
    if (best < 0) return;
    for (int i = 0; i < s->n_layers; i++) {
        row(t, i == 0 ? "NMI(expert, label)" : "");
        const int layer = s->layers ? (int)s->layers[i] : i;
        if (isnan(s->nmi[i])) {
            fprintf(t->out, "layer %d  not known\n", layer);
            continue;
        }
        fprintf(t->out, "%slayer %d  %.4f%s", i == best ? mf_ink_begin(t, MF_INK_BOLD) : "",
                layer, s->nmi[i], i == best ? mf_ink_end(t) : "");
        fprintf(t->out, "  %.2g %% of the possible", 100 * s->nmi[i]);
        if (s->nmi_random && !isnan(s->nmi_random[i]))
            fprintf(t->out, "; random %.5f", s->nmi_random[i]);
        fputc('\n', t->out);
    }
}

static void put_speed(const mf_terminal *t, const mf_summary *s)
{
    char rate[24], time[24], tokens[24];
    if (!(s->tokens_per_s > 0)) return; /* no step was trained */
    row(t, "speed");
    fprintf(t->out, "%s tokens/s; %lld steps, %s tokens in %s\n",
            mf_count_text(s->tokens_per_s, rate), (long long)s->steps,
            mf_count_text((double)s->tokens, tokens), mf_duration_text(s->wall_s, time));
    if (!s->device) return;
    row(t, "device");
    fprintf(t->out, "%s\n", mf_shown_on(t->out, s->device));
}

/* Writes the first router of the program's plugin folder other than `used`; "" if there
 * is none. */
static void other_router(const char *used, char out[NAME_MAX_BYTES])
{
    char **names, *folder = mf_path_join(mf_paths_plugins(), "routers");
    const char *slash = strrchr(used, '/');
    int n;
    if (slash) used = slash + 1;
    out[0] = '\0';
    if (!folder) return;
    int rc = mf_list_dir(folder, &names, &n);
    mf_free(folder);
    if (rc != MF_OK) {
        mf_error_clear(); /* then no other router is proposed */
        return;
    }
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(names[i]);
        const bool fits =
            length > 3 && length < NAME_MAX_BYTES && strcmp(names[i] + length - 3, ".so") == 0;
        if (fits && out[0] == '\0' &&
            (strncmp(names[i], used, length - 3) != 0 ||
             (used[length - 3] != '\0' && strcmp(used + length - 3, ".so") != 0)))
            memcpy(out, names[i], length + 1);
        mf_free(names[i]);
    }
    mf_free(names);
}

/* Writes a word of a command, quoted if the shell would split or expand it. */
static void put_word(const mf_terminal *t, const char *word)
{
    word = mf_shown_on(t->out, word);
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:=@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, t->out);
        return;
    }
    fputc('\'', t->out);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", t->out);
        else
            fputc(*word, t->out);
    fputc('\'', t->out);
}

/* Writes a command and its purpose. The command consists of a verb, a word that may need
 * quotes, and further words. */
static void propose(const mf_terminal *t, const char *verb, const char *word, const char *more,
                    const char *why)
{
    fprintf(t->out, "  %s", mf_ink_begin(t, MF_INK_GREEN));
    put_word(t, mf_paths_called());
    fprintf(t->out, " %s ", verb);
    put_word(t, word);
    fprintf(t->out, "%s%s\n      %s%s%s\n", more, mf_ink_end(t), mf_ink_begin(t, MF_INK_DIM),
            why, mf_ink_end(t));
}

static void put_next(const mf_terminal *t, const mf_summary *s)
{
    char other[NAME_MAX_BYTES], plugin[NAME_MAX_BYTES + 24];
    fprintf(t->out, "%stry next%s\n", mf_ink_begin(t, MF_INK_DIM), mf_ink_end(t));
    other_router(s->router, other);
    char *config = mf_path_join(s->run, "config.ini");
    if (!config) mf_error_clear(); /* then this command is not proposed */
    if (other[0] != '\0' && s->n_layers > 0 && config) {
        snprintf(plugin, sizeof plugin, " --plugin routers/%s", other);
        propose(t, "train", config, plugin, "the same training with another router");
    }
    mf_free(config);
    if (s->generates)
        propose(t, "generate", s->run, " -p \"the \"", "let the model continue a text");
    if (!mf_exists("mine")) /* the command would refuse an existing folder */
        propose(t, "plugin new router", "mine", "", "write a router of your own: one C file");
}

void mf_summary_print(const mf_terminal *t, const mf_summary *s)
{
    put_loss(t, s);
    put_best(t, s);
    if (s->predictions) {
        row(t, "validation");
        fprintf(t->out, "%s\n", mf_shown(s->predictions));
    }
    put_nmi(t, s);
    put_speed(t, s);
    if (s->report) {
        row(t, "report");
        fprintf(t->out, "%s\n", mf_shown_on(t->out, s->report));
    }
    put_next(t, s);
    fflush(t->out);
}
