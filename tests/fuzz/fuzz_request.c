/* fuzz_request: any bytes as a request of HTTP, and what follows its head as the fields of a
 * completion. What is accepted holds no more than what was sent; what is refused says why. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/mem.h"
#include "lab/serve/serve.h"

#include <string.h>

const char *const fuzz_words[] = {"POST ",
                                  "GET ",
                                  "/v1/completions",
                                  " HTTP/1.1\r\n",
                                  " HTTP/1.0\n",
                                  "Host: localhost\r\n",
                                  "Content-Length: ",
                                  "Transfer-Encoding: chunked",
                                  "Connection: close",
                                  "Expect: 100-continue",
                                  "\r\n\r\n",
                                  "{\"prompt\":",
                                  "[[1,2],[3]]",
                                  "[\"a\"]",
                                  ",\"stop\":[\"a\",\"b\"]",
                                  ",\"logprobs\":5",
                                  ",\"echo\":true",
                                  ",\"max_tokens\":1",
                                  ",\"temperature\":0.5",
                                  ",\"seed\":-1",
                                  "null",
                                  NULL};

static void use(const mf_completion *c)
{
    FUZZ_REQUIRE(c->n <= MF_SERVE_PROMPTS_MAX);
    FUZZ_REQUIRE(c->tokens >= 0 && c->tokens <= MF_SERVE_TOKENS_MAX);
    FUZZ_REQUIRE(c->temperature >= 0 && c->top_p >= 0 && c->top_p <= 1);
    FUZZ_REQUIRE(c->top >= 0 && c->top <= MF_SERVE_TOP_MAX);
    for (size_t i = 0; i < c->n; i++) {
        FUZZ_REQUIRE((c->prompts[i].text != NULL) != (c->prompts[i].id != NULL));
        for (size_t k = 0; c->prompts[i].id && k < c->prompts[i].n; k++)
            FUZZ_REQUIRE(c->prompts[i].id[k] >= 0);
    }
    for (size_t i = 0; i < c->n_stops; i++)
        FUZZ_REQUIRE(c->stops[i][0] != '\0');
}

static void read_body(const char *text, size_t n)
{
    mf_json *v = NULL;
    mf_completion c;
    if (mf_json_parse("body", text, n, &v) != MF_OK) return;
    mf_error_clear();
    if (mf_completion_read(v, &c) == MF_OK)
        use(&c);
    else
        FUZZ_REQUIRE(mf_error_message()[0] != '\0');
    mf_arena_free(c.arena);
    mf_json_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *why = NULL;
    mf_request r;
    const size_t head = mf_request_end(text, size);
    FUZZ_REQUIRE(head <= size);
    if (head > 0) {
        const int status = mf_request_read(text, head, &r, &why);
        FUZZ_REQUIRE(status == 0 || (status >= 400 && why));
        FUZZ_REQUIRE(status != 0 || (r.path[0] == '/' && r.method[0] != '\0'));
        FUZZ_REQUIRE(strlen(r.path) < sizeof r.path && strlen(r.method) < sizeof r.method);
    }
    read_body(text + head, size - head);
    return 0;
}
