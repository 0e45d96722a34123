/* adapters/targets.h: which modules adapter_config.json means, as PEFT decides it: tensors of
 * other modules are not loaded there. */
#ifndef MF_PRETRAINED_TARGETS_H
#define MF_PRETRAINED_TARGETS_H

#include "io/json.h"
#include "pretrained/adapters/modules.h"

/* Whether target_modules (a list, an expression, all-linear), exclude_modules,
 * layers_to_transform and layers_pattern, or target_parameters for a module with a parameter,
 * mean the module. True where a key is missing. path: of the configuration, for messages.
 * MF_EINPUT: an expression that is not read. */
int mf_peft_targets(const char *path, const mf_json *config, const mf_peft_module *m,
                    bool *ret);

#endif
