/* An option of type real has choices, which only whole numbers and enums may have. */
static const char *const words[] = {"auto", 0};
#define OPTIONS {"scale", "a number", "1", MF_OPT_REAL, 0, 0, 0, 10, words},
#include "../bad.h"
