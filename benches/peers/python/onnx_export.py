"""Exports workloads from PyTorch to a folder, for onnx_peer.py: onnx_export.py FOLDER MINILM NAME...

Each becomes NAME.onnx and NAME.npz, its inputs. What cannot be exported becomes NAME.txt with the reason."""

import os
import sys

import numpy as np
import suite
import torch
import torch_models as models


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def export(folder, minilm, name):
    if name == "w1.add":
        found = lambda a, b: a + b, [models.floats("w1.a", (1,)), models.floats("w1.b", (1,))]
    elif name.endswith("_bf16"):
        raise suite.Absent("the CPU provider has no MatMul of bfloat16")
    else:
        found = models.inference(name, minilm)
    if found is None:
        raise suite.Absent("onnxruntime runs whole inference graphs")
    function, inputs = found
    module = function if isinstance(function, torch.nn.Module) else Module(function)
    names = [f"i{i}" for i in range(len(inputs))]
    path = os.path.join(folder, name)
    with torch.no_grad():
        torch.onnx.export(
            module.eval(), tuple(inputs), path + ".part", dynamo=True, external_data=False, verbose=False,
            input_names=names, output_names=["o"],
        )
    np.savez(path + ".npz", **{n: t.numpy() for n, t in zip(names, inputs)})
    # the model last: it says that all is there
    os.replace(path + ".part", path + ".onnx")


def main(folder, minilm, *names):
    os.makedirs(folder, exist_ok=True)
    for name in names:
        try:
            export(folder, minilm, name)
        except Exception as error:
            kind = "n/a" if isinstance(error, suite.Absent) else "failed"
            with open(os.path.join(folder, name + ".txt"), "w") as out:
                out.write(f"{kind}: {' '.join(str(error).split())[:200]}")


main(*sys.argv[1:])
