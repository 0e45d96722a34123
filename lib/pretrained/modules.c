/* pretrained/modules.c: copies the folders of further modules beside a model.
 *
 * sentence-transformers lists in modules.json what follows the model, such as a pooling of its
 * positions, each with a folder. They are no part of what is computed here, but an export
 * without them could not be opened by that program. Only folders directly below the model's are
 * taken, and of them the files directly in them, byte for byte. */
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "pretrained/folder.h"
#include "pretrained/record.h"

enum { LIST_MAX = 1 << 20 };

/* Whether a path is the name of a folder, without a way to another place. */
static bool is_name(const char *path)
{
    return path && path[0] != '\0' && path[0] != '.' && !strchr(path, '/');
}

static int copy_folder(const char *from, const char *to)
{
    char **names = NULL;
    int n = 0, rc = mf_list_dir(from, &names, &n);
    if (rc == MF_OK) rc = mf_mkdirs(to);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        char *old = mf_path_join(from, names[i]), *new = mf_path_join(to, names[i]);
        if (!old || !new)
            rc = MF_ENOMEM;
        else if (names[i][0] != '.' && !mf_is_dir(old))
            rc = mf_record_copy_file(old, new);
        mf_free(old);
        mf_free(new);
    }
    mf_list_free(names, n);
    return rc;
}

int mf_modules_copy(const char *from, const char *to)
{
    mf_json *list = NULL;
    char *path = mf_path_join(from, "modules.json");
    int rc = path ? MF_OK : MF_ENOMEM;
    /* A list that cannot be read is another program's matter, and names nothing here. */
    if (rc == MF_OK && mf_exists(path)) {
        const int read = mf_folder_json(path, LIST_MAX, &list);
        if (read == MF_ENOMEM)
            rc = read;
        else if (read != MF_OK)
            mf_error_clear();
    }
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(list); i++) {
        const char *name = mf_json_string(mf_json_get(mf_json_at(list, i), "path"), NULL);
        if (!is_name(name)) continue;
        char *old = mf_path_join(from, name), *new = mf_path_join(to, name);
        if (!old || !new)
            rc = MF_ENOMEM;
        else if (mf_is_dir(old) && !mf_exists(new))
            rc = copy_folder(old, new);
        mf_free(old);
        mf_free(new);
    }
    mf_json_free(list);
    mf_free(path);
    return rc;
}
