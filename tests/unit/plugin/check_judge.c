/* judge: everything that a descriptor points to is checked before it is used: points of
 * adapters, examples of ops, and their device code. The plugins are descriptors in
 * this program. */
#include "plugin/load/judge.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "check_main.h"
#include "plugin/load/device_code.h"
#include "tests/lib/expect.h"

static mf_arena *arena;
static mf_loaded loaded;

static void setup(void)
{
    arena = mf_arena_new();
    ck_assert_ptr_nonnull(arena);
}

static void teardown(void)
{
    mf_arena_free(arena);
}

/* Checks for MF_OK if part is NULL, else for a refusal whose message contains part. */
static void expect(int rc, const char *part)
{
    if (!part) {
        ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
        return;
    }
    ck_assert_int_eq(rc, MF_EPLUGIN);
    expect_message(part);
}

/* No function is called while a descriptor is checked. */
static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    ck_abort_msg("init was called with %p %p %p %p", self, (void *)ctx, conf,
                 (const void *)dims);
    return MF_OK;
}
static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    ck_abort_msg("route was called with %p %p %p %p %p", self, (void *)ctx, (void *)g,
                 (const void *)in, (void *)out);
    return MF_OK;
}
static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    ck_abort_msg("apply was called with %p %p %p %p %p", self, (void *)ctx, (void *)g,
                 (const void *)in, (void *)ret_y);
    return MF_OK;
}

static const mf_option no_options[] = {MF_END_OPTIONS};
static const mf_router router = {sizeof(mf_router), 0, init, NULL, route, NULL};
static const mf_host *slot;
static const mf_plugin good = {.magic = MF_MAGIC,
                               .abi = MF_ABI,
                               .size = sizeof(mf_plugin),
                               .host_size = sizeof(mf_host),
                               .option_size = sizeof(mf_option),
                               .vtable_size = sizeof(mf_router),
                               .kind = MF_ROUTER,
                               .name = "mine",
                               .version = "1",
                               .license = "MIT",
                               .brief = "a test",
                               .options = no_options,
                               .vtable = &router,
                               .host = &slot};

static int judge(const mf_plugin *d)
{
    return mf_judge(d, sizeof *d, 0, NULL, NULL, arena, &loaded);
}

START_TEST(a_text_without_an_end)
{
    static char text[64 * 1024 + 512];
    mf_plugin d = good;
    memset(text, 'a', sizeof text);
    d.brief = text;
    expect(judge(&d), "brief: expected a text of less than 65536 bytes, found no end");
    text[60000] = '\0';
    expect(judge(&d), NULL);
}
END_TEST

/* ---- adapters ---- */

static const struct {
    const char *part;
    uint32_t points, reserved;
    const char *at;
} adapters[] = {
    {NULL, MF_POINT_BIT(MF_AT_FFN), 0, "ffn"},
    {"reserved of mf_adapter: expected 0, found 3", MF_POINT_BIT(MF_AT_FFN), 3, "ffn"},
    {"points: expected bits MF_POINT_BIT(1) to MF_POINT_BIT(10), found 0x0", 0, 0, "ffn"},
    {"points: expected bits MF_POINT_BIT(1) to MF_POINT_BIT(10), found 0x1", 1, 0, "ffn"},
    {"points: expected bits MF_POINT_BIT(1) to MF_POINT_BIT(10), found 0x800", 0x800, 0, "ffn"},
    {"at: expected names of points, found NULL", MF_POINT_BIT(MF_AT_FFN), 0, NULL},
    {"at: expected a text, found an empty one", MF_POINT_BIT(MF_AT_FFN), 0, ""},
};

START_TEST(points)
{
    const mf_adapter table = {.size = sizeof table,
                              .init = init,
                              .apply = apply,
                              .points = adapters[_i].points,
                              .reserved = adapters[_i].reserved,
                              .at = adapters[_i].at};
    mf_plugin d = good;
    d.kind = MF_ADAPTER;
    d.vtable = &table;
    d.vtable_size = sizeof table;
    expect(judge(&d), adapters[_i].part);
}
END_TEST

/* ---- examples ---- */

static const mf_opdef op = {.size = sizeof op, .name = "mine_op"};

static int judge_examples(const mf_op_example *list, int n, int reserved)
{
    mf_plugin d = good;
    d.examples = list;
    d.n_examples = n;
    d.reserved2 = reserved;
    return judge(&d);
}

