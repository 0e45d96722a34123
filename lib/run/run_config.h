/* run/run_config.h: the whole configuration of a run: the typed and checked sections of all
 * parts of the program. For sections of plugins, core reads only its own few keys. The keys of
 * the plugin remain in the INI. */
#ifndef MF_RUN_CONFIG_H
#define MF_RUN_CONFIG_H

#include "run/sections/sources.h"
#include "data/data_config.h"
#include "model/model_config.h"
#include "train/train_config.h"

typedef struct mf_config {
    mf_model_config model;
    mf_moe_config moe;
    mf_data_config data;
    mf_train_config train;
    mf_device_config device;
    mf_report_config report;
    mf_log_config log;
    mf_trace_config trace;
    mf_parallel_config parallel;
    mf_calls_config calls;  /* section [plugin] */
    mf_task_section *tasks; /* in order of appearance, without tasks with task = none */
    int n_tasks;
    mf_plugin_section router, expert;
    mf_plugin_section *routers; /* sections [router.NAME], in order of appearance */
    int n_routers;
    mf_plugin_section *layer_experts; /* sections [expert.NAME] */
    int n_layer_experts;
    mf_block_section *blocks; /* sections [block.NAME] */
    int n_blocks;
    mf_plugin_section *regularizers, *controllers, *adapters; /* in order of appearance */
    int n_regularizers, n_controllers, n_adapters;
    const char *name; /* preset or file name without its ending; names the run directory */
    /* all sources, with old keys renamed; plugins read their keys here */
    mf_ini *ini;
    mf_ini *given; /* the sources as given, with old keys */
    struct mf_arena *arena;
} mf_config;

/* The offset of each section in mf_config, in the order of writing; ends with NULL. */
extern const mf_section_at mf_config_sections[];

/* Loads a configuration; the caller frees it. Sources, from weak to strong: built-in defaults,
 * system INI, user INI, the preset that CONFIG includes, CONFIG (a file, a folder with
 * config.ini, or the name of a preset; NULL: the default preset), the assignments in their
 * order. If CONFIG is complete, like the config.ini of a run, only local keys are read from the
 * INI of system and user (sections/sources.h). Every key is checked. The keys of plugins are
 * checked by mf_config_open_plugins or when the model is built.
 *
 * If a source names another plugin for a section than an earlier source, keys of the earlier
 * source that the new plugin does not have are ignored.
 *
 * Errors: MF_ECONFIG with file:line, key, expected and nearest value; MF_ENOTFOUND for CONFIG
 * itself. With a sink, every wrong value is passed to the sink, *ret may be set nevertheless,
 * and the code of the first error is returned. */
int mf_config_load_from(const char *config, int n, const mf_assignment *assignments,
                        const mf_problem_sink *sink, mf_config **ret);
/* The same without a sink, and with the origin "--set" for all assignments. */
int mf_config_load(const char *config, int n_set, const char *const *set, mf_config **ret);
void mf_config_free(mf_config *c);

/* Loads every plugin that the configuration names and checks its options. Errors: those of
 * mf_plugin_load; MF_ECONFIG. The sink receives all errors. */
int mf_config_open_plugins(mf_config *c, const mf_problem_sink *sink);

/* Writes a line of comment, then all sections in the order of mf_config_sections: core's keys
 * with their values, and all options of those plugins that can be loaded. Loading this text
 * creates the same configuration. Relative paths that exist become absolute. MF_EIO. */
int mf_config_write(const mf_config *c, FILE *out);
/* Writes the same as a text, which the caller frees with mf_free. The text is complete, or the
 * call fails. MF_ENOMEM, or the system error because of which the options of a plugin could not
 * be read. what: name of the text, for messages. */
int mf_config_text(const mf_config *c, const char *what, char **ret, size_t *ret_n);
/* Returns the settings of the model. They point into c. */
mf_model_settings mf_config_model(const mf_config *c);

#endif
