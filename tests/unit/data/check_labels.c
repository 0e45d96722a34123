/* labels of tokens: domains from a member of jsonl, from folders and from a file of ids. */
#include "check_main.h"

#include "base/error.h"
#include "data/batch.h"
#include "data/corpus.h"
#include "tests/lib/corpora.h"
#include "tests/lib/scratch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The labels of a split, as letters: 'a' is label 0. */
static const char *labels_of(const mf_corpus *c, mf_split split)
{
    static char text[256];
    const mf_split_range *r = &c->split[split];
    const int64_t begin = c->spans ? c->spans[r->begin].begin : r->begin;
    for (int64_t i = 0; i < r->tokens; i++)
        text[i] = (char)('a' + c->labels[begin + i]);
    text[r->tokens] = '\0';
    return text;
}

START_TEST(member_of_jsonl)
{
    mf_corpus_spec s = corpus_spec(
        text_file("l.jsonl", "{\"text\":\"xx\",\"topic\":\"sea\"}\n"
                             "{\"text\":\"yyy\",\"topic\":\"law\"}\n"
                             "{\"prompt\":\"p\",\"answer\":\"q\",\"topic\":\"sea\"}\n"),
        "jsonl");
    s.split = 1;
    mf_corpus *c = corpus_load(&s);
    ck_assert(!c->labels && c->n_labels == 0);
    mf_corpus_free(c);
    s.labels = "topic";
    c = corpus_load(&s);
    ck_assert(c->given_labels);
    ck_assert_int_eq(c->n_labels, 2);
    ck_assert_str_eq(c->label_names[0], "law"); /* in the order of bytes */
    ck_assert_str_eq(c->label_names[1], "sea");
    ck_assert_int_eq(strncmp(labels_of(c, MF_SPLIT_TRAIN), "bbaaabb", 7), 0);

    /* Batches have the labels, and say of which document an example is. */
    mf_batch_spec b;
    mf_batcher *batcher;
    mf_batch *batch;
    mf_batch_defaults(&b);
    b.order = MF_ORDER_SEQUENTIAL;
    b.rows = 2;
    b.seq = 4;
    ck_assert_int_eq(mf_batcher_new(c, &b, &batcher), MF_OK);
    ck_assert_int_eq(mf_batch_new(2, 4, &batch), MF_OK);
    mf_batcher_fill(batcher, 0, batch);
    ck_assert_int_eq(batch->labels[0], 1);
    ck_assert_int_eq(batch->labels[1], -1); /* padding: one input of two tokens */
    ck_assert_int_eq(batch->labels[4], 0);
    ck_assert_int_eq(mf_batcher_document(batcher, 0, 1), 1);
    ck_assert_int_eq(mf_batcher_document(batcher, 1, 0), 2);
    ck_assert_int_eq(mf_batcher_document(batcher, 1, 1), -1);
    mf_batch_free(batch);
    mf_batcher_free(batcher);
    mf_corpus_free(c);

    s.val_path = text_file("v.jsonl", "{\"text\":\"a\",\"topic\":\"sea\"}\n");
    c = corpus_load(&s);
    ck_assert_str_eq(labels_of(c, MF_SPLIT_VAL), "b");
    mf_corpus_free(c);
    s.val_path = text_file("v.jsonl", "{\"text\":\"a\",\"topic\":\"sky\"}\n");
    corpus_refuse(&s, MF_EINPUT,
                  "label \"sky\" does not occur in the training data (there are 2");
    s.val_path = NULL;
    static const char *const names[] = {"air", "law", "sea"};
    s.label_names = names; /* an earlier run had three labels */
    s.n_label_names = 3;
    c = corpus_load(&s);
    ck_assert_int_eq(c->n_labels, 3);
    ck_assert_int_eq(strncmp(labels_of(c, MF_SPLIT_TRAIN), "ccbbbcc", 7), 0);
    mf_corpus_free(c);
    s.n_label_names = 2;
    corpus_refuse(&s, MF_EINPUT, "label \"sea\" does not occur in the training data");
    s.label_names = NULL;
    s.labels = "subject";
    corpus_refuse(&s, MF_EINPUT,
                  "l.jsonl:1: no \"subject\", the member that data.labels names");
    s.path = text_file("l.jsonl", "{\"text\":\"xx\",\"subject\":[1]}\n");
    corpus_refuse(&s, MF_EINPUT, "l.jsonl:1: \"subject\": expected a string or a whole number");
}
END_TEST

