"""Exploration of all interleavings of a launch that differ in what its threads and engines compete for."""
