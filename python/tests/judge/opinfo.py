"""PyTorch's operator database through the backend of torch.compile, judged by PyTorch itself.

    python opinfo.py --dtypes float32,int64 --samples 4 --out results.jsonl

Every sample of every operator is traced by AOTAutograd and compiled by the backend's own compiler
function; with ``--dynamo`` it goes through ``torch.compile`` instead, which is many times slower and
adds nothing but Dynamo. The judge is the eager result of PyTorch, within the tolerances of
``torch.testing.assert_close``. What fails through a compiler that does nothing as well is not ours and
is counted as skipped.

Operators run in a worker process, which is replaced where it dies or takes too long. Results are
written line by line, and a second run with the same file goes on where the first ended. ``--shard 0/4``
takes a quarter of the operators. ``--report`` prints what is in a file. ``--modules`` takes PyTorch's
modules in place of its operators.

| verdict | meaning |
|---|---|
| passed | right, and all of it compiled |
| rounding | beyond the tolerance, and within three times the distance that PyTorch's own result has from a run in float64, or within 32 roundings (4 of two-byte floats) of the largest value |
| fallback | right, but the graph ran with PyTorch's kernels; the operators are named |
| strides | values are right, and strides are not those that the graph was traced with |
| wrong | a wrong value, dtype or size |
| raised | an exception |
| crashed, timeout | the process died, or took too long |
| skipped | PyTorch can not run it eagerly, or not trace it |
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import threading
import time
import warnings

OURS = ("passed", "rounding", "fallback", "strides", "wrong", "raised", "crashed", "timeout")


# their results are memory that nobody has written
UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


# ---------------------------------------------------------------------------------------------------
# one sample


class _Watched:
    """The backend's compiler, and what it did."""

    def __init__(self):
        self.called = False
        self.strides = []

    def __call__(self, gm, inputs):
        from straightline import torch_backend

        self.called = True
        compiled = torch_backend._compile_graph(gm, {})
        expected = _output_values(gm)

        def run(args):
            results = compiled(args)
            self.strides += _stride_differences(expected, results)
            return results

        run._boxed_call = True
        return run


def _output_values(gm):
    outputs = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    return [getattr(o, "meta", {}).get("val") for o in outputs]


def _stride_differences(expected, results):
    import torch

    found = []
    for e, r in zip(expected, results):
        if not isinstance(e, torch.Tensor) or not isinstance(r, torch.Tensor) or r.numel() == 0:
            continue
        if e.layout != torch.strided or any(not isinstance(n, int) for n in [*e.shape, *e.stride()]):
            continue
        same = all(a == b for a, b, n in zip(e.stride(), r.stride(), e.shape) if n != 1)
        if e.shape == r.shape and not same:
            found.append(f"{tuple(r.shape)}: {r.stride()} instead of {e.stride()}")
    return found


