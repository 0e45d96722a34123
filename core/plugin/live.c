/* plugin/live.c: the registry of live options. A change applies to all slots of its name or to
 * none, and each change is recorded once. */
#include "plugin/live.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plugin/instance_internal.h"

bool mf_plughost_grow(void **list, int n, int *room, size_t size)
{
    if (n < *room) return true;
    int more = *room == 0 ? 16 : 2 * *room;
    void *grown = mf_realloc(*list, (size_t)*room * size, (size_t)more * size);
    if (!grown) return false;
    *list = grown;
    *room = more;
    return true;
}

static const mf_live_slot *find(const mf_plughost *h, const char *name)
{
    for (int i = 0; i < h->n_aliases; i++)
        if (strcmp(h->alias[i].name, name) == 0) name = h->alias[i].means;
    for (int i = 0; i < h->n_live; i++)
        if (strcmp(h->live[i].name, name) == 0) return &h->live[i];
    return NULL;
}

static double value_of(const mf_live_slot *p)
{
    if (p->param) {
        const float *value = mf_param_host(p->param);
        return value ? (double)value[p->element] : 0;
    }
    return p->real ? *p->real : mf_option_number(p->option, p->conf);
}

static int add(mf_plughost *h, const char *name, mf_live_slot place)
{
    const mf_live_slot *first = find(h, name);
    place.first = !first;
    place.name = first ? first->name : mf_arena_strdup(h->arena, name);
    if (!place.name ||
        !mf_plughost_grow((void **)&h->live, h->n_live, &h->room_live, sizeof *h->live))
        return MF_ENOMEM;
    h->live[h->n_live++] = place;
    if (!place.first) return MF_OK;
    /* The list of names ends with NULL. */
    if (h->n_live_names + 2 > h->room_live_names) {
        const int room = 2 * (h->n_live_names + 2) + 16;
        const char **names = mf_arena_alloc(h->arena, (size_t)room * sizeof *names);
        if (!names) return MF_ENOMEM;
        if (h->n_live_names > 0)
            memcpy(names, h->live_names, (size_t)h->n_live_names * sizeof *names);
        h->live_names = names;
        h->room_live_names = room;
    }
    h->live_names[h->n_live_names++] = place.name;
    h->live_names[h->n_live_names] = NULL;
    return MF_OK;
}

int mf_live_register_real(mf_plughost *h, const char *name, double *value, double lo, double hi)
{
    return add(h, name, (mf_live_slot){.real = value, .lo = lo, .hi = hi});
}

int mf_live_register_count(mf_plughost *h, const char *name, double *value, double lo,
                           double hi)
{
    return add(
        h, name,
        (mf_live_slot){.real = value, .start = *value, .whole = true, .lo = lo, .hi = hi});
}

int mf_live_register_option(mf_plughost *h, const char *name, const mf_option *o, void *conf,
                            double *shadow)
{
    *shadow = mf_option_number(o, conf);
    return add(h, name,
               (mf_live_slot){.option = o,
                              .conf = conf,
                              .shadow = shadow,
                              .structural = (o->flags & MF_OPT_STRUCTURAL) != 0});
}

int mf_live_register_stored(mf_plughost *h, const char *name, mf_param *param, int64_t i,
                            double lo, double hi, bool structural)
{
    return add(h, name,
               (mf_live_slot){
                   .param = param, .element = i, .structural = structural, .lo = lo, .hi = hi});
}

int mf_live_alias(mf_plughost *h, const char *name, const char *means)
{
    mf_live_alias_of a = {mf_arena_strdup(h->arena, name), mf_arena_strdup(h->arena, means)};
    if (!a.name || !a.means || h->n_aliases == MF_LIVE_ALIASES) return MF_ENOMEM;
    if (find(h, means) != NULL) h->alias[h->n_aliases++] = a;
    return MF_OK;
}

const char *mf_live_old_name(const mf_plughost *h, const char *name)
{
    for (int i = 0; i < h->n_aliases; i++)
        if (strcmp(h->alias[i].means, name) == 0) return h->alias[i].name;
    return NULL;
}

const char *mf_live_switch(const mf_plughost *h, const char *prefix)
{
    for (int i = 0; i < h->n_live; i++)
        if (h->live[i].structural && h->live[i].first && h->live[i].option &&
            strncmp(h->live[i].name, prefix, strlen(prefix)) == 0)
            return h->live[i].name;
    return NULL;
}

bool mf_live_is_stored(const mf_plughost *h, int i)
{
    const mf_live_slot *p = find(h, mf_live_name(h, i));
    return p && p->param;
}

bool mf_live_start(const mf_plughost *h, int i, double *ret)
{
    const mf_live_slot *p = find(h, mf_live_name(h, i));
    if (p && p->whole) *ret = p->start;
    return p && p->whole;
}

int mf_live_count(const mf_plughost *h)
{
    return h->n_live_names;
}

const char *mf_live_name(const mf_plughost *h, int i)
{
    return i >= 0 && i < h->n_live_names ? h->live_names[i] : NULL;
}

static int unknown_among(const char *name, const char *const *names)
{
    char hint[256], list[768] = "";
    for (int i = 0; names[i] != NULL; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "",
                 names[i]);
    mf_did_you_mean(name, names, hint, sizeof hint);
    return mf_fail(MF_ENOTFOUND, "no live option '%s'%s live here: %s", name,
                   hint[0] != '\0' ? hint : ";", list[0] != '\0' ? list : "none");
}

