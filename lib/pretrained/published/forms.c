/* published/forms.c: the families that runs may be written as, and the choice among them. Each
 * form is tried: its config.json is written, read again by the family, and compared. */
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "pretrained/published/parts.h"

/* Families with experts are tried only for models with experts, and dense families only for
 * dense models. Forms that more programs read come first. */
#define FORMS(X)                                                                               \
    X(mixtral, "MixtralForCausalLM", false)                                                    \
    X(olmoe, "OlmoeForCausalLM", false)                                                        \
    X(qwen3_moe, "Qwen3MoeForCausalLM", false)                                                 \
    X(qwen2_moe, "Qwen2MoeForCausalLM", true)                                                  \
    X(deepseek_v3, "DeepseekV3ForCausalLM", true)                                              \
    X(deepseek_v2, "DeepseekV2ForCausalLM", true)                                              \
    X(gpt_oss, "GptOssForCausalLM", false)                                                     \
    X(glm4_moe, "Glm4MoeForCausalLM", true)                                                    \
    X(dots1, "Dots1ForCausalLM", true)                                                         \
    X(minimax_m2, "MiniMaxM2ForCausalLM", false)                                               \
    X(flex_olmo, "FlexOlmoForCausalLM", false)                                                 \
    X(granitemoe, "GraniteMoeForCausalLM", false)                                              \
    X(granitemoeshared, "GraniteMoeSharedForCausalLM", false)                                  \
    X(llama, "LlamaForCausalLM", false)                                                        \
    X(mistral, "MistralForCausalLM", false)                                                    \
    X(qwen2, "Qwen2ForCausalLM", false)                                                        \
    X(qwen3, "Qwen3ForCausalLM", false)                                                        \
    X(seed_oss, "SeedOssForCausalLM", false)                                                   \
    X(olmo2, "Olmo2ForCausalLM", false)                                                        \
    X(gpt2, "GPT2LMHeadModel", false)                                                          \
    X(bert, "BertModel", false)
#define DECLARE(id, class, shared) extern const mf_family mf_family_##id;
#define LIST(id, class, shared)    {&mf_family_##id, class, shared},
FORMS(DECLARE)
const mf_published_form mf_published_forms[] = {FORMS(LIST){NULL, NULL, false}};

/* A try of one form. */
typedef struct attempt {
    const mf_session *session;
    const mf_published_form *form;
    mf_record *record; /* with family and keys; NULL: its config.json could not be read */
    mf_differences judge;
} attempt;

/* Makes a record of a form, without tensors and files beside config.json. */
static int new_record(const attempt *a, mf_record **ret)
{
    static const char metadata[] = "{\"format\": \"pt\"}";
    char *text = NULL;
    mf_arena *arena = mf_arena_new();
    mf_record *r = arena ? mf_arena_alloc(arena, sizeof *r) : NULL;
    *ret = NULL;
    if (!r) {
        mf_arena_free(arena);
        return MF_ENOMEM;
    }
    *r = (mf_record){.arena = arena, .family = a->form->family, .n_shards = 1};
    r->shards = mf_arena_alloc(arena, sizeof *r->shards);
    int rc = r->shards ? mf_published_config(a->session, a->form, &text) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_published_add(r, MF_FOLDER_CONFIG, text, strlen(text));
    if (rc == MF_OK) rc = mf_json_parse(MF_FOLDER_CONFIG, text, strlen(text), &r->config);
    if (rc == MF_OK) rc = mf_json_parse("metadata", metadata, sizeof metadata - 1, &r->doc);
    if (rc == MF_OK) {
        r->shards[0] = (mf_record_shard){MF_FOLDER_MODEL, r->doc};
        rc = mf_keys_read(r->family, MF_FOLDER_CONFIG, r->config, arena, &r->keys);
    }
    mf_free(text);
    if (rc == MF_OK)
        *ret = r;
    else
        mf_record_free(r);
    return rc;
}

/* Tries a form. A form whose family refuses the numbers of the model does not fit. */
static int try_form(attempt *a)
{
    const mf_config *c = a->session->config;
    const mf_model_settings m = mf_config_model(c);
    int rc = new_record(a, &a->record);
    a->judge = (mf_differences){.config = c, .reorder = true, .join = true};
    if (rc == MF_EINPUT) return MF_OK;
    if (rc != MF_OK) return rc;
    a->judge.keys = &a->record->keys;
    rc = mf_judge_settings(&a->judge);
    if (rc == MF_OK && a->form->shared && mf_model_moe(&m, -1).shared_experts == 0)
        mf_judge_fault(&a->judge, "moe", "shared_experts", "0", "1 or more");
    if (rc != MF_OK || a->judge.faults > 0) return rc;
    const char *half = mf_keys_setting(&a->record->keys, "model", "rope_half");
    a->record->reordered = half && strcmp(half, "yes") == 0 && mf_judge_reorders(&c->model);
    return mf_published_ledger(a->session, a->record);
}

