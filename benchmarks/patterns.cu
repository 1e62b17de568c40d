// Patterns of threads' code, each in a loop that reads the clock in front of it and behind it: what
// benchmarks/patterns.py measures on a GPU and predicts. Every kernel takes an array of zeros, an array for what
// it computes, the cycles of each CTA, and the rounds of its loop.
#include <cstdint>
#include <cuda_fp16.h>
#define K(name) extern "C" __global__ void name(const float* in, float* out, long long* clk, int n)
#define BEGIN __syncthreads(); long long c0 = clock64();
#define END __syncthreads(); long long c1 = clock64(); if (threadIdx.x == 0) clk[blockIdx.x] = c1 - c0;
extern __shared__ float4 dyn4[];
__device__ uint32_t sbase() { return (uint32_t)__cvta_generic_to_shared(dyn4); }

// register-tiled SGEMM inner loop
K(sgemm_tile) { float* s = (float*)dyn4; float* As = s; float* Bs = s + 8 * 128; int t = threadIdx.x;
  for (int i = t; i < 2 * 8 * 128; i += blockDim.x) s[i] = in[i];
  float acc[8][8] = {}; int ty = t / 16 % 16 * 8, tx = t % 16 * 8;
  BEGIN
  for (int it = 0; it < n; it++) {
    for (int k = 0; k < 8; k++) { float a[8], b[8];
      for (int i = 0; i < 8; i++) a[i] = As[k * 128 + ty + i];
      for (int i = 0; i < 8; i++) b[i] = Bs[k * 128 + tx + i];
      for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) acc[i][j] += a[i] * b[j]; }
    __syncthreads(); }
  END
  float x = 0; for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) x += acc[i][j]; out[blockIdx.x * blockDim.x + t] = x; }
// shared-memory matmul, one result a thread
K(smem_naive) { float* As = (float*)dyn4; float* Bs = As + 1024; int t = threadIdx.x, ty = t / 32, tx = t % 32;
  for (int i = t; i < 2048; i += blockDim.x) As[i] = in[i];
  float acc = 0; BEGIN
  for (int it = 0; it < n; it++) { for (int k = 0; k < 32; k++) acc += As[ty * 32 + k] * Bs[k * 32 + tx]; __syncthreads(); }
  END out[blockIdx.x * blockDim.x + t] = acc; }
// the same with eight results a thread (1D tile)
K(smem_1d) { float* As = (float*)dyn4; float* Bs = As + 512; int t = threadIdx.x, ty = t / 64, tx = t % 64;
  for (int i = t; i < 1024; i += blockDim.x) As[i] = in[i];
  float acc[8] = {}; BEGIN
  for (int it = 0; it < n; it++) { for (int k = 0; k < 8; k++) { float b = Bs[k * 64 + tx]; for (int i = 0; i < 8; i++) acc[i] += As[(ty * 8 + i) * 8 + k] * b; } __syncthreads(); }
  END float x = 0; for (int i = 0; i < 8; i++) x += acc[i]; out[blockIdx.x * blockDim.x + t] = x; }
// mma.sync with ldmatrix
__device__ void ldm(uint32_t* r, uint32_t a) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a)); }
__device__ void mma(float* d, uint32_t* a, uint32_t* b) { asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); }
K(mma_tile) { uint32_t base = (uint32_t)__cvta_generic_to_shared(dyn4); int t = threadIdx.x, lane = t % 32, w = t / 32;
  float* s = (float*)dyn4; for (int i = t; i < 8192; i += blockDim.x) s[i] = in[i];
  float acc[4][8][4] = {}; BEGIN
  for (int it = 0; it < n; it++) {
    #pragma unroll
    for (int k = 0; k < 4; k++) { uint32_t a[4][4], b[4][4];
      for (int i = 0; i < 4; i++) { int row = i * 16 + lane % 16, col = (k * 2 + lane / 16) ^ (row & 7); ldm(a[i], base + (w & 1) * 8192 + row * 128 + col * 16); }
      for (int j = 0; j < 4; j++) { int row = j * 16 + lane % 16, col = (k * 2 + lane / 16) ^ (row & 7); ldm(b[j], base + 16384 + (w >> 1 & 1) * 8192 + row * 128 + col * 16); }
      for (int i = 0; i < 4; i++) for (int j = 0; j < 8; j++) mma(acc[i][j], a[i], b[j / 2] + (j & 1) * 2); }
    __syncthreads(); }
  END float x = 0; for (int i = 0; i < 4; i++) for (int j = 0; j < 8; j++) for (int e = 0; e < 4; e++) x += acc[i][j][e]; out[blockIdx.x * blockDim.x + t] = x; }
// shuffle reductions in a row
K(shfl_sum) { float v = in[threadIdx.x]; BEGIN
  for (int it = 0; it < n; it++) { for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o); v *= 0.03f; }
  END out[blockIdx.x * blockDim.x + threadIdx.x] = v; }
