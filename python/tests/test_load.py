"""Exported programs without PyTorch: numpy in, numpy out."""

import shutil
import sys
import threading

import numpy as np
import pytest

import straightline as sl

from conftest import ARCHIVES, Recorded


def test_torch_is_not_imported():
    code = "import straightline, sys; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    import subprocess

    subprocess.run([sys.executable, "-c", code], check=True)


def flat(result):
    if isinstance(result, dict):
        return [leaf for value in result.values() for leaf in flat(value)]
    if isinstance(result, (list, tuple)):
        return [leaf for value in result for leaf in flat(value)]
    return [result]


def nested(name, leaves):
    """The arguments of a model as its caller writes them."""
    if name == "mlp_tree":
        x, w, k, flag = leaves
        return ({"x": x, "w": w}, k), {"flag": flag}
    return tuple(leaves), {}


def test_archives_agree_with_pytorch(recorded):
    model = sl.load(recorded.path)
    for inputs, expected in recorded.cases:
        if recorded.name in ("lstm", "odd_weights", "attention_variants", "gpt2_dynamic_batch", "llama"):
            results = model.program.run(*[i for i in inputs if i is not None])
            recorded.check(list(results), expected)
            continue
        args, kwargs = nested(recorded.name, inputs)
        recorded.check(flat(model(*args, **kwargs)), expected)


def test_nested_arguments_and_results(mlp):
    model = sl.load(mlp.path)
    (inputs, _), *_ = mlp.cases
    x, w, k, flag = inputs
    result = model({"x": x, "w": w}, k, flag=flag)
    assert list(result) == ["y", "t", "picked", "inf", "half", "mean"]
    assert isinstance(result["t"], tuple) and result["t"][1:] == (None, 3)
    assert isinstance(result["y"], np.ndarray)
    assert result["half"].dtype == "bfloat16"
    # by name, and by position
    again = model(batch={"w": w, "x": x}, k=k, flag=flag)
    np.testing.assert_array_equal(result["y"], again["y"])
    np.testing.assert_array_equal(result["y"], model({"x": x, "w": w}, k, flag)["y"])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x, w: (({"x": x}, 3, True), {}), "'w'"),
        (lambda x, w: (({"x": x, "w": w, "z": x}, 3, True), {}), "no key"),
        (lambda x, w: (({"x": x, "w": w}, 3), {}), "takes 3 arguments"),
        (lambda x, w: ((x, 3, True), {}), "a dict"),
        (lambda x, w: (({"x": x, "w": w}, 4, True), {}), "the constant 3"),
        (lambda x, w: (({"x": x.astype(np.float64), "w": w}, 3, True), {}), "f32[s11, 6]"),
        (lambda x, w: (({"x": np.zeros((65, 6), np.float32), "w": w}, 3, True), {}), "up to 64"),
        (lambda x, w: (({"x": x[:, :5], "w": w}, 3, True), {}), "6"),
        (lambda x, w: (({"x": "text", "w": w}, 3, True), {}), "f32[s11, 6]"),
        (lambda x, w: (({"x": object(), "w": w}, 3, True), {}), "__dlpack__"),
    ],
)
def test_wrong_arguments_say_what_is_expected(mlp, change, message):
    model = sl.load(mlp.path)
    (inputs, _), *_ = mlp.cases
    args, kwargs = change(inputs[0], inputs[1])
    with pytest.raises((sl.StraightlineError, TypeError, ValueError)) as e:
        model(*args, **kwargs)
    assert message.replace('"', "'") in str(e.value).replace('"', "'")


@pytest.mark.parametrize("path", sorted((ARCHIVES / "bad").glob("*.pt2")), ids=lambda p: p.stem)
def test_damaged_archives_raise(path):
    if path.stem == "good":
        sl.load(path)
        return
    with pytest.raises((sl.FileError, sl.ProgramError)):
        sl.load(path)


def test_a_missing_file_is_an_oserror(tmp_path):
    with pytest.raises(OSError, match="nothing.pt2"):
        sl.load(tmp_path / "nothing.pt2")


def test_strided_and_read_only_arrays():
    recorded = Recorded("cond")
    model = sl.load(recorded.path)
    (inputs, expected), *_ = recorded.cases
    (x,) = inputs
    turned = np.asfortranarray(x)
    turned.flags.writeable = False
    recorded.check([model(turned)], expected)
    wide = np.zeros((x.shape[0], 2 * x.shape[1]), np.float32)
    wide[:, ::2] = x
    recorded.check([model(wide[:, ::2])], expected)


def test_results_outlive_the_model():
    recorded = Recorded("cond")
    (inputs, expected), *_ = recorded.cases
    results = [sl.load(recorded.path)(*inputs) for _ in range(3)]
    for result in results:
        recorded.check([result], expected)


