/* checkpoint: a saved checkpoint is restored bit for bit. A damaged, truncated or failed save
 * is never used, and the previous checkpoint remains. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"
#include "run/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static const mf_provenance_plugin plugins[] = {
    {"hash", "router", "routers/hash.so", "00112233445566778899aabbccddeeff"}};
static const mf_provenance identity = {.version = "1.0",
                                       .abi = 1,
                                       .threads = 2,
                                       .kernels = "cpu",
                                       .cpu = "some",
                                       .blas = "",
                                       .plugins = plugins,
                                       .n_plugins = 1};

/* Makes a small store with parameters of ranks 0 to 3. The seed determines the values. */
static mf_store *make_store(uint64_t seed)
{
    static const char *const names[] = {"emb", "layers.0.w", "layers.0.scale", "one"};
    const mf_shape shapes[] = {mf_shape2(5, 3), mf_shape3(2, 2, 2), mf_shape1(3), mf_shape0()};
    mf_init normal = {.kind = MF_INIT_NORMAL, .a = 1};
    mf_param *p;
    mf_store *s = mf_store_new();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(mf_store_declare(s, names[i], shapes[i], normal, false, &p), MF_OK);
    ck_assert_int_eq(mf_store_declare(s, "stat", mf_shape1(2), normal, true, &p), MF_OK);
    ck_assert_int_eq(mf_store_seal(s, seed, true), MF_OK);
    int64_t n;
    mf_store_values(s, &n);
    for (int64_t i = 0; i < n; i++) {
        mf_store_moment1(s)[i] = (float)((double)seed + (double)i / 8);
        mf_store_moment2(s)[i] = (float)((double)seed * 3 + (double)i / 16);
    }
    return s;
}

static mf_state *make_state(uint64_t seed)
{
    mf_state *s = mf_state_new();
    ck_assert_int_eq(mf_state_set_int(s, "tokens", (int64_t)seed * 1000000007), MF_OK);
    ck_assert_int_eq(mf_state_set_real(s, "val_loss", (double)NAN), MF_OK);
    ck_assert_int_eq(mf_state_set_real(s, "lr", 0.1 * (double)seed), MF_OK);
    ck_assert_int_eq(mf_state_set_blob(s, "plugin/a", &seed, sizeof seed), MF_OK);
    ck_assert_int_eq(mf_state_set_blob(s, "plugin/empty", NULL, 0), MF_OK);
    return s;
}

static bool same_params(const mf_store *a, const mf_store *b, bool moments)
{
    for (int i = 0; i < mf_store_count(a); i++) {
        const mf_param *x = mf_store_at(a, i), *y = mf_store_at(b, i);
        size_t bytes = (size_t)x->count * sizeof(float);
        if (memcmp(x->value, y->value, bytes) != 0) return false;
        if (!moments || x->buffer) continue;
        if (memcmp(mf_store_moment1(a) + x->offset, mf_store_moment1(b) + y->offset, bytes) !=
                0 ||
            memcmp(mf_store_moment2(a) + x->offset, mf_store_moment2(b) + y->offset, bytes) !=
                0)
            return false;
    }
    return true;
}

static bool same_state(const mf_state *s, uint64_t seed)
{
    int64_t tokens;
    double loss, lr;
    size_t n, empty = 1;
    const void *blob = mf_state_blob(s, "plugin/a", &n);
    return mf_state_int(s, "tokens", &tokens) && tokens == (int64_t)seed * 1000000007 &&
           mf_state_real(s, "val_loss", &loss) && isnan(loss) && mf_state_real(s, "lr", &lr) &&
           lr == 0.1 * (double)seed && blob && n == sizeof seed &&
           memcmp(blob, &seed, n) == 0 && mf_state_blob(s, "plugin/empty", &empty) &&
           empty == 0 && mf_state_name_at(s, 4) && !mf_state_name_at(s, 5);
}

static int save(const char *folder, int64_t step, uint64_t seed, int keep)
{
    mf_store *store = make_store(seed);
    mf_state *state = make_state(seed);
    int rc = mf_ckpt_save(folder, step, store, NULL, state, &identity, keep);
    mf_state_free(state);
    mf_store_free(store);
    return rc;
}

