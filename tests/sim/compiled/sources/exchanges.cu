// Shared memory: transposes, a sort in dynamic memory, warps that produce and consume behind named barriers.

extern "C" __global__ void transpose(const float *in, float *out, int width, int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_bytes(const uchar4 *in, uchar4 *out) {
    __shared__ uchar4 tile[32][8];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[y * 8 + x];
    __syncthreads();
    const unsigned char *bytes = (const unsigned char *)tile;
    int at = y * 4 + x * 128;
    uchar4 found = {bytes[y + x * 128], bytes[y + x * 128 + 32], bytes[y + x * 128 + 64], bytes[y + x * 128 + 96]};
    out[at / 4] = found;
}

extern "C" __global__ void bitonic(const unsigned *in, unsigned *out) {
    extern __shared__ unsigned keys[];
    int t = threadIdx.x, n = blockDim.x;
    keys[t] = in[blockIdx.x * n + t];
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            int other = t ^ j;
            if (other > t) {
                unsigned a = keys[t], b = keys[other];
                if ((a > b) == ((t & k) == 0)) keys[t] = b, keys[other] = a;
            }
        }
    __syncthreads();
    out[blockIdx.x * n + t] = keys[t];
}

extern "C" __global__ void saxpy(float a, const float *__restrict__ x, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

// Warp 0 fills two buffers in turn, three warps use them; barriers 1 and 2 say full, 3 and 4 empty.
extern "C" __global__ void producer_consumers(const int *in, int *out, int rounds) {
    __shared__ int buffer[2][96];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        for (int i = 0; i < rounds; i++) {
            int which = i & 1;
            if (i >= 2) asm volatile("bar.sync %0, 128;" ::"r"(3 + which) : "memory");
            for (int j = lane; j < 96; j += 32) buffer[which][j] = in[i * 96 + j] + i;
            asm volatile("bar.arrive %0, 128;" ::"r"(1 + which) : "memory");
        }
    } else {
        int sum = 0, slot = (threadIdx.x * 7 + 5) % 96;
        for (int i = 0; i < rounds; i++) {
            int which = i & 1;
            asm volatile("bar.sync %0, 128;" ::"r"(1 + which) : "memory");
            sum = sum * 3 + buffer[which][slot];
            if (i + 2 < rounds) asm volatile("bar.arrive %0, 128;" ::"r"(3 + which) : "memory");
        }
        out[threadIdx.x - 32] = sum;
    }
}

extern "C" __global__ void votes(const int *in, int *out) {
    int t = threadIdx.x, x = in[t];
    int some = __syncthreads_or(x > 90), all = __syncthreads_and(x > 2), count = __syncthreads_count(x & 1);
    unsigned ballot = __ballot_sync(~0u, x & 2);
    int any = __any_sync(~0u, x == 50), whole = __all_sync(~0u, x >= 0);
    out[t] = !!some + 2 * !!all + 4 * count + 4096 * __popc(ballot) + (any << 20) + (whole << 21);
    if (t >= 32 && t < 96) {
        int sum;
        asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 10; bar.red.popc.u32 %0, 5, 64, p; }" : "=r"(sum) : "r"(x) : "memory");
        out[t] += sum << 23;
    }
}
