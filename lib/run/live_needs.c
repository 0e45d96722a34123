/* run/live_needs.c: checks that the live options exist which plugins will read or set between
 * steps. The check runs before any file of the run exists. */
#include <string.h>
#include "base/error.h"
#include "plugin/live.h"
#include "train/trainer.h"
#include "run/session.h"

/* Returns the entry of the section that names the option, or the beginning of the section;
 * or NULL. */
static const mf_ini_entry *place_of(mf_ini *ini, const char *section, const char *option)
{
    for (const mf_ini_entry *e = mf_ini_first_of(ini, section); e; e = mf_ini_next_of(e))
        if (!e->overridden && strcmp(e->value, option) == 0) return e;
    return mf_ini_section_begin(ini, section);
}

/* Returns why an option is not live: no layer reads it, or it is live only above 0. NULL: there
 * is no such reason. */
static const char *switched_off(const mf_model *m, const char *option)
{
    static const char own[] = "each block with experts has its own, in its [block.NAME]";
    if (strcmp(option, "moe.top_k") == 0 && m->n_moe > 0) return own;
    if (strcmp(option, "moe.capacity_factor") == 0) {
        for (int32_t i = 0; i < m->n_moe; i++)
            if (m->moe[i].config.capacity_factor > 0) return own;
        return "moe.capacity_factor is 0";
    }
    if (strcmp(option, "moe.adaptive_capacity") == 0 && m->adaptive_capacity == 0)
        return "moe.adaptive_capacity is 0";
    return NULL;
}

int mf_session_judge_live(const mf_session *s)
{
    const char *option, *by;
    int rc = mf_live_judge(s->model->plugins, mf_trainer_live, &option, &by);
    if (rc != MF_ENOTFOUND) return rc;
    const char *off = switched_off(s->model, option);
    if (off)
        mf_fail(MF_ECONFIG, "live option '%s': expected a value above 0; %s here", option, off);
    rc = mf_fail_context(MF_ECONFIG, "[%s]", by);
    const mf_ini_entry *at = place_of(s->config->ini, by, option);
    return at ? mf_ini_context(rc, at->file, at->line) : rc;
}