/* Resumes, and checks the content: the checkpoint of step s was made with seeds[s]. Returns the
 * step, or -1 for MF_ECHECKPOINT. */
static int64_t resume(const char *folder, const uint64_t *seeds)
{
    mf_store *store = make_store(99);
    mf_state *state = NULL;
    int64_t step = -1;
    int rc = mf_ckpt_resume(folder, store, &identity, &state, &step, NULL);
    if (rc == MF_OK) {
        mf_store *want = make_store(seeds[step]);
        ck_assert_msg(same_params(store, want, true), "step %d: other values", (int)step);
        ck_assert_msg(same_state(state, seeds[step]), "step %d: other state", (int)step);
        mf_store_free(want);
    } else {
        ck_assert_int_eq(rc, MF_ECHECKPOINT);
        ck_assert_ptr_null(state);
        step = -1;
    }
    mf_state_free(state);
    mf_store_free(store);
    return step;
}

static int64_t resume_any(const char *folder)
{
    static const uint64_t seeds[] = {100, 101, 102, 103, 104, 105, 106, 107, 108, 109};
    return resume(folder, seeds);
}

/* Removes the folder and returns its path. */
static const char *fresh(const char *name)
{
    const char *path = scratch_path(name);
    ck_assert_int_eq(mf_remove_tree(path), MF_OK);
    return path;
}

static int count(const char *folder, const char *part)
{
    char **names;
    int n, found = 0;
    ck_assert_int_eq(mf_list_dir(folder, &names, &n), MF_OK);
    for (int i = 0; i < n; i++)
        found += strstr(names[i], part) != NULL;
    mf_list_free(names, n);
    return found;
}

static bool verifies(const char *path)
{
    mf_ckpt_report r;
    ck_assert_int_eq(mf_ckpt_verify(path, &r), MF_OK);
    bool ok = r.ok;
    ck_assert_int_eq(ok, r.n_errors == 0);
    mf_ckpt_report_free(&r);
    return ok;
}

START_TEST(what_is_saved_comes_back)
{
    const char *folder = fresh("back");
    ck_assert_int_eq(resume_any(folder), -1); /* no checkpoint was saved yet */
    ck_assert_int_eq(save(folder, 4, 104, 0), MF_OK);
    ck_assert_int_eq(resume_any(folder), 4);
    ck_assert_int_eq(save(folder, 5, 105, 0), MF_OK);
    ck_assert_int_eq(resume_any(folder), 5);

    size_t n;
    char *latest = scratch_read(scratch_path("back/latest"), &n);
    ck_assert_str_eq(latest, "step-5\n");
    free(latest);

    /* mf_ckpt_load reads no moments, and can load any step. */
    mf_store *want = make_store(104), *store = make_store(99);
    int64_t step = 0;
    ck_assert_int_eq(mf_ckpt_load(folder, 4, store, &step), MF_OK);
    ck_assert_int_eq(step, 4);
    ck_assert(same_params(store, want, false));
    ck_assert_int_eq(mf_ckpt_load(folder, -1, store, &step), MF_OK);
    ck_assert_int_eq(step, 5);
    ck_assert_int_eq(mf_ckpt_load(folder, 3, store, NULL), MF_ECHECKPOINT);
    mf_store_free(want);
    mf_store_free(store);

    mf_ckpt_report r;
    ck_assert_int_eq(mf_ckpt_verify(scratch_path("back/step-5"), &r), MF_OK);
    ck_assert(r.ok);
    ck_assert_int_eq(r.step, 5);
    ck_assert_int_eq(r.tensors, 5);
    ck_assert_uint_gt(r.bytes, 5 * 3 * 4 * 3);
    mf_ckpt_report_free(&r);
}
END_TEST