START_TEST(limit_and_pick)
{
    mf_corpus_spec s = corpus_spec(
        text_file("p.jsonl", "{\"text\":\"x\",\"d\":2}\n{\"text\":\"yy\",\"d\":10}\n"
                             "{\"text\":\"zzz\",\"d\":2}\n{\"text\":\"uuuu\",\"d\":10}\n"),
        "jsonl");
    s.labels = "d";
    s.split = 0.5;
    s.limit = 3;
    s.pick_random = true;
    mf_corpus *c = corpus_load(&s);
    ck_assert_str_eq(c->label_names[1], "10"); /* by value */
    for (int64_t i = 0; i < 3; i++) /* documents with an even number of bytes have label 10 */
        ck_assert_int_eq(c->labels[c->spans[i].begin], c->spans[i].n % 2 == 0);
    mf_corpus_free(c);
}
END_TEST

static void domain(const char *folder, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "texts/%s", folder);
    mkdir(scratch_path("texts"), 0777);
    mkdir(scratch_path(path), 0777);
    snprintf(path, sizeof path, "texts/%s/%s", folder, name);
    text_file(path, text);
}

START_TEST(folders)
{
    domain("bio", "2.txt", "cells ");
    domain("bio", "1.txt", "more");
    domain("law", "a.txt", "0123456789");
    domain("law", ".hidden", "no");
    mf_corpus_spec s = corpus_spec(scratch_path("texts"), NULL);
    s.split = 0.5;
    s.labels = "folder";
    mf_corpus *c = corpus_load(&s);
    /* Both splits have both domains. */
    ck_assert_str_eq(c->label_names[0], "bio");
    ck_assert_int_eq(c->split[MF_SPLIT_TRAIN].tokens, 10);
    ck_assert_str_eq(labels_of(c, MF_SPLIT_TRAIN), "aaaaabbbbb");
    ck_assert_str_eq(labels_of(c, MF_SPLIT_VAL), "aaaaabbbbb");
    ck_assert_int_eq(mf_corpus_id(c, 0), 'm');
    ck_assert_int_eq(mf_corpus_id(c, 5), '0');
    ck_assert_int_eq(mf_corpus_id(c, c->split[MF_SPLIT_VAL].begin + 5), '5');
    ck_assert_uint_eq(c->split[MF_SPLIT_VAL].bytes, 10);
    mf_corpus_free(c);

    char pattern[512];
    snprintf(pattern, sizeof pattern, "%s/*/*.txt", scratch_path("texts"));
    s.path = pattern;
    s.split = 1;
    s.val_path = scratch_path("texts");
    c = corpus_load(&s);
    ck_assert_str_eq(labels_of(c, MF_SPLIT_VAL), "aaaaaaaaaabbbbbbbbbb");
    mf_corpus_free(c);
    s.val_path = NULL;
    s.clean = true;
    corpus_refuse(&s, MF_ECONFIG, "data.labels = folder: expected data.clean = no");
    s.clean = false;
    domain("json", "a.txt", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
    corpus_refuse(&s, MF_EINPUT, "reads text, and this file seems to be jsonl");
    s.path = scratch_path("texts/law");
    corpus_refuse(&s, MF_EINPUT, "a file beside the folders of the domains");
    s.path = text_file("flat.txt", "text");
    s.labels = "topic";
    corpus_refuse(&s, MF_ECONFIG, "plain text has no such member: expected folder");
    mkdir(scratch_path("none"), 0777);
    s.path = scratch_path("none");
    s.labels = "folder";
    corpus_refuse(&s, MF_EINPUT, "no folders of domains");
}
END_TEST

static const char *ids(const char *name, int n, const uint16_t *id)
{
    scratch_write(scratch_path(name), id, (size_t)n * sizeof *id);
    return scratch_path(name);
}

START_TEST(file_of_ids)
{
    static const uint16_t tokens[6] = {9, 8, 7, 6, 5, 4}, labels[6] = {0, 0, 2, 2, 1, 1},
                          high[6] = {0, 0, 0, 0, 0, 255};
    mf_corpus_spec s = corpus_spec(ids("t.bin", 6, tokens), "bin");
    s.split = 0.5;
    s.labels_path = ids("l.bin", 6, labels);
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->n_labels, 3);
    ck_assert_str_eq(c->label_names[2], "2");
    ck_assert_str_eq(labels_of(c, MF_SPLIT_TRAIN), "aac");
    ck_assert_str_eq(labels_of(c, MF_SPLIT_VAL), "cbb");
    mf_corpus_free(c);
    s.labels_path = ids("l.bin", 5, labels);
    corpus_refuse(&s, MF_EINPUT, "5 labels: expected one for each of the 6 tokens of");
    s.labels_path = ids("l.bin", 6, high);
    corpus_refuse(&s, MF_EINPUT, "label 255: expected labels from 0 to 254");
    s.labels_path = scratch_path("absent.bin");
    corpus_refuse(&s, MF_ENOTFOUND, "data.labels_path");
    s.labels_path = NULL;
    s.labels = "topic";
    corpus_refuse(&s, MF_ECONFIG, "found labels = topic with token files");
    s = corpus_spec(text_file("l.tsv", "text\tlabel\na\tb\n"), "tsv");
    s.labels = "label";
    corpus_refuse(&s, MF_ECONFIG, "found labels = label with tsv");
    s = corpus_spec("builtin:topics?bytes=1000", NULL);
    s.labels = "folder";
    corpus_refuse(&s, MF_ECONFIG, "has labels of its own: expected none");
}
END_TEST

