"""tensormap.replace and tensormap.cp_fenceproxy: nothing of it is modelled yet."""
