// Division of integers of 32, 64 and 128 bits, and what else long integers need.
typedef long long s64;
typedef unsigned long long u64;
typedef __int128 s128;
typedef unsigned __int128 u128;

extern "C" __global__ void divide_32(const int *a, const int *b, int *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, x = a[at], y = b[at];
    unsigned u = x, v = y;
    out[at * 4] = x / y + x % y;
    out[at * 4 + 1] = u / v ^ u % v;
    out[at * 4 + 2] = x / 7 + u % 641 - x % 12;
    out[at * 4 + 3] = (short)x / (short)(y | 1) + (unsigned char)x % (unsigned char)(y | 1);
}

extern "C" __global__ void divide_64(const s64 *a, const s64 *b, s64 *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    s64 x = a[at], y = b[at];
    out[at * 4] = x / y;
    out[at * 4 + 1] = x % y;
    out[at * 4 + 2] = (u64)x / (u64)y + (u64)x % (u64)y;
    out[at * 4 + 3] = x / 1000000007 + (s64)((u64)x % 10) + __umul64hi(x, y) + __mul64hi(x, y);
}

extern "C" __global__ void divide_128(const u64 *a, const u64 *b, u64 *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    u128 x = (u128)a[at * 2 + 1] << 64 | a[at * 2], y = (u128)b[at * 2 + 1] << 64 | b[at * 2];
    u128 quotient = x / y, rest = x % y, product = x * y;
    s128 halved = (s128)x / (s128)(y >> 3 | 1) >> 5;
    rest += product ^ (u128)halved;
    out[at * 4] = quotient;
    out[at * 4 + 1] = quotient >> 64;
    out[at * 4 + 2] = rest;
    out[at * 4 + 3] = rest >> 64;
}
