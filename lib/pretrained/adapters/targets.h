/* adapters/targets.h: which modules adapter_config.json selects, by the same rules as PEFT.
 * PEFT does not load tensors of other modules. */
#ifndef MF_PRETRAINED_TARGETS_H
#define MF_PRETRAINED_TARGETS_H

#include "io/json.h"
#include "pretrained/adapters/modules.h"

/* Whether target_modules (a list, an expression, all-linear), exclude_modules,
 * layers_to_transform and layers_pattern select the module. For a module with a parameter,
 * target_parameters decides instead. A missing key excludes no module, except that
 * target_parameters without target_modules selects no linear layer. path: path of the
 * configuration, for messages. MF_EINPUT: an expression that is not supported. */
int mf_peft_targets(const char *path, const mf_json *config, const mf_peft_module *m,
                    bool *ret);

#endif
