"""torch.compile through straightline: mutation, aliasing, sizes, modes. PyTorch's eager result is the
judge. Without PyTorch these tests are skipped, and the header of the run says so."""

import importlib.metadata
import math
import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="NO TORCH: the backend of torch.compile is not tested")

import straightline
from straightline import FallbackWarning
from straightline.torch_backend import backend


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        # a test that falls back tests nothing of ours
        warnings.simplefilter("error", FallbackWarning)
        yield


def compiled(f, **kwargs):
    return torch.compile(f, backend=backend, **{"fullgraph": True, **kwargs})


def same(got, expected, strides=True, **tolerances):
    torch.testing.assert_close(got, expected, equal_nan=True, **tolerances)
    if strides:
        leaves = torch.utils._pytree.tree_leaves
        for g, e in zip(leaves(got), leaves(expected)):
            if isinstance(e, torch.Tensor) and e.layout == torch.strided:
                assert g.stride() == e.stride(), (g.shape, g.stride(), e.stride())


def check(f, *args, times=2, **kwargs):
    """Compiled and eager calls on copies of the arguments: the same results, and the same arguments
    afterwards."""
    compiled_f = compiled(f, **kwargs)
    for _ in range(times):
        ours, theirs = (copies(args) for _ in range(2))
        same(compiled_f(*ours), f(*theirs))
        same(ours, theirs)


def copies(args):
    def copy(a):
        if not isinstance(a, torch.Tensor):
            return a
        return a.detach().clone(memory_format=torch.preserve_format).requires_grad_(a.requires_grad)

    return [copy(a) for a in args]


# ---------------------------------------------------------------------------------------------------
# writes and views


def test_inputs_that_are_written():
    def f(x, y):
        x.add_(y)
        y[0].mul_(2)
        return x * y

    check(f, torch.randn(3, 4), torch.randn(3, 4))


def test_a_written_input_keeps_its_memory():
    def f(x):
        x.t().mul_(3)
        x[0] = 0
        return x.sum()

    x = torch.arange(6.0).view(2, 3)
    at = x.data_ptr()
    assert compiled(f)(x).item() == 36
    assert x.data_ptr() == at and x.tolist() == [[0, 0, 0], [9, 12, 15]]


def test_views_of_inputs_are_returned():
    def f(x):
        return x.t(), x[0], x.view(-1), x + 1

    x = torch.randn(3, 4)
    t, row, flat, more = compiled(f)(x)
    same((t, row, flat, more), f(x))
    x.fill_(7)
    assert all((v == 7).all() for v in (t, row, flat)) and (more != 7).any()


def test_the_input_itself_is_returned():
    def f(x):
        return x, x * 2

    x = torch.randn(3)
    y, doubled = compiled(f)(x)
    assert y is x
    same(doubled, x * 2)


def test_views_of_one_result_share_memory():
    def f(x):
        y = x + 1
        return y, y.t(), *y.chunk(2, 1)

    x = torch.randn(4, 6)
    results = compiled(f)(x)
    same(results, f(x))
    results[0].fill_(5)
    assert all((r == 5).all() for r in results)


def test_views_keep_their_strides():
    check(lambda x: x.chunk(2, 1), torch.randn(4, 6))
    check(lambda x: x.unbind(1), torch.randn(4, 6))
    check(lambda x: (x * 2).split([1, 5], 1), torch.randn(4, 6))
    check(lambda x: (x * 2)[:, ::2], torch.randn(4, 6))
    check(lambda x: (x * 2).expand(3, 4, 6), torch.randn(4, 6))


def test_results_have_pytorchs_strides():
    x = torch.randn(2, 3, 4, 5)
    permuted = x.permute(0, 3, 1, 2)
    check(lambda x: x.relu() + 1, permuted)
    check(lambda x: torch.cat([x, x], 1), permuted)
    check(lambda x: torch.nn.functional.avg_pool2d(x, 2), x.to(memory_format=torch.channels_last))
    check(lambda x: torch.fft.ifft(x, dim=0), x)
    check(lambda x: (x + 1j).mH.conj() * 1, x)
    check(lambda x: (x + 1j).mH, x)


