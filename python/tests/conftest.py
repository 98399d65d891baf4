"""Archives with runs that PyTorch has recorded, read without PyTorch."""

import json
import os
import pathlib
import struct

import numpy as np
import pytest

ARCHIVES = pathlib.Path(
    os.environ.get("STRAIGHTLINE_ARCHIVES")
    or pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "pt2"
)

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
    "C64": np.complex64,
}


def read_safetensors(path):
    """The tensors of a safetensors file; those of bfloat16 as float32."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin : 8 + size + end]
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(raw, np.uint16).astype(np.uint32) << 16
            array = wide.view(np.float32)
        else:
            array = np.frombuffer(raw, _DTYPES[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"]).copy()
    return tensors


class Recorded:
    def __init__(self, name):
        self.name = name
        self.path = ARCHIVES / f"{name}.pt2"
        self.about = json.loads((ARCHIVES / f"{name}.json").read_text())
        tensors = ARCHIVES / f"{name}.safetensors"
        self.tensors = read_safetensors(tensors) if tensors.exists() else {}

    def leaves(self, leaves):
        return [self.tensors[leaf["key"]] if "key" in leaf else leaf.get("value") for leaf in leaves]

    @property
    def cases(self):
        for case in self.about["cases"]:
            yield self.leaves(case["inputs"]), self.leaves(case["outputs"])

    def check(self, got, expected):
        assert len(got) == len(expected)
        for g, e in zip(got, expected):
            if not isinstance(e, np.ndarray):
                assert g == e
                continue
            if isinstance(g, np.ndarray):
                assert g.shape == e.shape
                tol = self.about["tol"] if g.dtype.itemsize > 2 else self.about["half_tol"]
                np.testing.assert_allclose(g, e, tol["rtol"], tol["atol"])
            else:
                # bfloat16, which numpy has not
                assert g.dtype == "bfloat16" and g.shape == e.shape


def pytest_report_header():
    try:
        import torch

        return f"torch {torch.__version__}: the tests of torch.compile run"
    except ImportError:
        return "NO TORCH: the tests of torch.compile and of export are SKIPPED"


@pytest.fixture(params=sorted(p.stem for p in ARCHIVES.glob("*.json")))
def recorded(request):
    return Recorded(request.param)


@pytest.fixture
def mlp():
    return Recorded("mlp_tree")
