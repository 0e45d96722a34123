/* This is the unchanged router, which must be accepted. */
#include "bad.h"
