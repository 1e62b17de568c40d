"""wgmma: asynchronous matrix multiplication by a warpgroup, with B (and A) in shared memory."""

TEXT = r"""
.shape = { .m64n[8..256/8]k16 }
.dtype = { .f16, .f32 }
.atype = { .f16, .bf16 }
.btype = { .f16, .bf16 }
d by .dtype.atype.btype = {
  .f16.f16.f16 f16x2 x .shape.n/4, .f32.f16.f16 f32 x .shape.n/2, .f32.bf16.bf16 f32 x .shape.n/2 }

family wgmma.mma_async
  since 8.0 on sm_90a
  see asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async

[wgmma.mma_async.f16.ss] "D = A*B + D in f16 or bf16, A and B from shared memory; asynchronous, by the 128 threads of a warpgroup."
wgmma.mma_async.sync.aligned.shape.dtype.atype.btype
  +d: by, a-desc: u64, b-desc: u64, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1, imm-trans-a imm 0|1, imm-trans-b imm 0|1;

[wgmma.mma_async.f16.rs] "D = A*B + D in f16 or bf16, A in registers (four pairs of elements), B from shared memory."
wgmma.mma_async.sync.aligned.shape.dtype.atype.btype
  +d: by, a: f16x2 x 4 reg, b-desc: u64, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1, imm-trans-b imm 0|1;

[wgmma.mma_async.tf32.ss] "D = A*B + D in tf32, A and B from shared memory."
wgmma.mma_async.sync.aligned.shape.dtype.atype.btype
  +d: f32 x .shape.n/2, a-desc: u64, b-desc: u64, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1;
  .dtype = { .f32 }
  .atype = { .tf32 }
  .btype = { .tf32 }
  .shape = { .m64n[8..256/8]k8 }

[wgmma.mma_async.tf32.rs] "D = A*B + D in tf32, A in registers (four elements), B from shared memory."
wgmma.mma_async.sync.aligned.shape.dtype.atype.btype
  +d: f32 x .shape.n/2, a: f16x2 x 4 reg, b-desc: u64, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1;
  .dtype = { .f32 }
  .atype = { .tf32 }
  .btype = { .tf32 }
  .shape = { .m64n[8..256/8]k8 }
  MEASURED ptxas takes .b32 and .f16x2 registers for A and refuses .f32 ones

[wgmma.mma_async.fp8.ss] "D = A*B + D in 8-bit floats, A and B from shared memory."
wgmma.mma_async.sync.aligned.shape.dtype.atype.btype
  +d: by, a-desc: u64, b-desc: u64, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1;
  .shape = { .m64n[8..256/8]k32 }
  .atype = { .e4m3, .e5m2 }
  .btype = { .e4m3, .e5m2 }
  d by .dtype = { .f16 f16x2 x .shape.n/4, .f32 f32 x .shape.n/2 }

[wgmma.mma_async.fp8.rs] "D = A*B + D in 8-bit floats, A in registers (four times four elements), B from shared memory."
wgmma.mma_async.sync.aligned.shape.dtype.atype.btype
  +d: by, a: f16x2 x 4 reg, b-desc: u64, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1;
  .shape = { .m64n[8..256/8]k32 }
  .atype = { .e4m3, .e5m2 }
  .btype = { .e4m3, .e5m2 }
  d by .dtype = { .f16 f16x2 x .shape.n/4, .f32 f32 x .shape.n/2 }

[wgmma.mma_async.int.ss] "D = A*B + D in 8-bit integers, A and B from shared memory; .satfinite clamps, otherwise D wraps."
wgmma.mma_async.sync.aligned.shape{.satfinite}.dtype.atype.btype  +d: s32 x .shape.n/2, a-desc: u64, b-desc: u64, !scale-d: pred;
  .dtype = { .s32 }
  .shape = { .m64n[8..32/8]k32, .m64n[48..256/16]k32 }
  .atype = { .s8, .u8 }
  .btype = { .s8, .u8 }
  .s8.u8 since 8.4
  .u8.s8 since 8.4

[wgmma.mma_async.int.rs] "D = A*B + D in 8-bit integers, A in registers (four times four elements), B from shared memory."
wgmma.mma_async.sync.aligned.shape{.satfinite}.dtype.atype.btype  +d: s32 x .shape.n/2, a: b32 x 4 reg, b-desc: u64, !scale-d: pred;
  .dtype = { .s32 }
  .shape = { .m64n[8..32/8]k32, .m64n[48..256/16]k32 }
  .atype = { .s8, .u8 }
  .btype = { .s8, .u8 }
  .s8.u8 since 8.4
  .u8.s8 since 8.4

[wgmma.mma_async.b1.ss] "D = popc(A & B) + D in bits, A and B from shared memory."
wgmma.mma_async.sync.aligned.shape.dtype.atype.btype.and.popc  +d: s32 x .shape.n/2, a-desc: u64, b-desc: u64, !scale-d: pred;
  .dtype = { .s32 }
  .atype = { .b1 }
  .btype = { .b1 }
  .shape = { .m64n[8..32/8]k256, .m64n[48..256/16]k256 }

[wgmma.mma_async.b1.rs] "D = popc(A & B) + D in bits, A in four registers of 32 bits, B from shared memory."
wgmma.mma_async.sync.aligned.shape.dtype.atype.btype.and.popc  +d: s32 x .shape.n/2, a: b32 x 4 reg, b-desc: u64, !scale-d: pred;
  .dtype = { .s32 }
  .atype = { .b1 }
  .btype = { .b1 }
  .shape = { .m64n[8..32/8]k256, .m64n[48..256/16]k256 }

family wgmma.mma_async.sp
  since 8.2 on sm_90a
  see asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async-sp

[wgmma.mma_async.sp.f16.ss] "D = A*B + D in f16 or bf16, A sparse 2:4; A and B from shared memory. sp-sel names the pair of threads with the metadata."
wgmma.mma_async.sp.sync.aligned.shape.dtype.atype.btype
  +d: by, a-desc: u64, b-desc: u64, sp-meta: b32 reg, sp-sel imm 0|1, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1, imm-trans-a imm 0|1, imm-trans-b imm 0|1;
  .shape = { .m64n[8..256/8]k32 }
  STRICTER ptxas takes a predicate as sp-meta

[wgmma.mma_async.sp.f16.rs] "D = A*B + D in f16 or bf16, A sparse 2:4 in registers (four pairs of elements), B from shared memory."
wgmma.mma_async.sp.sync.aligned.shape.dtype.atype.btype
  +d: by, a: f16x2 x 4 reg, b-desc: u64, sp-meta: b32 reg, sp-sel imm 0|1, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1, imm-trans-b imm 0|1;
  .shape = { .m64n[8..256/8]k32 }

[wgmma.mma_async.sp.tf32.ss] "D = A*B + D in tf32, A sparse 1:2; A and B from shared memory."
wgmma.mma_async.sp.sync.aligned.shape.dtype.atype.btype
  +d: f32 x .shape.n/2, a-desc: u64, b-desc: u64, sp-meta: b32 reg, sp-sel imm 0|1, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1;
  .dtype = { .f32 }
  .atype = { .tf32 }
  .btype = { .tf32 }

[wgmma.mma_async.sp.tf32.rs] "D = A*B + D in tf32, A sparse 1:2 in registers (four elements), B from shared memory."
wgmma.mma_async.sp.sync.aligned.shape.dtype.atype.btype
  +d: f32 x .shape.n/2, a: f16x2 x 4 reg, b-desc: u64, sp-meta: b32 reg, sp-sel imm 0|1, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1;
  .dtype = { .f32 }
  .atype = { .tf32 }
  .btype = { .tf32 }

[wgmma.mma_async.sp.fp8.ss] "D = A*B + D in 8-bit floats, A sparse 2:4; A and B from shared memory. All threads have metadata."
wgmma.mma_async.sp.sync.aligned.shape.dtype.atype.btype
  +d: by, a-desc: u64, b-desc: u64, sp-meta: b32 reg, sp-sel imm 0..0, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1;
  .shape = { .m64n[8..256/8]k64 }
  .atype = { .e4m3, .e5m2 }
  .btype = { .e4m3, .e5m2 }
  d by .dtype = { .f16 f16x2 x .shape.n/4, .f32 f32 x .shape.n/2 }

[wgmma.mma_async.sp.fp8.rs] "D = A*B + D in 8-bit floats, A sparse 2:4 in registers (four times four elements), B from shared memory."
wgmma.mma_async.sp.sync.aligned.shape.dtype.atype.btype
  +d: by, a: f16x2 x 4 reg, b-desc: u64, sp-meta: b32 reg, sp-sel imm 0..0, !scale-d: pred, imm-scale-a imm -1|1, imm-scale-b imm -1|1;
  .shape = { .m64n[8..256/8]k64 }
  .atype = { .e4m3, .e5m2 }
  .btype = { .e4m3, .e5m2 }
  d by .dtype = { .f16 f16x2 x .shape.n/4, .f32 f32 x .shape.n/2 }

[wgmma.mma_async.sp.int.ss] "D = A*B + D in 8-bit integers, A sparse 2:4; A and B from shared memory. All threads have metadata."
wgmma.mma_async.sp.sync.aligned.shape{.satfinite}.dtype.atype.btype
  +d: s32 x .shape.n/2, a-desc: u64, b-desc: u64, sp-meta: b32 reg, sp-sel imm 0..0, !scale-d: pred;
  .dtype = { .s32 }
  .shape = { .m64n[8..32/8]k64, .m64n[48..256/16]k64 }
  .atype = { .s8, .u8 }
  .btype = { .s8, .u8 }
  .s8.u8 since 8.4
  .u8.s8 since 8.4

[wgmma.mma_async.sp.int.rs] "D = A*B + D in 8-bit integers, A sparse 2:4 in registers (four times four elements), B from shared memory."
wgmma.mma_async.sp.sync.aligned.shape{.satfinite}.dtype.atype.btype
  +d: s32 x .shape.n/2, a: b32 x 4 reg, b-desc: u64, sp-meta: b32 reg, sp-sel imm 0..0, !scale-d: pred;
  .dtype = { .s32 }
  .shape = { .m64n[8..32/8]k64, .m64n[48..256/16]k64 }
  .atype = { .s8, .u8 }
  .btype = { .s8, .u8 }
  .s8.u8 since 8.4
  .u8.s8 since 8.4

end

[wgmma.fence] "Order the warpgroup's register accesses, and its ordinary writes, before the wgmma.mma_async that follow."
wgmma.fence.sync.aligned;
  since 8.0 on sm_90a
  see asynchronous-warpgroup-level-matrix-instructions-wgmma-fence

[wgmma.commit_group] "Put the warp's wgmma.mma_async that are in no group yet into a new group."
wgmma.commit_group.sync.aligned;
  since 8.0 on sm_90a
  see asynchronous-warpgroup-level-matrix-instructions-wgmma-commit-group

[wgmma.wait_group] "Wait until at most N of the newest wgmma groups are pending."
wgmma.wait_group.sync.aligned  N imm 0..4294967295;
  since 8.0 on sm_90a
  see asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group
"""
