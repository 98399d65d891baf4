"""Views among the outputs of a graph: PyTorch makes them.

A view of an input that a graph returns has to be one of the very tensor, and views of one result have
to share its memory. AOTAutograd goes further where sizes are symbolic: it makes such an output anew from
its base, by the strides and the offset in memory that the returned tensor has. So these outputs are left
to PyTorch, whose views cost a microsecond each; compiled is what they are views of.
"""

from __future__ import annotations

import operator

import torch
import torch.fx


class Views:
    """A graph, split: ``head`` has the nodes that the compiled part returns, ``left`` those that are
    left to PyTorch."""

    def __init__(self, gm):
        output = next(n for n in gm.graph.nodes if n.op == "output")
        outputs = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        chains = {o: _chain(o) for o in outputs if isinstance(o, torch.fx.Node)}
        sharers = {}
        for o, (_, source) in chains.items():
            sharers.setdefault(source, set()).add(o)
        made = {o for o, (chain, source) in chains.items() if chain and _is_left(o, source, len(sharers[source]))}
        self.left = {n for o in made for n in chains[o][0]}
        # where each output comes from: of the views, or of the compiled part
        views, self.head, self._order = [], [], []
        for o in outputs:
            part = views if isinstance(o, torch.fx.Node) and o in made else self.head
            part.append(o)
            self._order.append((part is views, len(part) - 1))
        self._forward = self._program(gm, views) if views else None

    def _program(self, gm, views):
        """A function of what the views need: inputs, and values of the compiled part."""
        left = [n for n in gm.graph.nodes if n in self.left]
        needs = dict.fromkeys(m for n in left for m in n.all_input_nodes if m not in self.left)
        inputs = {n: at for at, n in enumerate(gm.graph.find_nodes(op="placeholder"))}
        self._inputs = [inputs[n] for n in needs if n in inputs]
        made = [n for n in needs if n not in inputs]
        returned = {n: at for at, n in enumerate(self.head) if isinstance(n, torch.fx.Node)}
        for n in made:
            if n not in returned:
                returned[n] = len(self.head)
                self.head.append(n)
        self._values = [returned[n] for n in made]
        graph = torch.fx.Graph()
        values = {n: graph.placeholder(n.name) for n in [n for n in needs if n in inputs] + made}
        for n in left:
            values[n] = graph.node_copy(n, values.__getitem__)
        graph.output(tuple(values[o] for o in views))
        # the graph's text of Python, which is as fast as Python is
        return torch.fx.GraphModule(torch.nn.Module(), graph).forward

    def keep(self, args):
        """The inputs that the views are of, before the compiled part empties the list."""
        return None if self._forward is None else [args[at] for at in self._inputs]

    def complete(self, kept, results):
        """All outputs, of the inputs that were kept and the results of the compiled part."""
        if self._forward is None:
            return results
        made = self._forward(*kept, *(results[at] for at in self._values))
        return [made[at] if is_view else results[at] for is_view, at in self._order]


def _chain(node):
    """The views that a node is made of, the last one first, and what the first one is of."""
    chain = []
    while _is_view(node):
        chain.append(node)
        node = node.args[0]
    return chain, node


def _is_view(node):
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return isinstance(node.args[0], torch.fx.Node) and _is_view(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
        return False
    aliases = [r.alias_info for r in node.target._schema.returns]
    return (
        bool(aliases)
        and all(a is not None and not a.is_write for a in aliases)
        # composites may copy
        and not node.target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
        and bool(node.args)
        and isinstance(node.args[0], torch.fx.Node)
    )


def _is_left(node, source, sharers):
    if source.op == "placeholder":
        return True
    # a part of a value that nobody else sees may be all that has to be computed
    return source.op == "call_function" and (sharers > 1 or not _is_part(node, source))


def _is_part(node, source):
    view, whole = node.meta.get("val"), source.meta.get("val")
    if not isinstance(view, torch.Tensor) or not isinstance(whole, torch.Tensor):
        return True
    sizes = [*view.shape, *whole.shape]
    if any(not isinstance(n, int) for n in sizes):
        return False
    return view.numel() < whole.numel()