// block reduction: shuffle, shared memory, barrier
K(block_sum) { __shared__ float p[32]; float v = in[threadIdx.x]; int w = threadIdx.x / 32, lane = threadIdx.x % 32, nw = blockDim.x / 32; BEGIN
  for (int it = 0; it < n; it++) { float x = v; for (int o = 16; o; o /= 2) x += __shfl_xor_sync(~0u, x, o); if (lane == 0) p[w] = x; __syncthreads();
    x = lane < nw ? p[lane] : 0.f; for (int o = 16; o; o /= 2) x += __shfl_xor_sync(~0u, x, o); v = v * 0.5f + x * 0.001f; __syncthreads(); }
  END out[blockIdx.x * blockDim.x + threadIdx.x] = v; }
// exponentials of what shared memory holds
K(exp_smem) { float* s = (float*)dyn4; int t = threadIdx.x; for (int i = t; i < 4096; i += blockDim.x) s[i] = in[i]; float m = in[0], sum = 0; BEGIN
  for (int it = 0; it < n; it++) for (int i = t; i < 4096; i += blockDim.x) { float e = expf(s[i] - m); sum += e; s[i] = e; }
  END out[blockIdx.x * blockDim.x + t] = sum; }
// tanh-gelu in registers
K(gelu) { float x = in[threadIdx.x], y = in[threadIdx.x + 1]; BEGIN
  for (int it = 0; it < n; it++) { float c = 0.044715f * x * x * x; x = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + c))) + y; float d = 0.044715f * y * y * y; y = 0.5f * y * (1.0f + tanhf(0.79788456f * (y + d))) + 0.1f; }
  END out[blockIdx.x * blockDim.x + threadIdx.x] = x + y; }
// division, square roots
K(divs) { float x = in[threadIdx.x] + 1.5f, y = 2.f; BEGIN for (int it = 0; it < n; it++) { x = y / x + 1.25f; y = sqrtf(x) + 1.f; } END out[blockIdx.x * blockDim.x + threadIdx.x] = x + y; }
// integer division and modulo
K(idiv) { int x = threadIdx.x + (int)in[0], y = n + 3, s = 0; BEGIN for (int it = 0; it < n; it++) { s += (x + it) / y; x = (x * 7 + s) % (y + it) + 5; } END out[blockIdx.x * blockDim.x + threadIdx.x] = s + x; }
// load, store to shared memory, barrier, use: a tile a turn, L2 holds it
K(tile_turn) { float* s = (float*)dyn4; int t = threadIdx.x, nt = blockDim.x; float acc = 0; const float* p = in + blockIdx.x * 8192; BEGIN
  for (int it = 0; it < n; it++) { for (int i = 0; i < 4; i++) s[t + i * nt] = p[t + i * nt]; __syncthreads(); for (int k = 0; k < 32; k++) acc += s[(t / 32) * 32 + k] * s[k * 32 + t % 32]; __syncthreads(); p += 4 * nt; if (it % 4 == 3) p -= 16 * nt; }
  END out[blockIdx.x * nt + t] = acc; }
// the same, the next tile in registers
K(tile_ahead) { float* s = (float*)dyn4; int t = threadIdx.x, nt = blockDim.x; float acc = 0; const float* p = in + blockIdx.x * 8192; float r[4]; for (int i = 0; i < 4; i++) r[i] = p[t + i * nt]; BEGIN
  for (int it = 0; it < n; it++) { for (int i = 0; i < 4; i++) s[t + i * nt] = r[i]; __syncthreads(); p += 4 * nt; if (it % 4 == 3) p -= 16 * nt; for (int i = 0; i < 4; i++) r[i] = p[t + i * nt]; for (int k = 0; k < 32; k++) acc += s[(t / 32) * 32 + k] * s[k * 32 + t % 32]; __syncthreads(); }
  END out[blockIdx.x * nt + t] = acc + r[0]; }
// cp.async, two stages
K(tile_async) { char* s = (char*)dyn4; uint32_t sb = (uint32_t)__cvta_generic_to_shared(s); float* f = (float*)dyn4; int t = threadIdx.x, nt = blockDim.x; float acc = 0; const char* p = (const char*)in + blockIdx.x * 65536;
  auto get = [&](int it) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(sb + (it & 1) * nt * 16 + t * 16), "l"(p + (it & 3) * nt * 16 + t * 16)); asm volatile("cp.async.commit_group;"); };
  get(0); BEGIN
  for (int it = 0; it < n; it++) { get(it + 1); asm volatile("cp.async.wait_group 1;"); __syncthreads(); int b = (it & 1) * nt * 4; for (int k = 0; k < 32; k++) acc += f[b + (t / 32) * 32 + k] * f[b + k * 4 + t % 4]; __syncthreads(); }
  END out[blockIdx.x * nt + t] = acc; }
