"""wgmma: the operations in flight of a warpgroup, and checks that its warps execute the same instructions."""
