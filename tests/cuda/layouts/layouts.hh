/* layouts.hh: where the emulator and the device code have the elements of matrix instructions,
 * for layouts.cc, whose headers declare CUDA's types and so cannot be read beside emu.hh. */
#ifndef TESTS_CUDA_LAYOUTS_HH
#define TESTS_CUDA_LAYOUTS_HH
#include <cstdint>

namespace mine {
/* Row and column of element i of lane `lane` in an operand of mma.m16n8k16. */
struct at {
    int row, column;
};
at of_a(int lane, int i); /* A 16 x 16, i: 0 .. 7 */
at of_b(int lane, int i); /* B 16 x 8, i: 0 .. 3 */
at of_c(int lane, int i); /* C and D 16 x 8, i: 0 .. 3 */
/* Loads four matrices of 8 rows of 8 elements; out: eight elements of each lane. */
void ldmatrix(bool trans, const uint16_t from[256], uint16_t out[32][8]);
/* Offset in bytes of element `column` of row `row`, in rows of 128 bytes, as kernels copy them.
 * */
int swizzled(int row, int column);
/* d [128][n / 2] = A B, A 64 x 16, B 16 x n, n 128 or 256: a [64 * 64] and b [n * 64] as they
 * lie in shared memory, in swizzled rows of 128 bytes, of which the first 16 inner indices are
 * multiplied. Rows hold inner indices, or rows of A and columns of B (trans). Eight rows follow
 * each other; with trans the next 64 columns of B come after them, then the next eight inner
 * indices. False: the device code has no such instruction, or the emulator found a fault. */
bool wgmma(int n, bool trans, const uint16_t *a, const uint16_t *b, float *d);
bool has_wgmma();
} // namespace mine
#endif
