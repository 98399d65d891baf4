"""What the scripts that go through PyTorch's own operator samples share."""
import signal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from vectors import copied, full


class Timeout(Exception):
    """An alarm rang."""


def ring(*_):
    raise Timeout


signal.signal(signal.SIGALRM, ring)


def name_of(op):
    s = op._schema
    return s.name + ("." + s.overload_name if s.overload_name else "")


def listed_in(path):
    """Whether an overload is one of a list, one a line (its first column); without a list, of all of ATen's."""
    wanted = {line.split("\t")[0].strip() for line in open(path)} if path else None
    return lambda op: name_of(op).startswith("aten::") and (wanted is None or name_of(op) in wanted)


class Listen(TorchDispatchMode):
    """Notes the listed calls that reach a kernel, so many at most."""

    def __init__(self, listed, most):
        super().__init__()
        self.calls, self.listed, self.most = [], listed, most

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.listed(func) and len(self.calls) < self.most:
            try:
                a, k = full(func, args, kwargs or {})
                self.calls.append((func, *copied([a, k])))
            except Exception:  # noqa: BLE001
                pass
        return func(*args, **(kwargs or {}))


def packets(info):
    """The names of operators that a sample's function may be."""
    n = info.name.removeprefix("nn.functional.").replace(".", "_")
    last = info.name.split(".")[-1]
    for c in dict.fromkeys([n, info.aten_name or "", last, n + "_", "_" + last]):
        if c and hasattr(torch.ops.aten, c):
            yield c


def resolved(c, args, kwargs):
    """The overload of an operator that takes these arguments."""
    ov = torch._C._jit_resolve_packet("aten::" + c, *args, **kwargs)
    return getattr(getattr(torch.ops.aten, c), ov or "default")
