/* The name of the descriptor is the name of a function here. */
#define NO_DESCRIPTOR
#include "../bad.h"

MF_VISIBLE int moefw_plugin(void);
int moefw_plugin(void)
{
    return 0;
}
