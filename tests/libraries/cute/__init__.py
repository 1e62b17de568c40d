"""Runs kernels of CuTe DSL in the simulator: with its own host code, and CPU tensors as the device's memory."""
