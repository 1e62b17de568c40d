// Atomics: histograms, compare-and-swap loops, sums that are exact in any order, warps that agree first.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, int n) {
    __shared__ unsigned mine[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) atomicAdd(&mine[in[at] >> 2], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        if (mine[i]) atomicAdd(&bins[i], mine[i]);
}

// The largest float, by compare-and-swap of its bits; a product of doubles that are powers of two; a 16-bit swap.
extern "C" __global__ void swap_loops(const float *in, unsigned *most, unsigned long long *product, unsigned short *half) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[at];
    unsigned seen = *most, old;
    do {
        old = seen;
        if (!(__uint_as_float(old) < x)) break;
        seen = atomicCAS(most, old, __float_as_uint(x));
    } while (seen != old);
    double factor = at % 3 == 0 ? 2.0 : at % 4 == 1 ? 0.5 : 1.0;
    unsigned long long now = *product, was;
    do {
        was = now;
        now = atomicCAS(product, was, (unsigned long long)__double_as_longlong(__longlong_as_double(was) * factor));
    } while (now != was);
    unsigned short low = *half, expected;
    do {
        expected = low;
        low = atomicCAS(half, expected, (unsigned short)(expected + (at & 7)));
    } while (low != expected);
}

// Small multiples of a power of two: every order gives the same sum.
extern "C" __global__ void exact_sums(const int *in, float *one, float *each, double *wide, __half2 *halves, __nv_bfloat162 *bfloats) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x = (in[at] & 15) * 0.25f - 1;
    atomicAdd(one, x);
    atomicAdd(&each[at], x);
    atomicAdd(&each[at ^ 1], 0.5f);
    atomicAdd(wide, x * 0x1p-20);
    if (at < 64) {
        atomicAdd(halves + at % 2, __floats2half2_rn(x, -x));
        atomicAdd(bfloats, __floats2bfloat162_rn(x < 0 ? 1 : 0, 0.5f));
    }
}

extern "C" __global__ void every_atomic(const int *in, int *s, unsigned *u, unsigned long long *l, unsigned *old) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int x = in[at];
    atomicAdd(&s[0], x), atomicSub(&s[1], x), atomicMin(&s[2], x), atomicMax(&s[3], x);
    atomicMin(&u[0], x), atomicMax(&u[1], x), atomicAnd(&u[2], x | 0xff00ff), atomicOr(&u[3], x), atomicXor(&u[4], x);
    atomicInc(&u[5], 100), atomicDec(&u[6], 77);
    atomicAdd(&l[0], (unsigned long long)x << 7), atomicMin(&l[1], (unsigned long long)x), atomicMax((long long *)&l[2], (long long)x * x);
    atomicXor(&l[3], (unsigned long long)x * 0x100000001ull), atomicAnd_block(&l[4], ~(1ull << (x & 63))), atomicOr_system(&l[5], 1ull << (x & 63));
    // Only one thread meets each word, so what comes back is certain.
    unsigned a = atomicExch(&old[at], x), b = atomicInc(&old[at], 5), c = atomicCAS(&old[at], b, a);
    old[at] = old[at] * 3 + a + (b ^ c);
}

// One atomic for each key of a warp: the lanes with equal keys find each other first.
extern "C" __global__ void aggregated(const unsigned *keys, unsigned *counts, unsigned *ranks) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    unsigned key = keys[at] % 11, peers = __match_any_sync(~0u, key);
    int leader = __ffs(peers) - 1;
    if (lane == leader) atomicAdd(&counts[key], __popc(peers));
    int same;
    unsigned whole = __match_all_sync(peers, key, &same);
    unsigned long long wide = __match_any_sync(~0u, (unsigned long long)key << 40 | (lane & 1));
    ranks[at] = __popc(peers & ((1u << lane) - 1)) + (same ? 100 : 0) + (whole == peers ? 1000 : 0) + ((unsigned)wide << 16);
}
