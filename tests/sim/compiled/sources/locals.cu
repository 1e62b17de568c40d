// Arrays in local memory, variables of the module with initial values, constant memory.

__constant__ unsigned polynomial = 0xedb88320u;
__constant__ float weights[3][3] = {{0.25f, -0.5f, 1}, {2, -4, 0.125f}, {-0.0625f, 3, 1e-3f}};
__constant__ char text[] = "constant memory";
__device__ int counters[4] = {3, -1, 1 << 30, 7};
__device__ double ratio = 1.0 / 3;
__device__ int *inside = counters + 2;
__device__ const char *words[3] = {"one", "two\n", "three"};
__device__ struct {
    char tag;
    short numbers[3];
    long long wide;
    const float *points;
} record = {'x', {1, -2, 300}, -5000000000ll, &weights[1][1]};
__device__ unsigned zeros[8];

extern "C" __global__ void sort_locally(const int *in, int *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int kept[24], n = 8 + at % 17;
    for (int i = 0; i < n; i++) {
        int x = in[at * 24 + i], j = i;
        for (; j > 0 && kept[j - 1] > x; j--) kept[j] = kept[j - 1];
        kept[j] = x;
    }
    for (int i = 0; i < 24; i++) out[at * 24 + i] = i < n ? kept[i] : -1;
}

extern "C" __global__ void bytes_locally(const unsigned char *in, unsigned *out) {
    unsigned char order[64];
    short counts[8] = {};
    double sums[4] = {0, 1, 2, 3};
    int at = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
    for (int i = 0; i < 64; i++) order[i] = i;
    unsigned j = 0;
#pragma unroll 2
    for (int i = 0; i < 64; i++) {
        j = (j + order[i] + in[at * 8 + i % 8]) % 64;
        unsigned char kept = order[i];
        order[i] = order[j], order[j] = kept;
        counts[kept & 7] += j;
        sums[j & 3] += kept * 0.5;
    }
    unsigned hash = 0;
#pragma unroll 4
    for (int i = 0; i < 64; i++) hash = hash * 31 + order[i];
    const unsigned *pieces = (const unsigned *)counts;
    for (int i = 0; i < 4; i++) hash ^= pieces[i] + __double2hiint(sums[i]);
    out[at] = hash;
}

extern "C" __global__ void constants(const unsigned char *in, unsigned *out, float *sums) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned check = ~0u;
    for (int i = 0; i < 4; i++) {
        check ^= in[at * 4 + i];
#pragma unroll 2
        for (int bit = 0; bit < 8; bit++) check = check >> 1 ^ (check & 1 ? polynomial : 0);
    }
    float sum = 0;
    for (int i = 0; i < 4; i++) sum = fmaf(weights[in[at * 4 + i] % 3][i % 3], in[at * 4 + i], sum);
    out[at] = ~check + text[at % sizeof(text)];
    sums[at] = sum;
}

extern "C" __global__ void variables(long long *out) {
    int t = threadIdx.x;
    const char *word = words[t % 3];
    long long x = counters[t & 3] + __double_as_longlong(ratio) + *inside + word[t & 3];
    x += record.tag + record.numbers[t % 3] * 1000 + record.wide + (long long)(*record.points * 16);
    __syncthreads();
    zeros[t % 8] = t % 8;
    atomicAdd(&counters[t & 3], 1);
    __syncthreads();
    out[t] = x + counters[t & 3] * 7ll + zeros[(t + 1) % 8];
}
