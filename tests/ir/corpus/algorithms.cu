// Whole algorithms: reductions, scans, sorts, dense and sparse linear algebra, stencils, graphs, hashing.
#define AT blockIdx.x *blockDim.x + threadIdx.x

template <class T> struct Sum {
    static __device__ T zero() { return T(0); }
    __device__ T operator()(T a, T b) const { return a + b; }
};
template <class T> struct Largest {
    static __device__ T zero() { return T(-1000000); }
    __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};

template <class T, class Op> __device__ T warp_reduce(T x, Op op) {
#pragma unroll
    for (int d = 16; d; d >>= 1) x = op(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

template <class T, class Op> __device__ T block_reduce(T x, Op op) {
    __shared__ T parts[32];
    x = warp_reduce(x, op);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : Op::zero();
    if (threadIdx.x < 32) x = warp_reduce(x, op);
    if (threadIdx.x == 0) parts[0] = x;
    __syncthreads();
    return parts[0];
}

template <class T, class Op> __global__ void fold(const T *in, T *out, int n) {
    T x = Op::zero();
    for (int i = AT; i < n; i += gridDim.x * blockDim.x) x = Op()(x, in[i]);
    x = block_reduce(x, Op());
    if (threadIdx.x == 0) out[blockIdx.x] = x;
}
template __global__ void fold<int, Sum<int>>(const int *, int *, int);
template __global__ void fold<float, Largest<float>>(const float *, float *, int);
template __global__ void fold<double, Sum<double>>(const double *, double *, int);
template __global__ void fold<long long, Largest<long long>>(const long long *, long long *, int);

__global__ void softmax(const float *in, float *out, int width) {
    const float *row = in + blockIdx.x * width;
    float most = -1e30f, sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, row[i]);
    most = block_reduce(most, Largest<float>());
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += __expf(row[i] - most);
    sum = block_reduce(sum, Sum<float>());
    for (int i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = __expf(row[i] - most) / sum;
}

__global__ void layer_norm(const float4 *in, const float4 *weight, float4 *out, int width, float epsilon) {
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float4 v = in[blockIdx.x * width + i];
        sum += v.x + v.y + v.z + v.w;
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    float mean = block_reduce(sum, Sum<float>()) / (4 * width);
    float scale = rsqrtf(block_reduce(squares, Sum<float>()) / (4 * width) - mean * mean + epsilon);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float4 v = in[blockIdx.x * width + i], w = weight[i];
        out[blockIdx.x * width + i] = make_float4((v.x - mean) * scale * w.x, (v.y - mean) * scale * w.y,
                                                  (v.z - mean) * scale * w.z, (v.w - mean) * scale * w.w);
    }
}

__global__ void scan(const int *in, int *out, int n) {
    extern __shared__ int buffer[];
    int t = threadIdx.x, from = 0;
    buffer[t] = t < n ? in[t] : 0;
    for (int d = 1; d < blockDim.x; d <<= 1) {
        __syncthreads();
        int to = from ^ 1;
        buffer[to * blockDim.x + t] = buffer[from * blockDim.x + t] + (t >= d ? buffer[from * blockDim.x + t - d] : 0);
        from = to;
    }
    if (t < n) out[t] = buffer[from * blockDim.x + t];
}

template <bool Descending> __global__ void bitonic(unsigned *keys, int j, int k) {
    unsigned i = AT, other = i ^ j;
    if (other <= i) return;
    unsigned a = keys[i], b = keys[other];
    bool up = ((i & k) == 0) != Descending;
    if ((a > b) == up) { keys[i] = b; keys[other] = a; }
}
template __global__ void bitonic<false>(unsigned *, int, int);
template __global__ void bitonic<true>(unsigned *, int, int);

__global__ void radix_count(const unsigned *keys, unsigned *counts, int n, int shift) {
    __shared__ unsigned bins[256];
    bins[threadIdx.x & 255] = 0;
    __syncthreads();
    for (int i = AT; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[keys[i] >> shift & 255], 1u);
    __syncthreads();
    if (threadIdx.x < 256 && bins[threadIdx.x]) atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}

template <class T, int Tile> __global__ void matmul(const T *a, const T *b, T *c, int n) {
    __shared__ T left[Tile][Tile], right[Tile][Tile + 1];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * Tile + y, column = blockIdx.x * Tile + x;
    T sum = 0;
    for (int k = 0; k < n; k += Tile) {
        left[y][x] = row < n && k + x < n ? a[row * n + k + x] : T(0);
        right[y][x] = column < n && k + y < n ? b[(k + y) * n + column] : T(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < Tile; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
template __global__ void matmul<float, 16>(const float *, const float *, float *, int);
template __global__ void matmul<double, 8>(const double *, const double *, double *, int);
template __global__ void matmul<int, 32>(const int *, const int *, int *, int);

__global__ void sparse_row(const int *starts, const int *columns, const float *values, const float *x, float *y, int n) {
    int row = (AT) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0;
    for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum += values[i] * __ldg(&x[columns[i]]);
    sum = warp_reduce(sum, Sum<float>());
    if (lane == 0) y[row] = sum;
}

__constant__ float filter[7][7];

__global__ void convolve(const float *__restrict__ in, float *__restrict__ out, int width, int height) {
    int x = AT, y = blockIdx.y;
    float sum = 0;
    for (int dy = -3; dy <= 3; dy++)
        for (int dx = -3; dx <= 3; dx++) {
            int u = min(max(x + dx, 0), width - 1), v = min(max(y + dy, 0), height - 1);
            sum += filter[dy + 3][dx + 3] * in[v * width + u];
        }
    out[y * width + x] = sum;
}

__global__ void heat(const double *in, double *out, int nx, int ny, int nz) {
    int x = AT, y = blockIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    size_t plane = size_t(nx) * ny, at = size_t(y) * nx + x + plane;
    for (int z = 1; z < nz - 1; z++, at += plane)
        out[at] = in[at] + 0.1 * (in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx] + in[at - plane] + in[at + plane] - 6 * in[at]);
}

__global__ void breadth_first(const int *starts, const int *edges, int *distance, int *next, int *count, int level, int n) {
    int node = AT;
    if (node >= n || distance[node] != level) return;
    for (int e = starts[node]; e < starts[node + 1]; e++)
        if (atomicCAS(&distance[edges[e]], -1, level + 1) == -1) next[atomicAdd(count, 1)] = edges[e];
}

__global__ void insert(unsigned long long *table, const unsigned *keys, unsigned mask, int n) {
    int i = AT;
    if (i >= n) return;
    unsigned long long entry = (unsigned long long)keys[i] << 32 | i;
    for (unsigned slot = keys[i] * 2654435761u & mask;; slot = slot + 1 & mask) {
        unsigned long long old = atomicCAS(&table[slot], ~0ull, entry);
        if (old == ~0ull || old >> 32 == keys[i]) break;
    }
}

__global__ void mandelbrot(unsigned char *out, int width, double x0, double y0, double step, int limit) {
    double cx = x0 + step * (AT), cy = y0 + step * blockIdx.y, x = 0, y = 0;
    int n = 0;
    while (n < limit && x * x + y * y < 4) {
        double t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        n++;
    }
    out[blockIdx.y * width + AT] = n == limit ? 0 : 1 + n % 255;
}

__global__ void bodies(float4 *position, float3 *velocity, int n, float dt) {
    extern __shared__ float4 tile[];
    float4 me = position[AT];
    float3 force = {0, 0, 0};
    for (int base = 0; base < n; base += blockDim.x) {
        tile[threadIdx.x] = position[base + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < blockDim.x; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-6f), s = tile[j].w * r * r * r;
            force.x += dx * s, force.y += dy * s, force.z += dz * s;
        }
        __syncthreads();
    }
    float3 v = velocity[AT];
    v.x += force.x * dt, v.y += force.y * dt, v.z += force.z * dt;
    velocity[AT] = v;
}

__global__ void life(const unsigned *in, unsigned *out, int words) {
    int i = AT;
    unsigned rows[3][3];
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++) rows[y][x] = in[i + (y - 1) * words + x - 1];
    unsigned result = 0;
    for (int bit = 0; bit < 32; bit++) {
        int alive = 0;
        for (int y = 0; y < 3; y++) {
            unsigned long long wide = (unsigned long long)rows[y][1] << 1 | rows[y][0] >> 31 | (unsigned long long)rows[y][2] << 33;
            alive += __popcll(wide >> bit & 7);
        }
        unsigned self = rows[1][1] >> bit & 1;
        result |= (alive == 3 || (alive == 4 && self)) << bit;
    }
    out[i] = result;
}

__constant__ unsigned rounds[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1};

__global__ void digest(const uint4 *message, unsigned *out) {
    unsigned w[16], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = 0; i < 4; i++) {
        uint4 v = message[(AT) * 4 + i];
        w[4 * i] = __byte_perm(v.x, 0, 0x0123), w[4 * i + 1] = __byte_perm(v.y, 0, 0x0123);
        w[4 * i + 2] = __byte_perm(v.z, 0, 0x0123), w[4 * i + 3] = __byte_perm(v.w, 0, 0x0123);
    }
#pragma unroll 16
    for (int i = 0; i < 64; i++) {
        unsigned s = __funnelshift_r(h[4], h[4], 6) ^ __funnelshift_r(h[4], h[4], 11) ^ __funnelshift_r(h[4], h[4], 25);
        unsigned t = h[7] + s + ((h[4] & h[5]) ^ (~h[4] & h[6])) + rounds[i] + w[i & 15];
        unsigned u = (__funnelshift_r(h[0], h[0], 2) ^ __funnelshift_r(h[0], h[0], 13)) + ((h[0] & h[1]) ^ (h[0] & h[2]) ^ (h[1] & h[2]));
        for (int j = 7; j; j--) h[j] = h[j - 1];
        h[4] += t;
        h[0] = t + u;
        w[i & 15] += w[i + 9 & 15] ^ w[i + 14 & 15] >> 10;
    }
    for (int i = 0; i < 8; i++) out[(AT) * 8 + i] = h[i];
}