static int unknown(const mf_plughost *h, const char *name)
{
    static const char *const none[] = {NULL};
    return unknown_among(name, h->n_live_names > 0 ? h->live_names : none);
}

int mf_live_want(mf_plughost *h, const char *name, const char *by)
{
    for (int i = 0; i < h->n_needs; i++)
        if (strcmp(h->needs[i].option, name) == 0 && strcmp(h->needs[i].by, by) == 0)
            return MF_OK;
    if (!mf_plughost_grow((void **)&h->needs, h->n_needs, &h->room_needs, sizeof *h->needs))
        return MF_ENOMEM;
    const mf_live_need need = {mf_arena_strdup(h->arena, name), mf_arena_strdup(h->arena, by)};
    if (!need.option || !need.by) return MF_ENOMEM;
    h->needs[h->n_needs++] = need;
    return MF_OK;
}

static bool listed(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

int mf_live_judge(const mf_plughost *h, const char *const *later, const char **ret_option,
                  const char **ret_by)
{
    const mf_live_need *need = NULL;
    for (int i = 0; i < h->n_needs && !need; i++)
        if (!find(h, h->needs[i].option) && !listed(later, h->needs[i].option))
            need = &h->needs[i];
    if (!need) return MF_OK;
    *ret_option = need->option;
    *ret_by = need->by;
    int n = 0;
    while (later[n])
        n++;
    const char **names = mf_alloc((size_t)(h->n_live_names + n) + 1, sizeof *names);
    if (!names) return MF_ENOMEM;
    for (int i = 0; i < h->n_live_names; i++)
        names[i] = h->live_names[i];
    for (int i = 0; i < n; i++)
        names[h->n_live_names + i] = later[i];
    const int rc = unknown_among(need->option, names);
    mf_free(names);
    return rc;
}

int mf_live_get(const mf_plughost *h, const char *name, double *ret)
{
    const mf_live_slot *p = find(h, name);
    if (!p) return unknown(h, name);
    *ret = value_of(p);
    return MF_OK;
}

/* Changes one slot. Variables and parameters of core have their bounds in the slot. */
static int turn(const mf_live_slot *p, double value)
{
    if (p->option) {
        int rc = mf_option_change(p->option, p->conf, value);
        if (rc == MF_OK) *p->shadow = value;
        return rc;
    }
    if (!isfinite(value) || value < p->lo || value > p->hi)
        return mf_fail(MF_ECONFIG,
                       "live option '%s': expected a number from %g to %g, found %g", p->name,
                       p->lo, p->hi, value);
    if (p->whole && value != floor(value))
        return mf_fail(MF_ECONFIG, "live option '%s': expected a whole number, found %g",
                       p->name, value);
    const float number = (float)value;
    if (p->param)
        return mf_param_write(p->param, &number, (size_t)p->element * sizeof number,
                              sizeof number);
    *p->real = value;
    return MF_OK;
}

static int note(mf_plughost *h, const char *option, double from, double to, const char *by,
                const char *reason)
{
    int room = h->room_turns;
    if (!mf_plughost_grow((void **)&h->turns, h->n_turns, &h->room_turns, sizeof *h->turns))
        return MF_ENOMEM;
    if (room != h->room_turns) {
        mf_change *list = mf_alloc((size_t)h->room_turns, sizeof *list);
        if (!list) {
            h->room_turns = room;
            return MF_ENOMEM;
        }
        mf_free(h->turn_list);
        h->turn_list = list;
    }
    mf_kept_change *t = &h->turns[h->n_turns++];
    t->turn = (mf_change){h->step, option, from, to, by, NULL};
    snprintf(t->reason, sizeof t->reason, "%s", reason ? reason : "");
    return MF_OK;
}

int mf_live_set(mf_plughost *h, const char *name, double value, const char *by,
                const char *reason)
{
    const mf_live_slot *first = find(h, name);
    if (!first) return unknown(h, name);
    const char *given = name;
    name = first->name;
    const double before = value_of(first);
    bool turned = false;
    for (int i = 0; i < h->n_live; i++) {
        const mf_live_slot *p = &h->live[i];
        if (strcmp(p->name, name) != 0 || value_of(p) == value) continue;
        /* train.freeze froze the parameter, so the slot does not change */
        if (p->param && p->param->frozen) continue;
        /* All slots of one name have one schema. So if any slot refuses the value, the first
         * slot refuses it. */
        int rc = turn(p, value);
        if (rc != MF_OK) return rc;
        turned = true;
    }
    if (!turned) return MF_OK;
    if (first->whole || (first->structural && (before == 0) != (value == 0)))
        mf_plughost_want_rebuild(h, by, reason);
    return note(h, strcmp(given, name) == 0 ? name : mf_arena_strdup(h->arena, given), before,
                value_of(first), by, reason);
}

int mf_changes(mf_plughost *h, const mf_change **ret)
{
    for (int i = 0; i < h->n_turns; i++) {
        h->turn_list[i] = h->turns[i].turn;
        h->turn_list[i].reason = h->turns[i].reason;
    }
    *ret = h->turn_list;
    return h->n_turns;
}

void mf_changes_clear(mf_plughost *h)
{
    h->n_turns = 0;
}
