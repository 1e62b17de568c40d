// Matrix products: a pipeline of cp.async, ldmatrix and mma.sync in inline PTX; wmma; threads with fma.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

static __device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ void copy_16(unsigned to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// C (64 x 64, f32) = A (64 x K, f16, rows) times B (64 x K, f16, rows): four warps, three stages of K = 32.
// A row of a stage has 64 bytes in four pieces, which are swapped by the row so that ldmatrix meets no conflicts.
static __device__ unsigned place(int row, int piece) { return row * 64 + ((piece ^ (row >> 1 & 3)) << 4); }

extern "C" __global__ void __launch_bounds__(128) pipelined_gemm(const __half *a, const __half *b, float *c, int k) {
    constexpr int STAGES = 3, BYTES = 64 * 64;
    extern __shared__ __align__(128) unsigned char memory[];
    unsigned base = shared_address(memory);
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int row0 = blockIdx.x * 64, column0 = blockIdx.y * 64;
    auto fill = [&](int stage) {
        if (stage * 32 < k)
            for (int i = t; i < 256; i += 128) {
                int row = i / 4, piece = i % 4;
                unsigned to = base + stage % STAGES * 2 * BYTES + place(row, piece);
                copy_16(to, a + (row0 + row) * k + stage * 32 + piece * 8);
                copy_16(to + BYTES, b + (column0 + row) * k + stage * 32 + piece * 8);
            }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sums[8][4] = {};
    for (int stage = 0; stage < STAGES - 1; stage++) fill(stage);
    for (int stage = 0; stage * 32 < k; stage++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        fill(stage + STAGES - 1);
        unsigned from = base + stage % STAGES * 2 * BYTES;
#pragma unroll
        for (int step = 0; step < 2; step++) {
            unsigned x[4];
            unsigned at = from + place(warp * 16 + lane % 16, step * 2 + lane / 16);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
#pragma unroll
            for (int n = 0; n < 8; n++) {
                unsigned y[2];
                at = from + BYTES + place(n * 8 + lane % 8, step * 2 + lane / 8 % 2);
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                    : "=r"(y[0]), "=r"(y[1]) : "r"(at) : "memory");
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                    : "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
                    : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            }
        }
    }
    int columns = gridDim.y * 64;
#pragma unroll
    for (int n = 0; n < 8; n++)
        for (int half = 0; half < 2; half++) {
            float *to = c + (row0 + warp * 16 + lane / 4 + half * 8) * columns + column0 + n * 8 + lane % 4 * 2;
            to[0] = sums[n][half * 2];
            to[1] = sums[n][half * 2 + 1];
        }
}

extern "C" __global__ void wmma_gemm(const __half *a, const __half *b, const float *bias, float *c, int k) {
    int warp = threadIdx.x / 32, row = warp / 2 * 16, column = warp % 2 * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(sum, bias + column, 0, wmma::mem_row_major);
    for (int at = 0; at < k; at += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> y;
        wmma::load_matrix_sync(x, a + row * k + at, k);
        wmma::load_matrix_sync(y, b + column * k + at, k);
        wmma::mma_sync(sum, x, y, sum);
    }
    for (int i = 0; i < sum.num_elements; i++) sum.x[i] = fmaxf(sum.x[i], 0.0f);
    wmma::store_matrix_sync(c + row * 32 + column, sum, 32, wmma::mem_row_major);
}

extern "C" __global__ void wmma_bytes(const signed char *a, const signed char *b, int *c, int k) {
    wmma::fragment<wmma::accumulator, 32, 8, 16, int> sum;
    wmma::fill_fragment(sum, 7);
    for (int at = 0; at < k; at += 16) {
        wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::col_major> x;
        wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::row_major> y;
        wmma::load_matrix_sync(x, a + at * 32, 32);
        wmma::load_matrix_sync(y, b + at * 8, 8);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c, sum, 32, wmma::mem_col_major);
}

extern "C" __global__ void wmma_doubles(const double *a, const double *b, double *c) {
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
    wmma::fill_fragment(sum, 0.125);
    for (int at = 0; at < 16; at += 4) {
        wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> y;
        wmma::load_matrix_sync(x, a + at, 16);
        wmma::load_matrix_sync(y, b + at * 8, 8);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c, sum, 8, wmma::mem_row_major);
}

extern "C" __global__ void threads_gemm(const float *a, const float *b, float *c, int n) {
    __shared__ float left[16][17], right[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < 16; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
