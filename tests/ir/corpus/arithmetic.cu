// Arithmetic, conversions, half precision, atomics, warp functions, math functions with slow paths.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

// The intrinsic function does not compile for debugging everywhere.
__device__ int dot4(int x, int y, int z) {
    int d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(z));
    return d;
}

#define EACH(name, type, expression)                                        \
    __global__ void name(type *d, const type *a, const type *b, int n) {    \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                      \
        if (i < n) { type x = a[i], y = b[i]; d[i] = expression; }          \
    }

EACH(int_division, int, x / (y | 1) + x % 7)
EACH(unsigned_division, unsigned, x / (y | 1) + x % 10)
EACH(long_division, long long, x / (y | 1) + (x >> 3))
EACH(short_math, short, x * y + (x ^ y))
EACH(bits, unsigned, __popc(x) + __clz(y) + __brev(x) + __ffs(y) + __funnelshift_l(x, y, 5))
EACH(high, unsigned long long, __umul64hi(x, y) + __popcll(x))
EACH(dot, int, dot4(x, y, 3) + __vadd4(x, y) + __vabsdiffu4(x, y))
EACH(float_math, float, sinf(x) + expf(y) + logf(x * y) + powf(x, y))
EACH(float_fast, float, __sinf(x) + __expf(y) + rsqrtf(x) + __fdividef(x, y) + fmaf(x, y, 0.5f))
EACH(float_special, float, x > y ? __int_as_float(0x7fffffff) : __int_as_float(0xff800000))
EACH(double_math, double, sqrt(x) + 1.0 / y + erf(x) + fma(x, y, 0.1))
EACH(half_math, __half, __hadd(__hmul(x, y), __float2half(1.5f)))
EACH(half2_math, __half2, __hfma2(x, y, __h2div(x, y)))
EACH(bfloat_math, __nv_bfloat16, __hmax(x, y) * x)
EACH(bfloat2_math, __nv_bfloat162, __hfma2(x, y, x))
EACH(vectors, float4, make_float4(x.x + y.x, x.y, y.z, x.w * y.w))
EACH(bytes, uchar4, make_uchar4(x.x + y.x, x.y, y.z, x.w))

template <class T, class U> __global__ void convert(T *d, const U *a) { d[threadIdx.x] = T(a[threadIdx.x]); }
template __global__ void convert<float, int>(float *, const int *);
template __global__ void convert<int, float>(int *, const float *);
template __global__ void convert<double, long long>(double *, const long long *);
template __global__ void convert<unsigned char, double>(unsigned char *, const double *);
template __global__ void convert<__half, float>(__half *, const float *);
template __global__ void convert<__nv_bfloat16, float>(__nv_bfloat16 *, const float *);
template __global__ void convert<short, unsigned char>(short *, const unsigned char *);
template __global__ void convert<float, unsigned long long>(float *, const unsigned long long *);

__global__ void atomics(int *i, unsigned *u, float *f, double *d, unsigned long long *l, __half2 *h) {
    __shared__ int s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    atomicMax(&s, i[0]);
    atomicCAS(u, 1u, 2u);
    atomicExch(f, 3.0f);
    atomicAdd(d, 1.0);
    atomicMin(l, 5ull);
    atomicAdd(h, *h);
    atomicInc(u + 1, 7);
    atomicAdd_system(i + 1, 1);
    atomicAdd_block(i + 2, atomicOr(i + 3, 8));
    __threadfence();
    i[4] = s + __syncthreads_count(i[0]);
}

__global__ void warp(unsigned *out, int x) {
    unsigned mask = __ballot_sync(~0u, x > threadIdx.x);
    int predicate;
    mask += __match_all_sync(~0u, x, &predicate) + __match_any_sync(~0u, x) + __activemask();
    mask += __reduce_add_sync(~0u, x) + __all_sync(~0u, x) + __shfl_down_sync(~0u, x, 3);
    out[threadIdx.x] = mask + predicate + (unsigned)clock();
}
