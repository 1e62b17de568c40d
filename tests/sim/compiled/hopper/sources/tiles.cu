// D = A^T B for A (K, M), B (K, N), both with K outermost: tiles are handed out as CTAs become free, sums are halves.
#include "engine.cuh"

#define LIST_16(C, d) LIST_8(C, d, 0), LIST_8(C, d, 8)
// 64 columns of halves: 16 registers of pairs. Both operands have their rows along K.
ENGINE void product(uint32_t (&d)[16], uint64_t a, uint64_t b, int use) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16 {" NAMES_16 "}, %16, %17, p, 1, 1, 1, 1;\n}"
                 : LIST_16("+r", d) : "l"(a), "l"(b), "r"(use));
}

struct alignas(1024) Tiles {
    __half a[2][64 * 64], b[2][64 * 64], d[64 * 64];
    Barrier full[2], empty[2], told, heard;
    int tile;
};
extern "C" __global__ void __launch_bounds__(160)
free_tiles(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap d, int *counter, int across, int tiles, int depth) {
    extern __shared__ uint8_t raw[];
    Tiles &s = *(Tiles *)raw;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) init(s.full[i], 1), init(s.empty[i], 128);
        init(s.told, 1), init(s.heard, 128);
        fence_init();
    }
    __syncthreads();
    Place<2> at;
    Place<1> turn;
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128)
            for (bool more = true; more; turn.next()) {
                const int tile = atomicAdd(counter, 1);
                more = tile < tiles;
                wait(s.heard, turn.parity ^ 1);
                s.tile = more ? tile : -1;
                arrive(s.told);
                for (int k = 0; more && k < depth; k += 64, at.next()) {
                    wait(s.empty[at.stage], at.parity ^ 1);
                    expect(s.full[at.stage], 2 * sizeof s.a[0]);
                    load(s.a[at.stage], a, s.full[at.stage], tile / across * 64, k);
                    load(s.b[at.stage], b, s.full[at.stage], tile % across * 64, k);
                }
            }
        return;
    }
    for (;; turn.next()) {
        wait(s.told, turn.parity);
        const int now = s.tile;
        arrive(s.heard);
        if (now < 0) break;
        uint32_t sum[16];
        for (int k = 0; k < depth; k += 64, at.next()) {
            wait(s.full[at.stage], at.parity);
            products_fence();
            // 16 of K are 16 rows: two times eight of 128 bytes.
            for (int i = 0; i < 4; i++) product(sum, tile<128>(s.a[at.stage] + i * 16 * 64), tile<128>(s.b[at.stage] + i * 16 * 64), k + i > 0);
            products_commit();
            products_wait<0>();
            arrive(s.empty[at.stage]);
        }
        if (threadIdx.x == 0) wait_read<0>();
        named_sync(1, 128);
        const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;
        for (int i = 0; i < 4; i++) {
            const uint32_t to = shared(s.d) + row * 128 + ((2 * i + lane / 16) * 16 ^ (row & 7) << 4);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(sum[4 * i]), "r"(sum[4 * i + 1]), "r"(sum[4 * i + 2]), "r"(sum[4 * i + 3]) : "memory");
        }
        proxy_fence();
        named_sync(1, 128);
        if (threadIdx.x == 0) store(d, s.d, now % across * 64, now / across * 64), commit();
    }
    if (threadIdx.x == 0) wait_read<0>();
}
