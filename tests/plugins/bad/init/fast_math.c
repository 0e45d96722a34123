/* The file is built with -Ofast: its start-up code changes arithmetic in the whole process. */
#include "../bad.h"
