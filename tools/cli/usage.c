/* Prints help on the terminal and the manual's lists. Both are generated from the tables, so
 * they agree. */
#include "base/text/wrap.h"
#include "cli/cli.h"
#include "cli/cli_parse.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WIDTH  80
#define COLUMN 26 /* column where the second column of text begins */

void mf_cli_wrapped(const char *text, int at)
{
    mf_wrap_put(stdout, WIDTH - 1, at, text);
}

/* The length of a paragraph that begins with a line that is too long. A further line belongs to
 * the paragraph if it does not begin with a blank and the line before it is nearly full. */
static size_t paragraph(const char *text)
{
    enum { FULL = WIDTH - 15 };
    size_t n = strcspn(text, "\n"), last = n;
    while (last >= FULL && text[n] == '\n' && text[n + 1] != '\0' && text[n + 1] != ' ') {
        last = strcspn(text + n + 1, "\n");
        n += 1 + last;
    }
    return n;
}

/* Prints lines as they are; paragraphs with a line that is too long are wrapped as a whole. */
static void notes(const char *text)
{
    while (*text != '\0') {
        char line[1024];
        size_t n = strcspn(text, "\n");
        const bool fits = n < WIDTH;
        if (!fits) n = paragraph(text);
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        for (char *c = line; *c; c++)
            if (*c == '\n') *c = ' ';
        if (fits)
            puts(line);
        else
            mf_cli_wrapped(line, 0);
        text += n + (text[n] == '\n');
    }
}

static void row(const char *left, const char *right)
{
    int n = printf("  %s", left);
    if (n + 2 > COLUMN)
        printf("\n%*s", COLUMN, "");
    else
        printf("%*s", COLUMN - n, "");
    mf_cli_wrapped(right, COLUMN);
}

/* Whether the text contains each of the words. */
static bool names_all(const char *text, const char *const *words)
{
    for (; *words; words++) {
        const size_t n = strlen(*words);
        const char *at = strstr(text, *words);
        while (at &&
               ((at > text && isalnum((unsigned char)at[-1])) || isalnum((unsigned char)at[n])))
            at = strstr(at + 1, *words);
        if (!at) return false;
    }
    return true;
}

static void option_row(const mf_cli_option *o)
{
    char left[96], right[512];
    int n = 0;
    if (o->letter != 0)
        n = snprintf(left, sizeof left, "-%c, --%s", o->letter, o->name);
    else
        n = snprintf(left, sizeof left, "    --%s", o->name);
    if (o->kind != MF_CLI_FLAG) snprintf(left + n, sizeof left - (size_t)n, "=%s", o->arg);
    n = snprintf(right, sizeof right, "%s", o->help);
    if (o->kind == MF_CLI_ENUM && !names_all(o->help, o->choices))
        for (int i = 0; o->choices[i] && n < (int)sizeof right - 1; i++)
            n += snprintf(right + n, sizeof right - (size_t)n, "%s%s", i == 0 ? ": " : ", ",
                          o->choices[i]);
    if (o->also && n < (int)sizeof right - 1)
        snprintf(right + n, sizeof right - (size_t)n, "; also --%s", o->also);
    row(left, right);
}

/* Prints the options under a title. action: only options that this action accepts; NULL:
 * all options. */
static void option_rows(const char *title, const mf_cli_option *o, const char *action)
{
    bool any = false;
    for (; o && o->name != NULL; o++) {
        if (action && o->of && !mf_cli_listed(o->of, action)) continue;
        if (!any) printf("\n%s:\n", title);
        any = true;
        option_row(o);
    }
}

/* Prints the help of a form that the user named. */
static void action_help(const mf_verb *v, const mf_cli_form *f)
{
    printf("Usage: moefw %s %s [OPTION]...%s%s\n", v->name, f->action, f->operands ? " " : "",
           f->operands ? f->operands : "");
    mf_cli_wrapped(f->help, 0);
    option_rows("Options", v->options, f->action);
    option_rows("Options of every verb", mf_cli_globals, NULL);
}

static void verb_help(const mf_verb *v)
{
    const char *label = "Usage:";
    for (const mf_cli_form *f = v->forms; f && f->min >= 0; f++) {
        if (f->action && !f->help) continue;
        printf("%s moefw %s%s%s [OPTION]...%s%s\n", label, v->name, f->action ? " " : "",
               f->action ? f->action : "", f->operands ? " " : "",
               f->operands ? f->operands : "");
        label = "      ";
    }
    printf("%c%s.\n", v->brief[0] - ('a' <= v->brief[0] && v->brief[0] <= 'z' ? 32 : 0),
           v->brief + 1);
    const mf_cli_form *first = v->forms;
    if (first && first->action) {
        printf("\nActions:\n");
        for (const mf_cli_form *f = first; f->min >= 0; f++)
            if (f->help) row(f->action, f->help);
    }
    option_rows("Options", v->options, NULL);
    option_rows("Options of every verb", mf_cli_globals, NULL);
    if (v->notes) {
        putchar('\n');
        notes(v->notes);
    }
}