// streams from L2: sum, one load a turn; four loads a turn of 16 bytes
K(l2_sum) { int t = threadIdx.x, nt = blockDim.x; const float* p = in + blockIdx.x * 32768; float acc = 0; BEGIN
  for (int it = 0; it < n; it++) acc += p[(it * nt + t) & 32767];
  END out[blockIdx.x * nt + t] = acc; }
K(l2_sum4) { int t = threadIdx.x, nt = blockDim.x; const float4* p = (const float4*)in + blockIdx.x * 16384; float acc = 0; BEGIN
  for (int it = 0; it < n; it++) { float4 a = __ldcg(p + ((it * 4 * nt + t) & 16383)), b = __ldcg(p + (((it * 4 + 1) * nt + t) & 16383)), c = __ldcg(p + (((it * 4 + 2) * nt + t) & 16383)), d = __ldcg(p + (((it * 4 + 3) * nt + t) & 16383)); acc += a.x + b.y + c.z + d.w; }
  END out[blockIdx.x * nt + t] = acc; }
// stores of 4 and 16 bytes
K(store1) { int t = threadIdx.x, nt = blockDim.x; float* p = out + blockIdx.x * 32768; BEGIN for (int it = 0; it < n; it++) p[(it * nt + t) & 32767] = it; END }
K(store4) { int t = threadIdx.x, nt = blockDim.x; float4* p = (float4*)out + blockIdx.x * 8192; BEGIN for (int it = 0; it < n; it++) p[(it * nt + t) & 8191] = make_float4(it, it, it, it); END }
K(store_strided) { int t = threadIdx.x, nt = blockDim.x; float* p = out + blockIdx.x * 32768; BEGIN for (int it = 0; it < n; it++) p[((it * nt + t) * 33) & 32767] = it; END }
// half2 arithmetic; bytes
K(half2s) { __half2 x = __float2half2_rn(in[threadIdx.x]), y = __float2half2_rn(0.5f), z = x; BEGIN for (int it = 0; it < n; it++) for (int i = 0; i < 8; i++) { x = __hfma2(x, y, z); z = __hfma2(z, y, x); } END out[blockIdx.x * blockDim.x + threadIdx.x] = __low2float(x) + __high2float(z); }
K(converts) { float x = in[threadIdx.x], s = 0; BEGIN for (int it = 0; it < n; it++) for (int i = 0; i < 8; i++) { __half h = __float2half(x); x = __half2float(h) * 1.01f + i; s += (int)x; } END out[blockIdx.x * blockDim.x + threadIdx.x] = x + s; }
// conflicts of banks; transposition through shared memory
K(transpose) { float* s = (float*)dyn4; int t = threadIdx.x, x = t % 32, y = t / 32; float v = in[t]; BEGIN for (int it = 0; it < n; it++) { for (int i = y; i < 32; i += blockDim.x / 32) s[i * 32 + x] = v + i; __syncthreads(); for (int i = y; i < 32; i += blockDim.x / 32) v += s[x * 32 + i]; __syncthreads(); } END out[blockIdx.x * blockDim.x + t] = v; }
// atomics in shared memory and in global memory
K(shared_atomics) { int* s = (int*)dyn4; int t = threadIdx.x; for (int i = t; i < 256; i += blockDim.x) s[i] = 0; BEGIN for (int it = 0; it < n; it++) atomicAdd(s + ((t * 17 + it * 5) & 255), 1); END out[blockIdx.x * blockDim.x + t] = s[t & 255]; }
K(global_atomics) { int* g = (int*)out; int t = threadIdx.x; BEGIN for (int it = 0; it < n; it++) atomicAdd(g + ((blockIdx.x * 4096 + t * 17 + it * 517) & 0xFFFFF), 1); END }
// a branch that half of the lanes take
K(diverge) { float x = in[threadIdx.x], y = 1; int l = threadIdx.x; BEGIN for (int it = 0; it < n; it++) { if ((l + it) & 1) { for (int i = 0; i < 8; i++) x = x * 1.01f + y; } else { for (int i = 0; i < 8; i++) y = y * 0.99f + 0.5f; } } END out[blockIdx.x * blockDim.x + threadIdx.x] = x + y; }
// pointer chase in shared memory, and through L1
K(chase_shared) { int* s = (int*)dyn4; int t = threadIdx.x; for (int i = t; i < 1024; i += blockDim.x) s[i] = (i + 32) & 1023; int j = t; BEGIN for (int it = 0; it < n; it++) j = s[j]; END out[blockIdx.x * blockDim.x + t] = j; }

