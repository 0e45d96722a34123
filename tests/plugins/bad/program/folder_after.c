/* after_step changes the working folder, the umask and the locale of the program. */
#include <locale.h>
#include <moefw/moefw.h>
#include <sys/stat.h>
#include <unistd.h>
#define AFTER after
static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    (void)self;
    (void)ctx;
    (void)step;
    umask(0);
    setlocale(LC_ALL, "C.UTF-8");
    return chdir("/") == 0 ? MF_OK : MF_ERUN;
}
#include "../bad.h"
