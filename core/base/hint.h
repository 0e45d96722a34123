/* base/hint.h: text that a program adds to messages, so that its user knows what to type.
 *
 * The library's messages name no option of a command line. Where an option would help, the
 * message contains a hint. Hints are empty until the program sets its own hints, once, before
 * it starts any thread. */
#ifndef MF_BASE_HINT_H
#define MF_BASE_HINT_H

typedef enum mf_hint {
    MF_HINT_RESUME,     /* follows a refusal of a directory with files: how to continue the run
                         * in it */
    MF_HINT_DATA,       /* begins a message about a data file: the option that named the file */
    MF_HINT_OTHER_DATA, /* follows "data.path": how to name another file */
    MF_HINT_SOME_DATA,  /* follows "no data": how to name a file */
    MF_HINT_UNSAFE,     /* follows a refusal of a plugin file that other users can change */
    MF_HINT_PATHS,      /* follows a refusal of a plugin that only a configuration names */
    MF_HINTS
} mf_hint;

/* hints: [MF_HINTS] texts that stay valid until the process ends */
void mf_hints_set(const char *const *hints);
const char *mf_hint_text(mf_hint hint); /* returns "" if the program has set no such hint */

#endif
