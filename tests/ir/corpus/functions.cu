// What becomes functions, tables and data in PTX: calls of every kind, switches, unions, strings, aggregates.
#include <cassert>
#include <cstdio>
#include <new>

union Word {
    float f;
    unsigned u;
    unsigned char bytes[4];
    struct { unsigned low : 7, middle : 18, high : 7; } fields;
};

struct Big {
    int head;
    double body[5];
    char tail[3];
};

struct Shape {
    float scale;
    __device__ Shape(float s) : scale(s) {}
    __device__ virtual float area(float x) const { return scale * x; }
    __device__ virtual float edge(float x, int n) const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    __device__ Square(float s) : Shape(s) {}
    __device__ float area(float x) const override { return x * x * scale; }
    __device__ float edge(float x, int n) const override { return n * x; }
};
struct Circle : Shape {
    double r;
    __device__ Circle(float s) : Shape(s), r(s * 3) {}
    __device__ float edge(float x, int n) const override { return 6.28f * x + n + r; }
};

__managed__ int managed_counter = 3;
__managed__ double managed_table[4];
__device__ int counter = 7;
__device__ int *pointers[3] = {&counter, nullptr, &counter + 2};
__constant__ Big constants[2] = {{1, {1.5, 2.5}, {'a', 'b', 'c'}}, {-7}};
__constant__ const char *names[] = {"zero", "one", "two\twith \"quotes\" and \\ and a string that is long enough to need several lines of initial values in the text"};
__device__ unsigned char text[] = "bytes \x01\xff";
__device__ long long wide[2][2] = {{1ll << 40, -1}, {0, 5}};
__device__ volatile float flag;
static __device__ __align__(32) short aligned[5] = {1, -2, 3};
__shared__ int shared_scalar;

__device__ __noinline__ Big change(Big b, int i) {
    b.body[i % 5] += b.head;
    b.tail[i % 3]++;
    return b;
}
__device__ __noinline__ bool decide(float x, bool other) { return x > 1 && !other; }
__device__ __noinline__ signed char narrow(short a, unsigned char b) { return a - b; }
__device__ __noinline__ void several(int *a, float &b, const double &c) { *a += b, b = c; }
__device__ __noinline__ long long many(int a, long long b, float c, double d, char e, short f, bool g, float4 h, int2 i, Word j) {
    return a + b + c + d + e + f + g + h.y + i.x + j.u;
}
template <int N> __device__ __noinline__ int nest(int x) { return nest<N - 1>(x * N) + N; }
template <> __device__ __noinline__ int nest<0>(int x) { return x; }

