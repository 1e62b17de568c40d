"""The GPU, through ``cuda.bindings.driver``: load PTX text, encode tensor maps, launch.

Thin on purpose: each module wraps a few driver calls and turns their refusals into errors that name the
call, its arguments and the remedy.  cuda-bindings is imported inside functions only, at first use.

- :mod:`~pyptx.runtime.driver`: initialize, check a status, describe a device, make its context current
- :mod:`~pyptx.runtime.loader`: PTX text to a :class:`~pyptx.runtime.loader.LoadedKernel`
- :mod:`~pyptx.runtime.tensor_maps`: a ``TensorMap`` to the driver's ``CUtensorMap``
- :mod:`~pyptx.runtime.launch`: pack parameters and launch
"""
