// Two products with one B that stays in the tensor core: D (64 x 128, f32) = A (64 x 64, f16) times B (128 x 64, f16). Each half of A,
// 32 rows, has its own accumulator, whose columns lie in four parts, one in each quarter of the lanes.
#include "blackwell.cuh"

#define STATIONARY(use)                                                                                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\ntcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::" use " [%0], %1, %2, %3, p;\n}" ::"r"(d), \
                 "l"(a), "l"(b), "r"(what), "r"((unsigned)add) : "memory")

__device__ static void mma_first(unsigned d, uint64_t a, uint64_t b, unsigned what, bool add) { STATIONARY("fill"); }
__device__ static void mma_last(unsigned d, uint64_t a, uint64_t b, unsigned what, bool add) { STATIONARY("lastuse"); }

extern "C" __global__ void __launch_bounds__(128)
    stationary(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *d) {
    constexpr unsigned A = 64 * 128, B = 128 * 128, WHAT = instruction(1, 0, 0, 32, 128);
    __shared__ uint64_t full, done;
    __shared__ unsigned slot;
    unsigned room = dynamic_memory(), warp = warp_index(), lane = threadIdx.x % 32;
    if (warp == 0) {
        if (elected()) {
            init(shared_address(&full), 1), init(shared_address(&done), 1);
            publish_barriers();
            expect(shared_address(&full), A + B);
            load(room, a, 0, 0, shared_address(&full));
            load(room + A, b, 0, 0, shared_address(&full));
        }
        __syncwarp();
        allocate(shared_address(&slot), 64);
    }
    before_sync();
    __syncthreads();
    after_sync();
    unsigned memory = slot;
    if (warp == 1 && elected()) {
        wait(shared_address(&full), 0);
        after_sync();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            mma_first(memory, matrix(room + 32 * k), matrix(room + A + 32 * k), WHAT, k);
            mma_last(memory + 32, matrix(room + A / 2 + 32 * k), matrix(room + A + 32 * k), WHAT, k);
        }
        commit(shared_address(&done));
    }
    __syncwarp();
    wait(shared_address(&done), 0);
    after_sync();
    for (int half = 0; half < 2; half++)
        for (int n = 0; n < 32; n += 16) {
            unsigned r[16];
            load_16(r, memory + (warp << 21) + 32 * half + n);
            loaded();
            for (int i = 0; i < 16; i++) d[(32 * half + lane) * 128 + 32 * warp + n + i] = __uint_as_float(r[i]);
        }
    before_sync();
    __syncthreads();
    if (warp == 0) release(memory, 64);
}
