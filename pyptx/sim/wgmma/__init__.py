"""wgmma: what warps of a warpgroup have in flight, and whether they execute the same."""