def test_tensors_of_our_own(mlp):
    t = sl.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert t.shape == (2, 3) and t.dtype == "float32" and t.strides == (3, 1) and t.ndim == 2
    np.testing.assert_array_equal(t.numpy(), np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(np.from_dlpack(t), t.numpy())
    assert "0" in repr(t)
    assert sl.Tensor(np.array(2.5)).item() == 2.5
    weights = sl.load(mlp.path).program.weights
    assert weights["a.weight"].shape == (16, 6)
    with pytest.raises(ValueError):
        weights["a.weight"].numpy()[0, 0] = 1.0  # the file's
    with pytest.raises(TypeError):
        sl.Tensor("text")
    with pytest.raises(sl.StraightlineError, match="uint16|uint"):
        sl.Tensor(np.zeros(3, np.uint16))


def test_explanations_and_text(mlp):
    model = sl.load(mlp.path)
    (inputs, _), *_ = mlp.cases
    x, w, k, flag = inputs
    model({"x": x, "w": w}, k, flag)
    assert model.variants == 1
    assert "variant 0" in str(model.explain())
    assert "aten::linear" in model.graph
    assert "s11" in model.graph and model.program.symbols == [("s11", None, 64)]
    assert "linear" in model.dump("graph", {"x": x, "w": w}, k, flag) or "addmm" in model.dump(
        "graph", {"x": x, "w": w}, k, flag
    )
    with pytest.raises(ValueError, match="stage"):
        model.dump("nothing", {"x": x, "w": w}, k, flag)


def test_options_are_understood_or_refused(mlp):
    sl.load(mlp.path, fast_math=True, max_variants=3)
    with pytest.raises(TypeError, match="no option `nothing`"):
        sl.load(mlp.path, nothing=1)


def test_progress_is_told(mlp):
    told = []
    model = sl.load(mlp.path, progress=lambda what, seconds: told.append((what, seconds)))
    (inputs, _), *_ = mlp.cases
    x, w, k, flag = inputs
    for _ in range(2):
        model({"x": x, "w": w}, k, flag)
    assert [what for what, _ in told] == ["loaded", "compiled variant 1"]
    assert all(seconds >= 0 for _, seconds in told)


def test_saving_is_a_copy(mlp, tmp_path):
    sl.load(mlp.path).save(tmp_path / "copy.pt2")
    assert (tmp_path / "copy.pt2").read_bytes() == mlp.path.read_bytes()


def test_many_threads_call_one_model():
    recorded = Recorded("transformer_encoder")
    model = sl.load(recorded.path)
    cases = list(recorded.cases)
    wrong = []

    def work(at):
        for n in range(10):
            inputs, expected = cases[(at + n) % len(cases)]
            try:
                recorded.check(flat(model(*inputs)), expected)
            except BaseException as e:  # noqa: BLE001: told below
                wrong.append(e)
                return

    threads = [threading.Thread(target=work, args=(at,)) for at in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]


def test_buffers_are_kept_between_calls(tmp_path):
    recorded = Recorded("batchnorm_train")
    model = sl.load(recorded.path)
    before = model.program.weights
    names = [n for n in before if n.endswith("running_mean")]
    assert names
    cases = list(recorded.cases)
    for inputs, expected in cases:
        recorded.check(flat(model(*inputs)), expected)
    after = recorded.about["cases"][-1]["buffers_after"]
    for name, key in after.items():
        got = model.program.weights[name].numpy()
        np.testing.assert_allclose(got, recorded.tensors[key], 1e-5, 1e-6)


def test_a_batch_of_one_and_of_none(mlp):
    # PyTorch traces with sizes from 2 on, and takes these
    model = sl.load(mlp.path)
    (inputs, _), *_ = mlp.cases
    x, w, k, flag = inputs
    whole = model({"x": x, "w": w}, k, flag)["y"]
    assert whole.shape[0] > 1
    one = model({"x": x[:1], "w": w}, k, flag)["y"]
    np.testing.assert_allclose(one, whole[: one.shape[0]], 1e-5, 1e-6)
    assert model({"x": x[:0], "w": w}, k, flag)["y"].size == 0


def test_arrays_that_no_library_lends_are_copied(mlp):
    model = sl.load(mlp.path)
    (inputs, _), *_ = mlp.cases
    x, w, k, flag = inputs
    expected = model({"x": x, "w": w}, k, flag)["y"]
    backwards = np.ascontiguousarray(x[:, ::-1])[:, ::-1]
    assert backwards.strides[1] < 0
    raw = np.zeros(x.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    for odd in (backwards, unaligned, x.astype(x.dtype.newbyteorder(">"))):
        np.testing.assert_array_equal(model({"x": odd, "w": w}, k, flag)["y"], expected)
    with pytest.raises((TypeError, BufferError)):
        model({"x": np.array([object()]), "w": w}, k, flag)


def test_a_missing_file_is_a_file_that_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        sl.load(tmp_path / "none.pt2")
    assert isinstance(error.value, sl.FileError)
    with pytest.raises(sl.FileError, match="folder"):
        sl.load(tmp_path)


def test_options_of_a_wrong_kind_are_named(mlp):
    for options in ({"fast_math": "yes"}, {"max_variants": "many"}, {"share_code": None}):
        with pytest.raises(TypeError, match=next(iter(options))):
            sl.load(mlp.path, **options)


def test_a_tensor_is_an_array_and_a_number():
    t = sl.Tensor(np.arange(3, dtype=np.float32))
    assert len(t) == 3
    np.testing.assert_array_equal(np.asarray(t), [0, 1, 2])
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    one = sl.Tensor(np.float32(2.5))
    assert float(one) == 2.5 and int(one) == 2 and bool(one)
    with pytest.raises(ValueError, match="one element"):
        float(t)
    with pytest.raises(TypeError):
        len(one)
