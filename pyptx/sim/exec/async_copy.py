"""cp.async, its groups and its arrival on an mbarrier: nothing of it is modelled yet."""
