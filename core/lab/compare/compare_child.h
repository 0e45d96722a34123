/* lab/compare/compare_child.h: a run of a comparison, in the process that executes it.
 *
 * PROGRAM --compared-run PARENT VERB... does what VERB... does on the command line, but saves
 * and ends if the process PARENT dies. Only the program itself uses it. */
#ifndef MF_LAB_COMPARE_CHILD_H
#define MF_LAB_COMPARE_CHILD_H

#define MF_COMPARE_CHILD "--compared-run"

/* Fails with MF_EUSAGE if a user called it, with MF_ERUN if the parent has already ended. */
int mf_compare_child_begin(int argc, char **argv);

#endif
