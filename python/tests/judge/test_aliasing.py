"""Random functions of views and writes: results, inputs afterwards, and who shares memory with whom.

Each seed is a function. What PyTorch's own kernels do differently through AOTAutograd as well is not
ours. ``STRAIGHTLINE_SEEDS=1000`` runs more of them.
"""

import os
import random

import pytest

torch = pytest.importorskip("torch", reason="NO TORCH: its results are the judge")

import opinfo

VIEWS = [
    lambda t, r: t.t() if t.dim() == 2 else t.unsqueeze(0),
    lambda t, r: t[1:] if t.dim() and t.shape[0] > 1 else t.unsqueeze(-1),
    lambda t, r: t[..., 1::2] if t.dim() and t.shape[-1] > 1 else t.view_as(t),
    lambda t, r: t.select(0, t.shape[0] - 1) if t.dim() and t.shape[0] else t.unsqueeze(0),
    lambda t, r: t.unsqueeze(r.randrange(t.dim() + 1)),
    lambda t, r: t.squeeze(),
    lambda t, r: t.view(-1) if t.is_contiguous() else t.transpose(0, -1),
    lambda t, r: t.chunk(2, -1)[-1] if t.dim() else t.expand(3),
    lambda t, r: t.unbind(0)[0] if t.dim() and t.shape[0] else t.detach(),
    lambda t, r: t.expand(2, *t.shape),
    lambda t, r: t.diagonal() if t.dim() == 2 else t.movedim(0, -1) if t.dim() else t,
    lambda t, r: torch.view_as_real(t * 1j) if t.dim() else t,
]
VALUES = [
    lambda t, r: t.sin(),
    lambda t, r: t * 2 + 1,
    lambda t, r: t.cumsum(0) if t.dim() else t.exp(),
    lambda t, r: t.sum(-1, keepdim=True) if t.dim() else t + 1,
    lambda t, r: t.clone(),
    lambda t, r: torch.cat([t, t], -1) if t.dim() else t.abs(),
    lambda t, r: t.flip(0) if t.dim() else t.neg(),
]
WRITES = [
    lambda t, r: t.add_(1),
    lambda t, r: t.mul_(0.5),
    lambda t, r: t.zero_(),
    lambda t, r: t.copy_(t.sin()),
]


def function(seed, may_write):
    """A function of tensors; its choices depend on the seed and on shapes alone."""

    def f(*inputs):
        r = random.Random(seed)
        pool = list(inputs)
        for _ in range(r.randrange(3, 9)):
            t = pool[r.randrange(len(pool))]
            kind = r.random()
            if kind < 0.5:
                pool.append(VIEWS[r.randrange(len(VIEWS))](t, r))
            elif kind < 0.75 or not may_write:
                pool.append(VALUES[r.randrange(len(VALUES))](t, r))
            elif not (0 in t.stride() and t.numel() > 1):
                WRITES[r.randrange(len(WRITES))](t, r)
        count = r.randrange(1, 5)
        return [pool[r.randrange(len(pool))] for _ in range(count)]

    return f


def inputs(seed):
    r = random.Random(~seed)
    torch.manual_seed(seed)
    x = torch.randn(4, 6)
    y = r.choice([torch.randn(3, 5), torch.randn(5), torch.randn(2, 3, 4), torch.randn(7, 4).t()])
    if r.random() < 0.3:
        x = torch.randn(6, 6)[2:]
    return [x, y]


def outcome(run, f, tensors):
    """What can be seen of a call: results, and everything after each result was written."""
    seen = []
    results = run(f, tensors)
    snapshot = lambda: [t.detach().clone() for t in [*results, *tensors]]
    seen.append(snapshot())
    for t in results:
        if not (0 in t.stride() and t.numel() > 1):
            with torch.no_grad():
                t.detach().add_(3)
            seen.append(snapshot())
    strides = [tuple(s for s, n in zip(t.stride(), t.shape) if n > 1) for t in results if t.numel()]
    return seen, strides


def compare(seed, dynamic, may_write=True):
    f = function(seed, may_write)
    eager = outcome(lambda f, x: f(*x), f, inputs(seed))
    by = lambda compiler: outcome(lambda f, x: opinfo.compiled_by(compiler, f, x, dynamic), f, inputs(seed))
    try:
        idle = by(opinfo._Idle())
    except Exception:
        return False
    try:
        torch.testing.assert_close(idle, eager, equal_nan=True)
    except AssertionError:
        # PyTorch's own
        return False
    torch.testing.assert_close(by(opinfo._Watched()), eager, equal_nan=True)
    return True


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_functions_of_views_and_writes(dynamic):
    seeds = range(int(os.environ.get("STRAIGHTLINE_SEEDS", 25)))
    compared = 0
    for seed in seeds:
        try:
            compared += compare(seed, dynamic)
        except Exception as e:
            raise AssertionError(f"seed {seed}, dynamic {dynamic}: {type(e).__name__}: {e}") from e
    assert compared > len(seeds) / 2, f"{compared} of {len(seeds)} functions could be compared"
