/* Prepares a unit test to work like the program. Settings of the user and of the system are not
 * read, so a test depends neither on the user nor on the machine. */
#include <stdio.h>
#include <stdlib.h>
#include "base/file/paths.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

bool program_ready(int *ret_status)
{
    const char *program = getenv("MOEFW");
    *ret_status = program ? 99 : 0;
    if (program)
        mf_paths_set_program(program);
    else
        puts("1..0 # SKIP the variable MOEFW does not name the program");
    mf_paths_set_settings(scratch_path("etc")); /* this folder does not exist */
    return program && setenv("XDG_CONFIG_HOME", scratch_dir(), 1) == 0;
}
