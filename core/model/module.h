/* model/module.h: the modules of a model. The name of a parameter determines the module to
 * which it belongs (model/model.h). */
#ifndef MF_MODEL_MODULE_H
#define MF_MODEL_MODULE_H

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

#endif