START_TEST(old_ones_go)
{
    const char *folder = fresh("keep");
    int64_t *steps;
    int n;
    for (int step = 0; step < 6; step++)
        ck_assert_int_eq(save(folder, step, 100 + (uint64_t)step, 3), MF_OK);
    ck_assert_int_eq(mf_ckpt_list(folder, &steps, &n), MF_OK);
    ck_assert_int_eq(n, 3);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(steps[i], 5 - i);
    mf_free(steps);
    ck_assert_int_eq(count(folder, ""), 4);           /* 3 checkpoints, and the file `latest` */
    ck_assert_int_eq(save(folder, 5, 105, 1), MF_OK); /* the same step is saved again */
    ck_assert_int_eq(count(folder, ""), 2);
    ck_assert_int_eq(resume_any(folder), 5);
}
END_TEST

START_TEST(state_items)
{
    mf_state *s = mf_state_new();
    int64_t i = 7;
    double x = 7;
    size_t n;
    ck_assert_int_eq(mf_state_set_int(s, "b", 1), MF_OK);
    ck_assert_int_eq(mf_state_set_real(s, "a", 2), MF_OK);
    ck_assert_int_eq(mf_state_set_blob(s, "c", "xyz", 3), MF_OK);
    ck_assert(!mf_state_real(s, "b", &x) && x == 7);
    ck_assert(!mf_state_int(s, "a", &i) && i == 7);
    ck_assert(!mf_state_int(s, "none", &i) && i == 7);
    ck_assert_ptr_null(mf_state_blob(s, "a", &n));
    ck_assert_int_eq(mf_state_set_real(s, "c", 3), MF_OK); /* a new value replaces a value of
                                                            * any type */
    ck_assert_ptr_null(mf_state_blob(s, "c", &n));
    ck_assert(mf_state_real(s, "c", &x) && x == 3);
    ck_assert_str_eq(mf_state_name_at(s, 0), "a");
    ck_assert_str_eq(mf_state_name_at(s, 2), "c");
    ck_assert_ptr_null(mf_state_name_at(s, 3));
    mf_state_free(s);
}
END_TEST

/* Step 1 exists. A child saves step 2 and ends at its n-th IO call. Then step 1 or step 2 must
 * be restored completely. After the rename that publishes step 2, it must be step 2. */
START_TEST(killed_at_every_call)
{
    const char *folder = fresh("kill");
    int64_t last = 1;
    for (long nth = 1;; nth++) {
        ck_assert_int_eq(mf_remove_tree(folder), MF_OK);
        ck_assert_int_eq(save(folder, 1, 101, 2), MF_OK);
        pid_t child = fork();
        if (child == 0) {
            fault_io_exit(nth, 42);
            _exit(save(folder, 2, 102, 2) == MF_OK ? 0 : 1);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) &&
                          (WEXITSTATUS(status) == 42 || WEXITSTATUS(status) == 0),
                      "call %ld: status %x", nth, (unsigned)status);
        int64_t step = resume_any(folder);
        ck_assert_msg(step == 1 || step == 2, "call %ld: step %d", nth, (int)step);
        ck_assert_msg(step >= last, "call %ld: step 2 was there earlier", nth);
        last = step;
        ck_assert_int_eq(count(folder, ".tmp"), 0);
        /* no partial checkpoint ever had its final name */
        ck_assert_int_eq(count(folder, ".bad"), 0);
        ck_assert_int_eq(save(folder, 3, 103, 2), MF_OK);
        ck_assert_int_eq(resume_any(folder), 3);
        if (WEXITSTATUS(status) == 0) {
            ck_assert_int_eq(step, 2);
            ck_assert_int_gt(nth, 20);
            break;
        }
    }
}
END_TEST

/* The only checkpoint is replaced by another one of the same step. The old or the new
 * checkpoint must always exist. */
