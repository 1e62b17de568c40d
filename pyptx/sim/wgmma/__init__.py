"""wgmma: the operations that a warpgroup has in flight, and checks that its warps execute the same."""
