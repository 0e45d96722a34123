/* plugin/load/judge.c: checks a plugin's descriptor and copies it. No function of the plugin is
 * called, and no field is used before its size and type have been checked. */
#include "plugin/load/judge.h"

#include <string.h>

#include "base/error.h"
#include "plugin/load/device_code.h"
#include "plugin/load/find.h"
#include "plugin/load/reach.h"

/* Sizes of ABI 1, the minimum that a plugin must have. Later fields come after these. */
#define UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
#define PLUGIN_BYTES       UP_TO(mf_plugin, host)
#define HOST_BYTES         UP_TO(mf_host, extension)
#define SANE_BYTES         4096u /* larger than any struct of any version */

#define REBUILD "build it anew with this moefw's headers (pkg-config --cflags moefw)"

static int sized(const char *what, uint32_t found, size_t at_least)
{
    if (found < at_least)
        return mf_fail(MF_EPLUGIN,
                       "%s is too short: expected at least %zu bytes, found %u; " REBUILD, what,
                       at_least, (unsigned)found);
    if (found > SANE_BYTES)
        return mf_fail(MF_EPLUGIN, "%s: expected %zu to %u bytes, found %u; " REBUILD, what,
                       at_least, SANE_BYTES, (unsigned)found);
    return MF_OK;
}

/* Checks that bytes after the fields that this moefw knows are zero: other values would request
 * something that this moefw cannot do. */
static int nothing_newer(const char *what, const void *table, size_t bytes, size_t known)
{
    const unsigned char *p = table;
    for (size_t i = known; i < bytes; i++)
        if (p[i] != 0)
            return mf_fail(
                MF_EPLUGIN,
                "%s uses a field at byte %zu: expected nothing after byte %zu, which is "
                "all that this moefw knows; get a newer moefw",
                what, i, known);
    return MF_OK;
}

static int judge_abi(const mf_plugin *d, size_t symbol_bytes)
{
    if (symbol_bytes != 0 && symbol_bytes < 2 * sizeof(uint32_t))
        return mf_fail(
            MF_EPLUGIN,
            "the symbol moefw_plugin: expected a descriptor of %zu bytes, found %zu; "
            "export it with MF_EXPORT_PLUGIN",
            PLUGIN_BYTES, symbol_bytes);
    if (d->magic != MF_MAGIC)
        return mf_fail(MF_EPLUGIN,
                       "wrong magic: expected 0x%08x, found 0x%08x; begin the descriptor with "
                       "MF_PLUGIN_INIT",
                       MF_MAGIC, (unsigned)d->magic);
    if (d->abi < MF_ABI)
        return mf_fail(MF_EPLUGIN, "older plugin ABI: expected %u, found %u; " REBUILD, MF_ABI,
                       (unsigned)d->abi);
    if (d->abi > MF_ABI)
        return mf_fail(
            MF_EPLUGIN,
            "newer plugin ABI: expected %u, found %u; get a moefw of that ABI, or " REBUILD,
            MF_ABI, (unsigned)d->abi);
    return MF_OK;
}

static int judge_sizes(const mf_plugin *d, size_t symbol_bytes)
{
    size_t known = symbol_bytes != 0 && symbol_bytes < PLUGIN_BYTES ? symbol_bytes : d->size;
    int rc = sized("the descriptor (size)", (uint32_t)known, PLUGIN_BYTES);
    if (rc == MF_OK && symbol_bytes != 0 && d->size > symbol_bytes)
        rc = mf_fail(MF_EPLUGIN,
                     "the descriptor says that it has %u bytes: expected at most the "
                     "%zu of its symbol",
                     (unsigned)d->size, symbol_bytes);
    if (rc == MF_OK) rc = nothing_newer("the descriptor", d, d->size, sizeof *d);
    if (rc == MF_OK) rc = sized("its host table (host_size)", d->host_size, HOST_BYTES);
    if (rc == MF_OK) rc = sized("its option (option_size)", d->option_size, sizeof(mf_option));
    return rc;
}

/* ---- strings ---- */

