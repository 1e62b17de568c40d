"""Storage that threads and engines share: the address space with its one seam for accesses, and mbarriers."""
