/* plugin/host.h: the table of functions that plugins call (moefw/host.h says what each does). */
#ifndef MF_PLUGIN_HOST_H
#define MF_PLUGIN_HOST_H

#include <moefw/host.h>

const mf_host *mf_plugin_host(void);

#endif
