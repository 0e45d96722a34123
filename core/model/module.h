/* model/module.h: what a parameter is for, told by its name (model/model.h). */
#ifndef MF_MODEL_MODULE_H
#define MF_MODEL_MODULE_H

typedef enum mf_module {
    MF_MODULE_EMBEDDING,
    MF_MODULE_ATTENTION,
    MF_MODULE_DENSE,
    MF_MODULE_ROUTER,
    MF_MODULE_EXPERTS,
    MF_MODULE_FILM,
    MF_MODULE_SKIPS,
    MF_MODULE_NORMS,
    MF_MODULE_HEAD,
    MF_MODULE_OTHER, /* of regularizers and controllers */
    MF_MODEL_MODULES
} mf_module;
mf_module mf_module_of(const char *param);
const char *mf_module_name(mf_module module); /* "embedding" */

#endif
