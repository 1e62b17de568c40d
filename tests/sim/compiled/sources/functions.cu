// Calls that stay calls: arguments of many types, recursion, tables of functions, virtual functions.

struct Pair {
    int a;
    double b;
    short c[5];
};

static __device__ __noinline__ Pair turned(Pair p, int by) {
    Pair q = p;
    for (int i = 0; i < 5; i++) q.c[i] = p.c[(i + by) % 5] + by;
    q.a ^= by;
    q.b = p.b * 0.5 - by;
    return q;
}
static __device__ __noinline__ float mixed(signed char a, unsigned short b, long long c, float d, bool e, double *f) {
    *f += d;
    return e ? a * d + b : (float)c;
}
static __device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
static __device__ bool odd(unsigned n);
static __device__ __noinline__ bool even(unsigned n) { return n == 0 || odd(n - 1); }
static __device__ __noinline__ bool odd(unsigned n) { return n != 0 && even(n - 1); }
static __device__ __noinline__ int walk(const int *children, int node, int depth) {
    if (node < 0) return depth;
    int left = walk(children, children[2 * node], depth + 1), right = walk(children, children[2 * node + 1], depth + 1);
    return (left > right ? left : right) + (node & 1);
}

extern "C" __global__ void calls(const int *in, int *out, double *wide, float *floats) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, x = in[at];
    Pair p = {x, x * 0.25, {1, 2, 3, 4, (short)x}};
    p = turned(turned(p, x & 3), 3);
    double sum = p.b;
    floats[at] = mixed(x, x >> 3, (long long)x << 20, x * 0.125f, x & 1, &sum);
    wide[at] = sum;
    out[at] = p.a + p.c[x & 3] * 3 + p.c[4];
}

extern "C" __global__ void recursion(const int *children, int *out) {
    int t = threadIdx.x;
    out[t] = ackermann(t & 1, 3 + t % 3) * 1000 + even(t) * 100 + walk(children, t % 15, 0);
    if (t == 5) out[t] += ackermann(2, 2) << 20;
}

typedef int (*Binary)(int, int);
static __device__ __noinline__ int plus(int a, int b) { return a + b; }
static __device__ __noinline__ int times(int a, int b) { return a * b - 1; }
static __device__ __noinline__ int shift(int a, int b) { return a << (b & 7) | a >> 9; }
static __device__ __noinline__ int smaller(int a, int b) { return a < b ? a : b + 5; }
static __device__ Binary table[4] = {plus, times, shift, smaller};
static __device__ __noinline__ int fold(Binary f, int x, int n) {
    for (int i = 1; i < n; i++) x = f(x, i);
    return x;
}

extern "C" __global__ void table_of_functions(const int *in, int *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, x = in[at];
    out[at] = table[x & 3](x, at) + fold(table[at / 8 & 3], x, 6);
}

struct Shape {
    int side;
    __device__ Shape(int s) : side(s) {}
    virtual __device__ __noinline__ float area() const { return side; }
    virtual __device__ __noinline__ int corners() const = 0;
};
struct Square : Shape {
    using Shape::Shape;
    __device__ __noinline__ float area() const override { return (float)side * side; }
    __device__ __noinline__ int corners() const override { return 4; }
};
struct Triangle : Shape {
    using Shape::Shape;
    __device__ __noinline__ float area() const override { return side * 0.5f * side + Shape::area(); }
    __device__ __noinline__ int corners() const override { return 3; }
};

extern "C" __global__ void virtual_functions(const int *in, float *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, x = in[at] & 63;
    Square square(x);
    Triangle triangle(x + 1);
    const Shape *shapes[2] = {&square, &triangle};
    const Shape *which = shapes[in[at] >> 6 & 1];
    out[at] = which->area() * which->corners();
}

// What has no members is passed by value all the same: a debug build stores a byte that nobody wrote.
struct Larger {
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
struct Mixed {
    int by;
    __device__ int operator()(int a, int b) const { return a * by ^ b; }
};
template <class Op> static __device__ __noinline__ int combined(const int *from, int n, Op op) {
    int x = from[0];
    for (int i = 1; i < n; i++) x = op(x, from[i]);
    return x;
}

extern "C" __global__ void functors(const int *in, int *out) {
    int t = threadIdx.x;
    out[t] = combined(in + t, 5, Larger()) + combined(in + t, 4, Mixed{t & 7}) * 1000;
}
