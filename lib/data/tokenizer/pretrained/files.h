/* data/tokenizer/pretrained/files.h: the files of a pretrained tokenizer, which it keeps
 * unchanged, and the functions that make a tokenizer from them. */
#ifndef MF_DATA_PRETRAINED_FILES_H
#define MF_DATA_PRETRAINED_FILES_H

#include "data/tokenizer/tokenizer.h"

/* The files that may belong to a tokenizer. */
typedef enum mf_pt_file {
    MF_PT_TOKENIZER, /* tokenizer.json */
    MF_PT_VOCAB,     /* vocab.json, used with merges.txt */
    MF_PT_MERGES,    /* merges.txt */
    MF_PT_LIST,      /* vocab.txt of WordPiece */
    MF_PT_CONFIG,    /* tokenizer_config.json */
    MF_PT_SPECIALS,  /* special_tokens_map.json */
    MF_PT_CHAT,      /* chat_template.jinja */
    MF_PT_FILES
} mf_pt_file;
extern const char *const mf_pt_file_name[MF_PT_FILES];

typedef struct mf_pt_files {
    char *text[MF_PT_FILES]; /* content of each file; NULL: the file is missing */
    size_t n[MF_PT_FILES];
    /* the files come from the tokenizer file of a run. They were checked when they were
     * imported, so warnings are not repeated. */
    bool kept;
} mf_pt_files; /* {0} is empty */
/* Makes a tokenizer from the files of a folder. The caller frees it. Errors: MF_ENOTFOUND if
 * the folder has no vocabulary that can be read; MF_EINPUT, with the reason;
 * MF_EIO, MF_ENOMEM. */
int mf_pretrained_read_folder(const char *folder, mf_tokenizer **ret);
/* Whether the document is a tokenizer.json. */
bool mf_pretrained_is(const mf_json *document);
/* Makes a tokenizer from the text of a single tokenizer.json, whose parsed form
 * is `document`. */
int mf_pretrained_read_text(const char *source, const char *text, size_t n,
                            const mf_json *document, mf_tokenizer **ret);

#endif
