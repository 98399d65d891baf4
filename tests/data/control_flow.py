"""Values of PyTorch's operators of higher order, for tests/suite/control_flow/torch.rs.

    python tests/data/control_flow.py > tests/data/control_flow.txt

Each line: a name, then tensors as `sizes:elements`, separated by `|`. PyTorch runs `cond`,
`while_loop`, `scan` and `map` eagerly; gradients are those of the sum of squares of all results.
"""

import torch
from torch._higher_order_ops import cond
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

torch.manual_seed(0)


def shown(t):
    t = t.detach()
    sizes = "x".join(map_str(t.shape)) if t.dim() else "-"
    kind = "i" if not t.is_floating_point() else "f"
    return f"{kind}{sizes}:" + ",".join(repr(v) for v in t.reshape(-1).tolist())


def map_str(xs):
    return [str(x) for x in xs]


def line(name, *tensors):
    print(" ".join([name, "|".join(shown(t) for t in tensors)]))


def squares(results):
    return sum((r * r).sum() for r in results if r.is_floating_point())


def graded(name, f, *inputs):
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    results = f(*inputs)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    line(name, *results)
    wanted = [x for x in inputs if x.requires_grad]
    grads = torch.autograd.grad(squares(results), wanted, allow_unused=True)
    grads = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, wanted)]
    line(name + ".grads", *grads)


w = torch.tensor([[0.5, -0.25, 1.0], [0.75, 0.1, -0.6], [-0.3, 0.9, 0.2]])
for sign, x in [("yes", [0.5, 1.5, -0.25]), ("no", [-0.5, -1.5, 0.25])]:
    x = torch.tensor(x)
    graded(
        "cond_" + sign,
        lambda x, w: cond(x.sum() > 0, lambda x, w: (w @ x).sin() * x, lambda x, w: (x @ w).exp() - x, (x, w)),
        x,
        w,
    )
    graded(
        "nested_" + sign,
        lambda x: cond(
            x.sum() > 0,
            lambda x: cond(x[0] > 1, lambda x: x * x, lambda x: x.tanh(), (x,)) + 1,
            lambda x: (x.abs() + 1).log(),
            (x,),
        ),
        x,
    )

with torch.no_grad():
    line(
        "while_newton",
        *while_loop(
            lambda i, x, a: (i < 20) & ((x * x - a).abs().max() > 1e-6),
            lambda i, x, a: (i + 1, 0.5 * (x + a / x), a.clone()),
            (torch.tensor(0), torch.ones(3), torch.tensor([2.0, 3.0, 5.0])),
        ),
    )
    line(
        "while_none",
        *while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x.sin()), (torch.tensor(3), torch.arange(4.0))),
    )

xs = torch.tensor([[0.1, 0.2], [-0.3, 0.4], [0.5, -0.6], [0.7, 0.8]])
cell = torch.tensor([[0.6, -0.4], [0.3, 0.8]])


def step(h, x):
    h = torch.tanh(x + h @ cell_)
    return h, (h * x).clone()


for reverse in [False, True]:
    for dim in [0, 1]:

        def run(h, xs, cell):
            global cell_
            cell_ = cell
            return scan(step, h, xs if dim == 0 else xs.t(), dim=dim, reverse=reverse)

        graded(f"scan_{dim}_{'reverse' if reverse else 'forward'}", run, torch.tensor([0.25, -0.5]), xs, cell)

graded("map", lambda xs, w: torch_map(lambda x, w: (w @ x).sin() + x, xs, w), xs, cell)
