/* plugin/host.h: the table of functions that plugins call; moefw/host.h documents
 * each function. */
#ifndef MF_PLUGIN_HOST_H
#define MF_PLUGIN_HOST_H

#include <moefw/host.h>

const mf_host *mf_plugin_host(void);

/* A hook that receives every op that a plugin adds. It adds the op itself (mf_graph_op), or
 * another value instead. The hook is used for checks and belongs to the calling thread; NULL
 * removes it. */
typedef mf_tensor *(*mf_op_hook)(void *arg, mf_graph *g, const mf_opdef *def, int n_in,
                                 mf_tensor *const *in, const mf_attr *attr, int n_out,
                                 mf_tensor **ret_out);
void mf_plugin_hook_ops(mf_op_hook hook, void *arg);

#endif
