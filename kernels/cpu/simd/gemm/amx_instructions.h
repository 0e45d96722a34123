/* amx_instructions.h: those of matrix registers (tiles). A register has 16 rows of 16 words; a
 * word is two bf16, or an f32 of a sum.
 *
 * With MF_AMX_EMULATED plain loops replace the instructions, for tests on processors
 * without AMX. NAME(fn) is the name of a function that uses them. */
#ifndef MF_SIMD_GEMM_AMX_INSTRUCTIONS_H
#define MF_SIMD_GEMM_AMX_INSTRUCTIONS_H

#include <string.h>
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

#define TILE_ROWS  16
#define TILE_WORDS 16

#if defined(MF_AMX_EMULATED)
#define NAME(fn) MF_SIMD(fn##_emulated)
static _Thread_local uint32_t tile_words[8][TILE_ROWS][16];

static void tile_load(int t, const void *from, int64_t stride)
{
    for (int r = 0; r < TILE_ROWS; r++)
        memcpy(tile_words[t][r], (const char *)from + r * stride, 64);
}
static void tile_store(int t, void *to, int64_t stride)
{
    for (int r = 0; r < TILE_ROWS; r++)
        memcpy((char *)to + r * stride, tile_words[t][r], 64);
}
static void tile_zero(int t)
{
    memset(tile_words[t], 0, sizeof tile_words[t]);
}
static float half_of(uint32_t word, int high)
{
    return mf_bf16_to_f32((mf_bf16)(high ? word >> 16 : word));
}
static void tile_dot(int c, int a, int b)
{
    for (int i = 0; i < TILE_ROWS; i++)
        for (int q = 0; q < 16; q++)
            for (int j = 0; j < 16; j++) {
                float sum;
                memcpy(&sum, &tile_words[c][i][j], sizeof sum);
                for (int h = 0; h < 2; h++)
                    sum += half_of(tile_words[a][i][q], h) * half_of(tile_words[b][q][j], h);
                memcpy(&tile_words[c][i][j], &sum, sizeof sum);
            }
}
#define TILE_LOAD(t, from, stride) tile_load(t, from, stride)
#define TILE_STORE(t, to, stride)  tile_store(t, to, stride)
#define TILE_ZERO(t)               tile_zero(t)
#define TILE_DOT(c, a, b)          tile_dot(c, a, b)
static void tiles_begin(void) {}
static void tiles_end(void) {}
#else
#define NAME(fn)                   MF_SIMD(fn)
#define TILE_LOAD(t, from, stride) _tile_loadd(t, from, stride)
#define TILE_STORE(t, to, stride)  _tile_stored(t, to, stride)
#define TILE_ZERO(t)               _tile_zero(t)
#define TILE_DOT(c, a, b)          _tile_dpbf16ps(c, a, b)
/* Configures eight tiles of 16 rows of 64 bytes. */
static void tiles_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = TILE_ROWS;
    }
    _tile_loadconfig(&config);
}
static void tiles_end(void)
{
    _tile_release();
}
#endif

#endif