static int text(const char *field, const char *value)
{
    if (mf_reach_text(field, value) != MF_OK) return MF_EPLUGIN;
    if (!value || value[0] == '\0')
        return mf_fail(MF_EPLUGIN, "%s: expected a text, found %s", field,
                       !value ? "NULL" : "an empty one");
    for (const char *p = value; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            return mf_fail(MF_EPLUGIN, "%s: expected one line of text, found byte %d in it",
                           field, *p);
    return MF_OK;
}

static int judge_strings(const mf_plugin *d, const char *want_name, const char *want_by)
{
    int rc = text("name", d->name);
    if (rc != MF_OK) return rc;
    size_t n = strlen(d->name);
    if (n > 64 || strspn(d->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != n)
        return mf_fail(MF_EPLUGIN, "name: expected 1 to 64 of [a-z0-9_], found '%.80s'",
                       d->name);
    if (want_name && strcmp(d->name, want_name) != 0)
        return mf_fail(MF_EPLUGIN, "name: expected '%s' (said by %s), found '%s'", want_name,
                       want_by, d->name);
    if ((rc = text("version", d->version)) != MF_OK ||
        (rc = text("license", d->license)) != MF_OK)
        return rc;
    return text("brief", d->brief);
}

/* ---- what the option table points to ---- */

static int reach_choices(const char *const *choices)
{
    int rc = MF_OK;
    if (!choices) return MF_OK;
    for (int i = 0; i <= MF_OPTIONS_MAX && rc == MF_OK; i++) {
        rc = mf_reach("the choices of an option", &choices[i], sizeof *choices);
        if (rc != MF_OK || !choices[i]) break;
        rc = mf_reach_text("a choice of an option", choices[i]);
    }
    return rc;
}

static int reach_options(const mf_plugin *d)
{
    const char *at = (const char *)d->options;
    int rc = MF_OK;
    /* The schema refuses such tables later. */
    if (!at || d->option_size % sizeof(void *) != 0) return MF_OK;
    for (int i = 0; i <= MF_OPTIONS_MAX && rc == MF_OK; i++, at += d->option_size) {
        const mf_option *o = (const mf_option *)(const void *)at;
        rc = mf_reach("the option table", o, sizeof *o);
        if (rc != MF_OK || !o->name) break;
        rc = mf_reach_text("the name of an option", o->name);
        if (rc == MF_OK) rc = mf_reach_text("the help of an option", o->help);
        if (rc == MF_OK) rc = mf_reach_text("the default of an option", o->value);
        if (rc == MF_OK) rc = reach_choices(o->choices);
    }
    return rc;
}

/* ---- the function table ---- */

typedef struct slot {
    const char *name;
    size_t offset;
    bool required;
} slot;

static const struct {
    size_t least, known; /* number of bytes in ABI 1, and at present */
    uint32_t flags;      /* all flags that the table may have */
    slot slots[3];       /* functions that a plugin must have */
} tables[] = {
    [MF_ROUTER] = {UP_TO(mf_router, after_step),
                   sizeof(mf_router),
                   MF_ROUTER_NOT_CAUSAL | MF_ROUTER_STATS | MF_ROUTER_SEQUENCE |
                       MF_ROUTER_TRAIN_BATCH,
                   {{"init", offsetof(mf_router, init), true},
                    {"route", offsetof(mf_router, route), true}}},
    [MF_EXPERT] = {UP_TO(mf_expert, after_step),
                   sizeof(mf_expert),
                   MF_EXPERT_SEQUENCE | MF_EXPERT_GATES | MF_EXPERT_NOT_CAUSAL | MF_EXPERT_PROB,
                   {{"init", offsetof(mf_expert, init), true},
                    {"forward", offsetof(mf_expert, forward), true}}},
    [MF_REGULARIZER] = {UP_TO(mf_regularizer, after_step),
                        sizeof(mf_regularizer),
                        MF_REGULARIZER_ANY_MODEL | MF_REGULARIZER_OUTPUTS |
                            MF_REGULARIZER_TOKEN_LOSS | MF_REGULARIZER_UNEQUAL,
                        {{"init", offsetof(mf_regularizer, init), true},
                         {"loss", offsetof(mf_regularizer, loss), true}}},
    [MF_CONTROLLER] = {UP_TO(mf_controller, on_step),
                       sizeof(mf_controller),
                       MF_CONTROLLER_SELECT_BIAS | MF_CONTROLLER_BLIND |
                           MF_CONTROLLER_TOKEN_LOSS | MF_CONTROLLER_UNEQUAL,
                       {{"init", offsetof(mf_controller, init), true},
                        {"on_step", offsetof(mf_controller, on_step), true}}},
    [MF_ADAPTER] = {UP_TO(mf_adapter, adopt),
                    sizeof(mf_adapter),
                    0,
                    {{"init", offsetof(mf_adapter, init), true},
                     {"apply", offsetof(mf_adapter, apply), true}}},
};

static int judge_table(const mf_plugin *d, mf_loaded *ret)
{
    const char *kind = mf_kind_name((mf_kind)d->kind);
    const size_t least = tables[d->kind].least, known = tables[d->kind].known;
    if (!d->vtable)
        return mf_fail(MF_EPLUGIN, "the function table is NULL: expected an mf_%s", kind);
    int rc = sized("its function table (vtable_size)", d->vtable_size, least);
    if (rc != MF_OK) return rc;
    rc = mf_reach("the function table", d->vtable, d->vtable_size);
    if (rc != MF_OK) return rc;
    uint32_t stamp;
    memcpy(&stamp, d->vtable, sizeof stamp);
    if (stamp != d->vtable_size)
        return mf_fail(
            MF_EPLUGIN,
            "the function table's size: expected the %u of vtable_size, found %u; begin "
            "the table with sizeof(mf_%s)",
            (unsigned)d->vtable_size, (unsigned)stamp, kind);
    rc = nothing_newer("the function table", d->vtable, d->vtable_size, known);
    if (rc != MF_OK) return rc;
    memset(&ret->table, 0, sizeof ret->table);
    memcpy(&ret->table, d->vtable, d->vtable_size < known ? d->vtable_size : known);
    const uint32_t flags = ret->table.router.flags, may = tables[d->kind].flags;
    if ((flags & ~may) != 0)
        return mf_fail(MF_EPLUGIN,
                       "the function table's flags: expected bits of 0x%x, found 0x%x; get a "
                       "newer moefw if that is a new flag",
                       (unsigned)may, (unsigned)flags);
    for (const slot *s = tables[d->kind].slots; s->name != NULL; s++) {
        void (*fn)(void);
        memcpy(&fn, (const char *)&ret->table + s->offset, sizeof fn);
        /* loss_of replaces loss */
        if (d->kind == MF_REGULARIZER && s->offset == offsetof(mf_regularizer, loss) &&
            ret->table.regularizer.loss_of)
            continue;
        if (s->required && !fn)
            return mf_fail(MF_EPLUGIN,
                           "function %s: expected a function, found NULL; every %s needs "
                           "one",
                           s->name, kind);
    }
    /* flags, init and fini have the same offset in the tables of all kinds. */
    ret->init = ret->table.router.init;
    ret->fini = ret->table.router.fini;
    return MF_OK;
}
_Static_assert(offsetof(mf_router, flags) == offsetof(mf_expert, flags) &&
                   offsetof(mf_router, flags) == offsetof(mf_regularizer, flags) &&
                   offsetof(mf_router, flags) == offsetof(mf_controller, flags) &&
                   offsetof(mf_router, flags) == offsetof(mf_adapter, flags) &&
                   offsetof(mf_router, init) == offsetof(mf_expert, init) &&
                   offsetof(mf_router, init) == offsetof(mf_regularizer, init) &&
                   offsetof(mf_router, init) == offsetof(mf_controller, init) &&
                   offsetof(mf_router, fini) == offsetof(mf_expert, fini) &&
                   offsetof(mf_router, fini) == offsetof(mf_regularizer, fini) &&
                   offsetof(mf_router, fini) == offsetof(mf_controller, fini) &&
                   offsetof(mf_router, init) == offsetof(mf_adapter, init) &&
                   offsetof(mf_router, fini) == offsetof(mf_adapter, fini),
               "the five tables begin alike");

/* Checks the points that an adapter supports, and its default point. */
static int judge_points(const mf_plugin *d, const mf_loaded *p)
{
    const mf_adapter *a = &p->table.adapter;
    const uint32_t all = MF_POINT_BIT(MF_AT_POINTS) - 2;
    if (d->kind != MF_ADAPTER) return MF_OK;
    if (a->reserved != 0)
        return mf_fail(MF_EPLUGIN, "reserved of mf_adapter: expected 0, found %u",
                       (unsigned)a->reserved);
    if (a->points == 0 || (a->points & ~all) != 0)
        return mf_fail(MF_EPLUGIN,
                       "points: expected bits MF_POINT_BIT(1) to MF_POINT_BIT(%d), found 0x%x",
                       MF_AT_POINTS - 1, (unsigned)a->points);
    if (!a->at) return mf_fail(MF_EPLUGIN, "at: expected names of points, found NULL");
    int rc = mf_reach_text("path", a->path);
    return rc == MF_OK ? text("at", a->at) : rc;
}

static int judge_kind(const mf_plugin *d, mf_kind want)
{
    if (mf_kind_name((mf_kind)d->kind) == NULL)
        return mf_fail(
            MF_EPLUGIN,
            "kind: expected %d (router) to %d (adapter), found %u; get a newer moefw "
            "if that is a new kind",
            MF_ROUTER, MF_ADAPTER, (unsigned)d->kind);
    if (want == 0 || (mf_kind)d->kind == want) return MF_OK;
    int rc = text("name", d->name); /* the message contains the name */
    if (rc != MF_OK) return rc;
    return mf_fail(MF_EPLUGIN, "wrong kind: expected %s, found %s ('%s')", mf_kind_a_name(want),
                   mf_kind_a_name((mf_kind)d->kind), d->name);
}

/* Checks the part of an op that is used before a graph contains the op: its device code. */
static int judge_op(const mf_opdef *op)
{
    int rc = mf_reach("the op of an example", op, sizeof op->size);
    if (rc == MF_OK) rc = sized("the op of an example", op->size, UP_TO(mf_opdef, name));
    if (rc == MF_OK) rc = mf_reach("the op of an example", op, op->size);
    if (rc == MF_OK) rc = text("the name of an op", op->name);
    return rc == MF_OK ? mf_judge_device_code(op) : rc;
}

/* Checks the examples of the plugin's ops; a plugin may have none. */
static int judge_examples(const mf_plugin *d, mf_arena *arena, mf_loaded *ret)
{
    enum { MOST = 64 };
    if (d->size < UP_TO(mf_plugin, reserved2) || (!d->examples && d->n_examples == 0))
        return MF_OK;
    if (d->reserved2 != 0 || !d->examples || d->n_examples < 1 || d->n_examples > MOST)
        return mf_fail(MF_EPLUGIN,
                       "examples: expected 1 to %d of them and reserved2 0, found %d at %p and "
                       "%d; end the descriptor with MF_PLUGIN_INIT_OPS",
                       MOST, (int)d->n_examples, (const void *)d->examples, (int)d->reserved2);
    const mf_op_example **list = mf_arena_alloc(arena, MOST * sizeof *list);
    const char *at = (const char *)d->examples;
    int rc = list ? mf_reach("examples", at, sizeof(uint32_t)) : MF_ENOMEM;
    const uint32_t size = rc == MF_OK ? d->examples->size : 0;
    if (rc == MF_OK) rc = sized("an example", size, UP_TO(mf_op_example, attr));
    for (int32_t i = 0; rc == MF_OK && i < d->n_examples; i++, at += size) {
        const mf_op_example *e = list[i] = (const mf_op_example *)(const void *)at;
        rc = mf_reach("an example", e, size);
        if (rc == MF_OK && (e->size != size || e->n_in < 0 || e->n_in > MF_OP_MAX_IN))
            rc = mf_fail(MF_EPLUGIN,
                         "example %d: expected size %u and 0 to %d inputs, found %u and %d",
                         (int)i, (unsigned)size, MF_OP_MAX_IN, (unsigned)e->size, (int)e->n_in);
        if (rc == MF_OK && !e->op)
            rc = mf_fail(MF_EPLUGIN, "example %d: expected an op, found NULL", (int)i);
        if (rc == MF_OK) rc = judge_op(e->op);
    }
    ret->examples = list;
    ret->n_examples = d->n_examples;
    return rc;
}

int mf_judge(const mf_plugin *d, size_t symbol_bytes, mf_kind want, const char *want_name,
             const char *want_by, mf_arena *arena, mf_loaded *ret)
{
    memset(ret, 0, sizeof *ret);
    int rc = judge_abi(d, symbol_bytes);
    if (rc == MF_OK) rc = judge_sizes(d, symbol_bytes);
    if (rc == MF_OK) rc = judge_kind(d, want);
    if (rc == MF_OK) rc = judge_strings(d, want_name, want_by);
    if (rc != MF_OK) return rc;
    if (d->reserved != 0)
        return mf_fail(MF_EPLUGIN,
                       "reserved of the descriptor: expected 0, found %u; begin "
                       "it with MF_PLUGIN_INIT",
                       (unsigned)d->reserved);
    if (d->conf_size > (1u << 20) || d->self_size > (1u << 30))
        return mf_fail(
            MF_EPLUGIN,
            "conf_size and self_size: expected at most %u and %u bytes, found %zu and %zu",
            1u << 20, 1u << 30, d->conf_size, d->self_size);
    const char *owner = mf_arena_strf(arena, "plugin %s", d->name);
    if (!owner) return MF_ENOMEM;
    rc = reach_options(d);
    if (rc == MF_OK)
        rc = mf_schema_init(&ret->schema, arena, owner, d->options, d->option_size,
                            d->conf_size);
    if (rc == MF_OK) rc = judge_table(d, ret);
    if (rc == MF_OK) rc = judge_points(d, ret);
    if (rc == MF_OK) rc = judge_examples(d, arena, ret);
    if (rc != MF_OK) return rc;
    if (!d->host)
        return mf_fail(MF_EPLUGIN, "host slot: expected the address of a variable for the host "
                                   "table, found NULL; end the descriptor with &mf");
    rc = mf_reach_write("host slot", (void *)(uintptr_t)d->host, sizeof *d->host);
    if (rc != MF_OK) return rc;
    ret->kind = (mf_kind)d->kind;
    ret->abi = d->abi;
    ret->name = d->name;
    ret->version = d->version;
    ret->license = d->license;
    ret->brief = d->brief;
    ret->conf_size = d->conf_size;
    ret->self_size = d->self_size;
    ret->descriptor = d;
    return MF_OK;
}
