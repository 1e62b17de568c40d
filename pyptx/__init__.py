"""pyptx: NVIDIA kernels in Python, one PTX instruction at a time."""