/* Other data for a run with labels. */
START_TEST(other_data)
{
    static const char *const names[] = {"law", "sea"};
    mf_corpus_spec s = corpus_spec(
        text_file("o.jsonl", "{\"text\":\"xx\",\"topic\":\"sea\"}\n{\"text\":\"y\"}\n"
                             "{\"text\":\"z\",\"topic\":\"sky\"}\n"),
        NULL);
    s.split = 1;
    s.labels = "topic";
    s.label_names = names;
    s.n_label_names = 2;
    corpus_refuse(&s, MF_EINPUT, "o.jsonl:2: no \"topic\"");
    s.labels_optional = true;
    mf_corpus *c = corpus_load(&s);
    ck_assert(c->labels[0] == 1 && c->labels[2] == MF_NO_LABEL && c->labels[3] == MF_NO_LABEL);
    mf_batch_spec b;
    mf_batcher *batcher;
    mf_batch *batch;
    mf_batch_defaults(&b);
    b.order = MF_ORDER_SEQUENTIAL;
    b.rows = 3;
    b.seq = 2;
    b.task = MF_TASK_LM;
    ck_assert_int_eq(mf_batcher_new(c, &b, &batcher), MF_OK);
    ck_assert_int_eq(mf_batch_new(3, 2, &batch), MF_OK);
    mf_batcher_fill(batcher, 0, batch);
    ck_assert_int_eq(batch->labels[0], 1);
    ck_assert_int_eq(batch->labels[2], -1);
    mf_batch_free(batch);
    mf_batcher_free(batcher);
    mf_corpus_free(c);
    const char *const plain[] = {text_file("plain.txt", "a text"),
                                 text_file("p.tsv", "text\tlabel\na\tb\n"),
                                 "builtin:topics?bytes=1000"};
    for (int i = 0; i < 3; i++) {
        s.path = plain[i];
        c = corpus_load(&s);
        ck_assert(!c->given_labels);
        mf_corpus_free(c);
    }
    s.labels = "folder";
    s.path = plain[0];
    c = corpus_load(&s);
    ck_assert(!c->labels);
    mf_corpus_free(c);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("labels");
    TCase *t = tcase_create("labels");
    tcase_add_test(t, member_of_jsonl);
    tcase_add_test(t, limit_and_pick);
    tcase_add_test(t, folders);
    tcase_add_test(t, file_of_ids);
    tcase_add_test(t, other_data);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
