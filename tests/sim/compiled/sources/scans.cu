// Scans: inside a block, and over blocks that wait for each other.

static __device__ unsigned scan_warp(unsigned x) {
    for (int step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(~0u, x, step);
        if (threadIdx.x % 32 >= step) x += other;
    }
    return x;
}

static __device__ unsigned scan_block(unsigned x, unsigned *ends) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    x = scan_warp(x);
    if (lane == 31) ends[warp] = x;
    __syncthreads();
    if (warp == 0) {
        unsigned end = lane < blockDim.x / 32 ? ends[lane] : 0;
        ends[lane] = scan_warp(end);
    }
    __syncthreads();
    return warp ? x + ends[warp - 1] : x;
}

extern "C" __global__ void inclusive_scan(const unsigned *in, unsigned *out) {
    __shared__ unsigned ends[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = scan_block(in[at], ends);
}

// A ticket orders the blocks; each waits in a spin for the sum of those before it.
extern "C" __global__ void chained_scan(
    const unsigned *in, unsigned *out, volatile unsigned *sums, volatile unsigned *ready, unsigned *ticket) {
    __shared__ unsigned ends[32], mine, before;
    if (threadIdx.x == 0) mine = atomicAdd(ticket, 1);
    __syncthreads();
    int at = mine * blockDim.x + threadIdx.x;
    unsigned x = scan_block(in[at], ends);
    if (threadIdx.x == blockDim.x - 1) {
        unsigned sum = 0;
        if (mine > 0) {
            while (ready[mine - 1] == 0) {}
            __threadfence();
            sum = sums[mine - 1];
        }
        sums[mine] = sum + x;
        __threadfence();
        ready[mine] = 1;
        before = sum;
    }
    __syncthreads();
    out[at] = x + before;
}

// Blelloch's scan of doubles, in a tree in dynamic shared memory.
extern "C" __global__ void tree_scan(const double *in, double *out) {
    extern __shared__ double tree[];
    int n = 2 * blockDim.x, t = threadIdx.x;
    tree[2 * t] = in[2 * t];
    tree[2 * t + 1] = in[2 * t + 1];
    int offset = 1;
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) tree[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            double kept = tree[a];
            tree[a] = tree[b];
            tree[b] += kept;
        }
    }
    __syncthreads();
    out[2 * t] = tree[2 * t];
    out[2 * t + 1] = tree[2 * t + 1];
}
