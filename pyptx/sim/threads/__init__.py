"""Threads: clusters, CTAs, warps and their splits; how lanes part, meet, call and wait for each other."""
