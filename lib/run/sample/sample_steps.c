/* run/sample/sample_steps.c: numbers the evaluations of a run and selects the evaluations that
 * are sampled. Nothing here depends on the state of the run. */
#include "run/sample/sample_steps.h"

#include "base/text/number.h"

#include <string.h>

bool mf_sample_steps_list(const char *text, int64_t out[MF_PICTURED_MAX], int *ret_n)
{
    *ret_n = 0;
    if (*text == '\0') return true;
    for (const char *at = text;; at++) {
        char word[24];
        long long value;
        at += strspn(at, " \t");
        size_t n = strcspn(at, ",");
        const char *end = at + n;
        while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
            n--;
        if (n >= sizeof word || *ret_n == MF_PICTURED_MAX) return false;
        memcpy(word, at, n);
        word[n] = '\0';
        if (!mf_parse_i64(word, &value) || value < 1 ||
            (*ret_n > 0 && value <= out[*ret_n - 1]))
            return false;
        out[(*ret_n)++] = value;
        if (*end == '\0') return true;
        at = end;
    }
}

int64_t mf_evaluations(int64_t steps, int64_t eval_every)
{
    return eval_every > 0 ? steps / eval_every + (steps % eval_every != 0) : 1;
}

int64_t mf_evaluation_at(int64_t steps, int64_t eval_every, int64_t step)
{
    return step >= steps || eval_every <= 0 ? mf_evaluations(steps, eval_every)
                                            : step / eval_every;
}

bool mf_sample_steps(const mf_report_config *c, int64_t number, int64_t count)
{
    int64_t list[MF_PICTURED_MAX];
    int n = 0;
    if (c->sample_at[0] != '\0') {
        if (!mf_sample_steps_list(c->sample_at, list, &n)) return false;
        for (int i = 0; i < n; i++)
            if (list[i] == number) return true;
        return false;
    }
    const int64_t gaps = c->samples - 1;
    if (gaps < 1) return c->samples == 1 && number == count;
    /* the evaluations at equal distances, rounded: 1 + j (count - 1) / gaps */
    for (int64_t j = 0; j <= gaps; j++)
        if (number == 1 + (j * (count - 1) + gaps / 2) / gaps) return true;
    return false;
}
