// Textures, surfaces, asynchronous copies, tensor cores, clusters, alloca, exported and weak functions.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

__global__ void textures(cudaTextureObject_t t, cudaSurfaceObject_t s, float *out) {
    int x = threadIdx.x, y = threadIdx.y;
    float4 a = tex2D<float4>(t, x + 0.5f, y + 0.5f);
    float b = tex1Dfetch<float>(t, x) + tex3D<float>(t, x, y, 1.0f) + tex2DLod<float>(t, x, y, 2.0f);
    float4 c = tex2Dgather<float4>(t, x, y, 1);
    float d = tex2DGrad<float>(t, x, y, make_float2(1, 0), make_float2(0, 1));
    surf2Dwrite(a.x + b + c.y + d, s, x * 4, y);
    out[x] = surf2Dread<float>(s, x * 4, y);
}

__global__ void copies(const int4 *in, int4 *out) {
    __shared__ int4 stage[2][64];
    for (int i = 0; i < 8; i++) {
        __pipeline_memcpy_async(&stage[i & 1][threadIdx.x], &in[i * 64 + threadIdx.x], sizeof(int4));
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        out[i * 64 + threadIdx.x] = stage[i & 1][63 - threadIdx.x];
    }
}

template <class T> __global__ void tensor_cores(const T *a, const T *b, float *d) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, T, row_major> x;
    fragment<matrix_b, 16, 16, 16, T, col_major> y;
    fragment<accumulator, 16, 16, 16, float> z;
    fill_fragment(z, 0.0f);
    load_matrix_sync(x, a, 16);
    load_matrix_sync(y, b, 16);
    mma_sync(z, x, y, z);
    store_matrix_sync(d, z, 16, mem_row_major);
}
template __global__ void tensor_cores<__half>(const __half *, const __half *, float *);
template __global__ void tensor_cores<__nv_bfloat16>(const __nv_bfloat16 *, const __nv_bfloat16 *, float *);

__global__ void loads(const float *__restrict__ in, float *out, int n) {
    float sum = __ldg(in + threadIdx.x) + __ldcs(in + n) + __ldcg(in + 2 * n) + __ldcv(in);
    __stwt(out + threadIdx.x, sum);
    out[n] = *(volatile float *)(out + 1);
}

__global__ void frame(int n, int *out) {
    int *p = (int *)alloca(n * 4);
    for (int i = 0; i < n; i++) p[i] = out[i];
    out[0] = p[n / 2];
}

#if __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) cluster(int *out) {
    __shared__ int value;
    value = threadIdx.x;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    unsigned remote, local = (unsigned)__cvta_generic_to_shared(&value);
    asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(remote) : "r"(local));
    int got;
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(got) : "r"(remote));
    out[threadIdx.x] = got;
}
#endif

__global__ void __maxnreg__(40) bounded(const __grid_constant__ int4 p, int *out) { out[0] = p.x + p.w; }

extern "C" __device__ __noinline__ int exported(int a, long long b) { return a * (int)b; }
__device__ __noinline__ __attribute__((weak)) int weak_function(int a) { return a + 5; }
__device__ __noinline__ void stop() { asm volatile("trap;"); }
__global__ void calls(int *out) {
    if (out[1] == 9) stop();
    out[0] = exported(out[1], out[2]) + weak_function(out[3]);
}