def _closed(fn, args, kwargs):
    """A function of the tensors alone, and these."""
    import torch
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten((args, kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def closed(*tensors):
        now = list(leaves)
        for i, t in zip(at, tensors):
            now[i] = t
        args, kwargs = pytree.tree_unflatten(now, spec)
        return fn(*args, **kwargs)

    return closed, [leaves[i] for i in at]


def compiled_by(compiler, fn, tensors, dynamic=False):
    """The result of a function that AOTAutograd traces and `compiler` compiles."""
    from torch._functorch.aot_autograd import aot_function

    f = aot_function(
        fn, fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler, dynamic=dynamic
    )
    return f(*tensors)


def _copies(tensors):
    import torch

    return [
        t.detach().clone(memory_format=torch.preserve_format).requires_grad_(t.requires_grad) for t in tensors
    ]


def _step(run, fn, tensors):
    """Results, and gradients of the inputs that want some."""
    import torch
    from torch.utils import _pytree as pytree

    results = run(fn, tensors)
    wants = [t for t in tensors if t.requires_grad]
    if not wants:
        return results, []
    outputs = [
        o for o in pytree.tree_leaves(results) if isinstance(o, torch.Tensor) and o.requires_grad
    ]
    if not outputs:
        return results, []
    torch.manual_seed(11)
    # the same numbers whatever the dtype
    weights = [
        torch.randn(o.shape, dtype=torch.complex64 if o.is_complex() else torch.float32).to(o.dtype)
        for o in outputs
    ]
    grads = torch.autograd.grad(outputs, wants, weights, allow_unused=True)
    detached = pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, results)
    return detached, list(grads)


def _sorted_eigenvalues(result):
    """Eigenvalues and vectors in an order, without signs and phases: both are free."""
    import torch

    alone = isinstance(result, torch.Tensor)
    values = result if alone else result[0]
    order = torch.argsort(torch.round(values.real * 1e3) * 1e4 + values.imag)
    values = torch.gather(values, -1, order)
    if alone:
        return values
    vectors = result[1].abs()
    return values, torch.gather(vectors, -1, order.unsqueeze(-2).expand(vectors.shape))


# what is free in a result is taken away before it is compared
FREE = {
    "linalg.eig": _sorted_eigenvalues,
    "linalg.eigvals": _sorted_eigenvalues,
    "linalg.eigh": lambda r: (r[0], r[1].abs()),
}


def _is_exact(name, args):
    """Whether a value of ours is right where PyTorch's is not: its Bessel functions lose half their
    digits near zeros."""
    import mpmath
    import torch

    exact = {
        "special.bessel_j0": lambda x: mpmath.besselj(0, x),
        "special.bessel_j1": lambda x: mpmath.besselj(1, x),
        "special.bessel_y0": lambda x: mpmath.bessely(0, x),
        "special.bessel_y1": lambda x: mpmath.bessely(1, x),
    }.get(name)
    (x,) = args
    if exact is None or x.dtype != torch.float64:
        return False
    op = getattr(torch.special, name.removeprefix("special."))
    # where it is not defined PyTorch's NaN and infinity are right
    theirs = zip(x.flatten().tolist(), op(x).flatten().tolist())
    wanted = [float(exact(v)) if "_j" in name or v > 0 else t for v, t in theirs]
    got = compiled_by(_Watched(), op, [x]).flatten()
    return torch.allclose(got, torch.tensor(wanted, dtype=x.dtype), equal_nan=True, rtol=1e-12, atol=1e-13)


def _permuted(t):
    """The same values with the strides of a transposed tensor."""
    import torch

    if t.dim() < 2 or t.layout != torch.strided:
        return t
    wanted = t.requires_grad
    t = t.detach().transpose(0, -1).contiguous().transpose(0, -1)
    return t.requires_grad_(wanted)


def judge(fn, args, kwargs, *, dynamo=False, dynamic=False, permuted=False):
    """The verdict on one call, and what there is to say about it."""
    import torch
    from torch.utils import _pytree as pytree
    from straightline import FallbackWarning

    closed, tensors = _closed(fn, args, kwargs)
    if permuted:
        tensors = [_permuted(t) for t in tensors]
    seed = lambda: torch.manual_seed(7)

    def close(got, expected):
        torch.testing.assert_close(got, expected, equal_nan=True)

    def step(run):
        seed()
        return _step(run, closed, _copies(tensors))

    try:
        expected = step(lambda f, x: f(*x))
        seed()
        again = step(lambda f, x: f(*x))
    except Exception as e:
        return "skipped", f"eager: {_first_line(e)}"
    try:
        close(again, expected)
    except Exception:
        return "skipped", "two eager runs differ, or can not be compared"

    def by(compiler):
        return lambda f, x: compiled_by(compiler, f, x, dynamic)

    def through_dynamo(f, x):
        from straightline import torch_backend

        torch._dynamo.reset()
        return torch.compile(f, backend=torch_backend.backend, fullgraph=True, dynamic=dynamic or None)(*x)

    watched = _Watched()
    verdict, note = "passed", ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got = step(through_dynamo if dynamo else by(watched))
        except Exception as e:
            verdict, note = "raised", f"{type(e).__name__}: {_first_line(e)}"
            if not watched.called and not dynamo:
                return "skipped", f"tracing: {note}"
    if verdict == "passed":
        try:
            close(got, expected)
        except Exception as e:
            verdict, note = "wrong", _first_line(e, 3)
            if _is_rounding(got, expected, closed, tensors):
                verdict = "rounding"
    fell_back = [str(w.message) for w in caught if issubclass(w.category, FallbackWarning)]
    if verdict == "passed" and watched.strides:
        verdict, note = "strides", "; ".join(watched.strides[:2])
    if fell_back and verdict in ("passed", "strides"):
        verdict, note = "fallback", fell_back[0].split(":", 1)[1].strip().replace("\n", " ")[:400]
    if verdict in ("strides", "wrong", "raised"):
        # does a compiler that does nothing do better?
        idle = _Idle()
        try:
            other = step(by(idle))
            close(other, expected)
        except Exception as e:
            return "skipped", f"aot_eager: {_first_line(e)}"
        if verdict == "strides" and idle.strides:
            return "skipped", f"aot_eager, strides: {idle.strides[0]}"
    return verdict, note


def _is_rounding(got, expected, fn, tensors):
    """Whether a result is as near to one in float64 as PyTorch's is, or nearly."""
    import torch
    from torch.utils import _pytree as pytree

    wider = {
        torch.float32: torch.float64,
        torch.complex64: torch.complex128,
        torch.bfloat16: torch.float64,
        torch.float16: torch.float64,
    }
    if not any(t.dtype in wider for t in tensors):
        return False

    def wide(t):
        return t.detach().to(wider.get(t.dtype, t.dtype)).requires_grad_(t.requires_grad)

    try:
        torch.manual_seed(7)
        exact = _step(lambda f, x: f(*x), fn, [wide(t) for t in tensors])
    except Exception:
        return False
    got, expected, exact = (pytree.tree_leaves(r) for r in (got, expected, exact))
    if not len(got) == len(expected) == len(exact):
        return False
    for g, e, x in zip(got, expected, exact):
        if not isinstance(g, torch.Tensor):
            continue
        if not g.shape == e.shape == x.shape or g.dtype != e.dtype:
            return False
        if g.dtype not in wider:
            if not torch.equal(g, e):
                return False
            continue
        size = x.abs().nan_to_num(0, 0, 0)
        allowed = size + size.max() * 1e-3 if size.numel() else size
        ours, theirs = (((r.to(x.dtype) - x).abs() / allowed).nan_to_num(0, 0, 0) for r in (g, e))
        # PyTorch's own may be NaN where there is a value
        if not torch.equal(g.isfinite(), x.to(g.dtype).isfinite()):
            return False
        # or within a few roundings of the largest value
        few = (4 if g.dtype.itemsize == 2 else 32) * torch.finfo(g.dtype).eps
        if ours.numel() and ours.max() > max(3 * theirs.max().item(), few):
            largest = (g.to(x.dtype) - x).abs().nan_to_num(0, 0, 0).max()
            if largest > few * size.max():
                return False
    return True


class _Idle:
    """A compiler that runs the graph as it is."""

    def __init__(self):
        self.strides = []

    def __call__(self, gm, inputs):
        expected = _output_values(gm)

        def run(args):
            results = gm.forward(*args)
            self.strides += _stride_differences(expected, results)
            return results

        run._boxed_call = True
        return run


def _first_line(e, lines=1):
    text = [line for line in str(e).splitlines() if line.strip()]
    return " ".join(text[:lines])[:400]


# ---------------------------------------------------------------------------------------------------
# one operator


def operators(of_modules=False):
    if of_modules:
        from modules import modules

        return modules()
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def judge_operator(op, dtype, samples, *, grad=False, **settings):
    """The verdicts on the first samples of an operator: ``None`` where it has not this dtype."""
    import itertools

    import torch

    dtype = getattr(torch, dtype)
    if op.name in UNWRITTEN:
        return [["skipped", "memory that nobody has written"]]
    if dtype not in op.supported_dtypes("cpu"):
        return None
    if grad and not (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")):
        return None
    free = FREE.get(op.name)
    fn = op.op if free is None else lambda *args, **kwargs: free(op.op(*args, **kwargs))
    torch.manual_seed(0)
    verdicts = []
    found = itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), samples)
    while True:
        try:
            sample = next(found, None)
        except Exception as e:
            return [*verdicts, ["skipped", f"no samples: {_first_line(e)}"]]
        if sample is None:
            return verdicts
        args = (sample.input, *sample.args)
        verdict = list(judge(fn, args, sample.kwargs, **settings))
        if verdict[0] == "wrong" and op.name.startswith("special.bessel") and not grad and _is_exact(op.name, args):
            verdict = ["rounding", "PyTorch's own is wrong"]
        verdicts.append(verdict)


