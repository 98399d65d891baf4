"""Which graphs the backend has compiled, and which of them are a function's."""

from __future__ import annotations

import threading
import weakref

import torch

_all_graphs = []
_all_graphs_lock = threading.Lock()


def remember(graph, of):
    """Notes a compiled graph, and what Dynamo's code calls it."""
    with _all_graphs_lock:
        # those that are gone are nobody's any more
        _all_graphs[:] = [(known, of) for known, of in _all_graphs if known() is not None]
        _all_graphs.append((weakref.ref(graph), of))


def explanations(compiled):
    """The explanations of the graphs that this backend has compiled for a function of ``torch.compile``,
    oldest first."""
    wanted = _graph_names(compiled)
    with _all_graphs_lock:
        graphs = [known() for known, of in _all_graphs if of in wanted]
    each = [graph.explain() for graph in graphs if graph is not None]
    return [explanation for explanation in each if explanation is not None]


def _graph_names(compiled):
    """Dynamo's names for the graphs of a function, and of what goes on after its graph breaks."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    if isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule):
        # modules of PyTorch's own are called by a function that all of them share
        functions = [compiled._orig_mod.forward, getattr(compiled.forward, "_torchdynamo_orig_callable", None)]
    elif (original := getattr(compiled, "_torchdynamo_orig_callable", None)) is not None:
        functions = [original.forward if isinstance(original, torch.nn.Module) else original]
    else:
        raise TypeError(
            "explain() takes a function of straightline.load, straightline.compile or torch.compile, and got"
            f" {type(compiled).__name__}"
        )
    backend = _backend_of(compiled)
    found, seen = set(), set()
    while functions:
        function = functions.pop()
        code = getattr(function, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        names = getattr(function, "__globals__", {})
        for entry in _debug_get_cache_entry_list(code):
            if backend is not None and entry.backend != backend:
                continue
            found.update(n for n in entry.code.co_names if n.startswith("__compiled_fn"))
            functions += [names[n] for n in entry.code.co_names if n.startswith("__resume_at") and n in names]
    return found


def _backend_of(compiled):
    """What ``torch.compile`` made of the backend for this function alone."""
    from torch._dynamo.eval_frame import OptimizeContext

    held = [compiled.__dict__.get("dynamo_ctx")]
    held += [cell.cell_contents for cell in getattr(compiled, "__closure__", None) or ()]
    context = next((c for c in held if isinstance(c, OptimizeContext)), None)
    inner = getattr(context, "callback", None)
    while (wrapped := getattr(inner, "_torchdynamo_orig_backend", None)) is not None:
        inner = wrapped
    return inner