__device__ void clear() { for (int i = threadIdx.x; i < 2048; i += blockDim.x) dyn4[i] = make_float4(0, 0, 0, 0); __syncthreads(); }
K(lat_lds32) { clear(); uint32_t a = sbase() + threadIdx.x % 32 * 4; BEGIN for (int i = 0; i < n; i++) { uint32_t v; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(a)); a += v; } END out[threadIdx.x] = a; }
K(lat_lds64) { clear(); uint32_t a = sbase() + threadIdx.x % 32 * 8; BEGIN for (int i = 0; i < n; i++) { uint32_t v, w; asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v), "=r"(w) : "r"(a)); a += w; } END out[threadIdx.x] = a; }
K(lat_lds128) { clear(); uint32_t a = sbase() + threadIdx.x % 32 * 16; BEGIN for (int i = 0; i < n; i++) { uint32_t v, w, x, y; asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "r"(a)); a += y; } END out[threadIdx.x] = a; }
K(lat_lds128b) { clear(); uint32_t a = sbase(); BEGIN for (int i = 0; i < n; i++) { uint32_t v, w, x, y; asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "r"(a)); a += y; } END out[threadIdx.x] = a; }
K(lat_lds128c) { clear(); uint32_t a = sbase() + threadIdx.x % 16 * 32; BEGIN for (int i = 0; i < n; i++) { uint32_t v, w, x, y; asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "r"(a)); a += y; } END out[threadIdx.x] = a; }
// eight 16-byte loads in a row, then their use
template<int S, int M> __device__ void many(float* out, long long* clk, int n) { clear(); uint32_t a = sbase() + threadIdx.x % M * S; BEGIN
  for (int i = 0; i < n; i++) { uint32_t v[8][4];
    for (int j = 0; j < 8; j++) asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[j][0]), "=r"(v[j][1]), "=r"(v[j][2]), "=r"(v[j][3]) : "r"(a + j * 512));
    for (int j = 0; j < 8; j++) a += v[j][0] + v[j][3]; }
  END out[threadIdx.x] = a; }
K(many128) { many<16, 32>(out, clk, n); }
K(many128b) { many<16, 1>(out, clk, n); }
K(many128c) { many<32, 16>(out, clk, n); }
K(lat_ldsm) { clear(); uint32_t a = sbase() + threadIdx.x % 32 * 16; BEGIN for (int i = 0; i < n; i++) { uint32_t v, w, x, y; asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "r"(a)); a += y; } END out[threadIdx.x] = a; }
K(lat_ldsm1) { clear(); uint32_t a = sbase() + threadIdx.x % 8 * 16; BEGIN for (int i = 0; i < n; i++) { uint32_t v; asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(a)); a += v; } END out[threadIdx.x] = a; }
__device__ void mma_one(float* d, uint32_t a, uint32_t b) { asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(b)); }
template<int C> __device__ void mmas(const float* in, float* out, long long* clk, int n) { float d[C][4] = {}; uint32_t a = (uint32_t)in[0], b = (uint32_t)in[1]; BEGIN for (int i = 0; i < n; i++) for (int j = 0; j < 32; j++) mma_one(d[j % C], a, b); END float x = 0; for (int j = 0; j < C; j++) x += d[j][0] + d[j][3]; out[threadIdx.x] = x; }
K(mma1) { mmas<1>(in, out, clk, n); } K(mma2) { mmas<2>(in, out, clk, n); } K(mma4) { mmas<4>(in, out, clk, n); } K(mma8) { mmas<8>(in, out, clk, n); } K(mma16) { mmas<16>(in, out, clk, n); }
template<int C> __device__ void ffmas(const float* in, float* out, long long* clk, int n) { float d[C], a[8]; for (int i = 0; i < 8; i++) a[i] = in[i]; for (int j = 0; j < C; j++) d[j] = in[j]; BEGIN
  for (int i = 0; i < n; i++) { _Pragma("unroll") for (int k = 0; k < 128 / C; k++) _Pragma("unroll") for (int j = 0; j < C; j++) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(d[j]) : "f"(a[(j + k) % 8]), "f"(a[(j / 8 + k) % 8])); }
  END float x = 0; for (int j = 0; j < C; j++) x += d[j]; out[threadIdx.x] = x; }
