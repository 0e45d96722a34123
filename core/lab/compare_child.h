/* lab/compare_child.h: a run of a comparison, seen from the process that makes it.
 *
 * PROGRAM --compared-run PARENT VERB...: VERB... as from the command line, but saved and ended
 * when the process PARENT dies. Only the program itself asks for it.
 */
#ifndef MF_LAB_COMPARE_CHILD_H
#define MF_LAB_COMPARE_CHILD_H

#define MF_COMPARE_CHILD "--compared-run"

/* MF_EUSAGE when it was called by hand, MF_ERUN when the parent is gone already. */
int mf_compare_child_begin(int argc, char **argv);

#endif
