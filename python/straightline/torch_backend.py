"""The backend of ``torch.compile``, and programs from exported ones. The only file that imports torch.

A graph that PyTorch hands over is a list of calls of operators. They are added to a program one by
one, under the names that PyTorch has for them, and run through straightline's dispatcher while it
captures; nothing is translated.
"""

from __future__ import annotations

import builtins
import math
import operator
import threading
import warnings
import weakref

import torch
import torch.fx

from . import _native
from ._errors import FallbackWarning, StraightlineError

_OPTIONS = {
    "fallback",
    "freeze",
    "threads",
    "fast_math",
    "max_variants",
    "max_sizes",
    "share_code",
}
_MODES = {None, "default", "reduce-overhead", "max-autotune-no-cudagraphs"}


def backend(gm, example_inputs, *, options=None, mode=None, **unknown):
    """What ``torch.compile(model, backend="straightline")`` calls.

    Options: ``fallback`` (``"eager"``: a graph that can not be compiled runs with PyTorch's kernels,
    after a ``FallbackWarning`` that says why; ``"error"``: it raises), ``freeze`` (parameters do not
    change any more: they are packed once), ``threads``, ``fast_math``, ``max_variants``,
    ``max_sizes``, ``share_code``.
    """
    options = dict(options or {})
    wrong = sorted(set(options) - _OPTIONS) + sorted(unknown)
    if wrong:
        raise TypeError(
            f"straightline has no option {', '.join(wrong)}: there are {', '.join(sorted(_OPTIONS))}"
        )
    if mode not in _MODES:
        raise ValueError(
            f"mode {mode!r} is not supported: leave it out, or set options={{'fast_math': True}} for"
            " faster code with other roundings"
        )
    if options.get("fallback", "eager") not in ("eager", "error"):
        raise ValueError("options['fallback'] is 'eager' or 'error'")
    threads = options.get("threads")
    if threads is not None:
        _native.set_num_threads(int(threads))
    from torch._dynamo.backends.common import aot_autograd

    graphs = _graphs_of_current_frame(gm)

    def compiler(graph, inputs):
        return _compile_graph(graph, inputs, options, graphs)

    compiled = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        keep_inference_input_mutations=False,
    )(gm, example_inputs)
    return compiled


# ---------------------------------------------------------------------------------------------------
# graphs that have been compiled


_all_graphs = []
_all_graphs_lock = threading.Lock()


def _graphs_of_current_frame(gm):
    code = getattr(gm, "_dynamo_code", None)
    graphs = []
    with _all_graphs_lock:
        _all_graphs.append((code, graphs))
    return graphs


def explanations(compiled=None):
    """The explanations of all graphs that this backend has compiled, oldest first."""
    with _all_graphs_lock:
        graphs = [g() for _, frame in _all_graphs for g in frame]
    return [g.explain() for g in graphs if g is not None and g.explain() is not None]


# ---------------------------------------------------------------------------------------------------
# one graph


class _Boxed:
    """A compiled graph, called with one list, which it empties; falls back to PyTorch's kernels."""

    def __init__(self, gm, compiled, random, fallback):
        # of the instance: what PyTorch wraps around a backward graph copies `__dict__`
        self._boxed_call = True
        self._gm = gm
        self._compiled = compiled
        self._random = random
        self._fallback = fallback
        self._lock = threading.Lock()

    def __call__(self, args):
        compiled = self._compiled
        if compiled is None:
            return self._eager(args)
        before = compiled.variants
        kept = list(args)
        try:
            if self._random:
                return self._drawn(compiled, args)
            return compiled(args)
        except StraightlineError as e:
            if compiled.variants != before and not _is_refusal(e):
                raise
            error = e
        # nothing has been written: PyTorch says whether the call is wrong, or we are
        result = self._eager(kept)
        if self._fallback == "error":
            raise error
        _warn(self._gm, error)
        self._compiled = None
        return result

    def explain(self):
        return None if self._compiled is None else self._compiled.explain()

    def _eager(self, args):
        result = self._gm.forward(*args)
        args.clear()
        return result

    def _drawn(self, compiled, args):
        with self._lock:
            _native.set_rng_state(torch.get_rng_state())
            try:
                return compiled(args)
            finally:
                torch.set_rng_state(torch.from_dlpack(_native.rng_state()))


