// Numbers: the math library, narrow and wide formats, 128-bit integers, complex numbers, packed and video operations.
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#if __CUDA_ARCH__ >= 1000 || !defined(__CUDA_ARCH__)
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#endif

#define EACH(name, type, expression)                                                         \
    __global__ void name(type *d, const type *a, const type *b, int n) {                     \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                       \
        if (i < n) { type x = a[i], y = b[i]; d[i] = expression; }                           \
    }

EACH(trigonometric, float, sinf(x) * cosf(y) + tanf(x) + asinf(y) + acosf(x) + atan2f(x, y) + sinpif(x))
EACH(trigonometric_double, double, sin(x) * cos(y) + tan(x) + asin(y) + atan2(x, y) + cospi(x))
EACH(hyperbolic, float, sinhf(x) + coshf(y) + tanhf(x) + asinhf(x) + acoshf(y) + atanhf(x))
EACH(exponential, double, exp(x) + log(y) + pow(x, y) + cbrt(x) + exp2(x) + log1p(y) + expm1(x) + log10(y))
EACH(exponential_float, float, exp10f(x) + log2f(y) + cbrtf(x) + rcbrtf(y) + hypotf(x, y) + rnorm3df(x, y, x))
EACH(special, double, erf(x) + erfcinv(y) + tgamma(x) + lgamma(y) + normcdf(x))
EACH(bessel, float, j0f(x) + y1f(y) + jnf(3, x) + cyl_bessel_i0f(y))
EACH(rounding, float, floorf(x) + ceilf(y) + truncf(x) + roundf(y) + rintf(x) + fmodf(x, y) + remainderf(x, y) + nearbyintf(x))
EACH(rounding_double, double, floor(x) + round(y) + fmod(x, y) + remainder(x, y) + ldexp(x, 3) + logb(y) + nextafter(x, y))
EACH(directed, float, __fadd_ru(x, y) + __fmul_rd(x, y) + __fdiv_rz(x, y) + __fsqrt_rn(x) + __fmaf_rz(x, y, x) + __frcp_ru(y))
EACH(directed_double, double, __dadd_ru(x, y) + __dmul_rd(x, y) + __ddiv_rz(x, y) + __dsqrt_rn(x) + __fma_rz(x, y, x) + __drcp_ru(y))
EACH(classes, double, isnan(x) + isinf(y) + signbit(x) + isfinite(y) + fdim(x, y) + fmax(x, y) + copysign(x, y))
EACH(bit_casts, double, __longlong_as_double(__double_as_longlong(x) ^ 1) + __hiloint2double(__double2hiint(y), __double2loint(x)))
EACH(conversions, float, __float2int_ru(x) + __float2uint_rz(y) + __float2ll_rd(x) + __ll2float_ru(7) + __double2float_rz(y) + __float2half_rz(x).operator float())
EACH(conversions_double, double, __double2int_ru(x) + __double2ull_rd(y) + __ull2double_rz(7) + (short)x + (unsigned char)y + (float)x)
EACH(wide_integers, __int128, x * y + (x >> 5) - (y << 3))
EACH(wide_division, unsigned __int128, x / (y | 1) + x % 1000)
EACH(complex_numbers, cuDoubleComplex, cuCadd(cuCmul(x, y), cuCdiv(y, x)))
EACH(complex_floats, cuFloatComplex, cuCsubf(cuCmulf(x, y), make_cuComplex(cuCabsf(x), 1)))
EACH(video, unsigned, __vabsdiffs2(x, y) + __vmaxu4(x, y) + __vcmpgts2(x, y) + __vavgu4(x, y) + __vsadu2(x, y) + __vsetltu4(x, y) + __sad(x, y, 3))
EACH(bit_fields, unsigned, __byte_perm(x, y, 0x5410) + __funnelshift_rc(x, y, 7) + __brev(x) + __fns(x, 0, 3) + __mul24(x, y) + __umulhi(x, y))
EACH(dynamic_programming, int, __viaddmax_s32(x, y, 3) + __vimax3_s32_relu(x, y, 5) + __vibmin_s32(x, y, nullptr ? (bool *)0 : (bool *)d))
EACH(dynamic_programming_pairs, unsigned, __viaddmax_s16x2(x, y, x) + __vimin3_u16x2(x, y, y) + __viaddmin_u16x2(x, y, x))
EACH(half_functions, __half, hsin(x) + hexp(y) + hrsqrt(x) + hlog2(y) + hrcp(x) + htanh(y))
EACH(half_compare, __half2, __hmax2(__hmin2(x, y), __hge2(x, y)) + __habs2(x) + __hfma2_relu(x, y, x) + __hadd2_sat(x, y))
EACH(bfloat_functions, __nv_bfloat16, hexp(x) + hsqrt(y) + __hfma_relu(x, y, x) + __hneg(y) + hfloor(x))
EACH(bfloat_compare, __nv_bfloat162, __hmax2_nan(x, y) + __heq2(x, y) + __hmul2(x, y) - __low2bfloat162(x))
EACH(bfloat_integers, __nv_bfloat16, __int2bfloat16_rn(__bfloat162int_rz(x)) + __ushort2bfloat16_rn(__bfloat162ushort_rn(y)))
EACH(half_integers, __half, __ll2half_rn(__half2ll_ru(x)) + __short2half_rd(__half2short_rn(y)) + __ushort_as_half(7))

__global__ void eight_bits(unsigned char *out, const float2 *in, const __half2 *h, const __nv_bfloat162 *b, float *back) {
    int i = threadIdx.x;
    out[i] = __nv_cvt_float_to_fp8(in[i].x, __NV_SATFINITE, __NV_E4M3);
    out[i + 64] = __nv_cvt_halfraw_to_fp8(h[i].x, __NV_SATFINITE, __NV_E5M2);
    *(unsigned short *)(out + 128 + 2 * i) = __nv_cvt_float2_to_fp8x2(in[i], __NV_NOSAT, __NV_E5M2);
    *(unsigned short *)(out + 256 + 2 * i) = __nv_cvt_bfloat16raw2_to_fp8x2(b[i], __NV_SATFINITE, __NV_E4M3);
    __nv_fp8x4_e4m3 four(make_float4(in[i].x, in[i].y, 1, 2));
    float4 f = float4(four);
    back[i] = f.x + f.w + float(__nv_fp8_e5m2(in[i].y));
}

#if __CUDA_ARCH__ >= 1000
__global__ void six_and_four_bits(unsigned char *out, const float2 *in, const __half2 *h, float *back) {
    int i = threadIdx.x;
    out[i] = __nv_cvt_float_to_fp6(in[i].x, __NV_E2M3, cudaRoundNearest);
    out[i + 64] = __nv_cvt_float_to_fp4(in[i].x, __NV_E2M1, cudaRoundNearest);
    out[i + 128] = __nv_cvt_float2_to_fp4x2(in[i], __NV_E2M1, cudaRoundNearest);
    *(unsigned short *)(out + 256 + 2 * i) = __nv_cvt_float2_to_fp6x2(in[i], __NV_E3M2, cudaRoundNearest);
    out[i + 512] = __nv_cvt_float_to_e8m0(in[i].y, __NV_SATFINITE, cudaRoundPosInf);
    back[i] = float(__nv_fp6_e3m2(h[i].x)) + float(__nv_fp4_e2m1(h[i].y));
}
#endif