START_TEST(killed_while_replacing)
{
    const char *folder = fresh("replace");
    for (long nth = 1;; nth++) {
        ck_assert_int_eq(mf_remove_tree(folder), MF_OK);
        ck_assert_int_eq(save(folder, 1, 101, 1), MF_OK);
        pid_t child = fork();
        if (child == 0) {
            fault_io_exit(nth, 42);
            _exit(save(folder, 1, 105, 1) == MF_OK ? 0 : 1);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        mf_store *store = make_store(99), *old = make_store(101), *new = make_store(105);
        mf_state *state = NULL;
        int64_t step;
        ck_assert_int_eq(mf_ckpt_resume(folder, store, &identity, &state, &step, NULL), MF_OK);
        bool is_old = same_params(store, old, true), is_new = same_params(store, new, true);
        ck_assert_msg(is_old != is_new, "call %ld: neither", nth);
        ck_assert(same_state(state, is_old ? 101 : 105));
        mf_state_free(state);
        mf_store_free(store);
        mf_store_free(old);
        mf_store_free(new);
        ck_assert_int_eq(count(folder, ".tmp"), 0);
        if (WEXITSTATUS(status) == 0) {
            ck_assert(is_new);
            break;
        }
    }
}
END_TEST

/* ---- power failure: all data that were not synced before their rename are lost ---- */

enum { FDS = 256 };
static bool dirty[FDS], is_folder_synced;
static int names_given;

static int watched_open(const char *path, int flags, int mode)
{
    int fd = mf_io_default()->open(path, flags, mode);
    ck_assert_int_lt(fd, FDS);
    return fd;
}

static ssize_t watched_write(int fd, const void *buf, size_t n)
{
    dirty[fd] = true;
    is_folder_synced = false;
    return mf_io_default()->write(fd, buf, n);
}

static int watched_fsync(int fd)
{
    dirty[fd] = false;
    is_folder_synced = true;
    return mf_io_default()->fsync(fd);
}

static int watched_close(int fd)
{
    ck_assert_msg(!dirty[fd], "a file is closed with bytes that are not on the disk");
    return mf_io_default()->close(fd);
}

static int watched_rename(const char *from, const char *to)
{
    ck_assert_msg(is_folder_synced, "%s gets its name before it is on the disk", to);
    names_given++;
    is_folder_synced = false;
    return mf_io_default()->rename(from, to);
}

static int watched_rename_new(const char *from, const char *to)
{
    char *path = mf_strf("%s/MANIFEST.json", from);
    ck_assert_msg(mf_exists(path), "%s gets its name without a manifest", to);
    mf_free(path);
    ck_assert_msg(is_folder_synced, "%s gets its name before it is on the disk", to);
    names_given++;
    is_folder_synced = false;
    return mf_io_default()->rename_new(from, to);
}

START_TEST(names_are_given_to_what_is_on_the_disk)
{
    const char *folder = fresh("power");
    mf_io_table watch = *mf_io_default();
    watch.open = watched_open;
    watch.write = watched_write;
    watch.fsync = watched_fsync;
    watch.close = watched_close;
    watch.rename = watched_rename;
    watch.rename_new = watched_rename_new;
    mf_io_set_table(&watch);
    int rc = save(folder, 1, 101, 0);
    mf_io_set_table(NULL);
    ck_assert_int_eq(rc, MF_OK);
    ck_assert_int_eq(names_given, 2); /* the renames of step-1 and of latest */
    ck_assert(is_folder_synced);      /* both names are on the disk */
}
END_TEST

/* ---- a disk that stores other bytes than were written ---- */

static ssize_t wrong_write(int fd, const void *buf, size_t n)
{
    char *other = mf_alloc(n + 1, 1);
    memcpy(other, buf, n);
    if (n > 64) other[n - 1] ^= 1; /* changes only numbers of a tensor, never a short text */
    const ssize_t done = mf_io_default()->write(fd, other, n);
    mf_free(other);
    return done;
}

/* A checkpoint that cannot be read back correctly gets no name. Step 1 stays, `latest` still
 * names it, and an existing checkpoint of the same step is not replaced. */
START_TEST(what_does_not_read_back_leaves_no_trace)
{
    const char *folder = fresh("wrong");
    mf_io_table wrong = *mf_io_default();
    wrong.write = wrong_write;
    ck_assert_int_eq(save(folder, 1, 101, 1), MF_OK);
    for (int64_t step = 1; step <= 2; step++) {
        mf_io_set_table(&wrong);
        const int rc = save(folder, step, 109, 1);
        mf_io_set_table(NULL);
        ck_assert_int_eq(rc, MF_ECHECKPOINT);
        ck_assert_ptr_nonnull(strstr(mf_error_message(), "does not read back"));
        ck_assert_int_eq(count(folder, "step-"), 1);
        size_t n;
        char *latest = scratch_read(scratch_path("wrong/latest"), &n);
        ck_assert_str_eq(latest, "step-1\n");
        free(latest);
        ck_assert_int_eq(resume_any(folder), 1);
    }
}
END_TEST

/* If a run with bf16 copies starts from another run, its copies must be made from the values
 * that were read. Otherwise parameters that are not trained would keep the copies of the
 * initial values. */
START_TEST(a_start_from_another_run_sets_bf16_copies)
{
    const char *folder = fresh("start");
    ck_assert_int_eq(save(folder, 3, 103, 0), MF_OK);
    mf_param *p;
    mf_store *s = mf_store_new(), *want = make_store(103);
    const mf_init normal = {.kind = MF_INIT_NORMAL, .a = 1};
    ck_assert_int_eq(mf_store_declare(s, "emb", mf_shape2(5, 3), normal, false, &p), MF_OK);
    mf_store_want_bf16(s);
    ck_assert_int_eq(mf_store_seal(s, 99, true), MF_OK);
    int64_t step = 0;
    int missing = -1;
    ck_assert_int_eq(mf_ckpt_start(folder, NULL, s, &step, &missing), MF_OK);
    ck_assert(step == 3 && missing == 0);
    const mf_param *saved = mf_store_find(want, "emb");
    for (int64_t i = 0; i < p->count; i++) {
        const uint32_t bits = (uint32_t)p->bf16[i] << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        ck_assert(p->value[i] == saved->value[i]);
        ck_assert_float_eq_tol(x, saved->value[i], fabsf(saved->value[i]) / 128);
    }
    mf_store_free(s);
    mf_store_free(want);
}
END_TEST

static void fail_at_every_call(const char *name, fault_form form, int error, bool alloc)
{
    const char *folder = fresh(name);
    for (long nth = 1;; nth++) {
        ck_assert_int_eq(mf_remove_tree(folder), MF_OK);
        ck_assert_int_eq(save(folder, 1, 101, 1), MF_OK);
        mf_store *store = make_store(102);
        mf_state *state = make_state(102);
        if (alloc)
            fault_alloc(nth, form);
        else
            fault_io(nth, form, error);
        int rc = mf_ckpt_save(folder, 2, store, NULL, state, &identity, 1);
        bool hit = fault_hit();
        ck_assert_int_eq(fault_io_open(), 0);
        if (alloc) ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        mf_state_free(state);
        mf_store_free(store);
        if (rc != MF_OK)
            ck_assert_msg(strstr(mf_error_message(), "checkpoint of step 2") || rc == MF_ENOMEM,
                          "call %ld: %s", nth, mf_error_message());
        int64_t step = resume_any(folder);
        ck_assert_msg(step == 2 || (step == 1 && rc != MF_OK), "call %ld (%s): %d, step %d",
                      nth, fault_hit_call(), rc, (int)step);
        if (!hit) {
            ck_assert_int_eq(rc, MF_OK);
            break;
        }
    }
}

START_TEST(io_fails_once)
{
    fail_at_every_call("eio", FAULT_ONCE, EIO, false);
}
END_TEST

START_TEST(disk_is_full_from_then_on)
{
    fail_at_every_call("enospc", FAULT_FROM, ENOSPC, false);
}
END_TEST

START_TEST(memory_fails)
{
    fail_at_every_call("oom", FAULT_ONCE, 0, true);
    fail_at_every_call("oom", FAULT_FROM, 0, true);
}
END_TEST

START_TEST(short_reads_and_writes)
{
    const char *folder = fresh("crumbs");
    fault_io_crumbs();
    int rc = save(folder, 7, 107, 1);
    ck_assert_int_eq(rc, MF_OK);
    ck_assert_int_eq(resume_any(folder), 7);
    fault_off();
}
END_TEST

/* An IO error while reading does not prove damage, so the checkpoint is not renamed. */
START_TEST(resume_with_failing_reads)
{
    const char *folder = fresh("reads");
    ck_assert_int_eq(save(folder, 1, 101, 0), MF_OK);
    ck_assert_int_eq(save(folder, 2, 102, 0), MF_OK);
    for (long nth = 1;; nth++) {
        mf_store *store = make_store(99);
        mf_state *state = NULL;
        int64_t step = -1;
        fault_io(nth, FAULT_ONCE, EIO);
        int rc = mf_ckpt_resume(folder, store, &identity, &state, &step, NULL);
        bool hit = fault_hit();
        ck_assert_int_eq(fault_io_open(), 0);
        fault_off();
        ck_assert_msg(rc == MF_OK ? step == 2 : rc == MF_EIO, "call %ld: %d, step %d", nth, rc,
                      (int)step);
        mf_state_free(state);
        mf_store_free(store);
        ck_assert_int_eq(count(folder, ".bad"), 0);
        if (!hit) break;
    }
    ck_assert_int_eq(resume_any(folder), 2);
}
END_TEST

static const char *const files[] = {"model.safetensors", "state.safetensors", "MANIFEST.json"};

START_TEST(every_byte_counts)
{
    const char *folder = fresh("bytes");
    ck_assert_int_eq(save(folder, 2, 102, 0), MF_OK);
    for (int f = 0; f < 3; f++) {
        char *path = mf_strf("%s/step-2/%s", folder, files[f]);
        char *step = mf_strf("%s/step-2", folder);
        size_t n;
        char *data = scratch_read(path, &n);
        ck_assert_uint_gt(n, 100);
        for (size_t i = 0; i < n; i++) {
            data[i] = (char)(data[i] ^ (1 << i % 8));
            scratch_write(path, data, n);
            ck_assert_msg(!verifies(step), "%s: byte %zu", files[f], i);
            data[i] = (char)(data[i] ^ (1 << i % 8));
        }
        for (size_t i = 0; i < n; i++) {
            scratch_write(path, data, i);
            ck_assert_msg(!verifies(step), "%s: cut to %zu", files[f], i);
        }
        char *longer = malloc(n + 1);
        memcpy(longer, data, n);
        longer[n] = '\n';
        scratch_write(path, longer, n + 1);
        ck_assert_msg(!verifies(step), "%s: one byte more", files[f]);
        ck_assert_int_eq(mf_io()->unlink(path), 0);
        ck_assert_msg(!verifies(step), "%s: missing", files[f]);
        scratch_write(path, data, n);
        ck_assert(verifies(step));
        free(longer);
        free(data);
        mf_free(path);
        mf_free(step);
    }
    ck_assert_int_eq(resume_any(folder), 2);
}
END_TEST

START_TEST(damaged_one_is_set_aside)
{
    const char *folder = fresh("aside");
    for (int f = 0; f < 3; f++) {
        ck_assert_int_eq(mf_remove_tree(folder), MF_OK);
        ck_assert_int_eq(save(folder, 1, 101, 0), MF_OK);
        ck_assert_int_eq(save(folder, 2, 102, 0), MF_OK);
        char *path = mf_strf("%s/step-2/%s", folder, files[f]);
        scratch_write(path, "{}", 2);
        mf_free(path);
        /* mf_ckpt_load renames nothing. */
        mf_store *store = make_store(99), *want = make_store(101);
        int64_t step;
        ck_assert_int_eq(mf_ckpt_load(folder, -1, store, &step), MF_OK);
        ck_assert_int_eq(step, 1);
        ck_assert(same_params(store, want, false));
        ck_assert_int_eq(mf_ckpt_load(folder, 2, store, &step), MF_ECHECKPOINT);
        mf_store_free(store);
        mf_store_free(want);
        ck_assert_int_eq(count(folder, ".bad"), 0);

        ck_assert_int_eq(resume_any(folder), 1);
        ck_assert(mf_is_dir(scratch_path("aside/step-2.bad")));
        ck_assert_int_eq(save(folder, 2, 102, 0), MF_OK); /* the name is free again */
        ck_assert_int_eq(resume_any(folder), 2);
    }
    /* If all checkpoints are damaged, training must not start again from step 0. */
    scratch_write(scratch_path("aside/step-1/MANIFEST.json"), "", 0);
    scratch_write(scratch_path("aside/step-2/MANIFEST.json"), "", 0);
    ck_assert_int_eq(resume_any(folder), -1);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "every checkpoint is damaged"));
    ck_assert(mf_is_dir(scratch_path("aside/step-2.bad-2")));
}
END_TEST