__device__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
__device__ __noinline__ int ackermann(int m, int n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

__global__ void aggregates(Big *b, Big by_value, int i) { b[i] = change(change(b[i], i), by_value.head); }
__global__ void scalars(float *x, int n) {
    int a = n;
    several(&a, x[1], x[2]);
    x[0] = decide(x[3], n & 1) + narrow(n, n >> 3) + a;
    Word w;
    w.f = x[4];
    x[5] = many(n, n, x[1], x[2], n, n, n > 3, make_float4(1, 2, 3, x[3]), make_int2(n, 2), w);
}
__global__ void recursion(int *x) { x[0] = even(x[1]) + ackermann(2, x[2]) + nest<5>(x[3]); }
__global__ void unions(Word *w) {
    Word v = w[threadIdx.x];
    v.fields.middle += v.bytes[2];
    v.bytes[1] ^= v.fields.high;
    w[threadIdx.x] = v;
}

typedef int (*Unary)(int);
__device__ Unary unary[4] = {even, odd, nest<2>, nest<3>};
__constant__ Unary constant_unary[2] = {odd, nest<4>};
__device__ __noinline__ int twice(Unary f, int x) { return f(f(x)); }
__global__ void pointers_to_functions(int *x, Unary given) {
    x[0] = unary[x[1] & 3](x[2]) + constant_unary[x[3] & 1](4) + twice(given, x[4]);
}
struct Members {
    int k;
    __device__ __noinline__ int first(int a) { return a + k; }
    __device__ __noinline__ int second(int a) { return a * k; }
};
__global__ void pointers_to_members(int *x) {
    Members m{x[1]};
    int (Members::*f)(int) = x[2] ? &Members::first : &Members::second;
    x[0] = (m.*f)(x[3]);
}
template <class F> __global__ void apply(F f, int *x) { x[threadIdx.x] = f(x[threadIdx.x]); }
struct Adder {
    int a;
    long long b;
    __device__ int operator()(int x) const { return x + a + b; }
};
template __global__ void apply<Adder>(Adder, int *);
template __global__ void apply<Unary>(Unary, int *);

__global__ void virtuals(float *x, int kind) {
    alignas(16) char storage[64];
    Shape *s = kind ? (Shape *)new (storage) Square(x[0]) : (Shape *)new (storage) Circle(x[1]);
    x[2] = s->area(x[3]) + s->edge(x[4], kind);
    s->~Shape();
}
__global__ void heap(float *x, int n) {
    Shape *s = new Circle(x[0]);
    int *list = (int *)malloc(n * sizeof(int));
    if (list) list[n - 1] = n;
    x[1] = s->edge(1, list ? list[n / 2] : 0);
    free(list);
    delete s;
}

__global__ void dense_switch(int *x) {
    int v = x[0];
    switch (x[1]) {
        case 0: v += 7; break;
        case 1: v *= 3;
        case 2: v ^= x[2]; break;
        case 3: v = x[3] / (v | 1); break;
        case 4: v -= x[4]; break;
        case 5: case 6: v <<= 2; break;
        case 7: v = __popc(v); break;
        case 8: return;
        case 9: v = x[v & 7]; break;
        case 10: v = ~v; break;
        case 11: atomicAdd(x + 9, v); break;
    }
    x[0] = v;
}
__global__ void sparse_switch(long long *x) {
    switch (x[0]) {
        case -5: x[1] = 1; break;
        case 17: x[1] = x[2]; break;
        case 1000000: x[1] += 5; break;
        case 1ll << 40: x[1] = x[3] * x[4]; break;
        default: x[1] = 0;
    }
}
__global__ void jumps(int *x) {
    int i = 0;
again:
    for (; i < x[0]; i++) {
        if (x[i] == 3) goto out;
        if (x[i] == 4) { i += 2; goto again; }
        if (x[i] == 5) continue;
        for (int j = 0; j < i; j++) {
            if (x[j] > x[i]) break;
            x[j]++;
        }
    }
out:
    x[0] = i;
}
__global__ void state_machine(const char *in, int *out, int n) {
    enum { start, word, number, end } state = start;
    int counts[4] = {};
    for (int i = 0; i < n && state != end; i++) {
        char c = in[i];
        switch (state) {
            case start: state = c >= '0' && c <= '9' ? number : c == 0 ? end : word; break;
            case word: state = c == ' ' ? start : word; break;
            case number: state = c < '0' || c > '9' ? start : number; break;
            default: __trap();
        }
        counts[state]++;
    }
    for (int i = 0; i < 4; i++) out[i] = counts[i];
}

__global__ void prints(int n, double d, const char *s) {
    printf("no arguments\n");
    printf("%d %f %s %c %llx %p\n", n, d, s, 'x', 1ull << n, s);
    printf(names[n & 1]);
}
__global__ void asserts(int *x, unsigned n) {
    assert(x != nullptr && "a message");
    assert(n < 100);
    if (x[n] < 0) __trap();
    if (x[n] == 1) __brkpt();
    if (x[n] == 2) asm volatile("exit;");
    __builtin_assume(n > 2);
    if (n == 77) __builtin_unreachable();
    x[n] = __builtin_expect(x[1], 0) ? 3 : 4;
}
__global__ void data(long long *out, int i) {
    out[0] = *pointers[0] + managed_table[i] + constants[i & 1].body[i % 5] + constants[1].tail[i % 3];
    out[1] = (long long)names[i] + text[i] + wide[i & 1][i >> 1 & 1] + aligned[i];
    flag = 3;
    shared_scalar = i;
    __syncthreads();
    out[2] = shared_scalar + flag;
    managed_counter++;
}
__global__ void locals(int *x, int n) {
    int a[64];
    double b[4][4];
    char c[17];
    for (int i = 0; i < 64; i++) a[i] = x[i] + n;
    for (int i = 0; i < 16; i++) b[i / 4][i % 4] = a[i * n % 64];
    for (int i = 0; i < 17; i++) c[i] = a[(i + n) % 64];
    x[0] = a[x[1] & 63] + b[n & 3][x[2] & 3] + c[n % 17];
}
__global__ void __launch_bounds__(256, 2) bounds(int *x) { x[threadIdx.x] += blockDim.x; }
__global__ void copies_of_structs(Big *a, const Big *b, int n) {
    if (n) a[0] = b[1];
    a[1] = Big{};
    memcpy(a + 2, b + n, sizeof(Big) * n);
    memset(a + 3, 5, 100);
}
__global__ void shadows(int *x) {
    int v = x[0];
    for (int i = 0; i < 3; i++) {
        asm volatile("{\n\t.reg .pred p, q;\n\t.reg .b32 t<4>;\n\tmov.b32 t0, %0;\n\tLOOP:\n\tadd.s32 t0, t0, -1;\n\t"
                     "setp.gt.s32 p|q, t0, 0;\n\t@p bra LOOP;\n\t{\n\t.reg .b64 t0;\n\tcvt.u64.s32 t0, %0;\n\tcvt.u32.u64 t1, t0;\n\t}\n\t"
                     "@!q add.s32 t1, t1, 1;\n\tadd.s32 %0, t0, t1;\n\t}" : "+r"(v));
        asm volatile("{ .reg .b32 x; .local .align 8 .b8 room[16]; mov.b32 x, %0; st.local.b32 [room+4], x; ld.local.b32 %0, [room+4]; }" : "+r"(v));
    }
    asm("// a comment\n\t/* another { */ mov.b32 %0, /* here */ 0x7fU; // and here" : "=r"(x[2]));
    asm volatile(".pragma \"nounroll\";");
    x[1] = v;
}
extern "C" __global__ void plain_name(long long *x) { x[0] = clock64() + clock(); }
