/* hash.cu: the op of the router hash on a GPU; hash.c describes it. One thread hashes one
 * token, with the host's whole numbers, so all choices are the same. */
#include <moefw/kernel.cuh>

enum { TOKEN_ID, SIGN_BITS };
enum { RANDOM, BALANCED };

MF_INLINE uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The sign bits of 64 elements at a time. */
MF_INLINE uint64_t key_of_signs(const float *x, int64_t d, uint64_t h)
{
    for (int64_t at = 0; at < d; at += 64) {
        const int64_t n = d - at < 64 ? d - at : 64;
        uint64_t word = 0;
        for (int64_t i = 0; i < n; i++)
            word |= (uint64_t)(x[at + i] < 0) << i;
        h = mix(h ^ word);
    }
    return h;
}

MF_INLINE uint64_t key_of_quanta(const float *x, int64_t d, double quantum, uint64_t h)
{
    for (int64_t i = 0; i < d; i++) {
        const double v = rint((double)x[i] / quantum);
        const int64_t q = v > -9e15 && v < 9e15 ? (int64_t)v : 0;
        h = mix(h ^ (uint64_t)q);
    }
    return h;
}

MF_INLINE uint32_t place_of_id(uint32_t id, uint32_t vocab, uint64_t seed)
{
    int half = 1;
    while ((uint64_t)1 << (2 * half) < vocab)
        half++;
    const uint32_t low = (1u << half) - 1;
    do {
        for (uint64_t r = 0; r < 4; r++) {
            const uint32_t left = id >> half, right = id & low;
            id = right << half | ((left ^ (uint32_t)mix(seed ^ (r << 32) ^ right)) & low);
        }
    } while (id >= vocab);
    return id;
}

MF_DEVICE_KERNEL(hash_route, a)
{
    const int64_t *attr = a.attr.i;
    const int64_t tokens = a.in[0].shape.dim[0], experts = attr[0], hashes = attr[1];
    const uint64_t seed = mix((uint64_t)attr[2]);
    for (int64_t t = mf_thread_index(); t < tokens; t += mf_thread_count()) {
        int32_t *out = (int32_t *)a.out[0].data + t * hashes;
        uint64_t key;
        if (attr[3] == TOKEN_ID) {
            const uint32_t id = ((const uint32_t *)a.in[0].data)[t];
            key = attr[4] == BALANCED && (int64_t)id < attr[5]
                      ? place_of_id(id, (uint32_t)attr[5], seed)
                      : mix(seed ^ id);
        } else {
            const int64_t d = a.in[0].shape.dim[1];
            const float *x = (const float *)a.in[0].data + t * d;
            key = attr[3] == SIGN_BITS ? key_of_signs(x, d, seed)
                                       : key_of_quanta(x, d, a.attr.f[0], seed);
        }
        int64_t e = (int64_t)(key % (uint64_t)experts);
        for (int64_t n = 0; n < hashes; n++) {
            for (int64_t m = 0; m < n; m++)
                if (out[m] == e) e = (e + 1) % experts, m = -1;
            out[n] = (int32_t)e;
            e = (int64_t)(mix(key + (uint64_t)n + 1) % (uint64_t)experts);
        }
    }
}
