/* stored.h: a weight W of groups of matrices [out,in] that is in memory in the form in which a
 * file stores it: in the types of files, divided into parts as in the file. Nothing writes it,
 * and no gradient of it is computed.
 *
 * A group is an expert; a weight that belongs to no expert has one group. The outputs of a
 * group are divided among its parts (query, key, value; gate and up). Each part has its own
 * type, because tools quantize some tensors and do not quantize others. Parts of all groups
 * agree in everything except type and pointers. The weights are in memory of the host, often in
 * pages of a file, and are only aligned to the size of their elements.
 *
 * Stored weights are read directly from the mapped files (run/folder/stored_files.h). A
 * parameter may be bound to parts of mapped files, each with a pointer and a type. Experts are
 * separate matrices on disk, so a grouped gemm gets a pointer for each expert's gate, up and
 * down, and no copy in another layout is made. A copy would double disk space and the time of
 * an import without a benefit: decoding reads whole rows of a part in both cases, and for
 * prompts panels are packed anyway.
 *
 * Few rows of x are multiplied directly from memory, with weights converted in registers. With
 * more rows the engine packs bf16 and f32 in place, and other types are unpacked in blocks. For
 * many rows of bf16, GPTQ weights stay bytes and the rows become integers of nearly 12 bits.
 * Three instructions for bytes multiply such an integer with two weights (stored/gptq_many.c).
 * The sums are exact, so results are also independent of the tiling. With AMX nothing is
 * rounded: panels of any type are unpacked to one to three planes of bf16 whose sum is the
 * weight, in the order in which tiles read them (stored/amx.c, stored/planes.h). Integers of
 * GPTQ need one plane, and sums over a group are scaled. From a number of rows on this is
 * faster than reading from memory: 57 rows of a group for f32, 6 to 13 for the other types. The
 * method for a group depends on its own rows alone. Ops without such a gemm get an f32 copy,
 * which a cast node makes in each run.
 *
 * A device with its own memory gets a copy of the same bytes, once, when the store is sealed
 * (core/graph/store/stored.c). Each piece begins at a multiple of 64, so kernels may load 16
 * bytes at a time if the rows of the file allow it. On CUDA (stored/stored.cuh,
 * stored/stored_bf16.cuh) up to 16 rows of x are multiplied in one pass over the weights, by
 * warps that read neighbouring bytes in either layout of the file. More rows are multiplied in
 * bf16 by matrix instructions. For these a weight is divided into one to three numbers of bf16
 * whose sum is the weight, because rounding it would change the model. */
#ifndef MF_STORED_H
#define MF_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "bf16.h"

typedef enum mf_stored_type {
    MF_STORED_F32,
    MF_STORED_BF16,
    MF_STORED_F16,
    /* For a part [rows,in], both divisible by 8: W[o,i] = scales[g,o] (q - zero - 1) with
     * g = group_of[i]. q is the four bits from bit 4 (i mod 8) on of data[i / 8, o], zero those
     * from bit 4 (o mod 8) on of zeros[g, o / 8]. With whole_zeros it is q - zero */
    MF_STORED_GPTQ4,
    /* For a part [rows,in], in divisible by 32: W[o,i] = 2^(scales[o, i / 32] - 127) v, where v
     * is one of 0 .5 1 1.5 2 3 4 6 with bit 3 as its sign. The low half of a byte comes first.
     * A scale of 255 is NaN (OCP Microscaling Formats 1.0) */
    MF_STORED_MXFP4,
    /* W[o,i] = scales[o / scale_rows, i / group_size] v, where v is the 8-bit number data[o,i].
     * E4M3: exponent - 7, no infinity, 0x7f is NaN; E5M2: the upper half of f16. scales
     * has `groups` columns (OCP 8-bit Floating Point Specification 1.0) */
    MF_STORED_F8_E4M3,
    MF_STORED_F8_E5M2,
    /* For a part [rows,in], rows and in divisible by 8: W[o,i] = scales[o,g] (q - zero) with
     * g = i / group_size, a multiple of 8. q is the four bits from bit 4 (i mod 8) on of
     * data[o, i / 8], zero those from bit 4 (o mod 8) on of zeros[o / 8, g]. zeros NULL:
     * zero is 8 */
    MF_STORED_INT4,
    /* Like GPTQ4 with eight bits, rows and in divisible by 4: q is byte i mod 4 of
     * data[i / 4, o], zero is byte o mod 4 of zeros[g, o / 4] */
    MF_STORED_GPTQ8,
    /* W[o,i] = scales[g,o] (q - zero), rows divisible by 8. q is the four bits number
     * 0 4 1 5 2 6 3 7 [o mod 8] of data[i, o / 8], zero those of zeros[g, o / 8] */
    MF_STORED_AWQ4,
    MF_STORED_TYPES
} mf_stored_type;

