// D (M x N) = A (M x K) times B (N x K), both along K: one CTA for each tile of D, a ring of stages of 128 bytes of K.
// A warp copies, a warp multiplies, a warp allocates, and all four read the accumulator: one kernel for each kind.
#include "blackwell.cuh"

// `pitch`: elements of K that a copy moves for each row of a stage.
// A copy counts the bytes that it takes from global memory: `PACKED`, elements of four and of six bits, which it spreads to a byte each.
template <Kind kind, int M, int N, unsigned WHAT, int STAGES, bool HALF = false, bool PACKED = false>
__device__ void product(const CUtensorMap &a, const CUtensorMap &b, unsigned *d, int depth, int width, int pitch) {
    constexpr unsigned A = M * 128, B = N * 128;
    __shared__ uint64_t full[STAGES], empty[STAGES], done;
    __shared__ unsigned slot;
    unsigned stages = dynamic_memory(), warp = warp_index(), lane = threadIdx.x % 32;
    int row0 = blockIdx.y * M, column0 = blockIdx.x * N;
    if (warp == 0 && elected()) {
        for (int i = 0; i < STAGES; i++) init(shared_address(&full[i]), 1), init(shared_address(&empty[i]), 1);
        init(shared_address(&done), 1);
        publish_barriers();
    }
    if (warp == 2) allocate(shared_address(&slot), columns(N));
    before_sync();
    __syncthreads();
    after_sync();
    unsigned memory = slot;
    if (warp == 0 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned to = stages + at.stage * (A + B), barrier = shared_address(&full[at.stage]);
            wait(shared_address(&empty[at.stage]), at.parity ^ 1);
            expect(barrier, PACKED ? A / 2 + B / 4 * 3 : A + B);
            load(to, a, i * pitch, row0, barrier);
            load(to + A, b, i * pitch, column0, barrier);
        }
    } else if (warp == 1 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned from = stages + at.stage * (A + B);
            wait(shared_address(&full[at.stage]), at.parity);
            after_sync();
#pragma unroll
            for (int k = 0; k < 4; k++) mma<kind>(memory, matrix(from + 32 * k), matrix(from + A + 32 * k), WHAT, i || k);
            commit(shared_address(&empty[at.stage]));
        }
        commit(shared_address(&done));
    }
    __syncwarp();
    wait(shared_address(&done), 0);
    after_sync();
    if constexpr (M == 128) {
        unsigned row = row0 + threadIdx.x;
#pragma unroll 1
        for (int n = 0; n < N; n += 16) {
            unsigned r[16];
            load_16(r, memory + (warp << 21) + n);
            loaded();
            for (int i = 0; i < 16; i++)
                if constexpr (HALF)
                    ((unsigned short *)d)[row * width + column0 + n + i] = r[i];
                else
                    d[row * width + column0 + n + i] = r[i];
        }
    } else {
        // 16 lanes of each quarter hold rows; eight columns at a time, as the fragments of mma have them.
        unsigned row = row0 + 16 * warp + lane / 4;
#pragma unroll 1
        for (int n = 0; n < N; n += 8) {
            unsigned r[4];
            asm volatile("tcgen05.ld.sync.aligned.16x256b.x1.b32 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                         : "r"(memory + (warp << 21) + n));
            loaded();
            unsigned *to = d + row * width + column0 + n + lane % 4 * 2;
            to[0] = r[0], to[1] = r[1], to[8 * width] = r[2], to[8 * width + 1] = r[3];
        }
    }
    before_sync();
    __syncthreads();
    if (warp == 2) release(memory, columns(N));
}

#define PRODUCT(name, kind, m, n, what, stages, ...)                                                                               \
    extern "C" __global__ void __launch_bounds__(128) name(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, \
                                                          unsigned *d, int depth, int width, int pitch) {                          \
        product<kind, m, n, what, stages, ##__VA_ARGS__>(a, b, d, depth, width, pitch);                                            \
    }

PRODUCT(bfloat, F16, 128, 64, instruction(1, 1, 1, 128, 64), 3)
PRODUCT(half_sums, F16, 128, 32, instruction(0, 0, 0, 128, 32), 2, true)
PRODUCT(tf32, TF32, 64, 40, instruction(1, 2, 2, 64, 40), 2)
PRODUCT(e4m3_e5m2, F8, 128, 48, instruction(1, 0, 1, 128, 48), 2)
PRODUCT(e2m1_e3m2, F8, 64, 64, instruction(1, 5, 4, 64, 64), 2, false, true)
PRODUCT(integers, I8, 128, 32, instruction(2, 1, 0, 128, 32), 2)