def test_the_same_tensor_twice():
    def f(x, y):
        x.add_(1)
        return x * y

    x, z = torch.randn(3), None
    z = x.clone()
    same(compiled(f)(x, x), f(z, z))
    same(x, z)


def test_overlapping_views_of_which_one_is_written():
    def f(x, y):
        x.mul_(2)
        return x + y

    base = torch.arange(6.0)
    other = base.clone()
    f_ = compiled(f)
    same(f_(base[:4], base[2:]), f(other[:4], other[2:]))
    same(base, other)


def test_views_of_one_base_that_are_read():
    base = torch.randn(3, 8)
    check(lambda x, y, z: x * y + z, base[:, :4], base[:, 4:], base[:, 2:6])


def test_noncontiguous_and_empty_inputs_and_those_without_dimensions():
    f = lambda x, y: (x * 2 + y).sum(-1, keepdim=True)
    x = torch.randn(4, 6)
    strided = compiled(f)
    for a, b in [
        (x, x),
        (x.t().contiguous().t(), x),
        (x[:, ::2], x[:, 1::2]),
        (x[:0], x[:0]),
        (x[:1].expand(4, 6), x),
        (x.flip(0), x[3:]),
    ]:
        same(strided(a, b), f(a, b))
    check(lambda x: x.sin() + 1, torch.tensor(0.5))
    check(lambda x: (x.sum(), x.cumsum(1), x + 1), torch.empty(0, 3))
    check(lambda x: x.sin().t(), torch.empty(3, 0))


def test_lazy_conjugates_and_negatives_as_inputs():
    x = torch.randn(3, 4, dtype=torch.complex64)
    f = lambda x: x * 2
    f_ = compiled(f)
    for a in (x, x.conj(), x.mH, x.conj()[1:], x.imag, x.conj().imag):
        same(f_(a), f(a))
    check(lambda x: x.abs() + x.imag, x.conj())
    check(lambda x: x + 1, x.conj().imag)
    check(lambda x: (x.conj(), x.conj() + 1, x.real, (x * 2).imag), x)

    def written(x):
        x.add_(1j)
        return x * x

    a, b = x.clone(), x.clone()
    same(compiled(written)(a.conj()), written(b.conj()))
    same(a, b)


def test_complex_weights_that_are_lazy_conjugates():
    w = torch.randn(3, dtype=torch.complex64).conj()
    f = lambda x: x * w
    x = torch.randn(3, dtype=torch.complex64)
    same(compiled(f)(x), f(x))


# ---------------------------------------------------------------------------------------------------
# modes and randomness


def test_cond():
    def f(p, x):
        constant = torch.tensor([1.0, 2.0, 3.0])
        return torch.cond(p, lambda x: x.sin() + constant, lambda x: x.cos() - torch.tensor(4.0), (x,))

    f_ = compiled(f)
    x = torch.randn(3)
    for p in (torch.tensor(True), torch.tensor(False)):
        same(f_(p, x), f(p, x))