void mf_cli_start(void)
{
    printf(
        "moefw trains and compares Mixture-of-Experts transformers; routers are plugins.\n\n");
    row("moefw train", "train the default model, a minute on two cores");
    row("moefw train --data FILE", "train it on a text of your own");
    row("moefw generate RUN", "continue a text with a trained run");
    row("moefw compare", "compare all routers, with error bars");
    row("moefw plugin new router mine", "begin a router of your own: one C file");
    row("moefw --help", "all verbs; 'moefw VERB --help' has their options");
}

void mf_cli_help(const mf_verb *verb, const char *action)
{
    for (const mf_cli_form *f = verb ? verb->forms : NULL; action && f && f->min >= 0; f++)
        if (f->action && f->help && strcmp(f->action, action) == 0) {
            action_help(verb, f);
            return;
        }
    if (verb) {
        verb_help(verb);
        return;
    }
    printf("Usage: moefw [OPTION]... VERB [OPERAND]...\n"
           "Train and compare Mixture-of-Experts transformers; routers are plugins.\n"
           "Without a verb: train the default preset, as in\n"
           "  moefw --plugin routers/hash.so\n"
           "\nVerbs:\n");
    for (int i = 0; mf_verbs[i] != NULL; i++)
        row(mf_verbs[i]->name, mf_verbs[i]->brief);
    option_rows("Options", mf_cli_globals, NULL);
    printf("\n'moefw VERB --help' tells more; so do moefw(1), moefw.ini(5), moefw-run(5) and\n"
           "moefw-plugin(7).\n"
           "Exit status: 0 ok, 1 failed, 2 usage or configuration, 3 bad input or\n"
           "checkpoint, 4 plugin refused, 5 diverged, 6 dependency missing, 7 another\n"
           "process of the run lost, 75 time limit.\n");
}

/* ---- the manual ---- */

/* Prints a phrase as a line. A dot or quote at its start would make it a macro call. */
static void mdoc_line(const char *text, const char *end)
{
    printf("%s", text[0] == '.' || text[0] == '\'' ? "\\&" : "");
    for (; *text != '\0'; text++)
        if (*text == '\\')
            printf("\\e");
        else
            putchar(*text);
    printf("%s\n", end);
}

static void mdoc_option(const mf_cli_option *o)
{
    printf(".It");
    if (o->letter != 0) printf(" Fl %c ,", o->letter);
    printf(" Fl Fl %s", o->name);
    if (o->kind != MF_CLI_FLAG) printf(" Ns = Ns Ar \"%s\"", o->arg);
    putchar('\n');
    mdoc_line(o->help, "");
    if (o->kind == MF_CLI_ENUM)
        for (int i = 0; o->choices[i] != NULL; i++)
            printf("%s%s%s", i == 0 ? ".Pq Cm " : " | ", o->choices[i],
                   !o->choices[i + 1] ? "\n" : "");
    if (o->set) printf(".Pq sets Cm %s\n", o->set);
    if (o->also) printf(".Pq also Fl Fl %s\n", o->also);
}

static void mdoc_options(const mf_cli_option *o)
{
    if (!o || !o->name) return;
    printf(".Bl -tag -width indent\n");
    for (; o->name != NULL; o++)
        mdoc_option(o);
    printf(".El\n");
}

/* Prints a form after .Nm or .It: "train [CONFIG]" becomes Cm train Op Ar "CONFIG". */
static void mdoc_form(const char *macro, const mf_verb *v, const mf_cli_form *f)
{
    const char *operands = f->operands;
    const size_t n = operands ? strlen(operands) : 0;
    printf("%s Cm %s", macro, v->name);
    if (f->action) printf(" Cm %s", f->action);
    if (n > 1 && operands[0] == '[' && strchr(operands, ']') == operands + n - 1)
        printf(" Op Ar \"%.*s\"", (int)n - 2, operands + 1);
    else if (n > 0)
        printf(" Ar \"%s\"", operands);
    putchar('\n');
}

void mf_cli_synopsis(void)
{
    for (int i = 0; mf_verbs[i] != NULL; i++)
        for (const mf_cli_form *f = mf_verbs[i]->forms; f->min >= 0; f++)
            if (!f->action || f->help) mdoc_form(".Nm", mf_verbs[i], f);
}

void mf_cli_manual(void)
{
    printf(".Ss Options of every verb\n");
    mdoc_options(mf_cli_globals);
    for (int i = 0; mf_verbs[i] != NULL; i++) {
        const mf_verb *v = mf_verbs[i];
        printf(".Ss %s: %s\n", v->name, v->brief);
        if (v->forms->action) {
            printf(".Bl -tag -width indent\n");
            for (const mf_cli_form *f = v->forms; f->min >= 0; f++) {
                if (!f->help) continue;
                mdoc_form(".It", v, f);
                mdoc_line(f->help, ".");
            }
            printf(".El\n");
        } else if (v->forms->help) {
            mdoc_line(v->forms->help, ".");
        }
        mdoc_options(v->options);
    }
}