def _is_refusal(error):
    return error.kind in ("NotImplemented", "Compile", "DataDependent", "NotCaptured", "Escaped", "Program")


def _warn(gm, error):
    warnings.warn(
        "straightline does not compile this graph, which runs with PyTorch's own kernels from here on:"
        f" {error}",
        FallbackWarning,
        stacklevel=2,
    )


def _compile_graph(gm, inputs, options, graphs):
    fallback = options.get("fallback", "eager")
    settings = {k: v for k, v in options.items() if k in ("fast_math", "max_variants", "max_sizes", "share_code")}
    # the compiler runs under a mode of fake tensors; constants of the graph are real
    from torch.utils._python_dispatch import _disable_current_modes

    try:
        with _disable_current_modes():
            program = program_of_graph(gm)
            compiled = _native.CompiledGraph(program, torch.Tensor, **settings)
    except (StraightlineError, NotImplementedError, TypeError) as e:
        if fallback == "error":
            raise
        _warn(gm, e)
        from torch._functorch.aot_autograd import make_boxed_func

        return make_boxed_func(gm.forward)
    boxed = _Boxed(gm, compiled, program.draws_random_numbers, fallback)
    graphs.append(weakref.ref(boxed))
    return boxed


# ---------------------------------------------------------------------------------------------------
# from fx to a program


def program_of_graph(gm, name="graph"):
    """The program of an fx graph of operators."""
    builder = _native.Builder(name)
    return builder.finish(_add_nodes(gm, builder, is_outer=True))