def test_autocast_and_no_grad_within():
    def f(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ w
        with torch.no_grad():
            z = (x * 2).sum()
        return y.float() + z

    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    same(compiled(f)(x, w), f(x, w))
    ours, theirs = torch.autograd.grad(compiled(f)(x, w).sum(), w), torch.autograd.grad(f(x, w).sum(), w)
    same(ours, theirs)


def test_inference_mode():
    f = lambda x: (x.t() @ x).relu()
    f_ = compiled(f)
    x = torch.randn(3, 4)
    with torch.inference_mode():
        result = f_(x)
        same(result, f(x))
        same(f_(torch.ones(3, 4)), f(torch.ones(3, 4)))
    same(f_(x), f(x))


def test_random_numbers_are_pytorchs():
    def f(x):
        x = torch.nn.functional.dropout(x, 0.5, training=True)
        return x + torch.randn_like(x) + torch.rand(7)

    f_ = compiled(f)
    x = torch.randn(5, 7)
    torch.manual_seed(5)
    ours = [f_(x), torch.rand(3), f_(x)]
    torch.manual_seed(5)
    same(ours, [f(x), torch.rand(3), f(x)])


def test_dropout_is_trained_with_pytorchs_numbers():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    grads = []
    for f in (model, compiled(model)):
        torch.manual_seed(2)
        model.zero_grad()
        f(x).square().sum().backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    same(*grads)


# ---------------------------------------------------------------------------------------------------
# sizes


def test_sizes_that_change():
    def f(x, n):
        rows, columns = x.shape
        y = x.view(-1) * columns + torch.arange(rows * columns)
        return y.view(rows, columns).flip(0)[:, : columns - 1] * n, rows * columns

    f_ = compiled(f, dynamic=True)
    for rows, columns in [(3, 4), (5, 6), (2, 9), (7, 3)]:
        x = torch.randn(rows, columns)
        same(f_(x, 3), f(x, 3))
        same(f_(x, 2.5), f(x, 2.5))


def test_a_dimension_that_is_marked_dynamic():
    f = lambda x: torch.softmax(torch.cat([x, x.new_ones(x.shape[0], 2)], 1), -1).t()
    f_ = compiled(f)
    for n in (3, 5, 8):
        x = torch.randn(n, 4)
        torch._dynamo.mark_dynamic(x, 0)
        same(f_(x), f(x))


def test_sizes_that_change_in_training():
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.LayerNorm(5))
    f = compiled(model, dynamic=True)
    for n in (2, 3, 7):
        x = torch.randn(n, 6)
        ours = torch.autograd.grad(f(x).square().sum(), list(model.parameters()))
        theirs = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        same(ours, theirs, rtol=1e-4, atol=1e-4)


def test_sizes_that_change_with_transposed_results():
    f_ = compiled(lambda x: ((x + 1).transpose(0, 2), x.sum(1)), dynamic=True)
    for shape in [(2, 3, 4), (5, 6, 7)]:
        x = torch.randn(shape)
        same(f_(x), ((x + 1).transpose(0, 2), x.sum(1)))


