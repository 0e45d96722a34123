/* fini aborts. */
#include <stdlib.h>
#define FINI end
static void end(void *self)
{
    (void)self;
    abort();
}
#include "../bad.h"