static bool fits(const attempt *a)
{
    return a->record && a->judge.faults == 0 && a->record->n > 0;
}

static int unknown_form(const char *as)
{
    const char *names[sizeof mf_published_forms / sizeof *mf_published_forms];
    char list[512] = "";
    size_t at = 0;
    int n = 0;
    for (const mf_published_form *f = mf_published_forms; f->family; f++) {
        names[n++] = f->family->name;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", n > 1 ? ", " : "",
                               f->family->name);
    }
    names[n] = NULL;
    const char *near = mf_nearest(as, names);
    return mf_fail(MF_EUSAGE, "--as: expected one of %s, found '%.64s'%s%s%s", list, as,
                   near ? "; nearest: '" : "", near ? near : "", near ? "'" : "");
}

/* Refuses a model that no form can express, or that the form `as` cannot express. The message
 * names the first option that differs from *best, the nearest form that was tried. */
static int refuse(const attempt *best, const char *as)
{
    const bool means = best->judge.expected[0] != '\0';
    char more[64] = "";
    if (best->judge.faults > 1)
        snprintf(more, sizeof more, ", and %d more %s", best->judge.faults - 1,
                 best->judge.faults > 2 ? "options differ" : "option differs");
    if (as)
        return mf_fail(MF_EINPUT, "%s cannot be said in the form of %s%s%s%s",
                       best->judge.found, as, means ? ": it means " : "", best->judge.expected,
                       more);
    return mf_fail(MF_EINPUT,
                   "%s cannot be said in any published form: the nearest%s%s%s%s%s; "
                   "'moefw export hf --with-code' writes a folder with its own code",
                   best->judge.found, means ? ", " : " is ", best->form->family->name,
                   means ? ", means " : "", best->judge.expected, more);
}

int mf_published_make(const mf_session *s, const char *as, mf_record **ret)
{
    const bool experts = mf_judge_any_experts(&s->config->model);
    attempt best = {.form = NULL};
    char why[1024] = "";
    int rc = MF_OK;
    *ret = NULL;
    for (const mf_published_form *f = mf_published_forms; rc == MF_OK && f->family; f++) {
        attempt a = {.session = s, .form = f};
        if (as && strcmp(as, f->family->name) != 0) continue;
        rc = try_form(&a);
        if (rc == MF_EINPUT) { /* a parameter without a tensor */
            if (why[0] == '\0') snprintf(why, sizeof why, "%s", mf_error_message());
            mf_error_clear();
            mf_record_free(a.record);
            rc = MF_OK;
            continue;
        }
        if (rc == MF_OK && fits(&a)) {
            *ret = a.record;
            mf_error_clear();
            return MF_OK;
        }
        /* a dense family is not the nearest to a model with experts, nor the reverse */
        const bool kind = as || !a.record || (a.record->keys.experts > 0) == experts;
        if (a.record && kind && (!best.form || a.judge.distance < best.judge.distance))
            best = a;
        mf_record_free(a.record);
        if (!a.record && as)
            return rc != MF_OK ? rc : mf_fail(MF_EINPUT, "%s", mf_error_message());
    }
    if (rc != MF_OK) return rc;
    if (best.form) return refuse(&best, as);
    if (why[0] != '\0') return mf_fail(MF_EINPUT, "%s", why);
    if (as) return unknown_form(as);
    return mf_fail(MF_EINPUT, "this model cannot be said in any published form; 'moefw export "
                              "hf --with-code' writes a folder with its own code");
}

int mf_published_add(mf_record *r, const char *name, const char *text, size_t n)
{
    if (r->n_files == MF_RECORD_FILES) return mf_fail(MF_EINVAL, "%s: too many files", name);
    char *copy = mf_arena_alloc(r->arena, n + 1);
    const char *own = mf_arena_strdup(r->arena, name);
    if (!copy || !own) return MF_ENOMEM;
    memcpy(copy, text, n);
    r->files[r->n_files++] = (mf_record_file){own, copy, n};
    return MF_OK;
}
