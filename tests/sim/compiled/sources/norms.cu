// Rows normalised: softmax, layer norm, RMS norm.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Sum {
    static __device__ float apply(float a, float b) { return a + b; }
};
struct Most {
    static __device__ float apply(float a, float b) { return fmaxf(a, b); }
};

template <class Op> static __device__ float over_block(float x, float *partial) {
    for (int step = 16; step; step /= 2) x = Op::apply(x, __shfl_xor_sync(~0u, x, step));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[0];
    for (int warp = 1; warp < blockDim.x / 32; warp++) x = Op::apply(x, partial[warp]);
    __syncthreads();
    return x;
}

extern "C" __global__ void softmax(const float *in, float *out, int width) {
    __shared__ float partial[32];
    const float *row = in + blockIdx.x * width;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, row[i]);
    most = over_block<Most>(most, partial);
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += expf(row[i] - most);
    sum = over_block<Sum>(sum, partial);
    for (int i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = expf(row[i] - most) / sum;
}

extern "C" __global__ void layer_norm(
    const __half2 *in, const __half2 *weight, const __half2 *bias, __half2 *out, int width) {
    __shared__ float partial[32];
    const __half2 *row = in + blockIdx.x * width;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float2 x = __half22float2(row[i]);
        sum += x.x + x.y;
    }
    float mean = over_block<Sum>(sum, partial) / (2 * width);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float2 x = __half22float2(row[i]);
        squares += (x.x - mean) * (x.x - mean) + (x.y - mean) * (x.y - mean);
    }
    float scale = 1 / sqrtf(over_block<Sum>(squares, partial) / (2 * width) + 1e-5f);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float2 x = __half22float2(row[i]);
        __half2 y = __floats2half2_rn((x.x - mean) * scale, (x.y - mean) * scale);
        out[blockIdx.x * width + i] = __hfma2(y, weight[i], bias[i]);
    }
}

extern "C" __global__ void __launch_bounds__(128) rms_norm(const float4 *in, const float4 *weight, float4 *out, int width, float epsilon) {
    __shared__ float partial[32];
    const float4 *row = in + blockIdx.x * width;
    float squares = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float4 x = row[i];
        squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
    float scale = rsqrtf(over_block<Sum>(squares, partial) / (4 * width) + epsilon);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float4 x = row[i], w = weight[i];
        out[blockIdx.x * width + i] = make_float4(x.x * scale * w.x, x.y * scale * w.y, x.z * scale * w.z, x.w * scale * w.w);
    }
}

extern "C" __global__ void row_maxima(const __nv_bfloat162 *in, __nv_bfloat162 *out, int width) {
    __nv_bfloat162 most = in[blockIdx.x * width + threadIdx.x], least = most;
    for (int i = threadIdx.x; i < width; i += 32) {
        most = __hmax2(most, in[blockIdx.x * width + i]);
        least = __hmin2(least, in[blockIdx.x * width + i]);
    }
    for (int step = 16; step; step /= 2) {
        most = __hmax2(most, __shfl_xor_sync(~0u, most, step));
        least = __hmin2(least, __shfl_xor_sync(~0u, least, step));
    }
    if (threadIdx.x == 0) out[blockIdx.x] = __hsub2(most, least);
}
