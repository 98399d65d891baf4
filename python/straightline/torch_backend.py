"""The backend of ``torch.compile``, and programs from exported ones.

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

import torch
import torch.fx

from . import _native
from ._errors import FallbackWarning, StraightlineError
from ._explanations import remember
from ._views import Views

_COMPILER_OPTIONS = {"fast_math", "max_variants", "max_sizes", "share_code"}
_OPTIONS = {"fallback", "freeze", "threads", *_COMPILER_OPTIONS}
_MODES = {None, "default", "reduce-overhead", "max-autotune-no-cudagraphs"}


def backend(gm, example_inputs, *, options=None, mode=None, **unknown):
    """What ``torch.compile(model, backend="straightline")`` calls.

    Options: ``fallback`` (``"eager"``: a graph that can not be compiled runs with PyTorch's kernels,
    after a ``FallbackWarning`` that says why; ``"error"``: it raises), ``freeze`` (parameters do not
    change any more: they are packed once), ``threads`` (of all calls of the process, as
    ``straightline.set_num_threads``), ``fast_math``, ``max_variants``,
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
    _native.check_options(**{k: v for k, v in options.items() if k in _COMPILER_OPTIONS})
    if not isinstance(options.get("freeze", False), bool):
        raise TypeError(f"options['freeze'] is a bool, and got {options['freeze']!r}")
    threads = options.get("threads")
    if threads is not None:
        _native.set_num_threads(int(threads))
    from torch._dynamo.backends.common import aot_autograd

    # what Dynamo's code calls it
    name = gm.meta.get("backend_id")

    def compiler(graph, inputs):
        return _compile_graph(graph, options, name=name)

    def inference_compiler(graph, inputs):
        return _compile_graph(graph, options, _parameters() if options.get("freeze") else (), name)

    compiled = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=inference_compiler,
        keep_inference_input_mutations=False,
    )(gm, example_inputs)
    return compiled


# ---------------------------------------------------------------------------------------------------
# one graph


class _Boxed:
    """A compiled graph, called with one list, which it empties; falls back to PyTorch's kernels."""

    def __init__(self, gm, compiled, views, fallback, frozen=None):
        # of the instance: what PyTorch wraps around a backward graph copies `__dict__`
        self._boxed_call = True
        self._gm = gm
        self._compiled = compiled
        self._views = views
        self._fallback = fallback
        self._frozen = frozen

    def __call__(self, args):
        compiled = self._compiled
        if compiled is None:
            return self._eager(args)
        kept = list(args)
        try:
            of_views = self._views.keep(args)
            if self._frozen is not None:
                compiled = self._frozen.of(args) or compiled
            return self._views.complete(of_views, compiled(args))
        # PyTorch's own, where a tensor has no memory to lend, is a RuntimeError, as ours are
        except (RuntimeError, TypeError, ValueError) as e:
            error = e
        # nothing has been written: PyTorch says whether the call is wrong, or we are
        if any(isinstance(a, torch.Tensor) and not _has_memory(a) for a in kept):
            # somebody traces the call
            return self._eager(kept)
        result = self._eager(kept)
        if self._fallback == "error":
            raise error
        _warn(self._gm, error)
        self._compiled = None
        return result

    def explain(self):
        if self._compiled is None:
            return None
        frozen = self._frozen.compiled if self._frozen is not None else None
        return (frozen or self._compiled).explain()

    def _eager(self, args):
        result = self._gm.forward(*args)
        args.clear()
        return result


class _Frozen:
    """A graph whose parameters are part of it: those of the first call, which do not change any more."""

    def __init__(self, make, at):
        self._make = make
        self._at = at
        self._rest = None
        self._parameters = None
        self._lock = threading.Lock()
        self.compiled = None

    def of(self, args):
        """The compiled graph for the arguments that are no parameters, which alone are left in the list;
        None if the parameters are others than those of the first call."""
        if self.compiled is None:
            with self._lock:
                if self.compiled is None:
                    self._parameters = [args[i] for i in self._at]
                    self._rest = sorted(set(range(len(args))) - set(self._at))
                    self.compiled = self._make(dict(zip(self._at, self._parameters)))
        if any(args[i] is not p for i, p in zip(self._at, self._parameters)):
            return None
        args[:] = [args[i] for i in self._rest]
        return self.compiled


