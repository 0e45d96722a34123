/* gemm_feed.cuh: how the threads of a block bring one operand of a gemm to shared memory, by
 * cp.async: steps of 128 bytes of inner indices, 64 of bf16 or 32 of f32, of SIDE rows or
 * columns. An operand is copied as it is stored, 16 bytes at a time, and rows are gathered as
 * it is. Of a row, the 16 bytes of place p lie at place p ^ row % 8 of their 128 bytes, so that
 * neither copies nor reads (ldmatrix, or 16 bytes a thread) need a bank twice, and as the
 * descriptors of wgmma say.
 *
 * load() copies any step, with zeros where there is no element. load_whole() copies a step that
 * has all of its inner indices, in half the instructions: main loops need no more than it, and
 * leave the last steps to load(). */
#pragma once
#include "kernels/cuda/base.cuh"

constexpr int MF_STEP = 64;              /* inner indices of a step of bf16 */
constexpr int MF_PANEL_BYTES = 64 * 128; /* 64 rows of 64 elements */

/* ALONG: the inner index runs along stored rows, so that a step is SIDE rows of 128 bytes;
 * else it is 64 or 32 rows of SIDE elements: in shared memory rows of as many, or with PANELS
 * 64 x 64 elements after 64 x 64. LISTED: an operand that is not ALONG may have a list of rows.
 * HALVES: one half of SIDE is of rows first .., the other one of rows end + first .. */
template <bool ALONG, int THREADS, int SIDE, bool PANELS, bool LISTED, bool HALVES = false,
          class T = mf_bf16>
struct mf_feed;

template <int THREADS, int SIDE, bool PANELS, bool LISTED, bool HALVES, class T>
struct mf_feed<true, THREADS, SIDE, PANELS, LISTED, HALVES, T> {
    enum {
        SIZE = sizeof(T),
        EACH = 16 / SIZE,
        STEP = 128 / SIZE,
        ROWS = THREADS / 8,
        COPIES = SIDE / ROWS,
        APART = ROWS * 128
    };
    const T *from[COPIES]; /* this thread's elements of step 0 */
    int k, count;          /* of the inner indices, the first one of the next step; all */
    unsigned there;        /* bit i: row i is one */
    int to;

    MF_METHOD void begin(const mf_gemm_operand &o, const T *data, int64_t first, int64_t end,
                         int64_t k0, int64_t k1)
    {
        const int place = (int)threadIdx.x % 8, row = (int)threadIdx.x / 8;
        to = row * 128 + (place ^ row % 8) * 16;
        k = 0, count = (int)(k1 - k0);
        there = 0;
        MF_UNROLL
        for (int i = 0; i < COPIES; i++) {
            const int second = HALVES && i >= COPIES / 2;
            int r = (int)first + row + ROWS * i - second * (SIDE / 2);
            r = r < (int)end ? r + second * (int)end : -1;
            if (o.row && r >= 0) r = o.row[r];
            /* without sign: one instruction */
            from[i] =
                data + (uint64_t)(unsigned)(r < 0 ? 0 : r) * (unsigned)o.ld + k0 + place * EACH;
            there |= (unsigned)(r >= 0) << i;
        }
    }
    /* Steps that load_whole() can copy; the same number for all threads. */
    MF_METHOD int whole() const { return count / STEP; }
    MF_METHOD void load_whole(unsigned char *step)
    {
        MF_UNROLL
        for (int i = 0; i < COPIES; i++)
            mf_copy16(step + to + i * APART, from[i] + (unsigned)k, there >> i & 1 ? 16 : 0);
        k += STEP;
    }
    MF_METHOD void load(unsigned char *step)
    {
        const int left = count - k - (int)threadIdx.x % 8 * EACH;
        const int bytes = left <= 0 ? 0 : left < EACH ? left * SIZE : 16;
        MF_UNROLL
        for (int i = 0; i < COPIES; i++) {
            const bool in = bytes > 0 && there >> i & 1;
            mf_copy16(step + to + i * APART, in ? from[i] + (unsigned)k : from[i],
                      in ? bytes : 0);
        }
        k += STEP;
    }
};

