"""The calls whose records the conformance runner's self-test breaks on purpose, recorded from PyTorch.

    python self_test.py ../suite/conformance/self_test.jsonl
"""
import json
import sys

import torch

from vectors import record

A = torch.ops.aten
torch.manual_seed(0)
out = open(sys.argv[1], "w")


def case(name, op, *args, weak=None, **kwargs):
    c = record(op, list(args), kwargs, f"self/{name}", "manual:self_test")
    if weak:
        c["weak_outs"] = weak
    out.write(json.dumps(c) + "\n")


x = torch.arange(1.0, 9.0).view(2, 2, 2)
a, b = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3) * 0.5 - 1
case("view", A.select.int, x, 1, 1)
case("fresh", A.add.Tensor, a, b)
case("ones", A.mul.Tensor, a.view(2, 1, 3), b.view(2, 1, 3))
case("empty", A.neg.default, torch.zeros(2, 0, 3))
case("stepped", A.add_.Tensor, torch.arange(8.0).view(2, 4)[:, 1::2], torch.ones(2, 2))
case("statistics", A.native_batch_norm.default, torch.arange(8.0).view(4, 2), torch.ones(2), torch.zeros(2), torch.zeros(2), torch.ones(2), True, 0.5, 1e-5)
case("turned", A.t_.default, a)
case("resized", A.add.out, a, b, out=torch.empty(0))
case("whole", A.add.Tensor, torch.tensor([2**53, 5]), torch.tensor([1, 2]))
case("list", A.split.Tensor, a, 2, 1)
case("number", A.item.default, torch.tensor(1.5))
case("count", A.sym_numel.default, a)
case("flag", A.is_nonzero.default, torch.tensor(2.0))
case("complex number", A.item.default, torch.tensor(1 - 2j))
case("none", A.native_layer_norm_backward.default, a, b, [3], torch.zeros(2, 1), torch.ones(2, 1), None, None, [True, False, False])
case("ties", A.topk.default, torch.tensor([3.0, 1.0, 3.0, 0.0]), 2, weak={"1": {"gather": 0, "dim": -1}})
case("random", A.bernoulli.default, torch.full((2, 3), 0.5))
row = torch.arange(6.0)
case("shared", A.add_.Tensor, row[:3], row[3:])
case("not finite", A.log.default, torch.tensor([-1.0, 0.0, float("inf"), 1.0]))
case("complex", A.mul.Tensor, torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([0.5j, 2 + 0j]))
case("refused", A.select.int, a, 0, 7)
