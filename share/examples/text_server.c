/* text_server.c: continues texts with a trained run: each line of standard input is a prompt,
 * and the model's continuation is printed as one line.
 *
 *     cc text_server.c $(pkg-config --cflags --libs libmoefw) && ./a.out RUN [TOKENS] */
#include <moefw/run.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replaces a newline by a blank, because it would end the line early. */
static int write_piece(void *arg, const char *text, size_t n, int32_t token)
{
    (void)arg, (void)token;
    for (size_t i = 0; i < n; i++)
        putchar(text[i] == '\n' ? ' ' : text[i]);
    return ferror(stdout);
}

static void tell(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    fprintf(stderr, "%s\n", line);
}

static int serve(moefw_run *run, const moefw_sampling *sampling)
{
    char line[65536];
    while (fgets(line, sizeof line, stdin)) {
        const size_t n = strcspn(line, "\n");
        const int rc = moefw_run_generate(run, line, n, sampling, write_piece, NULL);
        /* A prompt that the tokenizer cannot encode is reported; the loop continues. */
        if (rc == MF_EINPUT || rc == MF_EUSAGE)
            printf("error: %s", moefw_run_message(run));
        else if (rc != MF_OK)
            return rc;
        putchar('\n');
        fflush(stdout);
    }
    return MF_OK;
}

int main(int argc, char **argv)
{
    moefw_sampling sampling = MOEFW_SAMPLING_INIT;
    moefw_open_options options = MOEFW_OPEN_OPTIONS_INIT;
    if (argc < 2) {
        fprintf(stderr, "usage: %s RUN [TOKENS]\n", argv[0]);
        return EXIT_FAILURE;
    }
    if (argc > 2) sampling.tokens = atoi(argv[2]);
    options.generate_only = 1;
    moefw_run *run = moefw_run_new();
    moefw_run_on_log(run, MOEFW_LOG_WARNING, tell, NULL);
    int rc = moefw_run_open(run, argv[1], &options);
    if (rc == MF_OK) rc = serve(run, &sampling);
    if (rc != MF_OK) fprintf(stderr, "%s\n", moefw_run_message(run));
    moefw_run_free(run);
    return rc == MF_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
