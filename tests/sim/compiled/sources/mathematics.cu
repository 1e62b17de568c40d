// Functions of CUDA's library: polynomials in fma, argument reduction, corrections.

extern "C" __global__ void double_functions(const double *in, double *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    double x = in[at], *to = out + at * 8, s, c;
    sincos(x, &s, &c);
    to[0] = s, to[1] = c;
    to[2] = exp(x * 0.01);
    to[3] = log(fabs(x));
    to[4] = cbrt(x) + tanh(x * 0.1);
    to[5] = pow(fabs(x), 0.37);
    to[6] = atan2(x, 3.0) + asin(x * 1e-3) + erf(x * 0.05);
    to[7] = sqrt(fabs(x)) / (x * x + 1) + fmod(x, 1.7) + remainder(x, 0.3);
}

extern "C" __global__ void double_special(const double *in, double *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    double x = in[at];
    out[at * 4] = sin(x);
    out[at * 4 + 1] = exp(x);
    out[at * 4 + 2] = log(x);
    out[at * 4 + 3] = 1 / x + sqrt(x) + scalbn(x, 3) + nextafter(x, 1.0) + hypot(x, 3.0);
}

extern "C" __global__ void float_functions(const float *in, float *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[at], *to = out + at * 8;
    to[0] = sinf(x), to[1] = cosf(x * 3), to[2] = logf(fabsf(x)), to[3] = atanf(x);
    to[4] = fmodf(x, 0.7f) + remainderf(x, 1.1f), to[5] = x / (x + 3) + sqrtf(fabsf(x)) + __frcp_rz(x);
    to[6] = log1pf(fabsf(x)) + asinhf(x) + ldexpf(x, -4) + nearbyintf(x * 3), to[7] = __fdiv_ru(x, 3.0f) + __fadd_rd(x, 1e-9f) + __fsqrt_rz(fabsf(x));
}

// Through .approx instructions: equal within a bound.
extern "C" __global__ void approximate(const float *in, float *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[at], *to = out + at * 8;
    to[0] = expf(x * 0.1f), to[1] = exp2f(x * 0.05f), to[2] = __expf(x * 0.1f), to[3] = __sinf(x * 0.02f);
    to[4] = __logf(fabsf(x) + 2), to[5] = rsqrtf(fabsf(x) + 1), to[6] = __fdividef(x, 7.0f) + cbrtf(x), to[7] = tanhf(x * 0.03f) + powf(fabsf(x), 0.3f);
}
