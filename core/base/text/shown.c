/* This is the only code that decides which characters of a text of unknown origin are printed.
 * Each printed character occupies one column on one line, in the order of the bytes. */
#include "base/text/shown.h"
#include "base/thread/thread_memory.h"

#include <string.h>
#include <unistd.h>

#include "base/text/utf8.h"

bool mf_char_hidden(const char *at, size_t length)
{
    const unsigned char *c = (const unsigned char *)at;
    if (length == 1) return c[0] < 0x20 || c[0] == 0x7F;
    if (length == 2)
        return (c[0] == 0xC2 && c[1] < 0xA0) || /* U+0080 to U+009F */
               (c[0] == 0xD8 && c[1] == 0x9C);  /* U+061C, Arabic letter mark */
    if (length != 3 || c[0] != 0xE2) return false;
    return (c[1] == 0x80 && (c[2] == 0x8E || c[2] == 0x8F ||     /* U+200E, U+200F: marks */
                             (c[2] >= 0xA8 && c[2] <= 0xAE))) || /* U+2028 to U+202E */
           (c[1] == 0x81 && c[2] >= 0xA6 && c[2] <= 0xA9); /* U+2066 to U+2069: isolates */
}

char *mf_safe_text(const char *text, bool keep_newlines, char *out, size_t size)
{
    size_t n = strlen(text), used = 0;
    for (size_t i = 0; i < n && used + 5 < size;) {
        const size_t length = mf_utf8_length(text + i, n - i);
        const bool kept = keep_newlines && (text[i] == '\n' || text[i] == '\t');
        if (length == 0 || (mf_char_hidden(text + i, length) && !kept))
            out[used++] = '?';
        else
            for (size_t k = 0; k < length; k++)
                out[used++] = text[i + k];
        i += length > 0 ? length : 1;
    }
    if (size > 0) out[used] = '\0';
    return out;
}

static bool clean(const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        const size_t length = mf_utf8_length(text + i, n - i);
        if (length == 0 || mf_char_hidden(text + i, length)) return false;
        i += length;
    }
    return true;
}

const char *mf_shown(const char *text)
{
    typedef char copy[2048];
    static copy spare[8];
    static _Thread_local unsigned next;
    if (!text) return "";
    if (clean(text)) return text;
    copy *copies = mf_thread_memory(MF_THREAD_SHOWN, sizeof spare, spare);
    return mf_safe_text(text, false, copies[next++ % 8], sizeof copies[0]);
}

char *mf_shell_word(const char *text, char *out, size_t size)
{
    const bool plain =
        text[strcspn(text, " \t\n'\"\\$`*?[](){}<>|&;!#~")] == '\0' && text[0] != '\0';
    size_t n = (size_t)snprintf(out, size, "%s", plain ? text : "'");
    for (const char *at = text; !plain && *at != '\0' && n + 5 < size; at++)
        n += (size_t)snprintf(out + n, size - n, *at == '\'' ? "'\\''" : "%c", *at);
    if (!plain && n + 1 < size) snprintf(out + n, size - n, "'");
    return out;
}

const char *mf_shown_on(FILE *out, const char *text)
{
    return isatty(fileno(out)) ? mf_shown(text) : text;
}