def _parameters():
    """Which inputs of the graph that is being compiled are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return tuple(metadata.static_input_indices) if metadata is not None else ()


def _has_memory(tensor):
    from torch._subclasses.fake_tensor import FakeTensor

    return tensor.device.type != "meta" and not isinstance(tensor, FakeTensor)


def _warn(gm, error):
    text = str(error)
    # where several nodes are refused at once, the first one
    refused = (n for n in gm.graph.nodes if n.op == "call_function" and f"`{_base(n.target)}" in text)
    node = None if getattr(error, "source_line", None) else next(refused, None)
    at = f" (first at node `{node.name}`{f', {line}' if (line := _line(node)) else ''})" if node else ""
    warnings.warn(
        "straightline does not compile this graph, which runs with PyTorch's own kernels from here on:"
        f" {text}{at}",
        FallbackWarning,
        stacklevel=2,
    )


def _base(target):
    return target._schema.name if isinstance(target, torch._ops.OpOverload) else _target(target)


def _compile_graph(gm, options, parameters=(), name=None):
    fallback = options.get("fallback", "eager")
    settings = {k: v for k, v in options.items() if k in _COMPILER_OPTIONS}
    # the compiler runs under a mode of fake tensors; constants of the graph are real
    from torch.utils._python_dispatch import _disable_current_modes

    def make(program):
        orders = _orders(views.head)
        return _native.CompiledGraph(program, torch.Tensor, orders, torch.default_generator, **settings)

    try:
        with _disable_current_modes():
            views = Views(gm)
            program = program_of_graph(gm, views)
            compiled = make(program)
    except (StraightlineError, NotImplementedError, TypeError) as e:
        if fallback == "error":
            raise
        _warn(gm, e)
        from torch._functorch.aot_autograd import make_boxed_func

        return make_boxed_func(gm.forward)

    def freeze(tensors):
        return make(program_of_graph(gm, views, tensors))

    frozen = _Frozen(freeze, parameters) if parameters else None
    boxed = _Boxed(gm, compiled, views, fallback, frozen)
    remember(boxed, name)
    return boxed


# ---------------------------------------------------------------------------------------------------
# from fx to a program


def program_of_graph(gm, views, frozen=None):
    """The program of an fx graph of operators, without the views that are left to PyTorch. Inputs that are
    frozen, by position, are its own tensors."""
    builder = _native.Builder("graph")
    numbers = {n: i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")}

    def placeholder(node):
        tensor = (frozen or {}).get(numbers[node])
        return builder.input(node.name) if tensor is None else builder.weight(node.name, tensor.detach(), True)

    constant = _constants_of(builder)
    return builder.finish(_add_nodes(gm, builder, constant, placeholder=placeholder, views=views))


def _constants_of(builder):
    """Makes tensors that a graph holds the program's, each once."""
    weights = {}

    def constant(name, tensor):
        if id(tensor) not in weights:
            weights[id(tensor)] = builder.weight(name, tensor.detach())
        return weights[id(tensor)]

    return constant


