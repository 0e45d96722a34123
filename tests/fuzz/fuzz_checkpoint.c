/* fuzz_checkpoint: reads any three files as a checkpoint. The checkpoint is refused, or its
 * model and its state can be read: values with the store's shapes, and numbers and blobs
 * by name.
 *
 * The first four bytes are the lengths of manifest and model; the state is the rest. Checksums
 * would refuse almost every input, so the target computes them. In the manifest, @0 and @1 are
 * replaced by the sums of model and state, @a and @b by their sizes, and the sum of the
 * manifest is appended. In every 16th input the manifest is used without these changes. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "run/checkpoint/checkpoint_parts.h"

#include <string.h>

const char *const fuzz_words[] = {
    "{\"format\":\"moefw-checkpoint\",\"version\":1,\"step\":",
    "\"files\":[",
    "{\"name\":\"model.safetensors\",\"bytes\":@a,",
    "{\"name\":\"state.safetensors\",\"bytes\":@b,",
    "\"xxh3_128\":\"@0\"}",
    "\"xxh3_128\":\"@1\"}",
    "\"plugins\":[{\"name\":\"",
    "\"run\":\"\"",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[",
    "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[",
    "\"n\":{\"dtype\":\"F32\"",
    "\"__metadata__\":{\"",
    "int:step\":\"",
    "\"BF16\"",
    "\"F64\"",
    "\"U8\"",
    "moment1",
    "moment2",
    "0x1p-1074",
    "nan",
    "9223372036854775807",
    NULL};

static const char *const names[] = {MF_CKPT_MANIFEST, MF_CKPT_MODEL, MF_CKPT_STATE};

static mf_store *new_store(void)
{
    static const mf_init zeros = {0};
    mf_store *s = mf_store_new();
    FUZZ_REQUIRE(s);
    FUZZ_REQUIRE(mf_store_declare(s, "w", mf_shape2(2, 3), zeros, false, NULL) == MF_OK);
    FUZZ_REQUIRE(mf_store_declare(s, "b", mf_shape1(3), zeros, false, NULL) == MF_OK);
    FUZZ_REQUIRE(mf_store_declare(s, "n", mf_shape1(2), zeros, true, NULL) == MF_OK);
    FUZZ_REQUIRE(mf_store_seal(s, 1, true) == MF_OK);
    return s;
}

/* Writes the manifest to `to`, with sums and sizes instead of their placeholders, and its own
 * sum. Returns its length. */
static size_t seal(const uint8_t *text, size_t n, const uint8_t *const *file,
                   const size_t *size, char *to, size_t room)
{
    char hash[2][MF_HASH_TEXT], own[MF_HASH_TEXT];
    size_t used = 0;
    for (int i = 0; i < 2; i++)
        mf_hash_bytes(file[i], size[i], hash[i]);
    for (size_t i = 0; i < n && used + 128 < room; i++) {
        const uint8_t next = i + 1 < n ? text[i + 1] : 0;
        char *at = to + used;
        if (text[i] == '@' && (next == '0' || next == '1'))
            used += (size_t)snprintf(at, 64, "%s", hash[next - '0']), i++;
        else if (text[i] == '@' && (next == 'a' || next == 'b'))
            used += (size_t)snprintf(at, 64, "%zu", size[next - 'a']), i++;
        else
            to[used++] = (char)text[i];
    }
    if (used == 0 || to[used - 1] != '}') return used;
    mf_hash_bytes(to, used, own);
    return used - 1 + (size_t)sprintf(to + used - 1, ",\"self\":\"%s\"}\n", own);
}

/* Reads the model into the store, and the state, each if it fits the store. The numbers of the
 * state are read in any case. */
static void read_all(const char *folder, mf_store *store)
{
    mf_state *state = NULL, *numbers = NULL;
    const char *name;
    int n_read, n_missing;
    int rc = mf_ckpt_fit_model(folder, store, NULL);
    if (rc == MF_OK) {
        FUZZ_REQUIRE(mf_ckpt_read_model(folder, store, NULL) == MF_OK);
        FUZZ_REQUIRE(mf_ckpt_read_common(folder, store, &n_read, &n_missing) == MF_OK);
        FUZZ_REQUIRE(n_read >= 2 && n_missing == 0);
    } else {
        FUZZ_REQUIRE(mf_error_message()[0] != '\0');
        mf_ckpt_read_common(folder, store, &n_read, &n_missing);
    }
    rc = mf_ckpt_fit_state(folder, store);
    if (rc == MF_OK) rc = mf_ckpt_read_state(folder, store, &state);
    FUZZ_REQUIRE((rc == MF_OK) == (state != NULL));
    FUZZ_REQUIRE(rc == MF_OK || mf_error_message()[0] != '\0');
    rc = mf_ckpt_read_numbers(folder, &numbers);
    FUZZ_REQUIRE((rc == MF_OK) == (numbers != NULL));
    for (int i = 0; numbers && (name = mf_state_name_at(numbers, i)) != NULL; i++) {
        int64_t whole;
        double real;
        size_t size = 0;
        volatile uint8_t sum = 0;
        const uint8_t *blob = mf_state_blob(numbers, name, &size);
        for (size_t k = 0; blob && k < size; k++)
            sum = (uint8_t)(sum + blob[k]);
        FUZZ_REQUIRE(blob || mf_state_int(numbers, name, &whole) ||
                     mf_state_real(numbers, name, &real));
    }
    mf_state_free(state);
    mf_state_free(numbers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *folder;
    static mf_store *store;
    static char text[8192];
    if (size < 4) return 0;
    if (!folder) {
        folder = fuzz_make_folder(names, 3);
        store = new_store();
    }
    size_t n = (size_t)data[0] | (size_t)data[1] << 8;
    size_t model = (size_t)data[2] | (size_t)data[3] << 8;
    const bool helped = size % 16 != 0;
    data += 4, size -= 4;
    if (n > size) n = size;
    if (model > size - n) model = size - n;
    const uint8_t *const file[] = {data + n, data + n + model};
    const size_t sizes[] = {model, size - n - model};
    fuzz_set_file(1, NULL, file[0], sizes[0]);
    fuzz_set_file(2, NULL, file[1], sizes[1]);
    const size_t length = helped ? seal(data, n, file, sizes, text, sizeof text) : n;
    fuzz_set_file(0, NULL, helped ? (const uint8_t *)text : data, length);
    mf_error_clear();
    mf_ckpt_report r;
    FUZZ_REQUIRE(mf_ckpt_verify(folder, &r) == MF_OK);
    FUZZ_REQUIRE(r.ok == (r.n_errors == 0));
    FUZZ_REQUIRE(!r.ok || (r.step >= 0 && r.bytes == sizes[0] + sizes[1]));
    for (int i = 0; i < r.n_errors; i++)
        FUZZ_REQUIRE(r.errors[i][0] != '\0');
    read_all(folder, store);
    mf_ckpt_report_free(&r);
    return 0;
}
