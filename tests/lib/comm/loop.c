/* loop: a communicator module without functions of its own. check_world sets the functions, and
 * changes the contents of the table, because the module is mapped only once. */
#include <moefw/version.h>

#include "comm/table.h"

__attribute__((visibility("default"))) extern mf_comm_table moefw_comm;
mf_comm_table moefw_comm = {.magic = MF_COMM_MAGIC,
                            .size = sizeof(mf_comm_table),
                            .version = MOEFW_VERSION,
                            .name = "loop"};
