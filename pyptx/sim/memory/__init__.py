"""Storage that threads and engines share: the address space with :meth:`Memory.access`, and mbarriers."""
