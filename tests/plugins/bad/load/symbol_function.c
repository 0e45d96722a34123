/* A function has the descriptor's name. */
#define NO_DESCRIPTOR
#include "../bad.h"

MF_VISIBLE int moefw_plugin(void);
int moefw_plugin(void)
{
    return 0;
}
