/* run/modules.h: the modules of a model, and the numbers of their parameters. The name of a
 * parameter determines the module to which it belongs. */
#ifndef MF_RUN_MODULES_H
#define MF_RUN_MODULES_H

#include <stdint.h>

struct mf_model;

typedef enum mf_module {
    MF_MODULE_EMBEDDING,
    MF_MODULE_ATTENTION,
    MF_MODULE_DENSE,
    MF_MODULE_ROUTER,
    MF_MODULE_EXPERTS,
    MF_MODULE_NORMS,
    MF_MODULE_HEAD,
    MF_MODULE_ADAPTERS,
    MF_MODULE_OTHER, /* parameters of regularizers and controllers */
    MF_MODEL_MODULES
} mf_module;
mf_module mf_module_of(const char *param);
const char *mf_module_name(mf_module module); /* returns for example "embedding" */

/* Counts the elements of all parameters, and of the parameters that one token uses. The second
 * number excludes the experts over top_k and pruned heads. Buffers are not counted. */
void mf_model_count(const struct mf_model *m, int64_t *ret_all, int64_t *ret_active);
/* Counts like mf_model_count, for one module. mf_model_modules writes one struct for each
 * module that has parameters, in the order of mf_module, and returns their number. */
typedef struct mf_model_module {
    const char *name;
    int64_t params, active;
} mf_model_module;
int mf_model_modules(const struct mf_model *m, mf_model_module out[MF_MODEL_MODULES]);

#endif
