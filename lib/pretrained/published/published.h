/* pretrained/published/published.h: the form of a published model for a run that was not
 * imported: which family can express its function, the text of its config.json, the names and
 * shapes of its tensors, and the small files beside them.
 *
 * The tables of the families are used in reverse. A config.json is written from the run's
 * settings, read again by the family, and the settings that it then means are compared with
 * those of the run. So a form is used only if an import of the folder gives the same model. */
#ifndef MF_PRETRAINED_PUBLISHED_H
#define MF_PRETRAINED_PUBLISHED_H

#include "pretrained/record.h"
#include "run/session.h"

/* Makes the record of a run whose model is open in the session. as: name of the family;
 * NULL: the first published form that can express the model. MF_EUSAGE: no such form, with
 * the nearest name; MF_EINPUT: no form expresses the model, with the first option that
 * differs and its value in the nearest form; errors of loading plugins; MF_ENOMEM. The
 * caller frees *ret. */
int mf_published_make(const mf_session *s, const char *as, mf_record **ret);
/* Adds the small files to the record: generation_config.json, README.md and, if `tokenizer` is
 * set and the run has one, the tokenizer. run: the run directory. MF_EINPUT: the tokenizer has
 * no published form; MF_ENOMEM. */
int mf_published_files(const mf_session *s, const char *run, bool tokenizer, mf_record *record);

/* Whether a small file belongs to a tokenizer. */
bool mf_published_is_tokenizer(const char *name);

#endif
