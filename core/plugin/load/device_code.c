/* plugin/load/device_code.c: checks device code of plugins. Before anything is read, a check
 * has shown that it exists: mf_reach checks tables, and the segments of the file that contains
 * an image are used to check the image. So a truncated image cannot cause a read outside of
 * the plugin.
 *
 * A fat binary is a header of 16 bytes (magic, version, its size, number of following bytes),
 * followed by entries. Each entry has a header (kind, its size, bytes of its
 * content, architecture). */
#include "plugin/load/device_code.h"

#include <ctype.h>
#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "graph/device/code.h"
#include "plugin/load/reach.h"

enum {
    DEVICES = 16,
    NAME_BYTES = 128,
    SANE_BYTES = 4096,
    MACHINE_CUDA = 190,
    FAT_HEADER = 16,
    ENTRY_HEADER = 32, /* bytes of the entry's header that are read here */
    KIND_PTX = 1,
    KIND_ELF = 2
};
#define FAT_MAGIC UINT32_C(0xba55ed50)
/* a wrapper linked by nvcc, which points to an image */
#define WRAPPER     UINT32_C(0x466243b1)
#define UP_TO(t, f) (offsetof(t, f) + sizeof(((t *)0)->f))

static int refuse(const mf_opdef *op, const char *fmt, ...) MF_PRINTF(2, 3);
static int refuse(const mf_opdef *op, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mf_fail(MF_EPLUGIN, "op %s: its device code: %s", op->name, text);
}

/* ---- images ---- */

typedef struct where {
    uintptr_t first, end;
    bool within;
} where;

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
    where *w = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t lo = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && w->first >= lo && w->end >= w->first &&
            w->end - lo <= p->p_filesz)
            w->within = true;
    }
    return w->within;
}

static int judge_elf(const mf_opdef *op, const unsigned char *image, size_t bytes)
{
    Elf64_Ehdr h;
    if (bytes < sizeof h)
        return refuse(op, "truncated ELF file: expected at least %zu bytes, found %zu",
                      sizeof h, bytes);
    memcpy(&h, image, sizeof h);
    /* An ELF file of this machine is code for the emulator; no GPU accepts it. */
    if (h.e_ident[EI_CLASS] != ELFCLASS64 ||
        (h.e_machine != MACHINE_CUDA && h.e_type != ET_DYN))
        return refuse(op,
                      "expected a 64-bit ELF file for CUDA (machine %d), found machine %d of "
                      "type %d; make it with nvcc -fatbin or nvcc -cubin",
                      MACHINE_CUDA, h.e_machine, h.e_type);
    const uint64_t sections = (uint64_t)h.e_shnum * sizeof(Elf64_Shdr);
    if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shnum == 0 || h.e_shoff > bytes ||
        bytes - h.e_shoff < sections)
        return refuse(op,
                      "truncated or damaged ELF file: expected %d section headers of %zu bytes "
                      "from byte %llu on, found a file of %zu bytes",
                      h.e_shnum, sizeof(Elf64_Shdr), (unsigned long long)h.e_shoff, bytes);
    for (int i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, image + h.e_shoff + (size_t)i * sizeof s, sizeof s);
        if (s.sh_type != SHT_NOBITS && (s.sh_offset > bytes || bytes - s.sh_offset < s.sh_size))
            return refuse(op,
                          "truncated or damaged ELF file: section %d ends at byte %llu of %zu",
                          i, (unsigned long long)s.sh_offset + s.sh_size, bytes);
    }
    return MF_OK;
}

/* One entry of a fat binary. */
typedef struct part {
    uint16_t kind;
    uint32_t header, arch;
    uint64_t bytes;
} part;

/* Reads the entry at `at`; false if it does not fit. */
static bool part_at(const unsigned char *image, size_t bytes, size_t at, part *ret)
{
    if (at > bytes || bytes - at < ENTRY_HEADER) return false;
    memcpy(&ret->kind, image + at, sizeof ret->kind);
    memcpy(&ret->header, image + at + 4, sizeof ret->header);
    memcpy(&ret->bytes, image + at + 8, sizeof ret->bytes);
    memcpy(&ret->arch, image + at + 28, sizeof ret->arch);
    return ret->header >= ENTRY_HEADER && ret->header <= bytes - at &&
           ret->bytes <= bytes - at - ret->header;
}

