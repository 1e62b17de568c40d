// Two floats at once, as an epilogue has them: y = gelu-like polynomial of x * scale + bias, sums of squares, and the largest of each
// warp. No tensor core.
#include <cstdint>

__device__ static uint64_t two(float x, float y) {
    uint64_t r;
    asm("mov.b64 %0, {%1, %2};" : "=l"(r) : "f"(x), "f"(y));
    return r;
}
__device__ static uint64_t fma2(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t d;
    asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(d) : "l"(a), "l"(b), "l"(c));
    return d;
}
__device__ static uint64_t mul2(uint64_t a, uint64_t b) {
    uint64_t d;
    asm("mul.rn.f32x2 %0, %1, %2;" : "=l"(d) : "l"(a), "l"(b));
    return d;
}
__device__ static uint64_t add2(uint64_t a, uint64_t b) {
    uint64_t d;
    asm("add.rn.ftz.f32x2 %0, %1, %2;" : "=l"(d) : "l"(a), "l"(b));
    return d;
}

extern "C" __global__ void packed(const ulonglong2 *x, ulonglong2 *y, float *squares, float *largest, float scale, float bias) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    ulonglong2 four = x[at];
    uint64_t s = two(scale, scale), b = two(bias, bias), sum = two(0, 0);
    uint64_t v[2] = {fma2(four.x, s, b), fma2(four.y, s, b)};
    float most = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t square = mul2(v[i], v[i]), p = fma2(square, two(0.0625f, 0.0625f), two(-0.375f, -0.375f));
        p = fma2(p, square, two(0.5f, 0.5f));
        sum = add2(sum, square);
        v[i] = fma2(p, v[i], b);
        float lo, hi;
        asm("mov.b64 {%0, %1}, %2;" : "=f"(lo), "=f"(hi) : "l"(v[i]));
        // The one with the greater magnitude of three.
        asm("max.abs.f32 %0, %1, %2, %3;" : "=f"(most) : "f"(most), "f"(lo), "f"(hi));
    }
    y[at] = make_ulonglong2(v[0], v[1]);
    float lo, hi;
    asm("mov.b64 {%0, %1}, %2;" : "=f"(lo), "=f"(hi) : "l"(sum));
    squares[at] = lo + hi;
    asm("redux.sync.max.abs.f32 %0, %1, 0xffffffff;" : "=f"(most) : "f"(most));
    if (threadIdx.x % 32 == 0) largest[at / 32] = most;
}