def _add_nodes(gm, builder, constant, *, placeholder=None, held=None, views=None):
    """Adds the nodes of a graph, and returns what it returns. ``constant`` makes a value of a name and a
    tensor that the graph holds; a graph within another has inputs for them, after its own."""
    if placeholder is None:

        def placeholder(node):
            return builder.input(node.name)

    # a node is a value, or a list of values, or a graph
    values = {n: placeholder(n) for n in gm.graph.nodes if n.op == "placeholder"}
    if held is not None:
        inputs = {at: builder.input(name) for at, (name, _) in held.items()}

        def constant(name, tensor):
            return inputs[id(tensor)]

    def argument(a):
        if isinstance(a, torch.fx.Node):
            return values[a]
        if isinstance(a, (list, tuple)):
            return [argument(x) for x in a]
        if isinstance(a, slice):
            raise NotImplementedError("a slice as an argument is not supported")
        if isinstance(a, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            known = _known(a)
            if known is None:
                raise NotImplementedError(f"a symbolic number {a} within an argument is not supported")
            return known
        return a

    def call(node):
        args = [argument(a) for a in node.args]
        kwargs = {k: argument(v) for k, v in node.kwargs.items()}
        target = _target(node.target)
        if target == "_operator.getitem" and isinstance(args[0], list):
            return args[0][args[1]]
        if target == "higher_order.with_effects":
            # a token orders calls, as their order in the graph does
            token, op, *args = args
            returns = len(op._schema.returns)
            result = builder.call(node.name, _target(op), tuple(args), kwargs, _line(node), False)
            if returns < 2:
                return [token, result] if returns else [token, None]
            items = [
                builder.call(f"{node.name}_{i}", "_operator.getitem", (result, i), {}, None, False)
                for i in range(returns)
            ]
            return [token, *items]
        if target == "prims::fma" and not kwargs:
            target, args = "aten::addcmul", [args[2], args[0], args[1]]
        if target.startswith("higher_order."):
            args = _with_graphs(target, args, builder, constant)
        is_tuple = target.startswith("higher_order.") and isinstance(node.meta.get("val"), (list, tuple))
        return builder.call(node.name, target, tuple(args), kwargs, _line(node), is_tuple)

    for node in gm.graph.nodes:
        if node.op == "placeholder" or (views is not None and node in views.left and not _is_read(node, views)):
            continue
        if node.op == "get_attr":
            value = _attribute(gm, node)
            values[node] = constant(node.target, value) if isinstance(value, torch.Tensor) else value
        elif node.op == "call_function":
            values[node] = call(node)
        elif node.op == "output":
            outputs = node.args[0] if views is None else views.head
            if not isinstance(outputs, (list, tuple)):
                outputs = [outputs]
            return [argument(o) for o in outputs]
        else:
            raise NotImplementedError(f"a node of kind {node.op} (`{node.name}`) is not supported")
    raise NotImplementedError("the graph returns nothing")


def _is_read(view, views):
    """Whether the compiled part reads a view that is left to PyTorch."""
    return any(user.op != "output" and (user not in views.left or _is_read(user, views)) for user in view.users)


# where a call that is given graphs has the operands to which others can be added; the rest of its
# arguments where it has no list of them
_OPERANDS = {"cond": 3, "while_loop": 3, "map": 2, "map_impl": 2, "scan": 3}
_SCOPES = {
    "hints_wrapper",
    "invoke_subgraph",
    "tag_activation_checkpoint",
    "wrap",
    "wrap_with_autocast",
    "wrap_with_set_grad_enabled",
}


def _with_graphs(target, args, builder, constant):
    """The arguments of a call that is given graphs: their constants become operands."""
    name = target.removeprefix("higher_order.")
    if name not in _OPERANDS and name not in _SCOPES:
        ops = [f" of `{_target(a)}`" for a in args if isinstance(a, torch._ops.OpOverload)]
        raise NotImplementedError(f"`{target}`{''.join(ops)} is not supported")
    graphs = [a for a in args if isinstance(a, torch.fx.GraphModule)]
    held = {}
    for gm in graphs:
        _find_constants(gm, held)
    extra = [constant(name, tensor) for name, tensor in held.values()]
    args = [_graph(a, held) if isinstance(a, torch.fx.GraphModule) else a for a in args]
    if extra:
        at = _OPERANDS.get(name)
        if at is None:
            return [*args, *extra]
        while len(args) <= at:
            args.append([])
        args[at] = [*args[at], *extra]
    return args


def _find_constants(gm, held):
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(gm, node)
            if isinstance(value, torch.Tensor):
                held.setdefault(id(value), (node.target, value))
            else:
                _find_constants(value, held)


def _graph(gm, held):
    """A graph that is given to a call, with inputs for these constants after its own."""
    builder = _native.Builder(None)
    return builder.finish_graph(_add_nodes(gm, builder, None, held=held))


def _known(number):
    """What a symbolic number is, if it can be nothing else."""
    expression = getattr(getattr(number, "node", None), "expr", None)
    if expression is not None and getattr(expression, "is_number", False):
        if isinstance(number, torch.SymBool):
            return bool(expression)
        return int(expression) if isinstance(number, torch.SymInt) else float(expression)
    return None


def _orders(outputs):
    """For each output the order of its dimensions in memory, the outermost first, or None where it is
    not dense: what comes after the graph was traced with these strides."""
    return [_order(getattr(o, "meta", {}).get("val")) for o in outputs]


def _order(value):
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    # symbolic sizes by those of the example: asking for them as they are would make guards
    sizes, strides = [_hint(n) for n in value.shape], [_hint(n) for n in value.stride()]
    if None in sizes or None in strides or 0 in sizes:
        return None
    dims = list(range(len(sizes)))
    # dimensions of one element lie anywhere
    order = sorted(dims, key=lambda d: (-strides[d], sizes[d] == 1, d))
    dense = 1
    for d in reversed(order):
        if sizes[d] != 1:
            if strides[d] != dense:
                return None
            dense *= sizes[d]
    return order


def _hint(n):
    if isinstance(n, int):
        return n
    node = getattr(n, "node", None)
    return node.hint if node is not None and node.has_hint() else None


def _attribute(gm, node):
    """A tensor or a graph that a graph holds."""
    value = gm
    for part in node.target.split("."):
        value = getattr(value, part)
    if isinstance(value, (torch.fx.GraphModule, torch.Tensor)):
        return value
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

    constant = _constants_of(builder)
    results = _add_nodes(exported.graph_module, builder, constant, placeholder=placeholder)
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

    def flatten(args, kwargs):
        leaves, given = torch.utils._pytree.tree_flatten((args, kwargs))
        if given != spec.in_spec:
            raise TypeError(f"the model takes arguments as {spec.in_spec}, and got {given}")
        return leaves

    def unflatten(leaves):
        return torch.utils._pytree.tree_unflatten(leaves, spec.out_spec)

    return _native.Compiled(
        program,
        flatten=flatten,
        unflatten=unflatten,
        array_type=torch.Tensor,
        progress=progress,
        exported=exported,
        generator=torch.default_generator,
        **options,
    )


def _tree(spec):
    """The text of a tree, or none where it has classes that PyTorch writes no text for."""
    try:
        return torch.utils._pytree.treespec_dumps(spec)
    except NotImplementedError:
        return ""


class _Symbols:
    """The sizes of an exported program that may change."""

    def __init__(self, builder, ranges):
        self._numbers = {}
        for symbol, bounds in ranges.items():
            if not symbol.is_Symbol:
                continue
            low, high = (int(b) if b.is_Integer else None for b in (bounds.lower, bounds.upper))
            # PyTorch traces with sizes from 2 on, and takes 0 and 1 at calls unless the model says more
            low = None if low is not None and low <= 2 else low
            self._numbers[str(symbol)] = builder.symbol(str(symbol), low, high)
        self._builder = builder

    def size(self, value):
        """A number, ``[the symbol's number]``, ``("+", size, ...)`` or ``("*", size, ...)``; None for what
        is computed in other ways."""
        return value if isinstance(value, int) else self._expression(value.node.expr)

    def _expression(self, expression):
        if expression.is_Integer:
            return int(expression)
        if expression.is_Add or expression.is_Mul:
            parts = [self._expression(part) for part in expression.args]
            return None if None in parts else ("+" if expression.is_Add else "*", *parts)
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