static int judge_fat(const mf_opdef *op, const unsigned char *image, size_t bytes)
{
    uint16_t version = 0, header = 0;
    uint64_t behind = 0;
    part p;
    int n = 0;
    if (bytes >= FAT_HEADER) {
        memcpy(&version, image + 4, sizeof version);
        memcpy(&header, image + 6, sizeof header);
        memcpy(&behind, image + 8, sizeof behind);
    }
    if (bytes < FAT_HEADER || header != FAT_HEADER || behind > bytes - FAT_HEADER)
        return refuse(op,
                      "truncated fat binary: expected a header of %d bytes and %llu bytes "
                      "behind it, found %zu bytes and a header of %d",
                      FAT_HEADER, (unsigned long long)behind, bytes, header);
    if (version != 1)
        return refuse(op, "expected a fat binary of version 1, found version %d", version);
    const size_t end = FAT_HEADER + (size_t)behind;
    for (size_t at = FAT_HEADER; at < end; at += p.header + (size_t)p.bytes, n++)
        if (!part_at(image, end, at, &p))
            return refuse(op, "truncated or damaged fat binary: its entry %d does not fit", n);
    return n > 0 ? MF_OK : refuse(op, "a fat binary without an entry");
}

static int judge_image(const mf_opdef *op, const mf_device_code *code)
{
    const unsigned char *image = code->image;
    where w = {.first = (uintptr_t)image, .end = (uintptr_t)code->image_end};
    if (!image || w.end < w.first + sizeof(uint32_t))
        return refuse(op,
                      "expected image before image_end, found %p and %p; MF_DEVICE_IMAGE makes "
                      "both",
                      (const void *)image, code->image_end);
    (void)dl_iterate_phdr(look, &w);
    if (!w.within)
        return refuse(op,
                      "expected an image within the constant data of the plugin's file, found "
                      "%p to %p, which is not in one section of it",
                      (const void *)image, code->image_end);
    const size_t bytes = w.end - w.first;
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == FAT_MAGIC) return judge_fat(op, image, bytes);
    if (memcmp(image, ELFMAG, SELFMAG) == 0) return judge_elf(op, image, bytes);
    return refuse(op,
                  "expected a fat binary (magic 0x%08x) or an ELF file, found magic 0x%08x; %s",
                  (unsigned)FAT_MAGIC, (unsigned)magic,
                  magic == WRAPPER ? "this is the wrapper that nvcc links; take the bytes that "
                                     "nvcc -fatbin writes"
                                   : "make it with nvcc -fatbin");
}

/* ---- tables ---- */

/* Checks the size of a table. Also checks that the bytes after the fields that this moefw knows
 * are zero. */
static int sized(const mf_opdef *op, const char *what, const void *table, size_t least,
                 size_t known)
{
    uint32_t size = 0;
    int rc = mf_reach(what, table, sizeof size);
    if (rc != MF_OK) return mf_fail_context(rc, "op %s", op->name);
    memcpy(&size, table, sizeof size);
    if (size < least || size > SANE_BYTES || size % sizeof(void *) != 0)
        return refuse(op, "%s: expected a size of %zu bytes, found %u", what, known,
                      (unsigned)size);
    rc = mf_reach(what, table, size);
    if (rc != MF_OK) return mf_fail_context(rc, "op %s", op->name);
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)table)[i] != 0)
            return refuse(op, "%s uses a field at byte %zu; get a newer moefw", what, i);
    return MF_OK;
}

static bool good_name(const char *name)
{
    size_t n = 0;
    while (n < NAME_BYTES && (isalnum((unsigned char)name[n]) || name[n] == '_'))
        n++;
    return n > 0 && name[n] == '\0' && !isdigit((unsigned char)name[0]);
}

static int judge_kernels(const mf_opdef *op, const char *what, const mf_device_kernel *list)
{
    uint32_t size = 0;
    for (int i = 0; i <= MF_DEVICE_KERNELS; i++) {
        const mf_device_kernel *k =
            (const mf_device_kernel *)(const void *)((const char *)list + (size_t)i * size);
        const size_t least = sizeof(mf_device_kernel);
        int rc = sized(op, what, k, least, least);
        if (rc != MF_OK) return rc;
        if (i > 0 && k->size != size)
            return refuse(op, "%s: expected entries of one size, found %u and %u", what,
                          (unsigned)size, (unsigned)k->size);
        size = k->size;
        if (!k->name)
            return i > 0 ? MF_OK : refuse(op, "%s: expected a kernel, found none", what);
        rc = mf_reach_text("the name of a kernel", k->name);
        if (rc != MF_OK) return mf_fail_context(rc, "op %s", op->name);
        if (!good_name(k->name))
            return refuse(op,
                          "%s: expected the name of a kernel, less than %d of [A-Za-z0-9_], "
                          "found '%.80s'; extern \"C\" keeps its name as it is",
                          what, NAME_BYTES, k->name);
        if (!k->launch)
            return refuse(op, "kernel %s: expected a launch function, found NULL", k->name);
    }
    return refuse(op, "%s: expected at most %d kernels and an end with name NULL", what,
                  MF_DEVICE_KERNELS);
}