K(ffma4) { ffmas<4>(in, out, clk, n); } K(ffma8) { ffmas<8>(in, out, clk, n); } K(ffma32) { ffmas<32>(in, out, clk, n); } K(ffma64) { ffmas<64>(in, out, clk, n); }
K(ffma_outer) { float d[8][8], a[8], b[8]; for (int i = 0; i < 8; i++) { a[i] = in[i]; b[i] = in[8 + i]; for (int j = 0; j < 8; j++) d[i][j] = in[i * 8 + j]; } BEGIN for (int t = 0; t < n; t++) { for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(d[i][j]) : "f"(a[i]), "f"(b[j])); } END float x = 0; for (int i = 0; i < 64; i++) x += d[i / 8][i % 8]; out[threadIdx.x] = x; }
K(rcp) { float x = in[0] + 1.5f; BEGIN for (int i = 0; i < n; i++) asm volatile("rcp.approx.ftz.f32 %0, %0;" : "+f"(x)); END out[threadIdx.x] = x; }
K(ex2) { float x = in[0] + 0.5f; BEGIN for (int i = 0; i < n; i++) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x)); END out[threadIdx.x] = x; }
K(i2f2i) { int x = in[0] + 5; BEGIN for (int i = 0; i < n; i++) asm volatile("{.reg .f32 f; cvt.rn.f32.s32 f, %0; cvt.rzi.s32.f32 %0, f;}" : "+r"(x)); END out[threadIdx.x] = x; }
K(divf) { float x = in[0] + 1.5f, y = 3.f; BEGIN for (int i = 0; i < n; i++) x = __fdiv_rn(y, x); END out[threadIdx.x] = x; }
K(popcs) { int x = in[0] + 5; BEGIN for (int i = 0; i < n; i++) x = __popc(x) + x; END out[threadIdx.x] = x; }
// a region that no lane enters, and one that half of the lanes enter
K(skip) { float x = in[0], y = in[1]; BEGIN for (int i = 0; i < n; i++) { if (x > 1e30f) { for (int j = 0; j < (int)y; j++) x = x * 0.5f + __shfl_xor_sync(__activemask(), x, 1); } x += 1.f; } END out[threadIdx.x] = x; }
K(halves) { float x = in[threadIdx.x], y = in[1]; int l = threadIdx.x; BEGIN for (int i = 0; i < n; i++) { if ((l + i) & 1) { x = x * 1.5f + y; x = x * 1.25f + y; x = x * 1.5f + y; x = x * 1.5f + y; x = x * 1.5f + y; x = x * 1.5f + y; x = x * 1.5f + y; x = x * 1.5f + y; } x += 1.f; } END out[threadIdx.x] = x; }
K(empty_loop) { float x = in[0]; BEGIN for (int i = 0; i < n; i++) asm volatile("add.f32 %0, %0, 0f3F800000;" : "+f"(x)); END out[threadIdx.x] = x; }
// shared memory with conflicts, a warp alone: loads of 2, 8, 32 ways, stores
template<int S> __device__ void ways(float* out, long long* clk, int n) { clear(); uint32_t a = sbase() + threadIdx.x % 32 * S * 4; BEGIN for (int i = 0; i < n; i++) { uint32_t v[4]; for (int j = 0; j < 4; j++) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[j]) : "r"(a + j * 4)); a += v[0] + v[1] + v[2] + v[3]; } END out[threadIdx.x] = a; }
K(way1) { ways<1>(out, clk, n); } K(way2) { ways<2>(out, clk, n); } K(way8) { ways<8>(out, clk, n); } K(way32) { ways<32>(out, clk, n); }
template<int S> __device__ void stways(float* out, long long* clk, int n) { clear(); uint32_t a = sbase() + threadIdx.x % 32 * S * 4; BEGIN for (int i = 0; i < n; i++) for (int j = 0; j < 8; j++) asm volatile("st.shared.u32 [%0], %1;" :: "r"(a + j * 4), "r"(i)); END out[threadIdx.x] = a; }
K(stway1) { stways<1>(out, clk, n); } K(stway8) { stways<8>(out, clk, n); } K(stway32) { stways<32>(out, clk, n); }
// global: reductions and stores
template<int S, int D> __device__ void reds(float* out, long long* clk, int n) { float* p = out + (blockIdx.x * blockDim.x + threadIdx.x) * S; BEGIN for (int i = 0; i < n; i++) atomicAdd(p + (i % D) * 65536, 1.f); END }
K(red_own) { reds<1, 8>(out, clk, n); } K(red_lines) { reds<32, 8>(out, clk, n); } K(red_one) { BEGIN for (int i = 0; i < n; i++) atomicAdd(out, 1.f); END } K(red_again) { reds<1, 1>(out, clk, n); }
K(atom_own) { float* p = out + blockIdx.x * blockDim.x + threadIdx.x; float s = 0; BEGIN for (int i = 0; i < n; i++) s += atomicAdd(p + (i % 8) * 65536, 1.f); END out[1 << 20 | threadIdx.x] = s; }
K(st_lines) { float* p = out + (blockIdx.x * blockDim.x + threadIdx.x) * 32; BEGIN for (int i = 0; i < n; i++) p[(i % 8) * 65536] = i; END }
K(st_own) { float* p = out + blockIdx.x * blockDim.x + threadIdx.x; BEGIN for (int i = 0; i < n; i++) p[(i % 8) * 65536] = i; END }
K(st_own16) { float4* p = (float4*)out + blockIdx.x * blockDim.x + threadIdx.x; BEGIN for (int i = 0; i < n; i++) p[(i % 8) * 16384] = make_float4(i, i, i, i); END }
K(bars) { BEGIN for (int i = 0; i < n; i++) asm volatile("bar.sync 0;"); END }
K(syncwarps) { float x = in[threadIdx.x]; BEGIN for (int i = 0; i < n; i++) { __syncwarp(); asm volatile("add.f32 %0, %0, 0f3F800000;" : "+f"(x)); } END out[threadIdx.x] = x; }
K(ldg_l1) { uint32_t t = threadIdx.x % 32; const uint32_t* p = (const uint32_t*)in + t; uint32_t v = 0; BEGIN for (int i = 0; i < n; i++) { v = __ldca(p + v); } END out[threadIdx.x] = v; }

