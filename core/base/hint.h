/* base/hint.h: text that a program adds to messages, so that its user knows what to type.
 *
 * The library's messages name no option of a command line. Where one would help, the message
 * contains a hint. Hints are empty until the program sets its own, once, before it starts
 * any thread. */
#ifndef MF_BASE_HINT_H
#define MF_BASE_HINT_H

typedef enum mf_hint {
    MF_HINT_RESUME,     /* after a refusal of a directory with files: how to continue its run */
    MF_HINT_DATA,       /* begins a message about a data file: the option that named it */
    MF_HINT_OTHER_DATA, /* after "data.path": how to name another file */
    MF_HINT_SOME_DATA,  /* after "no data": how to name a file */
    MF_HINT_UNSAFE,     /* after a refusal of a plugin file that other users can change */
    MF_HINT_PATHS,      /* after a refusal of a plugin that only a configuration names */
    MF_HINTS
} mf_hint;

/* hints: [MF_HINTS] texts that live as long as the process. */
void mf_hints_set(const char *const *hints);
const char *mf_hint_text(mf_hint hint); /* "" if there is none */

#endif