static int judge_code(const mf_opdef *op, const mf_device_op *l)
{
    const mf_device_code *c = l->code;
    int rc = sized(op, "mf_device_code", c, UP_TO(mf_device_code, backward), sizeof *c);
    if (rc != MF_OK) return rc;
    if (l->forward || l->backward)
        return refuse(op, "expected launch functions or code for device %s, found both",
                      l->device);
    if (op->flags & MF_OP_RANDOM)
        return refuse(op, "expected none, since it draws random numbers (MF_OP_RANDOM)");
    if (!c->forward || !c->backward != !op->backward)
        return refuse(op,
                      "expected kernels for forward%s, found %s for forward, %s for backward",
                      op->backward ? " and backward" : " only", c->forward ? "some" : "none",
                      c->backward ? "some" : "none");
    rc = judge_kernels(op, "forward", c->forward);
    if (rc == MF_OK && c->backward) rc = judge_kernels(op, "backward", c->backward);
    if (rc != MF_OK || strcmp(l->device, "cuda") != 0) return rc;
    return judge_image(op, c);
}

static const mf_device_op *list_of(const mf_opdef *op)
{
    return MF_HAS(op, mf_opdef, launch) ? op->launch : NULL;
}

int mf_judge_device_code(const mf_opdef *op)
{
    const mf_device_op *l = list_of(op);
    const size_t least = UP_TO(mf_device_op, backward);
    for (int i = 0; l && i < DEVICES; i++, l = mf_device_op_next(l)) {
        int rc = sized(op, "mf_device_op", l, least, sizeof *l);
        if (rc != MF_OK) return rc;
        if (!l->device) return MF_OK;
        rc = mf_reach_text("the name of a device", l->device);
        if (rc != MF_OK) return mf_fail_context(rc, "op %s", op->name);
        if (MF_HAS(l, mf_device_op, code) && l->code) rc = judge_code(op, l);
        if (rc != MF_OK) return rc;
    }
    return l ? refuse(op, "expected at most %d devices and an end with device NULL", DEVICES)
             : MF_OK;
}

/* ---- in words ---- */

static void add(char *text, size_t size, const char *fmt, ...) MF_PRINTF(3, 4);
static void add(char *text, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list args;
    va_start(args, fmt);
    if (n < size) vsnprintf(text + n, size - n, fmt, args);
    va_end(args);
}

static void add_image(char *text, size_t size, const unsigned char *image, size_t bytes)
{
    uint32_t magic;
    Elf64_Ehdr h;
    part p;
    const char *comma = "";
    memcpy(&magic, image, sizeof magic);
    if (magic != FAT_MAGIC) {
        memcpy(&h, image, sizeof h);
        add(text, size, h.e_machine == MACHINE_CUDA ? "one architecture" : "the emulator");
        return;
    }
    for (size_t at = FAT_HEADER; part_at(image, bytes, at, &p);
         at += p.header + (size_t)p.bytes) {
        if (p.kind != KIND_PTX && p.kind != KIND_ELF) continue;
        add(text, size, "%s%s_%u", comma, p.kind == KIND_ELF ? "sm" : "compute",
            (unsigned)p.arch);
        comma = ", ";
    }
}

void mf_device_code_text(const mf_opdef *op, char *text, size_t size)
{
    text[0] = '\0';
    for (const mf_device_op *l = list_of(op); l && l->device; l = mf_device_op_next(l)) {
        const bool as_data = MF_HAS(l, mf_device_op, code) && l->code;
        add(text, size, "%s%s: ", text[0] ? "; " : "", l->device);
        if (!as_data) {
            add(text, size, "launch functions");
            continue;
        }
        const size_t bytes = (size_t)((const unsigned char *)l->code->image_end -
                                      (const unsigned char *)l->code->image);
        add(text, size, "code for ");
        if (strcmp(l->device, "cuda") == 0) add_image(text, size, l->code->image, bytes);
        add(text, size, " (%.1f KiB)", (double)bytes / 1024);
    }
}
