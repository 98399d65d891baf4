"""onnxruntime on the CPU with all graph optimisations, on the models of onnx_export.py. Started by benches/peers/run.

Inputs are bound once; a call binds and allocates a fresh output."""

import os

import numpy as np
import onnxruntime
import suite

SETTING = suite.options(["session"])


def build(name):
    path = os.path.join(SETTING.onnx, name)
    if not os.path.exists(path + ".onnx"):
        note = "no exported model"
        if os.path.exists(path + ".txt"):
            with open(path + ".txt") as reason:
                note = reason.read().removeprefix("n/a: ")
        raise suite.Absent(note)
    inputs = np.load(path + ".npz")
    session = binding = output = None

    def start():
        # optimising the graph and packing weights are part of the first call
        nonlocal session, binding, output
        setting = onnxruntime.SessionOptions()
        setting.intra_op_num_threads = SETTING.threads
        setting.inter_op_num_threads = 1
        setting.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = onnxruntime.InferenceSession(path + ".onnx", setting, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for wanted in session.get_inputs():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(inputs[wanted.name]))
            binding.bind_ortvalue_input(wanted.name, value)
        output = session.get_outputs()[0].name

    def call():
        if session is None:
            start()
        binding.clear_binding_outputs()
        binding.bind_output(output, "cpu")
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    return suite.Case(call, lambda o: [x.numpy() for x in o])


suite.serve("onnxruntime", onnxruntime.__version__, SETTING.mode, build)