__global__ void butterfly(float2 *data, int n, int half) {
    int i = AT, k = i & (half - 1), a = (i - k) * 2 + k;
    float s, c;
    sincospif(-float(k) / half, &s, &c);
    float2 u = data[a], v = data[a + half];
    float2 t = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
    data[a] = make_float2(u.x + t.x, u.y + t.y);
    data[a + half] = make_float2(u.x - t.x, u.y - t.y);
}

template <int Width> __global__ void attention(const float *q, const float *k, const float *v, float *out, int n) {
    __shared__ float keys[32][Width], values[32][Width];
    float query[Width], result[Width] = {}, most = -1e30f, sum = 0;
    for (int d = 0; d < Width; d++) query[d] = q[(AT) * Width + d];
    for (int base = 0; base < n; base += 32) {
        for (int i = threadIdx.x; i < 32 * Width; i += blockDim.x) {
            keys[i / Width][i % Width] = k[base * Width + i];
            values[i / Width][i % Width] = v[base * Width + i];
        }
        __syncthreads();
        for (int j = 0; j < 32; j++) {
            float score = 0;
            for (int d = 0; d < Width; d++) score += query[d] * keys[j][d];
            float higher = fmaxf(most, score), keep = __expf(most - higher), weight = __expf(score - higher);
            sum = sum * keep + weight;
            for (int d = 0; d < Width; d++) result[d] = result[d] * keep + weight * values[j][d];
            most = higher;
        }
        __syncthreads();
    }
    for (int d = 0; d < Width; d++) out[(AT) * Width + d] = result[d] / sum;
}
template __global__ void attention<8>(const float *, const float *, const float *, float *, int);
template __global__ void attention<32>(const float *, const float *, const float *, float *, int);