def work(of_modules):
    """Answers lines of JSON, each an operator, a dtype and how many samples."""
    import logging

    import torch

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    all_operators = operators(of_modules)
    for line in sys.stdin:
        at, dtype, samples, settings = json.loads(line)
        try:
            verdicts = judge_operator(all_operators[at], dtype, samples, **settings)
        except Exception as e:
            verdicts = [["raised", f"judge: {type(e).__name__}: {_first_line(e)}"]]
        answers.write(json.dumps(verdicts) + "\n")
        answers.flush()


# ---------------------------------------------------------------------------------------------------
# all operators


class _Worker:
    def __init__(self, log, of_modules):
        self.log = log
        self.arguments = ["--worker", *(["--modules"] if of_modules else [])]
        self.process = None

    def ask(self, question, seconds):
        """The answer; the verdict where there is none."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
            )
        process = self.process
        late = threading.Event()
        timer = threading.Timer(seconds, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        timer.cancel()
        if answer:
            return json.loads(answer)
        process.wait()
        if late.is_set():
            return [["timeout", f"after {seconds} s"]]
        return [["crashed", f"exit status {process.returncode}"]]

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()


def run_all(options):
    names = [name_of(op) for op in operators(options.modules)]
    shard, shards = (int(n) for n in options.shard.split("/"))
    settings = {n: getattr(options, n) for n in ("grad", "dynamo", "dynamic", "permuted")}
    done = set()
    if os.path.exists(options.out):
        done = {(r["op"], r["dtype"]) for r in map(json.loads, open(options.out))}
    wanted = re.compile(options.only) if options.only else None
    todo = [
        (at, name, dtype)
        for dtype in options.dtypes.split(",")
        for at, name in enumerate(names)
        if at % shards == shard and (name, dtype) not in done and (not wanted or wanted.search(name))
    ]
    began = time.time()
    lock = threading.Lock()
    position = iter(enumerate(todo))

    def run():
        with open(options.log or os.devnull, "a") as log:
            worker = _Worker(log, options.modules)
            while True:
                with lock:
                    step = next(position, None)
                if step is None:
                    break
                count, (at, name, dtype) = step
                verdicts = worker.ask((at, dtype, options.samples, settings), options.seconds)
                with lock, open(options.out, "a") as out:
                    out.write(json.dumps({"op": name, "dtype": dtype, "verdicts": verdicts}) + "\n")
                if count % 50 == 49:
                    print(f"{count + 1} of {len(todo)}, {time.time() - began:.0f} s", flush=True)
            worker.end()

    threads = [threading.Thread(target=run) for _ in range(options.processes)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def report(path, verbose):
    results = {}
    for line in open(path):
        r = json.loads(line)
        results[r["op"], r["dtype"]] = r["verdicts"]
    by_dtype = collections.defaultdict(collections.Counter)
    reasons = collections.Counter()
    for (op, dtype), verdicts in results.items():
        for verdict, note in verdicts or []:
            by_dtype[dtype][verdict] += 1
            if verdict == "fallback":
                names = re.findall(r"`((?:\w+::|\w+\.)[\w.]+)`", note) if "not there" in note else []
                reasons[", ".join(names) or note[:160]] += 1
            elif verdict not in ("passed", "rounding", "skipped") and verbose:
                print(f"{verdict:8} {dtype:10} {op}: {note}")
    print(f"{'dtype':12}" + "".join(f"{v:>10}" for v in (*OURS, "skipped")) + f"{'share':>10}")
    for dtype, counts in by_dtype.items():
        ours = sum(counts[v] for v in OURS)
        row = "".join(f"{counts[v]:10}" for v in (*OURS, "skipped"))
        print(f"{dtype:12}{row}{100 * (counts['passed'] + counts['rounding']) / max(ours, 1):9.2f}%")
    print("fallbacks by reason:")
    for reason, times in reasons.most_common(None if verbose else 15):
        print(f"{times:6}  {reason}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dtypes", default="float32")
    p.add_argument("--samples", type=int, default=4)
    p.add_argument("--out", default="opinfo.jsonl")
    p.add_argument("--log", help="where what workers print goes")
    p.add_argument("--shard", default="0/1")
    p.add_argument("--only", help="a pattern of names")
    p.add_argument("--seconds", type=float, default=120, help="for one operator and dtype")
    p.add_argument("--processes", type=int, default=1)
    p.add_argument("--grad", action="store_true", help="gradients too")
    p.add_argument("--modules", action="store_true", help="PyTorch's database of modules instead")
    p.add_argument("--dynamo", action="store_true", help="through torch.compile")
    p.add_argument("--dynamic", action="store_true", help="with symbolic sizes")
    p.add_argument("--permuted", action="store_true", help="inputs with permuted strides")
    p.add_argument("--report", action="store_true")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.worker:
        work(options.modules)
    elif options.report:
        report(options.out, options.verbose)
    else:
        run_all(options)
        report(options.out, options.verbose)


if __name__ == "__main__":
    main()
