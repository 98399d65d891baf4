"""``torch.export`` of a model, with the sizes that may change."""

from __future__ import annotations

import inspect


def export(model, args, kwargs, dynamic):
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return model
    if not isinstance(model, torch.nn.Module):
        function = model

        class Function(torch.nn.Module):
            def forward(self, *args, **kwargs):
                return function(*args, **kwargs)

        names = list(inspect.signature(function).parameters)
        model = Function()
    else:
        names = list(inspect.signature(model.forward).parameters)
    shapes = _shapes(names, args, kwargs, dynamic, torch)
    with torch.no_grad():
        return torch.export.export(model, args, kwargs, dynamic_shapes=shapes)


def _shapes(names, args, kwargs, dynamic, torch):
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

    positional = []
    for at, value in enumerate(args):
        name = names[at] if at < len(names) else f"argument_{at}"
        positional.append(_one(name, value, dynamic, every, size))
    named = {k: _one(k, v, dynamic, every, size) for k, v in kwargs.items()}
    known = set(names[: len(args)]) | set(kwargs)
    if dynamic is not True:
        unknown = [k for k in dynamic if k not in known]
        if unknown:
            raise ValueError(
                f"dynamic names {unknown}, and the arguments are {sorted(known)}"
            )
    if len(named) == 0:
        return tuple(positional)
    shapes = dict(zip(names, positional))
    shapes.update(named)
    return shapes


def _one(name, value, dynamic, every, size):
    if dynamic is True:
        return every(value)
    dims = dynamic.get(name)
    if dims is None:
        return None
    if not isinstance(dims, dict):
        return dims
    if all(isinstance(d, int) for d in dims):
        return {d: size(name, d, bounds) for d, bounds in dims.items()}
    return dims
