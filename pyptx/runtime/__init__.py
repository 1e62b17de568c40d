"""Runs kernels on the GPU through ``cuda.bindings.driver``: loads PTX text, encodes tensor maps, launches.

Each module wraps a few driver calls and turns their failures into errors that name the call, its arguments
and the remedy.  cuda-bindings is imported only inside functions, at first use.

- :mod:`~pyptx.runtime.driver` initializes the driver, checks statuses, describes devices, sets the context
- :mod:`~pyptx.runtime.loader` loads PTX text as a :class:`~pyptx.runtime.loader.LoadedKernel`
- :mod:`~pyptx.runtime.tensor_maps` encodes a ``TensorMap`` as the driver's ``CUtensorMap``
- :mod:`~pyptx.runtime.launch` packs parameters and launches
"""
