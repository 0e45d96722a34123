/* A small HTTP server that replaces an MLflow server in tests. It answers the requests of
 * log.mlflow like MLflow's REST API, and refuses the same requests. It can be set to fail.
 *
 *     server FOLDER
 *
 * The server writes its port to FOLDER/port. It reads FOLDER/mode before each request: ok (also
 * if there is no file), 500, 401, 404 (pages that are not from MLflow), html (status 200 with a
 * page), close (ends connections without an answer), cut (ends connections within the answer),
 * header (a header of megabytes), hang (never answers), slow (.3 s for an answer), refuse
 * (status 400 for values), gone (status 404 for runs). It appends a line for each request,
 * "METHOD WHAT BODY", to FOLDER/log, a line for each value, "RUN KEY STEP VALUE", to
 * FOLDER/values, and a line for each login to FOLDER/logins. The server ends when its
 * parent ends. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "io/json.h"

enum { MOST = 4096, TEXT = 256, BODY = 1 << 20 };

static const char *folder;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    char experiment[16][TEXT];
    int n_experiments, n_runs, n_params, n_metrics;
    struct {
        int run;
        char key[TEXT], value[TEXT];
    } param[MOST];
    struct {
        int run;
        char key[TEXT];
        int64_t step;
    } metric[MOST]; /* the last step of each metric */
} state;

typedef struct answer {
    int status;
    char *text;
} answer;

static FILE *open_file(const char *name, const char *how)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, how);
}

static void read_mode(char mode[16])
{
    FILE *f = open_file("mode", "r");
    if (!f || fscanf(f, "%15s", mode) != 1) snprintf(mode, 16, "ok");
    if (f) fclose(f);
}

__attribute__((format(printf, 2, 3))) static answer say(int status, const char *fmt, ...)
{
    va_list args;
    answer a = {.status = status};
    va_start(args, fmt);
    if (vasprintf(&a.text, fmt, args) < 0) abort();
    va_end(args);
    return a;
}

static answer refuse(int status, const char *code, const char *why)
{
    return say(status, "{\"error_code\": \"%s\", \"message\": \"%s\"}", code, why);
}

/* ---- requests ---- */

static answer get_experiment(const char *query)
{
    char name[TEXT] = "";
    size_t n = 0;
    const char *p = strchr(query, '=');
    for (p = p ? p + 1 : ""; *p != '\0' && n + 1 < sizeof name; p++) {
        unsigned byte = (unsigned char)*p;
        if (*p == '%' && sscanf(p + 1, "%2x", &byte) == 1) p += 2;
        name[n++] = (char)byte;
    }
    name[n] = '\0';
    for (int i = 0; i < state.n_experiments; i++)
        if (strcmp(state.experiment[i], name) == 0)
            return say(200, "{\"experiment\": {\"experiment_id\": \"%d\"}}", i);
    return refuse(404, "RESOURCE_DOES_NOT_EXIST", "no experiment of that name");
}

static answer make_experiment(const mf_json *v)
{
    const char *name = mf_json_string(mf_json_get(v, "name"), NULL);
    if (!name || state.n_experiments == 16)
        return refuse(400, "INVALID_PARAMETER_VALUE", "name");
    snprintf(state.experiment[state.n_experiments], TEXT, "%s", name);
    return say(200, "{\"experiment_id\": \"%d\"}", state.n_experiments++);
}

static answer make_run(const mf_json *v)
{
    const char *id = mf_json_string(mf_json_get(v, "experiment_id"), NULL);
    int64_t began;
    if (!id || atoi(id) >= state.n_experiments ||
        !mf_json_int(mf_json_get(v, "start_time"), &began))
        return refuse(400, "INVALID_PARAMETER_VALUE", "experiment_id, start_time");
    return say(200, "{\"run\": {\"info\": {\"run_id\": \"run%d\"}}}", state.n_runs++);
}

/* Index of a run by its id; -1: there is no such run. */
static int run_of(const char *id)
{
    int run;
    return id && sscanf(id, "run%d", &run) == 1 && run < state.n_runs ? run : -1;
}

static answer get_run(const char *query)
{
    const char *p = strchr(query, '=');
    const int run = run_of(p ? p + 1 : NULL);
    char *text;
    size_t size;
    const char *comma = "";
    if (run < 0) return refuse(404, "RESOURCE_DOES_NOT_EXIST", "no such run");
    FILE *f = open_memstream(&text, &size);
    fputs("{\"run\": {\"data\": {\"metrics\": [", f);
    for (int i = 0; i < state.n_metrics; i++) {
        if (state.metric[i].run != run) continue;
        fprintf(f, "%s{\"key\": \"%s\", \"value\": 1, \"step\": %lld}", comma,
                state.metric[i].key, (long long)state.metric[i].step);
        comma = ", ";
    }
    fputs("]}}}", f);
    fclose(f);
    return (answer){200, text};
}