START_TEST(numbers_of_examples)
{
    static const mf_op_example one = {.size = sizeof one, .op = &op};
    const char *part = "examples: expected 1 to 64 of them and reserved2 0, found ";
    expect(judge_examples(&one, 1, 0), NULL);
    ck_assert_int_eq(loaded.n_examples, 1);
    ck_assert_ptr_eq(loaded.examples[0], &one);
    expect(judge_examples(&one, 0, 0), part);
    expect(judge_examples(&one, -1, 0), part);
    expect(judge_examples(&one, 65, 0), part);
    expect(judge_examples(&one, 1, 5), part);
    expect(judge_examples(NULL, 1, 0), part);
}
END_TEST

START_TEST(wrong_examples)
{
    mf_op_example e[] = {{.size = sizeof *e, .op = &op}, {.size = sizeof *e, .op = &op}};
    char expected[96];
    expect(judge_examples(e, 2, 0), NULL);
    e[1].op = NULL;
    expect(judge_examples(e, 2, 0), "example 1: expected an op, found NULL");
    e[1].op = &op;
    e[1].n_in = MF_OP_MAX_IN + 1;
    snprintf(expected, sizeof expected, "expected size %zu and 0 to 8 inputs, found %zu and 9",
             sizeof *e, sizeof *e);
    expect(judge_examples(e, 2, 0), expected);
    e[1].n_in = -1;
    expect(judge_examples(e, 2, 0), " and -1");
    e[1] = (mf_op_example){.size = 8, .op = &op};
    snprintf(expected, sizeof expected, "example 1: expected size %zu", sizeof *e);
    expect(judge_examples(e, 2, 0), expected);
    e[0].size = 8;
    expect(judge_examples(e, 1, 0), "an example is too short: expected at least");
}
END_TEST

/* ---- device code: tables ---- */

static int launch(const mf_call *call, mf_kernel_launch *ret)
{
    ck_abort_msg("launch was called with %p %p", (const void *)call, (void *)ret);
    return MF_OK;
}
static int on_device(const mf_call *call, const mf_on_device *on)
{
    ck_abort_msg("a function of a device was called with %p %p", (const void *)call,
                 (const void *)on);
    return MF_OK;
}

#define KERNEL(name)                                                                           \
    {                                                                                          \
        sizeof(mf_device_kernel), name, launch                                                 \
    }
static const mf_device_kernel kernels[] = {KERNEL("first"), KERNEL("second"), KERNEL(NULL)};

/* Judges an op with this code, for a device that has no rules for images. */
static int judge_code(const mf_device_code *code)
{
    const mf_device_op list[] = {{.size = sizeof *list, .device = "other", .code = code},
                                 {.size = sizeof *list}};
    const mf_opdef with = {.size = sizeof with, .name = "mine_op", .launch = list};
    return mf_judge_device_code(&with);
}

START_TEST(fields_of_a_newer_moefw)
{
    struct {
        mf_device_code known;
        unsigned char more[8];
    } code = {{.size = sizeof code, .forward = kernels}, {0}};
    char expected[128];
    expect(judge_code(&code.known), NULL);
    code.more[3] = 1;
    snprintf(
        expected, sizeof expected,
        "op mine_op: its device code: mf_device_code uses a field at byte %zu; get a newer "
        "moefw",
        sizeof code.known + 3);
    expect(judge_code(&code.known), expected);
}
END_TEST

START_TEST(kernels_of_two_sizes)
{
    mf_device_kernel list[] = {KERNEL("first"), KERNEL("second"), {0}, {0}};
    char expected[128];
    list[1].size += 8;
    snprintf(expected, sizeof expected,
             "forward: expected entries of one size, found %zu and %u", sizeof *list,
             (unsigned)list[1].size);
    expect(judge_code(&(mf_device_code){.size = sizeof(mf_device_code), .forward = list}),
           expected);
}
END_TEST

START_TEST(kernels_without_an_end)
{
    mf_device_kernel list[MF_DEVICE_KERNELS + 1];
    const mf_device_code code = {.size = sizeof code, .forward = list};
    for (int i = 0; i <= MF_DEVICE_KERNELS; i++)
        list[i] = kernels[0];
    expect(judge_code(&code), "forward: expected at most 8 kernels and an end with name NULL");
    list[MF_DEVICE_KERNELS].name = NULL;
    expect(judge_code(&code), NULL);
    list[0].name = NULL;
    expect(judge_code(&code), "forward: expected a kernel, found none");
}
END_TEST

