// D (128 x 128) = A (128 x K) times B (128 x K), both along K, with a scale for every 16 or 32 elements of a row: two stages of 128
// bytes of K. Scales lie in global memory as the tensor core wants them, 512 bytes for four scales of each of 128 rows, and go
// through shared memory to tensor memory; each stage's scales replace the last one's.
#include "blackwell.cuh"

constexpr int ROWS = 128, STAGES = 2;
constexpr unsigned TILE = ROWS * 128, SCALES = 512;

enum Scaled { MXF8, MXF4, NVF4 };

template <Scaled kind> __device__ void scaled_mma(unsigned d, uint64_t a, uint64_t b, unsigned what, unsigned sa, unsigned sb, bool add) {
#define SCALED_MMA(name)                                                                                                               \
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %6, 0;\ntcgen05.mma.cta_group::1.kind::" name " [%0], %1, %2, %3, [%4], [%5], p;\n}" ::"r"(d), \
                 "l"(a), "l"(b), "r"(what), "r"(sa), "r"(sb), "r"((unsigned)add) : "memory")
    if constexpr (kind == MXF8) SCALED_MMA("mxf8f6f4.block_scale.scale_vec::1X");
    if constexpr (kind == MXF4) SCALED_MMA("mxf4.block_scale.scale_vec::2X");
    if constexpr (kind == NVF4) SCALED_MMA("mxf4nvf4.block_scale.scale_vec::4X");
}

__device__ static void copy_scales(unsigned to, unsigned from) {
    // Rows of 16 bytes, without a swizzle: 128 bytes from eight of them to the next.
    uint64_t layout = 1ull << 46 | (128ull >> 4) << 32 | (128ull >> 4) << 16;
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(matrix(from, layout)) : "memory");
}

template <Scaled kind>
__device__ void product(const CUtensorMap &a, const CUtensorMap &b, const char *sa, const char *sb, float *d, int depth) {
    // Blocks of 512 bytes for each stage, and scales that one instruction takes of a row.
    constexpr unsigned BLOCKS = kind == MXF8 ? 1 : kind == MXF4 ? 2 : 4, TAKEN = BLOCKS;
    constexpr unsigned STAGE = 2 * TILE + 2 * BLOCKS * SCALES;
    constexpr unsigned TYPES = kind == MXF8 ? 0u << 7 | 1u << 10 : 1u << 7 | 1u << 10;
    constexpr unsigned WHAT = TYPES | (kind == NVF4 ? 0u : 1u << 23) | (ROWS >> 3) << 17 | (ROWS >> 4) << 24;
    __shared__ uint64_t full[STAGES], empty[STAGES], done;
    __shared__ unsigned slot;
    unsigned stages = dynamic_memory(), warp = warp_index();
    if (warp == 0 && elected()) {
        for (int i = 0; i < STAGES; i++) init(shared_address(&full[i]), 1), init(shared_address(&empty[i]), 1);
        init(shared_address(&done), 1);
        publish_barriers();
    }
    if (warp == 2) allocate(shared_address(&slot), 256);
    before_sync();
    __syncthreads();
    after_sync();
    unsigned memory = slot, scales_a = memory + ROWS, scales_b = scales_a + 4 * BLOCKS;
    if (warp == 0 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned to = stages + at.stage * STAGE, barrier = shared_address(&full[at.stage]);
            wait(shared_address(&empty[at.stage]), at.parity ^ 1);
            expect(barrier, STAGE);
            load(to, a, i * 128, 0, barrier);
            load(to + TILE, b, i * 128, 0, barrier);
            load_bytes(to + 2 * TILE, sa + i * BLOCKS * SCALES, BLOCKS * SCALES, barrier);
            load_bytes(to + 2 * TILE + BLOCKS * SCALES, sb + i * BLOCKS * SCALES, BLOCKS * SCALES, barrier);
        }
    } else if (warp == 1 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned from = stages + at.stage * STAGE, scales = from + 2 * TILE;
            wait(shared_address(&full[at.stage]), at.parity);
            after_sync();
#pragma unroll
            for (unsigned block = 0; block < BLOCKS; block++) {
                copy_scales(scales_a + 4 * block, scales + block * SCALES);
                copy_scales(scales_b + 4 * block, scales + (BLOCKS + block) * SCALES);
            }
#pragma unroll
            for (unsigned k = 0; k < 4; k++) {
                unsigned first = k * TAKEN, block = first / 4, id = first % 4;
                scaled_mma<kind>(memory, matrix(from + 32 * k), matrix(from + TILE + 32 * k), WHAT | id << 4 | id << 29,
                                 (scales_a + 4 * block) | id << 30, (scales_b + 4 * block) | id << 30, i || k);
            }
            commit(shared_address(&empty[at.stage]));
        }
        commit(shared_address(&done));
    }
    __syncwarp();
    wait(shared_address(&done), 0);
    after_sync();
#pragma unroll 1
    for (int n = 0; n < ROWS; n += 16) {
        unsigned r[16];
        load_16(r, memory + (warp << 21) + n);
        loaded();
        for (int i = 0; i < 16; i += 4)
            *(float4 *)(d + threadIdx.x * ROWS + n + i) =
                make_float4(__uint_as_float(r[i]), __uint_as_float(r[i + 1]), __uint_as_float(r[i + 2]), __uint_as_float(r[i + 3]));
    }
    before_sync();
    __syncthreads();
    if (warp == 2) release(memory, 256);
}

#define PRODUCT(name, kind)                                                                                                              \
    extern "C" __global__ void __launch_bounds__(128) name(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,      \
                                                          const char *sa, const char *sb, float *d, int depth) {                        \
        product<kind>(a, b, sa, sb, d, depth);                                                                                          \
    }

PRODUCT(mxf8, MXF8)
PRODUCT(mxf4, MXF4)
PRODUCT(nvf4, NVF4)
