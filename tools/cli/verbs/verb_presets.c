/* moefw presets: lists the presets, each with its purpose. The texts are the comments at the
 * beginning of the preset files. */
#include "cli/cli.h"

#include "io/json.h"
#include "base/text/shown.h"
#include "cli/table.h"
#include "run/sections/sources.h"

#include <stdio.h>

static int put_json(mf_jw *w, mf_arena *arena, const char *const *names)
{
    int rc = MF_OK;
    mf_jw_array(w);
    for (int i = 0; rc == MF_OK && names[i]; i++) {
        const char *brief;
        rc = mf_config_preset_brief(arena, names[i], &brief);
        if (rc != MF_OK) break;
        mf_jw_object(w);
        mf_jw_kv_string(w, "preset", names[i]);
        mf_jw_kv_string(w, "brief", brief);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    const char *text = rc == MF_OK ? mf_jw_text(w, NULL) : NULL;
    if (text) puts(text);
    return rc == MF_OK && !text ? MF_ENOMEM : rc;
}

static int print(mf_arena *arena, const char *const *names)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && names[i]; i++) {
        const char *brief;
        rc = mf_config_preset_brief(arena, names[i], &brief);
        if (rc == MF_OK) printf("%-30s %s\n", mf_shown(names[i]), mf_shown(brief));
    }
    return rc;
}

static int run(const mf_cli *cli)
{
    mf_arena *arena = mf_arena_new();
    mf_jw *w = mf_jw_new();
    int rc = arena && w ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) {
        const char *const *names = mf_config_preset_names(arena);
        rc = mf_cli_json(cli) ? put_json(w, arena, names) : print(arena, names);
    }
    mf_jw_free(w);
    mf_arena_free(arena);
    return rc;
}

static const mf_cli_form forms[] = {{NULL, NULL, 0, 0, "list the presets"}, MF_CLI_FORM_END};

const mf_verb mf_verb_presets = {.name = "presets",
                                 .brief = "list the presets, each with what it is for",
                                 .forms = forms,
                                 .run = run,
                                 .plain = true,
                                 .notes = "'moefw train PRESET' trains one, 'moefw config show "
                                          "PRESET' prints all its keys.\n"};
