// Bits, bytes and the instructions for them.

extern "C" __global__ void bit_tricks(const unsigned *a, const unsigned *b, unsigned *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = a[at], y = b[at];
    unsigned long long wide = (unsigned long long)x << 32 | y;
    unsigned *to = out + at * 8;
    to[0] = __popc(x) + __popcll(wide) * 64 + (__clz(x) << 12) + (__clzll(wide >> (y & 31)) << 18);
    to[1] = __brev(x) ^ (unsigned)__brevll(wide) ^ __ffs(x) ^ __ffsll(wide) << 8;
    to[2] = __byte_perm(x, y, 0x3715) + __byte_perm(x, y, y & 0x7777);
    to[3] = __funnelshift_l(x, y, y) ^ __funnelshift_r(x, y, x) ^ __funnelshift_lc(x, y, y & 63) ^ __funnelshift_rc(x, y, x & 63);
    to[4] = __dp4a((int)x, (int)y, 5) + __dp4a(x, y, 7u) * 3 + __dp2a_lo((int)x, (int)y, 9) - __dp2a_hi(x, y, 11u);
    to[5] = __mul24(x, y) + __umul24(x, y) + __mulhi((int)x, (int)y) + __umulhi(x, y) + __sad(x, y, 3) + __usad(x, y, 4);
    to[6] = __hadd((int)x, (int)y) + __urhadd(x, y) + (x << (y & 31) | x >> (32 - y & 31)) + (x & y | ~x & 0x55555555);
    to[7] = (int)x >> 3 ^ (x >> 5 & 0x1f) ^ (int)(signed char)y ^ (x ^ y ^ 0xf0f0f0f0) + ((x ^ y) & y);
}

extern "C" __global__ void packed_bytes(const unsigned *a, const unsigned *b, unsigned *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = a[at], y = b[at];
    unsigned *to = out + at * 6;
    to[0] = __vadd4(x, y) ^ __vaddss4(x, y) ^ __vaddus2(x, y);
    to[1] = __vabsdiffu4(x, y) + __vsadu4(x, y) + __vabsdiffs2(x, y);
    to[2] = __vmaxs4(x, y) ^ __vminu2(x, y) ^ __vavgu4(x, y);
    to[3] = __vcmpgtu4(x, y) ^ __vcmpeq2(x, y) ^ __vseteq4(x, y & ~0xffu | x & 0xff);
    to[4] = __viaddmax_s32(x, y, 77) + __vimax3_s32(x, y, -5) + __viaddmin_s16x2_relu(x, y, x);
    bool high, low;
    unsigned most = __vibmax_s16x2(x, y, &high, &low);
    to[5] = most + high * 2 + low + __vimin_s32_relu(x, y);
}

// ChaCha20's block function, rotations and all.
extern "C" __global__ void chacha(const unsigned *key, unsigned *out) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, x[16];
    for (int i = 0; i < 8; i++) start[4 + i] = key[i];
    start[12] = at, start[13] = 9, start[14] = 0x4a000000, start[15] = 0;
    for (int i = 0; i < 16; i++) x[i] = start[i];
    auto turn = [&](int a, int b, int c, int d) {
        x[a] += x[b], x[d] ^= x[a], x[d] = __funnelshift_l(x[d], x[d], 16);
        x[c] += x[d], x[b] ^= x[c], x[b] = __funnelshift_l(x[b], x[b], 12);
        x[a] += x[b], x[d] ^= x[a], x[d] = __funnelshift_l(x[d], x[d], 8);
        x[c] += x[d], x[b] ^= x[c], x[b] = __funnelshift_l(x[b], x[b], 7);
    };
#pragma unroll 1
    for (int i = 0; i < 10; i++) {
        turn(0, 4, 8, 12), turn(1, 5, 9, 13), turn(2, 6, 10, 14), turn(3, 7, 11, 15);
        turn(0, 5, 10, 15), turn(1, 6, 11, 12), turn(2, 7, 8, 13), turn(3, 4, 9, 14);
    }
    for (int i = 0; i < 16; i++) out[at * 16 + i] = x[i] + start[i];
}

// Where a thread is, and clocks that only go forward.
extern "C" __global__ void whereabouts(unsigned *out) {
    unsigned lane, below, upto, only, above, started = clock();
    long long began = clock64();
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%lanemask_le;" : "=r"(upto));
    asm("mov.u32 %0, %%lanemask_eq;" : "=r"(only));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(above));
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned long long before, after;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before));
    __nanosleep(2000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(after));
    unsigned *to = out + (block * blockDim.x * blockDim.y * blockDim.z + thread) * 4;
    to[0] = lane + (thread << 8) + (block << 20);
    to[1] = below ^ upto * 3 ^ only * 5;
    to[2] = above + (gridDim.x << 4) + (gridDim.y << 8) + (gridDim.z << 12);
    to[3] = (clock() != started) + 2 * (clock64() > began) + 4 * (after > before);
}
