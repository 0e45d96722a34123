/* driver.c: runs a fuzz target without libFuzzer.
 *
 *     fuzz_NAME [--runs N] [--seed S] [--max-len BYTES] [--keep FILE] [FILE|FOLDER]...
 *
 * Replays the given files (default: the seeds in $srcdir/tests/fuzz/corpus/NAME), then runs N
 * random mutations of these files. Prints TAP. The same seed generates the same inputs. An
 * input that ends the process is written to FILE (default crash-NAME). */
#include "tests/fuzz/driver/change.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct input {
    char *name;
    uint8_t *data;
    size_t size;
} input;

static input *seeds;
static size_t n_seeds;

/* The current input, which is saved if it ends the process. */
static const uint8_t *last_data;
static size_t last_size;
static uint64_t last_run, seed = 1;
static char keep_as[4096];

static void keep_last(void)
{
    char line[128];
    int fd = open(keep_as, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t put = fd < 0 ? -1 : write(fd, last_data, last_size);
    int n = snprintf(line, sizeof line, "# seed %llu, run %llu, %zu bytes kept as ",
                     (unsigned long long)seed, (unsigned long long)last_run, last_size);
    if (put < 0 || write(2, line, (size_t)n) < 0 || write(2, keep_as, strlen(keep_as)) < 0)
        return;
    if (write(2, "\n", 1) < 0) return;
}

static void on_signal(int number)
{
    keep_last();
    signal(number, SIG_DFL);
    raise(number);
}

/* Defined only if a sanitizer is linked. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void catch_all(void)
{
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_last);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        /* For these two signals the sanitizers write a better report. */
        bool theirs = numbers[i] == SIGSEGV || numbers[i] == SIGBUS;
        if (!theirs || !__sanitizer_set_death_callback) signal(numbers[i], on_signal);
    }
}

/* Runs a copy of exactly the size of the input, so that the sanitizers notice a read after
 * its end. */
static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    last_data = data;
    last_size = size;
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void add_file(const char *path)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    input one;
    if (!f || fstat(fileno(f), &st) != 0) {
        perror(path);
        exit(1);
    }
    one.size = (size_t)st.st_size;
    one.name = strdup(path);
    one.data = malloc(one.size + 1);
    seeds = realloc(seeds, (n_seeds + 1) * sizeof *seeds);
    if (!seeds || !one.name || !one.data || fread(one.data, 1, one.size, f) != one.size) {
        perror(path);
        exit(1);
    }
    fclose(f);
    seeds[n_seeds++] = one;
}

static int visible(const struct dirent *e)
{
    return *e->d_name != '.';
}

static void add_path(const char *path)
{
    struct dirent **entries;
    struct stat st;
    int n;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        add_file(path);
        return;
    }
    n = scandir(path, &entries, visible, alphasort);
    if (n < 0) {
        perror(path);
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        char *child = malloc(strlen(path) + strlen(entries[i]->d_name) + 2);
        if (!child) abort();
        sprintf(child, "%s/%s", path, entries[i]->d_name);
        add_path(child);
        free(child);
        free(entries[i]);
    }
    free(entries);
}

static void run_changed(fuzz_buffer *b, uint64_t run)
{
    fuzz_dice d = {seed, run, 0};
    const input *from = &seeds[fuzz_roll(&d, n_seeds)];
    size_t changes = 1 + fuzz_roll(&d, 1 + fuzz_roll(&d, 8));
    b->size = from->size < b->room ? from->size : b->room;
    memcpy(b->data, from->data, b->size);
    while (changes--) {
        const input *other = &seeds[fuzz_roll(&d, n_seeds)];
        fuzz_change(b, &d, other->data, other->size);
    }
    last_run = run;
    run_one(b->data, b->size);
}

/* The target's name: "ini" for a program fuzz_ini in any folder. */
static const char *target_name(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;
    return strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name;
}

static uint64_t number_of(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end) {
        fprintf(stderr, "expected a number, found '%s'\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"runs", required_argument, NULL, 'r'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"max-len", required_argument, NULL, 'm'},
                                            {"keep", required_argument, NULL, 'k'},
                                            {NULL, 0, NULL, 0}};
    const char *name = target_name(argv[0]), *srcdir = getenv("srcdir");
    uint64_t runs = 20000;
    fuzz_buffer b = {NULL, 0, 4096};
    struct timespec start, end;
    int c;
    snprintf(keep_as, sizeof keep_as, "crash-%s", name);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'r':
            runs = number_of(optarg);
            break;
        case 's':
            seed = number_of(optarg);
            break;
        case 'm':
            b.room = (size_t)number_of(optarg);
            break;
        case 'k':
            snprintf(keep_as, sizeof keep_as, "%s", optarg);
            break;
        default:
            return 2;
        }
    if (optind == argc) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", name);
        add_path(folder);
    }
    for (; optind < argc; optind++)
        add_path(argv[optind]);
    if (n_seeds == 0) {
        fprintf(stderr, "no seeds\n");
        return 1;
    }
    b.data = malloc(b.room + 1);
    if (!b.data) abort();
    catch_all();
    alarm(600);
    for (size_t i = 0; i < n_seeds; i++) {
        run_one(seeds[i].data, seeds[i].size);
        printf("ok %zu - %s\n", i + 1,
               strrchr(seeds[i].name, '/') ? strrchr(seeds[i].name, '/') + 1 : seeds[i].name);
    }
    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint64_t run = 0; run < runs; run++) {
        if (run % 1024 == 0) alarm(60); /* an input that hangs is a failure */
        run_changed(&b, run);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("ok %zu - %llu changed inputs, seed %llu, %.1f s\n1..%zu\n", n_seeds + 1,
           (unsigned long long)runs, (unsigned long long)seed,
           (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9,
           n_seeds + 1);
    for (size_t i = 0; i < n_seeds; i++) {
        free(seeds[i].name);
        free(seeds[i].data);
    }
    free(seeds);
    free(b.data);
    return 0;
}