static void take_metric(int run, const mf_json *m, FILE *values)
{
    const char *key = mf_json_string(mf_json_get(m, "key"), NULL);
    const int64_t step = mf_json_int_or_0(m, "step");
    int i = 0;
    if (!key || mf_json_int_or_0(m, "timestamp") < 1000000000000) abort();
    while (i < state.n_metrics &&
           (state.metric[i].run != run || strcmp(state.metric[i].key, key) != 0))
        i++;
    if (i == MOST) abort();
    if (i == state.n_metrics) {
        snprintf(state.metric[i].key, TEXT, "%s", key);
        state.metric[i].run = run;
        state.metric[i].step = step;
        state.n_metrics++;
    }
    if (state.metric[i].step < step) state.metric[i].step = step;
    fprintf(values, "run%d %s %lld %.17g\n", run, key, (long long)step,
            mf_json_real_or_nan(m, "value"));
}

/* Sets a parameter. It may be set again, but only to the same value. */
static bool take_param(int run, const mf_json *p)
{
    const char *key = mf_json_string(mf_json_get(p, "key"), NULL),
               *value = mf_json_string(mf_json_get(p, "value"), NULL);
    if (!key || !value) return false;
    for (int i = 0; i < state.n_params; i++)
        if (state.param[i].run == run && strcmp(state.param[i].key, key) == 0)
            return strncmp(state.param[i].value, value, TEXT - 1) == 0;
    if (state.n_params == MOST) abort();
    state.param[state.n_params].run = run;
    snprintf(state.param[state.n_params].key, TEXT, "%s", key);
    snprintf(state.param[state.n_params++].value, TEXT, "%s", value);
    return true;
}

static answer log_batch(int run, const mf_json *v)
{
    const mf_json *metrics = mf_json_get(v, "metrics"), *params = mf_json_get(v, "params"),
                  *tags = mf_json_get(v, "tags");
    if (mf_json_size(metrics) > 1000 || mf_json_size(params) > 100 || mf_json_size(tags) > 100)
        return refuse(400, "INVALID_PARAMETER_VALUE", "too many in one request");
    for (size_t i = 0; i < mf_json_size(params); i++)
        if (!take_param(run, mf_json_at(params, i)))
            return refuse(400, "INVALID_PARAMETER_VALUE", "a parameter was changed");
    FILE *values = open_file("values", "a");
    if (!values) abort();
    for (size_t i = 0; i < mf_json_size(metrics); i++)
        take_metric(run, mf_json_at(metrics, i), values);
    fclose(values);
    return say(200, "{}");
}

static answer serve(const char *mode, const char *what, const char *query, const mf_json *v)
{
    const bool runs = strncmp(what, "runs/", 5) == 0 && strcmp(what, "runs/create") != 0;
    const int run = run_of(mf_json_string(mf_json_get(v, "run_id"), NULL));
    if (runs && strcmp(mode, "gone") == 0)
        return refuse(404, "RESOURCE_DOES_NOT_EXIST", "the run is gone");
    if (strcmp(what, "experiments/get-by-name") == 0) return get_experiment(query);
    if (strcmp(what, "runs/get") == 0) return get_run(query);
    if (strcmp(what, "experiments/create") == 0) return make_experiment(v);
    if (strcmp(what, "runs/create") == 0) return make_run(v);
    if (run < 0) return refuse(404, "RESOURCE_DOES_NOT_EXIST", "no such run");
    if (strcmp(what, "runs/update") == 0) return say(200, "{}");
    if (strcmp(what, "runs/log-batch") != 0) return say(404, "<html>Not Found</html>");
    if (strcmp(mode, "refuse") == 0)
        return refuse(400, "INVALID_PARAMETER_VALUE", "this server takes no values");
    return log_batch(run, v);
}

