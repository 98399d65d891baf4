"""The exceptions of this package.

Each is a ``StraightlineError`` and the built-in class that PyTorch raises in its place.
"""

from __future__ import annotations


class StraightlineError(RuntimeError):
    """An error of straightline's.

    ``op`` is the operator that failed (``aten::add.Tensor``), ``operands`` what it was given
    (``f32[2, 3]``), ``source_line`` the node and the line of the model, ``kind`` the kind of error.
    """

    def __init__(self, message="", *, op=None, operands=(), source_line=None, kind=""):
        super().__init__(message)
        self.op = op
        self.operands = list(operands)
        self.source_line = source_line
        self.kind = kind


class ProgramError(StraightlineError):
    """A program that can not be run, or a call that does not suit it."""


class FileError(StraightlineError, OSError):
    """A file that can not be read."""


class MissingFileError(FileError, FileNotFoundError):
    """A file that is not there."""


class ReadOnlyError(StraightlineError, ValueError):
    """A call would write memory that may only be read."""


class OpIndexError(StraightlineError, IndexError):
    """An index or a dimension out of range."""


class OpValueError(StraightlineError, ValueError):
    """An argument of a value that the operator does not take."""


class OpTypeError(StraightlineError, TypeError):
    """An argument of a kind that the operator does not take."""


class OpNotImplementedError(StraightlineError, NotImplementedError):
    """Something that no kernel does."""


class FallbackWarning(UserWarning):
    """A graph runs with PyTorch's own kernels, and why."""