START_TEST(functions_and_code)
{
    const mf_device_code code = {.size = sizeof code, .forward = kernels};
    const mf_device_op list[] = {
        {.size = sizeof *list, .device = "other", .forward = on_device, .code = &code},
        {.size = sizeof *list}};
    const mf_opdef with = {.size = sizeof with, .name = "mine_op", .launch = list};
    expect(mf_judge_device_code(&with),
           "expected launch functions or code for device other, found both");
}
END_TEST

START_TEST(devices)
{
    enum { MOST = 16 };
    mf_device_op list[MOST];
    const mf_opdef with = {.size = sizeof with, .name = "mine_op", .launch = list};
    char text[256];
    for (int i = 0; i < MOST; i++)
        list[i] = (mf_device_op){
            .size = sizeof *list, .device = i == 0 ? "one" : "two", .forward = on_device};
    expect(mf_judge_device_code(&with), "expected at most 16 devices and an end with device "
                                        "NULL");
    list[MOST - 1].device = NULL;
    expect(mf_judge_device_code(&with), NULL);
    list[2].device = NULL;
    mf_device_code_text(&with, text, sizeof text);
    ck_assert_str_eq(text, "one: launch functions; two: launch functions");
}
END_TEST

/* ---- device code: images ---- */

/* Initialised, so that the bytes are in a section of this file. */
static union {
    unsigned char bytes[256];
    struct {
        Elf64_Ehdr head;
        Elf64_Shdr sections[2];
    } elf;
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t behind;
    } fat;
} image = {{1}};

/* Judges an op for a GPU whose code is `image`. */
static int judge_image(void)
{
    const mf_device_code code = {.size = sizeof code,
                                 .image = image.bytes,
                                 .image_end = image.bytes + sizeof image,
                                 .forward = kernels};
    const mf_device_op list[] = {{.size = sizeof *list, .device = "cuda", .code = &code},
                                 {.size = sizeof *list}};
    const mf_opdef with = {.size = sizeof with, .name = "mine_op", .launch = list};
    return mf_judge_device_code(&with);
}

START_TEST(fat_binaries)
{
    memset(&image, 0, sizeof image);
    image.fat.magic = UINT32_C(0xba55ed50);
    image.fat.version = 2;
    image.fat.header = 16;
    expect(judge_image(), "op mine_op: its device code: expected a fat binary of version 1, "
                          "found version 2");
    image.fat.version = 1;
    expect(judge_image(), "a fat binary without an entry");
}
END_TEST

START_TEST(elf_files)
{
    enum { MACHINE_CUDA = 190 };
    Elf64_Ehdr *h = &image.elf.head;
    char expected[128];
    memset(&image, 0, sizeof image);
    memcpy(h->e_ident, ELFMAG, SELFMAG);
    h->e_ident[EI_CLASS] = ELFCLASS64;
    h->e_type = ET_EXEC;
    h->e_machine = EM_X86_64;
    h->e_shoff = sizeof *h;
    h->e_shentsize = sizeof(Elf64_Shdr);
    h->e_shnum = 2;
    expect(judge_image(), "expected a 64-bit ELF file for CUDA (machine 190), found machine 62 "
                          "of type 2; make it with nvcc -fatbin or nvcc -cubin");
    h->e_machine = MACHINE_CUDA;
    expect(judge_image(), NULL);
    h->e_ident[EI_CLASS] = ELFCLASS32;
    expect(judge_image(), "found machine 190 of type 2");
    h->e_ident[EI_CLASS] = ELFCLASS64;
    image.elf.sections[1] =
        (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_offset = 200, .sh_size = 57};
    snprintf(expected, sizeof expected, "section 1 ends at byte 257 of %zu", sizeof image);
    expect(judge_image(), expected);
    image.elf.sections[1].sh_type = SHT_NOBITS; /* such a section has no bytes in the file */
    expect(judge_image(), NULL);
    h->e_shnum = 4;
    expect(judge_image(), "truncated or damaged ELF file: expected 4 section headers");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("judge");
    TCase *t = tcase_create("descriptors");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_text_without_an_end);
    tcase_add_loop_test(t, points, 0, sizeof adapters / sizeof *adapters);
    tcase_add_test(t, numbers_of_examples);
    tcase_add_test(t, wrong_examples);
    suite_add_tcase(s, t);
    t = tcase_create("device code");
    tcase_add_test(t, fields_of_a_newer_moefw);
    tcase_add_test(t, kernels_of_two_sizes);
    tcase_add_test(t, kernels_without_an_end);
    tcase_add_test(t, functions_and_code);
    tcase_add_test(t, devices);
    tcase_add_test(t, fat_binaries);
    tcase_add_test(t, elf_files);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