static answer handle(const char *mode, const char *method, char *path, const char *body)
{
    static const char api[] = "/api/2.0/mlflow/";
    char *query = strchr(path, '?');
    mf_json *v = NULL;
    if (query) *query++ = '\0';
    if (strncmp(path, api, sizeof api - 1) != 0) return say(404, "<html>Not Found</html>");
    const char *what = path + sizeof api - 1;
    if (body[0] != '\0' && mf_json_parse("body", body, strlen(body), &v) != MF_OK)
        return refuse(400, "BAD_REQUEST", "no JSON");
    pthread_mutex_lock(&lock);
    FILE *log = open_file("log", "a");
    if (!log) abort();
    fprintf(log, "%s %s%s%s %s\n", method, what, query ? "?" : "", query ? query : "", body);
    fclose(log);
    answer a = strcmp(mode, "500") == 0    ? say(500, "<html>Internal Server Error</html>")
               : strcmp(mode, "401") == 0  ? say(401, "<html>Unauthorized</html>")
               : strcmp(mode, "404") == 0  ? say(404, "<html>Not Found</html>")
               : strcmp(mode, "html") == 0 ? say(200, "<html>another server</html>")
                                           : serve(mode, what, query ? query : "", v);
    pthread_mutex_unlock(&lock);
    mf_json_free(v);
    return a;
}

/* ---- connections ---- */

/* Records the login of a request, if the request has one. */
static void note_login(const char *head)
{
    const char *l = strcasestr(head, "\r\nAuthorization: ");
    FILE *f = l ? open_file("logins", "a") : NULL;
    if (!f) return;
    l += strlen("\r\nAuthorization: ");
    fprintf(f, "%.*s\n", (int)strcspn(l, "\r\n"), l);
    fclose(f);
}

/* Reads a request. Returns its body, which the caller frees; NULL: the client closed
 * the connection. */
static char *receive(int fd, char method[8], char path[2048])
{
    size_t n = 0, begin = 0, length = 0;
    char *text = calloc(1, BODY + 1);
    if (!text) abort();
    while (begin == 0 || n < begin + length) {
        const ssize_t got = n < BODY ? recv(fd, text + n, BODY - n, 0) : 0;
        if (got <= 0) {
            free(text);
            return NULL;
        }
        n += (size_t)got;
        const char *end = begin == 0 ? strstr(text, "\r\n\r\n") : NULL;
        if (!end) continue;
        begin = (size_t)(end - text) + 4;
        const char *l = strcasestr(text, "\r\nContent-Length:");
        if (l && l < end) length = (size_t)atoll(l + 17);
    }
    if (sscanf(text, "%7s %2047s", method, path) != 2) abort();
    note_login(text);
    memmove(text, text + begin, length);
    text[length] = '\0';
    return text;
}

/* Sends a header that is longer than any client accepts. */
static void send_header(int fd)
{
    static const char begin[] = "HTTP/1.1 200 X\r\nX: ";
    static char much[1 << 16];
    memset(much, 'a', sizeof much);
    send(fd, begin, sizeof begin - 1, MSG_NOSIGNAL);
    for (int i = 0; i < 800 && send(fd, much, sizeof much, MSG_NOSIGNAL) > 0; i++)
        ;
}

static void *connection(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    char method[8], path[2048], mode[16], head[256], *body;
    while ((body = receive(fd, method, path))) {
        read_mode(mode);
        if (strcmp(mode, "header") == 0) send_header(fd);
        if (strcmp(mode, "close") == 0 || strcmp(mode, "header") == 0) break;
        while (strcmp(mode, "hang") == 0) {
            usleep(50000);
            read_mode(mode);
        }
        if (strcmp(mode, "slow") == 0) usleep(300000);
        answer a = handle(mode, method, path, body);
        const size_t n = strlen(a.text);
        snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n", a.status,
                 n);
        const bool cut = strcmp(mode, "cut") == 0;
        send(fd, head, strlen(head), MSG_NOSIGNAL);
        send(fd, a.text, cut ? n / 2 : n, MSG_NOSIGNAL);
        free(a.text);
        free(body);
        body = NULL;
        if (cut) break;
    }
    free(body);
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    pthread_t thread;
    if (argc != 2) return 2;
    folder = argv[1];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, size) != 0 || listen(s, 16) != 0 ||
        getsockname(s, (struct sockaddr *)&a, &size) != 0)
        return 1;
    FILE *f = open_file("port.new", "w");
    if (!f) return 1;
    fprintf(f, "%d\n", ntohs(a.sin_port));
    fclose(f);
    char from[1024], to[1024];
    snprintf(from, sizeof from, "%s/port.new", folder);
    snprintf(to, sizeof to, "%s/port", folder);
    if (rename(from, to) != 0) return 1;
    for (int fd; (fd = accept(s, NULL, NULL)) >= 0;)
        if (pthread_create(&thread, NULL, connection, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
    return 1;
}
