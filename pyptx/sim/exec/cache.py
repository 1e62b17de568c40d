"""prefetch, createpolicy, discard, applypriority: nothing of it is modelled yet."""