def _add_nodes(gm, builder, is_outer, placeholder=None):
    values = {}

    def argument(a):
        if isinstance(a, torch.fx.Node):
            return values[a]
        if isinstance(a, (list, tuple)):
            return [argument(x) for x in a]
        if isinstance(a, slice):
            raise NotImplementedError("a slice as an argument is not supported")
        if isinstance(a, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise NotImplementedError(f"a symbolic number {a} within an argument is not supported")
        return a

    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = builder.input(node.name) if placeholder is None else placeholder(node)
        elif node.op == "get_attr":
            values[node] = _attribute(gm, node, builder, is_outer)
        elif node.op == "call_function":
            target = _target(node.target)
            kwargs = {k: argument(v) for k, v in node.kwargs.items()}
            args = tuple(argument(a) for a in node.args)
            values[node] = builder.call(node.name, target, args, kwargs, _line(node), _is_tuple(node, target))
        elif node.op == "output":
            outputs = node.args[0]
            if not isinstance(outputs, (list, tuple)):
                outputs = [outputs]
            return [argument(o) for o in outputs]
        else:
            raise NotImplementedError(f"a node of kind {node.op} (`{node.name}`) is not supported")
    raise NotImplementedError("the graph returns nothing")


def _attribute(gm, node, builder, is_outer):
    value = gm
    for part in node.target.split("."):
        value = getattr(value, part)
    if isinstance(value, torch.fx.GraphModule):
        inner = _native.Builder(None)
        return inner.finish_graph(_add_nodes(value, inner, is_outer=False))
    if isinstance(value, torch.Tensor):
        if not is_outer:
            raise NotImplementedError(f"the constant `{node.target}` of a graph within the graph is not supported")
        return builder.weight(node.target, value.detach())
    raise NotImplementedError(f"an attribute of class {type(value).__name__} (`{node.target}`) is not supported")


def _target(target):
    if isinstance(target, torch._ops.OpOverload):
        schema = target._schema
        return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    if target is builtins.max or target is builtins.min:
        return f"builtins.{target.__name__}"
    module = getattr(target, "__module__", "") or ""
    name = getattr(target, "__name__", str(target))
    if target in vars(operator).values():
        return f"_operator.{name}"
    if target in vars(math).values():
        return f"math.{name}"
    if module.startswith("torch") and name.startswith(("sym_", "_sym_")):
        return f"torch.{name}"
    return f"{module}.{name}"


def _is_tuple(node, target):
    return target.startswith("higher_order.") and isinstance(node.meta.get("val"), (list, tuple))


def _line(node):
    """The line of the model: ``File "model.py", line 12, in forward: x = f(x)``."""
    trace = node.meta.get("stack_trace") or getattr(node, "stack_trace", None)
    if not trace:
        return None
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    at = max((i for i, line in enumerate(lines) if line.startswith("File ")), default=None)
    if at is None:
        return None
    code = lines[at + 1] if at + 1 < len(lines) else None
    return f"{lines[at]}: {code}" if code else lines[at]


# ---------------------------------------------------------------------------------------------------
# exported programs


def program_of_export(exported, *, progress=None, **options):
    """An exported program, compiled. Its weights are the memory of PyTorch's tensors."""
    from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

    builder = _native.Builder("model")
    signature = exported.graph_signature
    specs = iter(signature.input_specs)
    symbols = _Symbols(builder, exported.range_constraints)
    weights, inputs = {}, {}

    def placeholder(node):
        spec = next(specs)
        if spec.kind == InputKind.USER_INPUT:
            if isinstance(spec.arg, ConstantArgument):
                return builder.input(node.name, constant=spec.arg.value)
            inputs[spec.arg.name] = ref = _described_input(builder, node, symbols)
            return ref
        if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            raise NotImplementedError(f"an input of kind {spec.kind.name} (`{node.name}`) is not supported")
        known = exported.state_dict if spec.target in exported.state_dict else exported.constants
        is_parameter = spec.kind == InputKind.PARAMETER
        weights[spec.target] = ref = builder.weight(spec.target, known[spec.target].detach(), is_parameter)
        return ref

    results = _add_nodes(exported.graph_module, builder, is_outer=True, placeholder=placeholder)
    kept = []
    for spec, result in zip(signature.output_specs, results):
        if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            kept.append(result)
        elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
            written = inputs if spec.kind == OutputKind.USER_INPUT_MUTATION else weights
            builder.call("write", "aten::copy_", (written[spec.target], result), {})
        else:
            raise NotImplementedError(f"a result of kind {spec.kind.name} is not supported")
    spec = exported.call_spec
    names = exported.module_call_graph[0].signature.forward_arg_names if exported.module_call_graph else None
    builder.trees(_tree(spec.in_spec), _tree(spec.out_spec), list(names or []))
    program = builder.finish(kept)

    def unflatten(leaves):
        return torch.utils._pytree.tree_unflatten(leaves, spec.out_spec)

    return _native.Compiled(
        program, unflatten=unflatten, array_type=torch.Tensor, progress=progress, exported=exported, **options
    )


def _tree(spec):
    return torch.utils._pytree.treespec_dumps(spec)


class _Symbols:
    """The sizes of an exported program that may change."""

    def __init__(self, builder, ranges):
        self._numbers = {}
        for symbol, bounds in ranges.items():
            low, high = (int(b) if b.is_Integer else None for b in (bounds.lower, bounds.upper))
            self._numbers[str(symbol)] = builder.symbol(str(symbol), low, high)
        self._builder = builder

    def size(self, value):
        """A number, ``[the symbol's number]``, or None for what is computed from symbols."""
        if isinstance(value, int):
            return value
        expression = value.node.expr
        if expression.is_Integer:
            return int(expression)
        if not expression.is_Symbol:
            return None
        name = str(expression)
        if name not in self._numbers:
            self._numbers[name] = self._builder.symbol(name)
        return [self._numbers[name]]


def _described_input(builder, node, symbols):
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return builder.input(node.name)
    sizes = [symbols.size(s) for s in value.shape]
    return builder.input(node.name, str(value.dtype).removeprefix("torch."), sizes)
