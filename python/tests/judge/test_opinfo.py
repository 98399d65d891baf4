"""A few operators of PyTorch's database: what `opinfo.py` runs whole, in seconds."""

import pytest

torch = pytest.importorskip("torch", reason="NO TORCH: its operator database is not there")
pytest.importorskip("torch.testing._internal.common_methods_invocations")

import opinfo

CASES = [
    ("add", "float32", {}),
    ("nn.functional.conv2d", "float32", {}),
    ("nn.functional.layer_norm", "float32", {"grad": True}),
    ("nn.functional.gelu", "bfloat16", {}),
    ("cumsum", "int64", {}),
    ("sort", "float32", {}),
    ("chunk", "float32", {}),
    ("unbind", "float32", {"permuted": True}),
    ("unravel_index", "int64", {}),
    ("fft.ifft", "float32", {}),
    ("fft.ihfft2", "float32", {}),
    ("mH", "complex64", {}),
    ("index_put", "float32", {}),
    ("linalg.inv", "float32", {}),
    ("logical_and", "bool", {}),
    ("matmul", "float32", {"dynamic": True}),
    ("nn.functional.interpolate.bilinear", "float32", {"dynamic": True}),
]


@pytest.mark.parametrize("name,dtype,settings", CASES, ids=lambda v: v if isinstance(v, str) else None)
def test_samples_pass(name, dtype, settings):
    op = next(op for op in opinfo.operators() if opinfo.name_of(op) == name)
    verdicts = opinfo.judge_operator(op, dtype, 3, **settings)
    assert verdicts
    failed = [v for v in verdicts if v[0] not in ("passed", "rounding", "skipped")]
    assert not failed
    assert any(v[0] != "skipped" for v in verdicts)


def test_what_is_not_there_is_named():
    op = next(op for op in opinfo.operators() if op.name == "hash_tensor")
    verdicts = opinfo.judge_operator(op, "float32", 1)
    assert all(v[0] == "fallback" and "aten::hash_tensor" in v[1] for v in verdicts), verdicts