START_TEST(a_checkpoint_by_another_name)
{
    const char *folder = fresh("name");
    ck_assert_int_eq(save(folder, 2, 102, 0), MF_OK);
    ck_assert_int_eq(mf_io()->rename(scratch_path("name/step-2"), scratch_path("name/step-3")),
                     0);
    ck_assert_int_eq(resume_any(folder), -1);
    /* makes names that do not belong to checkpoints */
    ck_assert_int_eq(mf_io()->mkdir(scratch_path("name/step-07"), 0777), 0);
    ck_assert_int_eq(mf_io()->mkdir(scratch_path("name/step-"), 0777), 0);
    int64_t *steps;
    int n;
    ck_assert_int_eq(mf_ckpt_list(folder, &steps, &n), MF_OK);
    ck_assert_int_eq(n, 0);
    mf_free(steps);
}
END_TEST

/* A complete checkpoint of another model is an error that names the tensor. The checkpoint is
 * not renamed. */
START_TEST(another_model)
{
    const char *folder = fresh("other");
    ck_assert_int_eq(save(folder, 1, 101, 0), MF_OK);
    static const struct {
        const char *name;
        int64_t n;
        const char *says;
    } cases[] = {{"emb", 4, "emb"}, {"new", 3, "no tensor"}};
    for (int i = 0; i < 2; i++) {
        mf_store *s = mf_store_new();
        mf_param *p;
        mf_init zero = {.kind = MF_INIT_ZERO};
        ck_assert_int_eq(
            mf_store_declare(s, cases[i].name, mf_shape1(cases[i].n), zero, false, &p), MF_OK);
        ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
        mf_state *state;
        int64_t step;
        ck_assert_int_eq(mf_ckpt_resume(folder, s, &identity, &state, &step, NULL),
                         MF_ECHECKPOINT);
        ck_assert_ptr_nonnull(strstr(mf_error_message(), cases[i].says));
        for (int64_t j = 0; j < p->count; j++)
            ck_assert_float_eq(p->value[j], 0);
        mf_store_free(s);
    }
    mf_store *s = mf_store_new(); /* this store has only one of the tensors */
    mf_param *p;
    ck_assert_int_eq(
        mf_store_declare(s, "emb", mf_shape2(5, 3), (mf_init){.kind = MF_INIT_ZERO}, false, &p),
        MF_OK);
    ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
    ck_assert_int_eq(mf_ckpt_load(folder, -1, s, NULL), MF_ECHECKPOINT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "is no tensor of the model"));
    mf_store_free(s);
    ck_assert_int_eq(resume_any(folder), 1);
}
END_TEST

static Suite *suite(void)
{
    mf_log_set_level(MF_LOG_ERROR);
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* on a disk, thousands of syncs would take too long */
    Suite *s = suite_create("checkpoint");
    TCase *t = tcase_create("checkpoint");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, what_is_saved_comes_back);
    tcase_add_test(t, old_ones_go);
    tcase_add_test(t, state_items);
    tcase_add_test(t, killed_at_every_call);
    tcase_add_test(t, killed_while_replacing);
    tcase_add_test(t, names_are_given_to_what_is_on_the_disk);
    tcase_add_test(t, what_does_not_read_back_leaves_no_trace);
    tcase_add_test(t, a_start_from_another_run_sets_bf16_copies);
    tcase_add_test(t, io_fails_once);
    tcase_add_test(t, disk_is_full_from_then_on);
    tcase_add_test(t, memory_fails);
    tcase_add_test(t, short_reads_and_writes);
    tcase_add_test(t, resume_with_failing_reads);
    tcase_add_test(t, every_byte_counts);
    tcase_add_test(t, damaged_one_is_set_aside);
    tcase_add_test(t, a_checkpoint_by_another_name);
    tcase_add_test(t, another_model);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
