/* data/members/learned.c: reads whether a line or a message is learned. The author of a file
 * writes such a member on purpose, so none is ignored. */
#include "data/members/learned.h"

#include <string.h>

bool mf_learned_names(const char *key)
{
    static const char *const names[] = {"weight", "train", "training", "loss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(key, names[i]) == 0) return true;
    return false;
}

bool mf_learned_value(const mf_json *v, bool *ret)
{
    double number;
    if (mf_json_bool(v, ret)) return true;
    if (!mf_json_real(v, &number) || (number != 0 && number != 1)) return false;
    *ret = number == 1;
    return true;
}

bool mf_learned_not(const mf_json *object)
{
    const char *key;
    const mf_json *v;
    bool on;
    for (size_t i = 0; mf_json_member(object, i, &key, &v); i++)
        if (mf_learned_names(key) && mf_learned_value(v, &on) && !on) return true;
    return false;
}
