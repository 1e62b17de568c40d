"""Runs kernels on the GPU through ``cuda.bindings.driver``: loads PTX text, encodes tensor maps, launches.

This layer is thin on purpose: each module wraps a few driver calls and turns their failures into errors that
name the call, its arguments and the remedy.  cuda-bindings is imported only inside functions, at first use.

- :mod:`~pyptx.runtime.driver`: initialize, check a status, describe a device, make its context current
- :mod:`~pyptx.runtime.loader`: turn PTX text into a :class:`~pyptx.runtime.loader.LoadedKernel`
- :mod:`~pyptx.runtime.tensor_maps`: turn a ``TensorMap`` into the driver's ``CUtensorMap``
- :mod:`~pyptx.runtime.launch`: pack parameters and launch
"""
