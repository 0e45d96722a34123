/* llama_logits MODEL.gguf IDS OUT [THREADS] [step]: the logits of llama.cpp for given tokens.
 *
 * IDS is a file of int32; OUT becomes a file of float, V numbers for each token. The tokens are
 * one text, in one batch, or with "step" one call for each token. Keys and values of the cache
 * are f32, flash attention is off, and weights stay in the order of their file, so a model in
 * F32 is computed in f32. llama.py builds and calls it. */
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *file)
{
    fprintf(stderr, "llama_logits: %s: %s\n", file, what);
    return 1;
}

static void only_errors(enum ggml_log_level level, const char *text, void *arg)
{
    (void)arg;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

/* Reads at most room ids; returns their number. */
static int32_t read_ids(const char *path, int32_t *id, int32_t room)
{
    FILE *in = fopen(path, "rb");
    const size_t n = in ? fread(id, sizeof *id, (size_t)room, in) : 0;
    if (in) fclose(in);
    return (int32_t)n;
}

/* Runs n tokens from position `at` on, and writes the logits of each. */
static int run(struct llama_context *context, int32_t vocab, const int32_t *id, int32_t at,
               int32_t n, FILE *out)
{
    struct llama_batch batch = llama_batch_init(n, 0, 1);
    batch.n_tokens = n;
    for (int32_t i = 0; i < n; i++) {
        batch.token[i] = id[at + i];
        batch.pos[i] = at + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    int rc = llama_decode(context, batch);
    for (int32_t i = 0; rc == 0 && i < n; i++) {
        const float *logits = llama_get_logits_ith(context, i);
        if (!logits || fwrite(logits, sizeof *logits, (size_t)vocab, out) != (size_t)vocab)
            rc = 1;
    }
    llama_batch_free(batch);
    return rc;
}

int main(int argc, char **argv)
{
    enum { ROOM = 1 << 14 };
    static int32_t id[ROOM];
    if (argc < 4) return fail("expected MODEL.gguf IDS OUT [THREADS] [step]", "usage");
    const int threads = argc > 4 ? atoi(argv[4]) : 1;
    const bool step = argc > 5 && strcmp(argv[5], "step") == 0;
    llama_log_set(only_errors, NULL);
    llama_backend_init();

    struct llama_model_params how = llama_model_default_params();
    how.use_extra_bufts = false;
    struct llama_model *model = llama_model_load_from_file(argv[1], how);
    if (!model) return fail("llama.cpp does not read it", argv[1]);
    const int32_t n = read_ids(argv[2], id, ROOM),
                  vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    if (n < 1) return fail("expected a file of int32", argv[2]);

    struct llama_context_params with = llama_context_default_params();
    with.n_ctx = with.n_batch = with.n_ubatch = (uint32_t)n;
    with.n_threads = with.n_threads_batch = threads;
    with.type_k = with.type_v = GGML_TYPE_F32;
    with.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    with.swa_full = true;
    struct llama_context *context = llama_init_from_model(model, with);
    if (!context) return fail("llama.cpp has no context for it", argv[1]);

    FILE *out = fopen(argv[3], "wb");
    if (!out) return fail("cannot be written", argv[3]);
    int rc = step ? 0 : run(context, vocab, id, 0, n, out);
    for (int32_t i = 0; step && rc == 0 && i < n; i++)
        rc = run(context, vocab, id, i, 1, out);
    if (fclose(out) != 0 || rc != 0) return fail("the tokens could not be run", argv[1]);
    llama_free(context);
    llama_model_free(model);
    return 0;
}