#define L4(v, a) asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(a))
#define L2(v, a) asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(a))
template<int N> __device__ void wide(uint32_t off, float* out, long long* clk, int n) { clear(); uint32_t a = sbase() + off; BEGIN
  for (int i = 0; i < n; i++) { uint32_t v[N][4]; for (int j = 0; j < N; j++) L4(v[j], a + j * 1024); uint32_t s = 0; for (int j = 0; j < N; j++) s += (v[j][0] ^ v[j][1]) + (v[j][2] ^ v[j][3]); a += s; }
  END out[threadIdx.x] = a; }
template<int N> __device__ void wide2(uint32_t off, float* out, long long* clk, int n) { clear(); uint32_t a = sbase() + off; BEGIN
  for (int i = 0; i < n; i++) { uint32_t v[N][2]; for (int j = 0; j < N; j++) L2(v[j], a + j * 1024); uint32_t s = 0; for (int j = 0; j < N; j++) s += v[j][0] ^ v[j][1]; a += s; }
  END out[threadIdx.x] = a; }
#define T (threadIdx.x % 32)
K(w1_free) { wide<1>(T * 16, out, clk, n); } K(w1_one) { wide<1>(0, out, clk, n); } K(w1_halves) { wide<1>(T / 16 * 32, out, clk, n); } K(w1_s32) { wide<1>(T % 16 * 32, out, clk, n); } K(w1_s32all) { wide<1>(T * 32, out, clk, n); } K(w1_pairs) { wide<1>(T / 2 * 16, out, clk, n); } K(w1_quads) { wide<1>(T / 4 * 16, out, clk, n); } K(w1_eights) { wide<1>(T / 8 * 16, out, clk, n); } K(w1_mod8) { wide<1>(T % 8 * 16, out, clk, n); } K(w1_mod4) { wide<1>(T % 4 * 16, out, clk, n); }
K(w8_free) { wide<8>(T * 16, out, clk, n); } K(w8_one) { wide<8>(0, out, clk, n); } K(w8_halves) { wide<8>(T / 16 * 32, out, clk, n); } K(w8_s32) { wide<8>(T % 16 * 32, out, clk, n); } K(w8_s32all) { wide<8>(T * 32, out, clk, n); } K(w8_pairs) { wide<8>(T / 2 * 16, out, clk, n); } K(w8_quads) { wide<8>(T / 4 * 16, out, clk, n); } K(w8_eights) { wide<8>(T / 8 * 16, out, clk, n); } K(w8_mod8) { wide<8>(T % 8 * 16, out, clk, n); } K(w8_mod4) { wide<8>(T % 4 * 16, out, clk, n); }
K(v1_free) { wide2<1>(T * 8, out, clk, n); } K(v8_free) { wide2<8>(T * 8, out, clk, n); } K(v8_one) { wide2<8>(0, out, clk, n); } K(v8_s16) { wide2<8>(T * 16, out, clk, n); } K(v8_halves) { wide2<8>(T / 16 * 8, out, clk, n); }
// stores of a word, of four, with conflicts; into changing places
template<int S> __device__ void st1(float* out, long long* clk, int n) { clear(); uint32_t a = sbase() + T * S; BEGIN for (int i = 0; i < n; i++) for (int j = 0; j < 8; j++) asm volatile("st.shared.u32 [%0], %1;" :: "r"(a + j * 2048), "r"(i)); END out[threadIdx.x] = a; }
template<int S> __device__ void st4(float* out, long long* clk, int n) { clear(); uint32_t a = sbase() + T * S; BEGIN for (int i = 0; i < n; i++) for (int j = 0; j < 8; j++) asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" :: "r"(a + j * 2048), "r"(i)); END out[threadIdx.x] = a; }
K(s1_free) { st1<4>(out, clk, n); } K(s1_2way) { st1<8>(out, clk, n); } K(s1_8way) { st1<32>(out, clk, n); } K(s1_32way) { st1<128>(out, clk, n); } K(s4_free) { st4<16>(out, clk, n); } K(s4_2way) { st4<32>(out, clk, n); } K(s4_8way) { st4<128>(out, clk, n); }
// eight results of rows and columns: loads of one step, then multiply-adds
template<int F> __device__ void mix(const float* in, float* out, long long* clk, int n) { clear(); const float4* s = dyn4; int ty = threadIdx.x / 16 % 16 * 2, tx = threadIdx.x % 16 * 2; float acc[8][8] = {}; BEGIN
  for (int i = 0; i < n; i++) { float a[8], b[8]; *(float4*)a = s[ty + (i & 7) * 32]; *(float4*)(a + 4) = s[ty + 1 + (i & 7) * 32]; *(float4*)b = s[256 + tx + (i & 7) * 32]; *(float4*)(b + 4) = s[256 + tx + 1 + (i & 7) * 32];
    for (int f = 0; f < F; f++) for (int x = 0; x < 8; x++) for (int y = 0; y < 8; y++) acc[x][y] += a[x] * b[y]; }
  END float x = 0; for (int i = 0; i < 64; i++) x += acc[i / 8][i % 8]; out[threadIdx.x] = x; }
K(mix1) { mix<1>(in, out, clk, n); } K(mix2) { mix<2>(in, out, clk, n); }
// regions with a warp's meeting: without lanes, with all, with half
K(region_none) { float x = in[0], y = in[1]; BEGIN for (int i = 0; i < n; i++) { if (x < -5.f) { x = __fdiv_rn(y, x); x = __fsqrt_rn(x); } x += 1.f; } END out[threadIdx.x] = x; }
K(region_half) { float x = in[0], y = in[1]; int l = threadIdx.x; BEGIN for (int i = 0; i < n; i++) { if ((l + i) & 1) { x = x + __shfl_xor_sync(__activemask(), x, 2); x = x * 0.5f; } x += 1.f; } END out[threadIdx.x] = x; }
K(div2) { float x = in[0] + 1.5f, y = in[0] + 2.5f; BEGIN for (int i = 0; i < n; i++) { float u = __fdiv_rn(3.f, x), v = __fdiv_rn(5.f, y); x = u + 1.f; y = v + 1.f; } END out[threadIdx.x] = x + y; }
K(rsq) { float x = in[0] + 1.5f; BEGIN for (int i = 0; i < n; i++) x = __frsqrt_rn(x) + 1.f; END out[threadIdx.x] = x; }
// one address, floats of all lanes, several warps; integers
K(redf_one) { BEGIN for (int i = 0; i < n; i++) atomicAdd(out + (i & 1) * 64, 1.f); END } K(redi_one) { BEGIN for (int i = 0; i < n; i++) atomicAdd((int*)out + (i & 1) * 64, (int)threadIdx.x); END } K(red_warpone) { float* p = out + threadIdx.x / 32 * 64; BEGIN for (int i = 0; i < n; i++) atomicAdd(p + (i & 1) * 1024, 1.f); END }
#ifdef MEASURE
#include <cstdio>
#include <vector>
#include <algorithm>
// Prints, for each pattern, CTAs, threads, bytes of shared memory, rounds, and the median of the CTAs' cycles.
int main() {
  const int bytes = 64 << 20;
  float *in, *out; long long* clk;
  cudaMalloc(&in, bytes); cudaMemset(in, 0, bytes); cudaMalloc(&out, bytes); cudaMalloc(&clk, 1 << 16);
  struct { const char* name; void (*function)(const float*, float*, long long*, int); int rounds, shared, threads; } patterns[] = {
#define R(name, rounds, shared, threads) {#name, name, rounds, shared, threads}
    R(sgemm_tile, 40, 8192, 256),
    R(smem_naive, 30, 8192, 1024),
    R(smem_1d, 40, 4096, 512),
    R(mma_tile, 20, 32768, 256),
    R(shfl_sum, 60, 0, 1024),
    R(block_sum, 40, 0, 1024),
    R(exp_smem, 4, 16384, 1024),
    R(gelu, 60, 0, 1024),
    R(divs, 60, 0, 1024),
    R(idiv, 40, 0, 512),
    R(tile_turn, 30, 16384, 1024),
    R(tile_ahead, 30, 16384, 1024),
    R(tile_async, 30, 32768, 1024),
    R(l2_sum, 64, 0, 1024),
    R(l2_sum4, 32, 0, 1024),
    R(store1, 64, 0, 1024),
    R(store4, 64, 0, 1024),
    R(store_strided, 64, 0, 512),
    R(half2s, 40, 0, 1024),
    R(converts, 30, 0, 1024),
    R(transpose, 30, 4096, 1024),
    R(shared_atomics, 60, 1024, 512),
    R(global_atomics, 60, 0, 512),
    R(diverge, 40, 0, 512),
    R(chase_shared, 100, 4096, 512),
    R(lat_lds32, 64, 32768, 512),
    R(lat_lds64, 64, 32768, 512),
    R(lat_lds128, 64, 32768, 512),
    R(lat_lds128b, 64, 32768, 512),
    R(lat_lds128c, 64, 32768, 512),
    R(many128, 64, 32768, 512),
    R(many128b, 64, 32768, 512),
    R(many128c, 64, 32768, 512),
    R(lat_ldsm, 64, 32768, 512),
    R(lat_ldsm1, 64, 32768, 512),
    R(mma1, 64, 32768, 512),
    R(mma2, 64, 32768, 512),
    R(mma4, 64, 32768, 512),
    R(mma8, 64, 32768, 512),
    R(mma16, 64, 32768, 512),
    R(ffma4, 64, 32768, 512),
    R(ffma8, 64, 32768, 512),
    R(ffma32, 64, 32768, 512),
    R(ffma64, 64, 32768, 512),
    R(ffma_outer, 64, 32768, 512),
    R(rcp, 64, 32768, 512),
    R(ex2, 64, 32768, 512),
    R(i2f2i, 64, 32768, 512),
    R(divf, 64, 32768, 512),
    R(popcs, 64, 32768, 512),
    R(skip, 64, 32768, 512),
    R(halves, 64, 32768, 512),
    R(empty_loop, 64, 32768, 512),
    R(way1, 64, 32768, 512),
    R(way2, 64, 32768, 512),
    R(way8, 64, 32768, 512),
    R(way32, 64, 32768, 512),
    R(stway1, 64, 32768, 512),
    R(stway8, 64, 32768, 512),
    R(stway32, 64, 32768, 512),
    R(red_own, 64, 32768, 512),
    R(red_lines, 64, 32768, 512),
    R(red_one, 64, 32768, 512),
    R(red_again, 64, 32768, 512),
    R(atom_own, 64, 32768, 512),
    R(st_lines, 64, 32768, 512),
    R(st_own, 64, 32768, 512),
    R(st_own16, 64, 32768, 512),
    R(bars, 64, 32768, 512),
    R(syncwarps, 64, 32768, 512),
    R(ldg_l1, 64, 32768, 512),
    R(w1_free, 64, 49152, 512),
    R(w1_one, 64, 49152, 512),
    R(w1_halves, 64, 49152, 512),
    R(w1_s32, 64, 49152, 512),
    R(w1_s32all, 64, 49152, 512),
    R(w1_pairs, 64, 49152, 512),
    R(w1_quads, 64, 49152, 512),
    R(w1_eights, 64, 49152, 512),
    R(w1_mod8, 64, 49152, 512),
    R(w1_mod4, 64, 49152, 512),
    R(w8_free, 64, 49152, 512),
    R(w8_one, 64, 49152, 512),
    R(w8_halves, 64, 49152, 512),
    R(w8_s32, 64, 49152, 512),
    R(w8_s32all, 64, 49152, 512),
    R(w8_pairs, 64, 49152, 512),
    R(w8_quads, 64, 49152, 512),
    R(w8_eights, 64, 49152, 512),
    R(w8_mod8, 64, 49152, 512),
    R(w8_mod4, 64, 49152, 512),
    R(v1_free, 64, 49152, 512),
    R(v8_free, 64, 49152, 512),
    R(v8_one, 64, 49152, 512),
    R(v8_s16, 64, 49152, 512),
    R(v8_halves, 64, 49152, 512),
    R(s1_free, 64, 49152, 512),
    R(s1_2way, 64, 49152, 512),
    R(s1_8way, 64, 49152, 512),
    R(s1_32way, 64, 49152, 512),
    R(s4_free, 64, 49152, 512),
    R(s4_2way, 64, 49152, 512),
    R(s4_8way, 64, 49152, 512),
    R(mix1, 64, 49152, 512),
    R(mix2, 64, 49152, 512),
    R(region_none, 64, 49152, 512),
    R(region_half, 64, 49152, 512),
    R(div2, 64, 49152, 512),
    R(rsq, 64, 49152, 512),
    R(redf_one, 64, 49152, 512),
    R(redi_one, 64, 49152, 512),
    R(red_warpone, 64, 49152, 512)
  };
  for (auto& each : patterns) for (int ctas : {1, 132}) for (int threads : {32, 128, 256, 512}) {
    if (threads > each.threads) continue;
    cudaFuncSetAttribute(each.function, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
    std::vector<double> found;
    for (int launch = 0; launch < 4; launch++) {  // the first one warms up
      cudaMemset(out, 0, bytes);
      each.function<<<ctas, threads, each.shared>>>(in, out, clk, each.rounds);
      if (cudaError_t error = cudaDeviceSynchronize()) { printf("%s: %s\n", each.name, cudaGetErrorString(error)); return 1; }
      std::vector<long long> cycles(ctas);
      cudaMemcpy(cycles.data(), clk, ctas * sizeof(long long), cudaMemcpyDeviceToHost);
      std::sort(cycles.begin(), cycles.end());
      if (launch) found.push_back(cycles[ctas / 2]);
    }
    std::sort(found.begin(), found.end());
    printf("%s %d %d %d %d %.0f\n", each.name, ctas, threads, each.shared, each.rounds, found[1]);
  }
}
#endif
