// Templates, device functions that stay functions, switches, tables, local and shared arrays, recursion.
#include <cstdio>

struct Params {
    int a;
    double b[3];
    char c;
};

__constant__ float table[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ int counter = 7;
__device__ int *after = &counter + 1;
__device__ const char *message = "hello\n";
__device__ float special[4] = {-0.0f, 1.0f / 3, 1e30f, 5e-40f};

template <class T> __device__ __noinline__ T scale(T x, Params p) { return T(x * p.b[1] + p.a); }

typedef float (*Function)(float, Params);
__device__ Function functions[2] = {scale<float>, scale<float>};

extern __shared__ float dynamic[];

__device__ __noinline__ int recurse(int n) { return n < 2 ? n : recurse(n - 1) + recurse(n - 2); }

__device__ __noinline__ float4 make(float x, double y, char z, short w) { return make_float4(x, y, z, w); }

__global__ void __launch_bounds__(128, 2) choose(float *x, Params p, int which, Function f) {
    __shared__ alignas(16) float tile[2][33];
    int local[40];
    for (int i = 0; i < 40; i++) local[i] = i * which;
    tile[threadIdx.x & 1][threadIdx.x % 33] = x[threadIdx.x];
    __syncthreads();
    float r = 0;
    switch (which) {
        case 0: r = 1; break;
        case 1: r = x[3]; break;
        case 2: r = scale(x[2], p); break;
        case 3: r = f(x[1], p); break;
        case 4: r = functions[which & 1](x[0], p); break;
        case 5: r = table[which & 1][2] + special[which & 3]; break;
        case 6: r = dynamic[3] + make(x[1], x[2], x[3], x[4]).z; break;
        case 7: r = scale(int(x[1]), p) + *after; break;
        default: r = recurse(which);
    }
    if (r > 3) printf("x %f %s\n", r, message);
    atomicAdd(x, r + tile[1][threadIdx.x % 7] + local[which]);
}

// Two copies of one piece of inline assembly: the same names in two scopes, one of them a special register's.
__global__ void scopes(unsigned *out) {
    unsigned a, b;
    asm volatile("{ .reg .pred p; .reg .b32 laneid; mov.u32 laneid, %%laneid; setp.eq.u32 p, laneid, 0;\n"
                 "@p bra DONE; mov.u32 laneid, 9; DONE: selp.u32 %0, laneid, 2, p; }" : "=r"(a));
    asm volatile("{ .reg .pred p; .reg .b32 laneid<3>; mov.u32 laneid2, %%laneid; setp.eq.u32 p, laneid2, 0;\n"
                 "@!p bra DONE; { .reg .b32 laneid2; mov.u32 laneid2, 0x7; add.u32 laneid1, laneid2, 1; }\n"
                 "DONE: selp.u32 %0, laneid2, 2, p; }" : "=r"(b));
    out[threadIdx.x] = a + b;
}

template <class T, int N> __global__ void transpose(const T *__restrict__ in, T *out, int width) {
    __shared__ T tile[N][N + 1];
#pragma unroll 4
    for (int i = threadIdx.y; i < N; i += blockDim.y) tile[i][threadIdx.x] = in[i * width + threadIdx.x];
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.y; i < N; i += blockDim.y) out[i * width + threadIdx.x] = tile[threadIdx.x][i];
}
template __global__ void transpose<float, 32>(const float *, float *, int);
template __global__ void transpose<double, 16>(const double *, double *, int);
template __global__ void transpose<unsigned char, 64>(const unsigned char *, unsigned char *, int);

template <class T> __global__ void reduce(const T *in, T *out, int n) {
    T sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
    __shared__ T parts[32];
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; i++) sum += parts[i];
        atomicAdd(out, sum);
    }
}
template __global__ void reduce<int>(const int *, int *, int);
template __global__ void reduce<float>(const float *, float *, int);
template __global__ void reduce<double>(const double *, double *, int);
template __global__ void reduce<unsigned long long>(const unsigned long long *, unsigned long long *, int);
