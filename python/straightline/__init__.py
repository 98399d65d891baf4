"""straightline: exported PyTorch programs as machine code, compiled in milliseconds.

``load("model.pt2")`` runs what ``torch.export.save`` wrote; PyTorch is not needed.
``compile(model, example_inputs)`` exports a model and compiles it, for calls without Dynamo.
``torch.compile(model, backend="straightline")`` needs no import at all.
"""

from __future__ import annotations

import time

from ._errors import (
    FallbackWarning,
    FileError,
    MissingFileError,
    OpIndexError,
    OpNotImplementedError,
    OpTypeError,
    OpValueError,
    ProgramError,
    ReadOnlyError,
    StraightlineError,
)
from ._native import (
    Compiled,
    Explanation,
    Program,
    Tensor,
    manual_seed,
    num_threads,
    set_num_threads,
    version,
)

__version__ = version()
__all__ = [
    "Compiled",
    "Explanation",
    "FallbackWarning",
    "FileError",
    "MissingFileError",
    "OpIndexError",
    "OpNotImplementedError",
    "OpTypeError",
    "OpValueError",
    "Program",
    "ProgramError",
    "ReadOnlyError",
    "StraightlineError",
    "Tensor",
    "compile",
    "explain",
    "load",
    "manual_seed",
    "num_threads",
    "set_num_threads",
]


def load(path, *, model=None, progress=None, **options):
    """Loads an exported program (``.pt2``) and returns it compiled.

    The result is called as the model was, with arrays of any library that has DLPack (numpy, torch,
    jax, ...), and returns arrays of the library of the first argument. Weights stay in the file,
    which must not change meanwhile.

    ``model`` names the program where the archive has several. ``progress`` is called with a text and
    the seconds that it took: ``"loaded"``, then ``"compiled variant 1"`` at the first call with new
    sizes. Options: ``fast_math``, ``max_variants``, ``max_sizes``, ``eager_fallback``,
    ``share_code``.

    Raises ``FileError`` for a file that can not be read and ``ProgramError`` for a program that can
    not be run here.
    """
    began = time.perf_counter()
    program = Program.load(path, model)
    if progress is not None:
        progress("loaded", time.perf_counter() - began)
    return Compiled(program, progress=progress, source=str(path), **options)


def compile(model, example_inputs=None, *, kwargs=None, dynamic=None, progress=None, **options):
    """Exports a PyTorch model with ``torch.export`` and returns it compiled.

    A call of the result runs no Dynamo: it costs what the model costs, and a microsecond or two.
    ``example_inputs`` is the tuple of positional arguments, ``kwargs`` those by name; an
    ``ExportedProgram`` needs neither. ``dynamic`` says which sizes may change: ``True`` for all, or
    ``{"x": {0: (1, 64)}}`` with the smallest and the largest size of a dimension, or
    ``{"x": {0: None}}`` without bounds.

    The result is for inference: no gradients flow through it, and the model is as it was exported,
    in training or in evaluation. The weights are those that the model has now: they are shared with
    it, packed once, and not expected to change. Results have memory of their own, but for inputs that
    are returned as they are. Random numbers are those of ``torch.manual_seed``. Operators that are
    not there are decomposed by PyTorch. Options are those of ``load``.
    """
    from ._export import export

    began = time.perf_counter()
    exported = export(model, example_inputs, kwargs or {}, dynamic)
    if progress is not None:
        progress("exported", time.perf_counter() - began)
    began = time.perf_counter()
    from .torch_backend import program_of_export

    try:
        compiled = program_of_export(exported, progress=progress, **options)
    except ProgramError:
        # of other operators, where PyTorch has a decomposition
        exported = exported.run_decompositions()
        compiled = program_of_export(exported, progress=progress, **options)
    if progress is not None:
        progress("loaded", time.perf_counter() - began)
    return compiled


def explain(compiled):
    """Why a compiled function is as it is: of ``load``, ``compile``, or ``torch.compile``.

    Of a function of ``torch.compile`` the explanations of its graphs, oldest first: a graph for each
    part between graph breaks and each recompilation, those of its gradients too.
    """
    own = getattr(compiled, "explain", None)
    if own is not None and not hasattr(compiled, "_torchdynamo_orig_callable"):
        return own()
    from ._explanations import explanations

    return explanations(compiled)
