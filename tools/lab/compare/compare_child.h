/* lab/compare/compare_child.h: a run of a comparison, in the process that executes it.
 *
 * PROGRAM --compared-run PARENT [/FILE...] VERB... does the same as PROGRAM VERB... on the
 * command line. In addition, it saves and ends if the process PARENT dies, and it may load the
 * FILEs as plugins. Only the program itself uses this form. */
#ifndef MF_LAB_COMPARE_CHILD_H
#define MF_LAB_COMPARE_CHILD_H

#define MF_COMPARE_CHILD "--compared-run"

/* Fails with MF_EUSAGE if an argument is missing or PARENT is not a number, with MF_ERUN if
 * PARENT is not the parent process, because it has ended. *ret_skip: number of arguments before
 * VERB, without argv[0]. */
int mf_compare_child_begin(int argc, char **argv, int *ret_skip);

#endif