/* Types of scales, for types whose description does not say it. */
typedef enum mf_scale_type { MF_SCALE_F16, MF_SCALE_BF16, MF_SCALE_F32 } mf_scale_type;

/* A matrix [rows,in] of a file. Row o of the matrix is output first + o of its group. With
 * `pairs` row 2 i is output first + i and row 2 i + 1 is output first + rows / 2 + i (rows
 * is even). */
typedef struct mf_stored_part {
    mf_stored_type type;
    bool transposed; /* F32, BF16, F16: the file stores [in,rows] */
    bool pairs;
    bool whole_zeros; /* GPTQ4, GPTQ8: zeros are not stored less 1 */
    mf_scale_type scale_type;
    int64_t rows, first;
    int64_t ld;         /* F32, BF16, F16: distance of the file's rows, in elements */
    const void *data;   /* F32, BF16, F16: elements; GPTQ4: i32 [in / 8, rows]; MXFP4: u8 [rows,
                           in / 2]; other types: see mf_stored_type */
    const void *scales; /* GPTQ4, GPTQ8, AWQ4: [groups, rows]; MXFP4: u8 [rows, in / 32]; F8:
                           [rows / scale_rows rounded up, groups]; INT4: [rows, groups];
                           else NULL */
    const void *zeros;  /* GPTQ4: i32 [groups, rows / 8]; see mf_stored_type; else NULL */
    /* GPTQ4, GPTQ8: [in], each element in 0 .. groups - 1; the code that fills this struct has
     * checked them. NULL: the group of input i is i / group_size. */
    const int32_t *group_of;
    int64_t groups;     /* number of groups of inputs that share a scale; MXFP4: 0 */
    int64_t group_size; /* number of inputs of a group, if group_of is NULL; MXFP4: 32 */
    int64_t scale_rows; /* F8: number of rows that share a scale */
} mf_stored_part;

typedef struct mf_stored {
    int64_t groups, out, in;
    int64_t parts;              /* number of parts of each group; each output of a group is in
                                 * one of them */
    const mf_stored_part *part; /* [groups, parts]; like the memory to which the parts point, it
                                 * is in memory of the device that reads the weight */
    /* For a copy on a device: the weight in memory of the host. Its parts contain everything
     * except the addresses of the copy. Otherwise NULL. */
    const struct mf_stored *home;
} mf_stored;

/* Returns the output, within its group, to which row o of a part belongs. */
MF_ON_DEVICE static inline int64_t mf_stored_output(const mf_stored_part *p, int64_t o)
{
    return p->first + (p->pairs ? o / 2 + o % 2 * (p->rows / 2) : o);
}

/* What stored_gemm may do where x is bf16.
 * - For y = x W^T with weights of four bits it rounds rows further. Each 128 neighbours (from
 *   input 0 on) become multiples of s, the nearest, ties to even. s is the smallest power of
 *   two with which the largest is at most M s. M is MF_STORED_MOST_DIGITS, with many rows and
 *   GPTQ4 MF_STORED_MOST or _16, with GPTQ8 above 2^22. y is NaN if one is not finite.
 * - With instructions for bf16 it adds up to three numbers of bf16 whose sum is the weight.
 *   Such numbers below 2^-126, and numbers of x below 2^-126, count as 0. y may be NaN where an
 *   infinity of x makes it infinite. */
#define MF_STORED_MOST        1678
#define MF_STORED_MOST_16     32767
#define MF_STORED_MOST_DIGITS 32639

#endif