template <int THREADS, int SIDE, bool PANELS, bool LISTED, class T>
struct mf_feed<false, THREADS, SIDE, PANELS, LISTED, false, T> {
    /* WIDE threads have one row; a warp has SHARE of ROWS rows at once. ROWS is a multiple of
     * 8, so all rows of a thread have the same place modulo 8. */
    enum {
        SIZE = sizeof(T),
        EACH = 16 / SIZE,
        STEP = 128 / SIZE,
        WIDE = SIDE / EACH,
        ROWS = THREADS / WIDE,
        COPIES = STEP / ROWS,
        SHARE = MF_WARP / WIDE,
        ROW = PANELS ? 128 : SIDE * SIZE,
        APART = ROWS * ROW
    };
    const unsigned char *from; /* this thread's elements of row 0 */
    const int32_t *list;
    unsigned stride;      /* bytes */
    int k, end, to;       /* k: the first inner index of the next step */
    int bytes, first_row; /* of a row; which row of a step */
    bool even;            /* rows end where 16 bytes do */
    int32_t row; /* of a list, for lane l: the row of copy l / SHARE of part l % SHARE */

    MF_METHOD void begin(const mf_gemm_operand &o, const T *data, int64_t first, int64_t last,
                         int64_t k0, int64_t k1)
    {
        const int place = (int)threadIdx.x % WIDE, r = (int)threadIdx.x / WIDE;
        const int64_t here = last - first - place * EACH;
        to = (PANELS ? place / 8 * MF_PANEL_BYTES : place / 8 * 128) + r * ROW +
             (place % 8 ^ r % 8) * 16;
        bytes = here <= 0 ? 0 : here < EACH ? (int)here * SIZE : 16;
        even = last - first >= SIDE || (last - first) % EACH == 0;
        from = (const unsigned char *)(bytes > 0 ? data + first + place * EACH : data);
        list = o.row, stride = (unsigned)o.ld * SIZE, k = (int)k0, end = (int)k1, first_row = r;
        row = -1;
        look();
    }
    MF_METHOD int whole() const { return even ? (end - k) / STEP : 0; }
    /* Reads the list one step before its rows are copied. */
    MF_METHOD void look()
    {
        if (!LISTED || !list) return;
        const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
        const int at = k + warp * SHARE + lane % SHARE + lane / SHARE * ROWS;
        row = lane < SHARE * COPIES && at < end ? list[at] : -1;
    }
    MF_METHOD int listed(int i) const
    {
        return __shfl_sync(MF_ALL_LANES, row, (int)threadIdx.x % MF_WARP / WIDE + SHARE * i);
    }
    MF_METHOD const unsigned char *at(int r) const
    {
        return from + (uint64_t)(unsigned)r * stride; /* without sign: one instruction */
    }
    MF_METHOD void load_whole(unsigned char *step)
    {
        const int whole = bytes > 0 ? 16 : 0;
        if (LISTED && list) {
            MF_UNROLL
            for (int i = 0; i < COPIES; i++) {
                const int r = listed(i);
                mf_copy16(step + to + i * APART, at(r < 0 ? 0 : r), r < 0 ? 0 : whole);
            }
        } else {
            MF_UNROLL
            for (int i = 0; i < COPIES; i++)
                mf_copy16(step + to + i * APART, at(k + first_row + ROWS * i), whole);
        }
        k += STEP;
        look();
    }
    MF_METHOD void load(unsigned char *step)
    {
        MF_UNROLL
        for (int i = 0; i < COPIES; i++) {
            int r = k + first_row + ROWS * i;
            if (r >= end) r = -1;
            if (LISTED && list) r = listed(i);
            mf_copy16(step + to + i * APART, at(r < 0 ? 0 : r), r < 0 ? 0 : bytes);
        }
        k += STEP;
        look();
    }
};
