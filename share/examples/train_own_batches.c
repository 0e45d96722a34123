/* train_own_batches.c: trains a language model on batches that the program makes. The "text"
 * counts upwards in steps of 1 to 3, so the two previous tokens determine the next token.
 *
 *     cc train_own_batches.c $(pkg-config --cflags --libs libmoefw) && ./a.out [STEPS] */
#include <moefw/run.h>
#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 32, ROWS = 8, WIDTH = 32 };

static void fill(int32_t *tokens, int32_t *targets, unsigned *state)
{
    for (int row = 0; row < ROWS; row++) {
        *state = *state * 1664525u + 1013904223u;
        const int32_t begin = (int32_t)(*state >> 16) % VOCAB,
                      stride = 1 + (int32_t)(*state >> 8) % 3;
        for (int i = 0; i < WIDTH; i++) {
            tokens[row * WIDTH + i] = (begin + i * stride) % VOCAB;
            targets[row * WIDTH + i] = (begin + (i + 1) * stride) % VOCAB;
        }
    }
}

static int show(void *arg, const char *text, size_t n, int32_t token)
{
    (void)arg, (void)text, (void)n;
    printf(" %d", (int)token);
    return 0;
}

static int train(moefw_run *run, const char *steps)
{
    static const char *const options[][2] = {
        {"data.path", "none"}, {"model.vocab", "32"}, {"model.seq", "32"},
        {"model.dim", "32"},   {"model.layers", "2"}, {"model.heads", "2"},
        {"moe.experts", "4"},  {"train.batch", "8"},  {"train.accumulate", "1"},
        {"train.lr", "0.01"},  {"train.warmup", "5"}, {"train.eval_context", "0"},
        {"train.threads", "1"}};
    int32_t tokens[ROWS * WIDTH], targets[ROWS * WIDTH];
    unsigned state = 1;
    double loss;
    int rc = moefw_run_configure(run, "default");
    for (size_t i = 0; rc == MF_OK && i < sizeof options / sizeof *options; i++)
        rc = moefw_run_set(run, options[i][0], options[i][1]);
    if (rc == MF_OK) rc = moefw_run_set(run, "train.steps", steps);
    if (rc == MF_OK) rc = moefw_run_start(run, NULL); /* the run writes no files */
    const moefw_batch batch = {sizeof batch, ROWS, WIDTH, tokens, targets, NULL};
    while (rc == MF_OK && !moefw_run_done(run)) {
        moefw_step step = {.size = sizeof step};
        fill(tokens, targets, &state);
        rc = moefw_run_step(run, &batch, &step);
        if (rc == MF_OK && (step.step == 1 || step.step % 20 == 0))
            printf("step %d: loss %.4f\n", (int)step.step, step.loss);
    }
    fill(tokens, targets, &state);
    if (rc == MF_OK) rc = moefw_run_evaluate_batch(run, &batch, &loss);
    if (rc != MF_OK) return rc;
    printf("an unseen batch: loss %.4f\n0 2 4 6 8 ->", loss);
    const int32_t prompt[] = {0, 2, 4, 6, 8};
    moefw_sampling sampling = MOEFW_SAMPLING_INIT;
    sampling.tokens = 6;
    sampling.temperature = 0;
    rc = moefw_run_generate_tokens(run, prompt, 5, &sampling, show, NULL);
    putchar('\n');
    return rc;
}

int main(int argc, char **argv)
{
    moefw_run *run = moefw_run_new();
    const int rc = train(run, argc > 1 ? argv[1] : "100");
    if (rc != MF_OK) fprintf(stderr, "%s\n", moefw_run_message(run));
    moefw_run_free(run);
    return rc == MF_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
