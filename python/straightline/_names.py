"""Operators that are others by another name: PyTorch has them for the names of numpy, and exported
programs keep them."""

from __future__ import annotations

_PLAIN = {
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "special_logsumexp": "logsumexp",
    "subtract": "sub",
    "true_divide": "div",
}


def canonical(name):
    """The name that an operator is known by: ``aten::div.Tensor`` for ``aten::true_divide.Tensor``."""
    namespace, _, rest = name.partition("::")
    base, dot, overload = rest.partition(".")
    if namespace != "aten":
        return name
    if base == "split" and overload == "sizes":
        return "aten::split_with_sizes"
    in_place = base.endswith("_")
    known = _PLAIN.get(base.removesuffix("_"))
    if known is None:
        return name
    return f"aten::{known}{'_' if in_place else ''}{dot}{overload}"
