"""``torch.export`` of a model, with the sizes that may change."""

from __future__ import annotations

import inspect
import threading

# torch.export keeps what it does in globals
_exporting = threading.Lock()


def export(model, args, kwargs, dynamic):
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return model
    if args is None:
        raise TypeError("example_inputs are missing: the tuple of arguments that the model is exported with")
    if isinstance(args, torch.Tensor):
        raise TypeError("example_inputs is a tuple of arguments, and got a tensor: write (x,)")
    args = tuple(args)
    if not isinstance(model, torch.nn.Module):
        function = model

        class Function(torch.nn.Module):
            def forward(self, *args, **kwargs):
                return function(*args, **kwargs)

        try:
            signature = inspect.signature(function)
        except ValueError:
            # of a function that is built in
            signature = inspect.signature(lambda *args: None)
        own = inspect.Parameter("_function", inspect.Parameter.POSITIONAL_ONLY)
        # arguments are known by the function's names for them
        named = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        positional = [p for p in named if p.kind is p.POSITIONAL_ONLY]
        own = own if positional else own.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
        Function.forward.__signature__ = inspect.Signature([own, *named])
        model = Function()
    else:
        signature = inspect.signature(model.forward)
    with _exporting, torch.no_grad():
        shapes = _shapes(signature, args, kwargs, dynamic, torch)
        return torch.export.export(model, args, kwargs, dynamic_shapes=shapes)


def _shapes(signature, args, kwargs, dynamic, torch):
    """What torch.export calls dynamic shapes: for each parameter what its tensors' sizes are."""
    if not dynamic:
        return None
    auto = torch.export.Dim.AUTO

    def every(value):
        if isinstance(value, torch.Tensor):
            return {d: auto for d in range(value.dim())}
        if isinstance(value, (list, tuple)):
            return type(value)(every(v) for v in value)
        if isinstance(value, dict):
            return {k: every(v) for k, v in value.items()}
        return None

    def size(name, dim, bounds):
        if bounds is None or bounds is True:
            return torch.export.Dim.DYNAMIC
        if isinstance(bounds, tuple):
            low, high = bounds
            return torch.export.Dim(f"{name}_{dim}", min=low, max=high)
        return bounds

    def described(name, value, dims):
        """The sizes of one argument, as the caller says."""
        if dims is None:
            return _nothing(value)
        if isinstance(value, torch.Tensor):
            if not isinstance(dims, dict):
                return dims
            known = {}
            for d, bounds in dims.items():
                if not isinstance(d, int) or not -value.dim() <= d < value.dim():
                    raise ValueError(f"dynamic names dimension {d!r} of `{name}`, which has {value.dim()} dimensions")
                d %= value.dim()
                known[d] = size(name, d, bounds)
            return known
        if isinstance(value, dict) and isinstance(dims, dict):
            return {k: described(f"{name}_{k}", v, dims.get(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)) and isinstance(dims, (list, tuple)):
            return type(value)(described(f"{name}_{i}", v, d) for i, (v, d) in enumerate(zip(value, dims)))
        return dims

    def _nothing(value):
        if isinstance(value, dict):
            return {k: _nothing(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(_nothing(v) for v in value)
        return None

    given = signature.bind(*args, **kwargs).arguments
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and name in given:
            given.update(given.pop(name))
    if dynamic is True:
        return {name: every(value) for name, value in given.items()}
    if not isinstance(dynamic, dict):
        raise TypeError(
            'dynamic is True, or {"x": {0: (1, 64)}} with the arguments and dimensions whose sizes may change,'
            f" and got {dynamic!r}"
        )
    unknown = [k for k in dynamic if k not in given]
    if unknown:
        raise ValueError(f"dynamic names {unknown}, and the arguments are {sorted(given)}")
    return {name: described(name, value, dynamic.get(name)) for name, value in given.items()}
