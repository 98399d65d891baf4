"""What a TorchDispatchMode sees of small programs: writes dispatch_mode_calls.txt.

python3 dispatch_mode_calls.py > dispatch_mode_calls.txt
The programs are those of src/modes/tests/pytorch.rs, by name.
"""

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode


def show(a):
    if isinstance(a, torch.Tensor):
        return f"T{list(a.shape)}".replace(" ", "")
    if isinstance(a, (list, tuple)):
        return "[" + ",".join(show(x) for x in a) + "]"
    if isinstance(a, bool):
        return str(a).lower()
    if isinstance(a, float):
        return f"{a:g}"
    if isinstance(a, torch.dtype):
        return {"torch.float64": "f64", "torch.int64": "i64"}[str(a)]
    return str(a).removeprefix("torch.")


class Calls(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = str(func).replace("aten.", "aten::").replace(".default", "")
        written = [show(a) for a in args] + [f"{k}={show(v)}" for k, v in kwargs.items()]
        print(f"  {name}({', '.join(written)})")
        return func(*args, **kwargs)


def attention(x):
    q = x.reshape(1, 2, 3)
    return torch.matmul(torch.softmax(torch.matmul(q, q.transpose(-1, -2)), -1), q)


PROGRAMS = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "linear_no_bias": lambda x, w, b: F.linear(x, w),
    "linear_3d": lambda x, w, b: F.linear(x.unsqueeze(0), w),
    "matmul_3d": lambda x, w, b: torch.matmul(x.reshape(1, 2, 3), w.t()),
    "attention": lambda x, w, b: attention(x),
    "mlp": lambda x, w, b: F.relu(F.linear(x, w, b)).sum(),
    "in_place": lambda x, w, b: x.mul_(2).add_(x),
    "view_in_place": lambda x, w, b: x.view(3, 2)[0].mul_(2),
    "scalars": lambda x, w, b: torch.mul(torch.add(x, x, alpha=2), x),
    "softmax": lambda x, w, b: torch.log_softmax(torch.softmax(x, -1), 1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, (3,)),
    "reductions": lambda x, w, b: (x.sum(), x.sum(1), x.sum(1, keepdim=True), x.mean(-1), x.amax(0), x.max(1)),
    "cat_stack": lambda x, w, b: (torch.cat([x, x]), torch.stack([x, x], 1)),
    "shapes": lambda x, w, b: (x.flatten(), x.unsqueeze(1).squeeze(1), x.permute(1, 0), x.expand(2, 2, 3)),
    "pieces": lambda x, w, b: (x.narrow(1, 0, 2), x.split(1), x.unbind(0)),
    "casts": lambda x, w, b: (x.to(torch.float64), x.to(torch.float32), x.contiguous(), x.t().contiguous(), x.clone()),
    "choose": lambda x, w, b: torch.where(torch.gt(x, 0), x, x.clamp(0, 1)),
    "masked": lambda x, w, b: x.masked_fill(torch.gt(x, 0), 1.5),
    "statistics": lambda x, w, b: (x.var(1), x.std(1, correction=1)),
    "activations": lambda x, w, b: (F.gelu(x), F.silu(x), torch.sigmoid(x), torch.square(x), torch.pow(x, 2)),
    "dropout_eval": lambda x, w, b: F.dropout(x, 0.5, False),
    "logic": lambda x, w, b: (torch.gt(x, 0).any(), torch.isnan(x).all()),
}

for name, program in PROGRAMS.items():
    print(name)
    args = (torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
    with Calls():
        program(*args)