__global__ void longest(const char *a, const char *b, short *table, int n, int diagonal) {
    int i = AT, j = diagonal - i;
    if (i < 1 || j < 1 || i > n || j > n) return;
    short up = table[(i - 1) * (n + 1) + j], left = table[i * (n + 1) + j - 1];
    table[i * (n + 1) + j] = a[i - 1] == b[j - 1] ? table[(i - 1) * (n + 1) + j - 1] + 1 : max(up, left);
}

__global__ void grey(const uchar3 *in, unsigned char *out, int n) {
    int i = AT;
    if (i < n) out[i] = (in[i].x * 77 + in[i].y * 151 + in[i].z * 28) >> 8;
}

__global__ void ticket(unsigned *counter, volatile int *data, int *result) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        data[blockIdx.x] = blockIdx.x * 3;
        __threadfence();
        last = atomicInc(counter, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x < gridDim.x) atomicAdd(result, data[threadIdx.x]);
}

__global__ void generator(unsigned *state, float *out, int n) {
    unsigned s = state[AT];
    for (int i = AT; i < n; i += gridDim.x * blockDim.x) {
        s ^= s << 13, s ^= s >> 17, s ^= s << 5;
        float u = s * 2.3283064e-10f, v = (s * 1664525u + 1013904223u) * 2.3283064e-10f;
        out[i] = sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
    }
    state[AT] = s;
}
