// printf, and assertions that hold and that fail.
#include <cassert>
#include <cstdio>

extern "C" __global__ void prints(const int *in, const double *wide) {
    int t = threadIdx.x;
    if (t == 0) printf("start: %d threads, %s\n", blockDim.x, "one line");
    __syncthreads();
    if (t == 33) printf("%5d|%-5d|%05d|%+d|%x|%X|%#o|%u|%c\n", in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], 'a' + in[8]);
    __syncthreads();
    if (t == 1) printf("%f %.3f %10.2e %g %lld %llu %hd %5.1f%%\n", wide[0], wide[1], wide[2], wide[3], 1ll << 40, ~0ull, 70000, 99.5);
    __syncthreads();
    if (t == 2) printf("%s %.2s %8s %p %%\n", "text", "cut", "right", (void *)0x1234);
}

extern "C" __global__ void holds(const int *in, int *out) {
    int t = threadIdx.x;
    assert(in[t] >= 0 && "never negative");
    out[t] = in[t] + 1;
}

extern "C" __global__ void fails(const int *in, int *out) {
    int t = threadIdx.x;
    assert(in[t] < 50 && t >= 0);
    out[t] = in[t] + 1;
}
