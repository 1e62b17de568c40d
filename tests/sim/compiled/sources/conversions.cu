// Conversions between integers and floats of every width.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const float *in, unsigned short *out, float *back) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[at];
    out[at * 8] = __half_as_ushort(__float2half_rn(x));
    out[at * 8 + 1] = __half_as_ushort(__float2half_rz(x));
    out[at * 8 + 2] = __half_as_ushort(__float2half_ru(x));
    out[at * 8 + 3] = __half_as_ushort(__float2half_rd(x));
    out[at * 8 + 4] = __half_as_ushort(__double2half(x * 1.0000001));
    __half h = __ushort_as_half((unsigned short)__float_as_uint(x));
    out[at * 8 + 5] = __half2int_rn(h);
    out[at * 8 + 6] = __half2short_rz(h);
    out[at * 8 + 7] = __half_as_ushort(__hfma_relu(h, __float2half_rn(x), h));
    back[at] = __half2float(h) + __half2float(hfloor(h));
}

extern "C" __global__ void bfloats(const float *in, unsigned short *out, float *back) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[at];
    out[at * 6] = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    out[at * 6 + 1] = __bfloat16_as_ushort(__float2bfloat16_rz(x));
    out[at * 6 + 2] = __bfloat16_as_ushort(__float2bfloat16_ru(x));
    out[at * 6 + 3] = __bfloat16_as_ushort(__float2bfloat16_rd(x));
    __nv_bfloat16 b = __ushort_as_bfloat16((unsigned short)(__float_as_uint(x) >> 4));
    __nv_bfloat162 two = __floats2bfloat162_rn(x, x * 0.5f);
    out[at * 6 + 4] = __bfloat16_as_ushort(__hfma(b, two.x, two.y));
    out[at * 6 + 5] = __bfloat16_as_ushort(__hadd(__hmul(b, b), __float2bfloat16(__bfloat162int_rz(two.y) & 1023)));
    back[at] = __bfloat162float(b) + __low2float(__hmax2(two, two));
}

extern "C" __global__ void eights(const float2 *in, unsigned *out, float2 *back) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float2 x = in[at];
    unsigned e4 = __nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, __NV_E4M3);
    unsigned e5 = __nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, __NV_E5M2);
    unsigned half4 = __nv_cvt_halfraw2_to_fp8x2(__floats2half2_rn(x.x, x.y), __NV_SATFINITE, __NV_E4M3);
    out[at * 2] = e4 << 16 | e5;
    out[at * 2 + 1] = half4;
    __half2 a = __nv_cvt_fp8x2_to_halfraw2(e4, __NV_E4M3), b = __nv_cvt_fp8x2_to_halfraw2(e5 ^ 0x0103, __NV_E5M2);
    float2 p = __half22float2(a), q = __half22float2(b);
    back[at] = make_float2(p.x + q.x, p.y - q.y);
}

extern "C" __global__ void numbers(const float *in, const double *wide, int *out, long long *longs, double *doubles) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[at];
    double d = wide[at];
    out[at * 8] = __float2int_rn(x), out[at * 8 + 1] = __float2int_rd(x), out[at * 8 + 2] = __float2uint_ru(x);
    out[at * 8 + 3] = __double2int_rz(d), out[at * 8 + 4] = (signed char)x, out[at * 8 + 5] = (unsigned short)d;
    out[at * 8 + 6] = __float_as_int(__double2float_ru(d)), out[at * 8 + 7] = __float_as_int(__ll2float_rz((long long)d));
    longs[at * 4] = __float2ll_rn(x), longs[at * 4 + 1] = __double2ll_ru(d), longs[at * 4 + 2] = __double2ull_rn(d), longs[at * 4 + 3] = __float2ull_rz(x);
    doubles[at * 4] = x, doubles[at * 4 + 1] = __ll2double_rd(__double_as_longlong(d)), doubles[at * 4 + 2] = (double)(unsigned long long)longs[at * 4];
    doubles[at * 4 + 3] = rint(d) + trunc(x) - ceil(d * 0.125) + floorf(x);
}
