/* two_models.c: trains two models at the same time, each in its own thread, with the same data
 * and different routers.
 *
 *     cc two_models.c -pthread $(pkg-config --cflags --libs libmoefw) && ./a.out [STEPS] */
#include <moefw/run.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *router, *steps;
    moefw_run *run;
    double loss; /* loss of the validation data */
    int rc;
} model;

static void keep_loss(void *arg, const moefw_metrics *m)
{
    model *x = arg;
    if (m->split[0] == 'v') x->loss = m->task_loss;
}

static void *train(void *arg)
{
    model *x = arg;
    x->run = moefw_run_new();
    x->rc = moefw_run_configure(x->run, "default");
    if (x->rc == MF_OK)
        x->rc = moefw_run_set(x->run, "data.path", "builtin:topics?bytes=40000");
    if (x->rc == MF_OK) x->rc = moefw_run_set(x->run, "router.plugin", x->router);
    if (x->rc == MF_OK) x->rc = moefw_run_set(x->run, "train.steps", x->steps);
    if (x->rc == MF_OK) x->rc = moefw_run_set(x->run, "train.threads", "1");
    if (x->rc == MF_OK) x->rc = moefw_run_on_metrics(x->run, keep_loss, x);
    if (x->rc == MF_OK) x->rc = moefw_run_start(x->run, NULL);
    if (x->rc == MF_OK) x->rc = moefw_run_train(x->run);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *steps = argc > 1 ? argv[1] : "20";
    model models[] = {{.router = "linear", .steps = steps},
                      {.router = "cosine", .steps = steps}};
    pthread_t thread[2];
    int rc = EXIT_SUCCESS;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, train, &models[i]) != 0) return EXIT_FAILURE;
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        if (models[i].rc == MF_OK) {
            printf("%s: validation loss %.9g\n", models[i].router, models[i].loss);
        } else {
            fprintf(stderr, "%s: %s\n", models[i].router, moefw_run_message(models[i].run));
            rc = EXIT_FAILURE;
        }
        moefw_run_free(models[i].run);
    }
    return rc;
}
