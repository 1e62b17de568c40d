// Switches that become tables of branches, and loops that leave in several ways.

// A machine of eight registers that runs a program of bytes.
extern "C" __global__ void interpreter(const unsigned char *program, const int *in, int *out, int length) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int stack[16], top = 0, x = in[at], y = at, fuel = 200;
    for (int pc = 0; pc < length && fuel > 0; fuel--) {
        unsigned char op = program[pc++];
        switch (op & 15) {
        case 0: x += y; break;
        case 1: x -= op >> 4; break;
        case 2: x ^= x << 5; break;
        case 3: y = x * 3 + 1; break;
        case 4: x = (unsigned)x >> (op >> 4 & 7); break;
        case 5: if (top < 16) stack[top++] = x; break;
        case 6: if (top > 0) x = stack[--top]; break;
        case 7: if (x & 1) pc += op >> 6; break;
        case 8: { int kept = x; x = y; y = kept; } break;
        case 9: if (x > 0 && pc > 3) { pc -= 3; x >>= 3; } break;
        case 10: x = ~x; break;
        case 11: y = y - (x & 0xff); break;
        case 12: x = x < y ? x : y; break;
        case 13: x = __brev(x); break;
        case 14: y |= 1 << (op >> 4); break;
        default: x += fuel; break;
        }
    }
    out[at] = x ^ y * 5 ^ top << 28 ^ fuel << 16;
}

extern "C" __global__ void far_cases(const long long *in, int *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, x = 0;
    switch (in[at]) {
    case -7: x = 1; break;
    case 3: x = 2;
    case 4: x += 5; break;
    case 1000000007ll: x = 3; break;
    case 1ll << 40: x = 4; break;
    case 12: case 13: case 14: return;
    default: x = (int)in[at] * 7;
    }
    out[at] = x;
}

extern "C" __global__ void escapes(unsigned char *out, double x0, double y0, double step, int width, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
    double cx = x0 + i * step, cy = y0 + j * step, x = 0, y = 0;
    int n = 0;
    for (; n < limit; n++) {
        double xx = x * x, yy = y * y;
        if (xx + yy > 4) break;
        y = 2 * x * y + cy;
        x = xx - yy + cx;
        if (n == 20 && x > 0) { n = 255; break; }
    }
    out[j * width + i] = n;
}

// The compiler makes no table of branches of its own, so this one is written by hand.
extern "C" __global__ void branch_table(const int *in, int *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, x = in[at];
    for (int i = 0; i < 5; i++) {
        unsigned which = (x + i) % 5u;
        asm volatile("{\n"
            "targets: .branchtargets first, second, third, first, fourth;\n"
            "brx.idx %1, targets;\n"
            "first: add.s32 %0, %0, 17; bra.uni done;\n"
            "second: mul.lo.s32 %0, %0, 3;\n"
            "third: xor.b32 %0, %0, 0x5a5a; bra.uni done;\n"
            "fourth: shr.s32 %0, %0, 1;\n"
            "done: }" : "+r"(x) : "r"(which));
    }
    out[at] = x;
}
