/* init calls a function of the program by name instead of through the host table. */
int mf_graph_secret(void);
#define BEFORE                                                                                 \
    if (mf_graph_secret() != 0) return MF_ERUN;
#include "../bad.h"