def test_views_that_begin_within_their_base_where_sizes_change():
    """AOTAutograd makes these anew from the base, by the returned tensor's strides and offset."""

    def of_input(x):
        return x.chunk(2, 1), x[1:], x[:, x.shape[1] // 2 :].t()

    def of_result(x):
        y = x.sin()
        return y[1:], y[:, 1:].t(), y.unbind(0)[1]

    for f in (of_input, of_result):
        torch._dynamo.reset()
        f_ = compiled(f, dynamic=True)
        for shape in [(4, 5), (6, 8)]:
            x = torch.randn(shape)
            same(f_(x), f(x))
            # a part of a greater one
            same(f_(torch.cat([x, x])[shape[0] :]), f(x))
            x.requires_grad_(True)
            ours, theirs = f_(x), f(x)
            same(ours, theirs)
            total = lambda all: sum(t.square().sum() for t in torch.utils._pytree.tree_leaves(all))
            same(torch.autograd.grad(total(ours), x), torch.autograd.grad(total(theirs), x))


def test_views_of_results_are_written_by_the_caller():
    def f(x):
        y = x * 2
        return y, y.view(-1), y[1:], y.t().unsqueeze(0), y.view(-1)

    f_ = compiled(f)
    for x in (torch.ones(3, 4), torch.zeros(3, 4)):
        ours, theirs = f_(x), f(x)
        for results in (ours, theirs):
            results[2].add_(1)
            results[3].mul_(3)
        same(ours, theirs)


def test_sizes_that_are_numbers_of_other_operators():
    f = lambda x: torch.nn.functional.interpolate(x, scale_factor=2) / x.shape[2]
    f_ = compiled(f, dynamic=True)
    for n in (3, 5):
        x = torch.randn(1, 2, n, 4)
        same(f_(x), f(x))


def test_graph_breaks():
    def f(x):
        y = x * 2
        if y.sum().item() > 0:
            return y.relu()
        return y.neg()

    f_ = compiled(f, fullgraph=False)
    for x in (torch.ones(3), -torch.ones(3)):
        same(f_(x), f(x))


# ---------------------------------------------------------------------------------------------------
# training


def test_parameters_that_an_optimizer_updates():
    torch.manual_seed(0)
    x, target = torch.randn(8, 4), torch.randn(8, 2)

    def train(use):
        torch.manual_seed(1)
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
        )
        f = use(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(f(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        model.eval()
        return losses, f(x).detach(), {k: v.clone() for k, v in model.state_dict().items()}

    same(train(compiled), train(lambda m: m), strides=False)


def test_gradients_of_gradients_are_refused_or_right():
    f = lambda x: (x.sin() * x).sum()
    x = torch.randn(3, requires_grad=True)
    (g,) = torch.autograd.grad(f(x), x)
    same(torch.autograd.grad(compiled(f)(x), x)[0], g)


def test_checks_of_operators_are_made():
    """``linalg.inv`` checks by a call with an effect."""
    f = compiled(torch.linalg.inv)
    x = torch.randn(3, 3) + 4 * torch.eye(3)
    same(f(x), torch.linalg.inv(x))
    with pytest.raises(RuntimeError, match="singular"):
        f(torch.zeros(3, 3))
    same(f(x), torch.linalg.inv(x))


# ---------------------------------------------------------------------------------------------------
# options, names, threads


def test_fallback():
    def f(x):
        return torch.hash_tensor(x), x + 1

    x = torch.randn(3)
    with pytest.warns(FallbackWarning, match="aten::hash_tensor"):
        same(compiled(f)(x), f(x))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="aten::hash_tensor"):
        compiled(f, options={"fallback": "error"})(x)


def test_calls_of_higher_order_that_are_not_there_are_named():
    x = torch.randn(4, requires_grad=True)

    def f(x):
        again = lambda x: torch.nn.functional.dropout(x.sin()).exp()
        return torch.utils.checkpoint.checkpoint(again, x, use_reentrant=False)

    torch.manual_seed(1)
    expected = torch.autograd.grad(f(x).sum(), x)
    torch.manual_seed(1)
    with pytest.warns(FallbackWarning, match="rng_state` of `aten::native_dropout"):
        same(torch.autograd.grad(compiled(f)(x).sum(), x), expected)


def test_operators_by_other_names():
    """Exported programs have them as they were written."""

    class Model(torch.nn.Module):
        def forward(self, x, y):
            z = torch.multiply(x, y).clip(-1, 1).arctan() - torch.true_divide(x, 3)
            z = torch.subtract(z, y, alpha=2).negative().moveaxis(0, 1)
            low, high = z.split([1, 2], 1)
            return low.reshape_as(y[0]), torch.where(torch.greater(high, 0), high, torch.divide(high, 2))

    args = torch.randn(3, 4), torch.randn(3, 4)
    model = Model()
    for dynamic in (None, {"x": {1: None}, "y": {1: None}}):
        f = straightline.compile(model, args, dynamic=dynamic, eager_fallback=False)
        same(f(*args), model(*args))
    same(compiled(model)(*args), model(*args))


def test_results_of_exported_programs_share_memory():
    class Model(torch.nn.Module):
        def forward(self, x, c):
            y = x * 2
            return y, *y.chunk(2, 1), c * 2

    args = torch.randn(4, 6), torch.randn(3, dtype=torch.complex64)
    f = straightline.compile(Model(), args, eager_fallback=False)
    for c in (args[1], args[1].conj()):
        ours, theirs = f(args[0], c), Model()(args[0], c)
        same(ours, theirs)
        ours[0].zero_()
        assert not ours[1].any() and not ours[2].any()


def test_unknown_options_and_modes_are_refused():
    f = lambda x: x + 1
    for kwargs, says in [
        ({"options": {"fall_back": "error"}}, "no option fall_back"),
        ({"options": {"fallback": "never"}}, "'eager' or 'error'"),
        ({"mode": "max-autotune"}, "max-autotune"),
    ]:
        torch._dynamo.reset()
        with pytest.raises(Exception, match=says):
            compiled(f, **kwargs)(torch.ones(2))
    torch._dynamo.reset()
    same(compiled(f, mode="reduce-overhead")(torch.ones(2)), torch.full((2,), 2.0))


def test_many_threads_call_one_function():
    weight = torch.randn(6, 6)
    f = lambda x: ((x @ weight).relu() + x.sum(0)).t()
    f_ = compiled(f)
    inputs = [torch.randn(5, 6) for _ in range(16)]
    expected = [f(x) for x in inputs]
    f_(inputs[0])
    wrong = []

    def run(at):
        try:
            for _ in range(20):
                same(f_(inputs[at]), expected[at])
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]


def test_the_name_is_found():
    installed = importlib.metadata.entry_points(group="torch_dynamo_backends")
    if "straightline" not in [e.name for e in installed]:
        pytest.skip("no wheel of this package is installed")
    x = torch.randn(3)
    same(torch.compile(lambda x: x * 2, backend="straightline")(x), x * 2)


def test_calls_that_somebody_traces():
    """With tensors that have no memory the graph runs as PyTorch has it, and stays compiled."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from straightline import torch_backend

    gm = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.mul.Tensor(x, 2),))
    boxed = torch_backend._compile_graph(gm, {})
    fake = FakeTensorMode().from_tensor(torch.ones(3))
    assert type(boxed([fake])[0]) is type(fake)
    assert boxed([torch.ones(3, device="meta")])[0].is_meta
    same(boxed([torch.ones(3)])[0], torch.full((3,), 2.0))
    assert boxed.explain() is not None


def test_numbers_are_drawn_once_where_a_call_fails():
    from straightline import torch_backend

    gm = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.bernoulli.p(x, 0.5),))
    boxed = torch_backend._compile_graph(gm, {})
    torch.manual_seed(3)
    expected = [gm(torch.ones(9))[0], torch.rand(2)]
    torch.manual_seed(3)
    same([boxed([torch.ones(9)])[0], torch.rand(2)], expected)


def test_explanations():
    f = compiled(lambda x: x.sin() * 2)
    f(torch.randn(3))
    assert "variant" in str(straightline.explain(f)[-1])


def test_frozen_parameters_are_part_of_the_graph():
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    frozen = torch.compile(model, backend=backend, options={"freeze": True, "fallback": "error"})
    with torch.no_grad():
        for rows in (3, 5, 3):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(frozen(x), model(x))
        text = str(straightline.explain(frozen)[-1])
        assert "packed weights" in text
        # other parameters are inputs again
        other = torch.nn.Linear(8, 16)
        model[0].weight = other.weight
        torch.testing.assert_close(frozen(x), model(x))


def test_explanations_are_those_of_one_function():
    torch._dynamo.reset()
    make = lambda: torch.nn.Sequential(torch.nn.Linear(3, 3)).eval()  # noqa: E731
    one, two = (torch.compile(make(), backend=backend) for _ in range(2))
    function = torch.compile(lambda x: x.sin() + 1, backend=backend)
    unused = torch.compile(lambda x: x.cos(), backend=backend)
    with torch.no_grad():
        one(torch.ones(2, 3))
        two(torch.ones(2, 3))
        function(torch.ones(4))
    assert [len(straightline.explain(f)) for f in (one, two, function, unused)] == [1, 1, 1, 0]
    assert "sin" in str(straightline.explain(function)[0])

    def broken(x):
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    in_parts = torch.compile(broken, backend=backend)
    in_parts(torch.ones(3))
    assert len(straightline.explain(in_parts)) == 2
    for wrong in (broken, 3, None):
        with pytest.raises(TypeError, match="explain"):
            straightline.explain(wrong)


def test_a_step_of_an_optimiser_is_compiled():
    for make in (
        lambda p: torch.optim.Adam(p, lr=1e-2),
        lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
    ):
        torch._dynamo.reset()
        parameters = [[torch.nn.Parameter(torch.arange(n) * 0.1) for n in (3, 5)] for _ in range(2)]
        optimisers = [make(p) for p in parameters]
        compiled = torch.compile(optimisers[1].step, backend=backend, options={"fallback": "error"})
        for step in range(3):
            for each in parameters:
                for p in each:
                    p.grad = torch.sin(p.detach() + step)
            optimisers[0].step()
            compiled()
            torch.testing.assert_close(parameters[1], parameters[0])


def test_random_numbers_of_compile_are_pytorchs():
    class Noisy(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5, True) + torch.rand_like(x)

    x = torch.ones(64)
    compiled = straightline.compile(Noisy(), (x,))
    torch.manual_seed(3)
    expected, after = Noisy()(x), torch.rand(2)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
    torch.testing.assert_close(torch.rand(2), after, rtol=0, atol=0)


def test_many_threads_may_compile_at_once():
    from concurrent.futures import ThreadPoolExecutor

    def one(n):
        model = torch.nn.Linear(4, n + 1).eval()
        x = torch.ones(2, 4)
        with torch.no_grad():
            torch.testing.assert_close(straightline.compile(model, (x,))(x), model(x))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(16)))


def test_results_that_are_weights_may_be_written(tmp_path):
    class Anchors(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("anchors", torch.ones(512))

        def forward(self, x):
            return x + self.anchors, self.anchors

    x = torch.ones(512)
    torch.export.save(torch.export.export(Anchors(), (x,)), tmp_path / "m.pt2")
    loaded = straightline.load(tmp_path / "m.pt2")
    _, anchors = loaded(x)
    anchors.mul_(8)
    again, _ = loaded(x)
    torch.testing.assert_close(again, torch.full((512,), 2.0))
    # PyTorch does not ask whether memory is read only: it has pages of its own then
    torch.from_dlpack(loaded.program.weights["anchors"]).add_(1)
    assert torch.export.load(tmp_path / "m.pt2").state_dict["anchors"].max() == 1


def test_classes_of_their_own_as_arguments_and_results():
    import collections

    Pair = collections.namedtuple("Pair", "first second")

    class Swap(torch.nn.Module):
        def forward(self, pair, *more):
            return Pair(pair.second * 2, pair.first + sum(more))

    pair = Pair(torch.ones(3), torch.zeros(2))
    compiled = straightline.compile(Swap(), (pair, torch.ones(3), torch.ones(3)))
    result = compiled(pair, torch.ones(3), torch.ones(3))
    assert isinstance(result, Pair)
    torch.testing.assert_close(result.second, torch.full((3,), 3.0))
    with pytest.raises(TypeError):
        compiled((torch.ones(3), torch.zeros(2)), torch.ones(3), torch.ones(3))


def test_sizes_that_may_change_are_named_by_argument():
    class Sum(torch.nn.Module):
        def forward(self, *all):
            return sum(all)

    compiled = straightline.compile(Sum(), (torch.ones(3), torch.ones(3)), dynamic=True)
    assert compiled(torch.ones(5), torch.ones(5)).shape == (5,)
    compiled = straightline.compile(lambda a, b: a + b, (torch.ones(3, 2), torch.ones(2)), dynamic={"a": {-2: (1, 8)}})
    assert compiled(torch.ones(8, 2), torch.ones(2)).shape == (8, 2)
    with pytest.raises(straightline.ProgramError, match="up to 8"):
        compiled(torch.ones(9, 2), torch.ones(2))
    for wrong in ({"a": {7: None}}, {"c": {0: None}}):
        with pytest.raises(ValueError, match="dynamic names"):
            straightline.compile(lambda a: a + 1, (torch.ones(3),), dynamic=wrong)
    with pytest.raises(TypeError, match="dynamic is True"):
        straightline.compile(lambda a: a + 1, (torch.ones(3),), dynamic=3)
    # a multiple of a size is one at a call, too
    six = torch.export.Dim("six", max=64)
    halves = torch.export.export(
        torch.nn.Flatten(0), (torch.ones(12, 2),), dynamic_shapes={"input": {0: 6 * six}}
    )
    compiled = straightline.compile(halves)
    assert compiled(torch.ones(18, 2)).shape == (36,)
    with pytest.raises(straightline.ProgramError, match="6"):
        compiled(torch.ones(13, 2))


def _x(*sizes):
    return torch.sin(torch.arange(math.prod(sizes)) ** 2 * 0.37).reshape(sizes)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.quantile(x, torch.tensor([0.1, 0.5]), 1),
        lambda x: torch.quantile(x, 0.3, interpolation="nearest", keepdim=True),
        lambda x: torch.nanquantile(torch.where(x > 0.5, torch.nan, x), 0.7, 0),
        lambda x: torch.nanmean(torch.where(x > 0.5, torch.nan, x), 1),
        lambda x: torch.gradient(x, spacing=2.0, dim=[0, 1], edge_order=2),
        lambda x: torch.gradient(x, spacing=(torch.tensor([0.0, 1, 3, 4, 6, 9]),), dim=1),
        lambda x: torch.trapezoid(x, dx=0.5),
        lambda x: torch.cumulative_trapezoid(x, torch.tensor([0.0, 1, 3, 4, 6, 9])),
        lambda x: torch.stft(_x(2, 64), 16, 4, window=torch.hann_window(16), return_complex=True).abs(),
        lambda x: torch.istft(
            torch.stft(_x(64), 16, window=torch.hamming_window(16), return_complex=True),
            16,
            window=torch.hamming_window(16),
            length=60,
        ),
        lambda x: [torch.blackman_window(7), torch.bartlett_window(8, False), torch.kaiser_window(9, True, 4.0)],
        lambda x: torch.fft.fftfreq(7, 0.5) + torch.fft.rfftfreq(12),
        lambda x: [torch.fft.hfft2(x + 1j * x), torch.fft.ihfftn(x)],
        lambda x: [torch.float_power(x.abs(), 1.5), torch.float_power(2, x)],
        lambda x: [torch.hsplit(x, 3), torch.vsplit(x, [1]), torch.dsplit(x.reshape(2, 3, 4), 2)],
        lambda x: [x.reshape_as(torch.ones(6, 4)), x.ravel(), torch.inner(x, x), x.sum_to_size(4, 1)],
        lambda x: x.clone().fill_diagonal_(3.0, wrap=True),
        lambda x: [torch.cartesian_prod(x[0], x[1]), torch.combinations(x[0], 2, True)],
        lambda x: torch.nn.utils.rnn.pad_sequence([x[:2], x], True, 0.5, "left"),
        lambda x: [torch.linalg.cond(x[:, :4]), torch.linalg.cond(x[:, :4], 1), torch.linalg.cond(x[:, :4], "nuc")],
        lambda x: [torch.linalg.tensorinv(x.reshape(4, 6)[:, :4].reshape(2, 2, 4)), torch.linalg.vander(x, N=3)],
        lambda x: torch.linalg.tensorsolve(x[:, :4].reshape(2, 2, 4), x[0, :4].reshape(2, 2)),
        lambda x: [torch.vander(x[0]), torch.norm_except_dim(x, 2, 1), torch.special.ndtr(x)],
        lambda x: [torch.special.softmax(x, 0), torch.special.log_softmax(x, 1), torch.special.xlogy(x, 2.0)],
        lambda x: [torch.nuclear_norm(x), torch.where(x > 0, 1.0, 2), torch.diagflat(x[0], 1), torch.positive(x)],
        lambda x: torch._foreach_add([x, x[0]], 2.0),
    ],
)
def test_operators_that_exported_programs_keep(f):
    x = _x(4, 6)

    class Model(torch.nn.Module):
        def forward(self, x):
            return f(x)

    # as PyTorch exports it, without decompositions
    compiled = straightline.compile(torch.export.export(Model(), (x,)))
    torch.testing.assert_close(compiled(x), f(x), rtol=1e-4, atol=1e-5)


def test_experts_are_multiplied_in_groups():
    moe = pytest.importorskip("transformers.integrations.moe")
    assert moe is not None
    rows, weights = _x(10, 4), _x(3, 4, 5)
    ends = torch.tensor([3, 3, 8], dtype=torch.int32)

    class Experts(torch.nn.Module):
        def forward(self, rows):
            return torch.ops.transformers.grouped_mm_fallback(rows, weights, ends)

    compiled = straightline.compile(torch.export.export(Experts(), (rows,)))
    torch.testing.assert_close(compiled(rows), Experts()(rows))
