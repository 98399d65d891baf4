"""Whole models in the format of PyTorch's conformance programs:

    python models.py FOLDER

Each is NAME.json, with the graphs `export` and `core_aten` (eval mode), `train` (forward pass and loss in train mode, composite
operators kept) and `joint` (forward pass, loss and backward pass), and NAME.safetensors: parameters, buffers, inputs, outputs, and
what one step of training gives. `train.losses` are the losses of that step and of nine more.
"""
import sys

import copy
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._functorch.aot_autograd import aot_export_module
from torch.fx import Node
from torch.export.graph_signature import InputKind
from safetensors.torch import save_file

SHORT = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
         torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
         torch.complex64: "c64", torch.complex128: "c128"}

def meta_of(v):
    if isinstance(v, torch.Tensor):
        return {"t": SHORT[v.dtype], "size": list(v.shape), "stride": list(v.stride())}
    if isinstance(v, (list, tuple)):
        return [meta_of(x) for x in v]
    return None

def scalar(v):
    if isinstance(v, bool): return {"b": v}
    if isinstance(v, int): return {"i": v}
    if isinstance(v, float):
        return {"f": "nan" if math.isnan(v) else ("inf" if v > 0 else "-inf") if math.isinf(v) else repr(v)}
    if isinstance(v, complex): return {"c": [repr(v.real), repr(v.imag)]}
    raise TypeError(type(v))

def encode(v, ty, names):
    ty = str(ty)
    if v is None: return None
    if isinstance(v, Node): return {"n": names[v]}
    if isinstance(v, (list, tuple)) or type(v).__name__ == "immutable_list":
        inner = ty.replace("Optional[", "").rstrip("]") if ty.startswith("Optional[List") else ty
        el = "Tensor" if "Tensor" in inner else "float" if "float" in inner else "number" if "number" in inner else "bool" if "bool" in inner else "int"
        return {"list": [encode(x, el, names) for x in v]}
    if isinstance(v, torch.dtype): return {"dtype": str(v).split(".")[1]}
    if isinstance(v, torch.device): return {"device": str(v)}
    if isinstance(v, torch.layout): return {"layout": str(v).split(".")[1]}
    if isinstance(v, torch.memory_format): return {"memory_format": str(v).split(".")[1]}
    if isinstance(v, str):
        if "Device" in ty or v == "cpu": return {"device": v}
        return {"s": v}
    if isinstance(v, torch.SymInt): v = int(v)
    if "Tensor" in ty: return {"wrapped_number": scalar(v)}
    if "float" in ty and isinstance(v, int): return scalar(float(v))
    if "List" in ty: return {"list": [scalar(v)]}
    return scalar(v)

class Graph:
    def __init__(self):
        self.nodes, self.names, self.used = [], {}, set()
    def fresh(self, name):
        n, i = name, 1
        while n in self.used:
            n, i = f"{name}__{i}", i + 1
        self.used.add(n)
        return n
    def walk(self, gm, sources, prefix=""):
        """sources: list of KEY per placeholder, or of nodes' names (inlined)."""
        out, at = None, 0
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                s = sources[at]; at += 1
                if isinstance(s, tuple):
                    self.names[node] = s[1]
                    continue
                n = self.fresh(node.name); self.names[node] = n
                self.nodes.append({"name": n, "kind": "placeholder", "source": s, "meta": meta_of(node.meta.get("val"))})
            elif node.op == "get_attr":
                obj = gm
                for p in node.target.split("."): obj = getattr(obj, p)
                if isinstance(obj, torch.fx.GraphModule):
                    self.names[node] = obj
                else:
                    raise TypeError(f"get_attr {node.target}: {type(obj)}")
            elif node.op == "call_function":
                t = node.target
                if isinstance(t, torch._ops.OpOverload):
                    if t.namespace != "aten": raise TypeError(f"{t}")
                    sch = t._schema
                    args, kwargs, pos = [], {}, list(node.args)
                    for i, a in enumerate(sch.arguments):
                        v = pos[i] if i < len(pos) and not a.kwarg_only else node.kwargs[a.name] if a.name in node.kwargs else a.default_value
                        ty = str(a.type)
                        e = encode(v, ty, self.names)
                        if isinstance(e, dict) and "i" in e and a.name == "dtype" and "ScalarType" in str(a): pass
                        if a.kwarg_only: kwargs[a.name] = e
                        else: args.append(e)
                    n = self.fresh(node.name); self.names[node] = n
                    full = sch.name + ("." + sch.overload_name if sch.overload_name else "")
                    self.nodes.append({"name": n, "kind": "call", "op": full, "args": args, "kwargs": kwargs, "meta": meta_of(node.meta.get("val"))})
                elif getattr(t, "__name__", "") == "getitem":
                    src = node.args[0]
                    if isinstance(self.names[src], list):
                        self.names[node] = self.names[src][node.args[1]]
                        continue
                    n = self.fresh(node.name); self.names[node] = n
                    self.nodes.append({"name": n, "kind": "call", "op": "getitem", "args": [{"n": self.names[src]}, {"i": node.args[1]}], "kwargs": {}, "meta": meta_of(node.meta.get("val"))})
                elif isinstance(t, torch._ops.HigherOrderOperator):
                    subs = [a for a in node.args if isinstance(a, Node) and isinstance(self.names.get(a), torch.fx.GraphModule)]
                    if len(subs) != 1: raise TypeError(f"higher order {t}")
                    at_sub = list(node.args).index(subs[0])
                    ins = [("n", self.names[a]) for a in node.args[at_sub + 1:]]
                    outs = self.walk(self.names[subs[0]], ins)
                    self.names[node] = outs
                else:
                    raise TypeError(f"call {t}")
            elif node.op == "output":
                out = node.args[0]
                flat = [out] if isinstance(out, Node) else list(out)
                return [self.names[x] if isinstance(x, Node) else None for x in flat]

def finish(g, outs, kinds):
    g.nodes.append({"name": "output", "kind": "output", "args": [None if o is None else {"n": o} for o in outs]})
    return {"nodes": g.nodes, "outputs": [{"kind": k, "key": key} for k, key in kinds]}

def exported(ep, prefix, input_keys, out_kinds, consts):
    sources = []
    users = iter(input_keys)
    strip = lambda t: t[len(prefix):] if t.startswith(prefix) else t
    for s in ep.graph_signature.input_specs:
        if s.kind == InputKind.PARAMETER: sources.append("param." + strip(s.target))
        elif s.kind == InputKind.BUFFER:
            sources.append("buffer." + strip(s.target))
        elif s.kind == InputKind.CONSTANT_TENSOR:
            consts[s.target] = ep.constants[s.target]
            sources.append("const." + s.target)
        elif s.kind == InputKind.USER_INPUT: sources.append(next(users))
        else: raise TypeError(s.kind)
    g = Graph()
    outs = g.walk(ep.graph_module, sources)
    kinds = []
    user = iter(out_kinds)
    for s in ep.graph_signature.output_specs:
        k = s.kind.name
        if k == "USER_OUTPUT": kinds.append(next(user, ("output", None)))
        elif k == "BUFFER_MUTATION": kinds.append(("buffer_after", "train.buffer." + strip(s.target) ))
        else: kinds.append((k.lower(), None))
    return finish(g, outs, kinds)

def flat_outputs(o):
    import torch.utils._pytree as p
    return [x for x in p.tree_leaves(o) if isinstance(x, torch.Tensor)]

class Plain(torch.nn.Module):
    """Only tensors come out."""
    def __init__(self, m, call): super().__init__(); self.m, self.call = m, call
    def forward(self, *a): return tuple(flat_outputs(self.call(self.m, *a)))

def tidy(m):
    def place(name):
        o, *path = m, *name.split(".")
        for p in path[:-1]: o = getattr(o, p)
        return o, path[-1]
    used, seen = {n.target for n in m.graph.nodes if n.op == "get_attr" and n.users}, {}
    for n in list(m.graph.nodes):
        if n.op == "get_attr" and not n.users: m.graph.erase_node(n)
    m.recompile()
    for name, p in list(m.named_parameters(remove_duplicate=False)):
        o, last = place(name)
        if name not in used: delattr(o, last); continue
        if p.data_ptr() in seen:
            for n in m.graph.nodes:
                if n.op == "get_attr" and n.target == name: n.target = seen[p.data_ptr()]
            delattr(o, last)
        else: seen[p.data_ptr()] = name
    m.recompile()

class Loss(torch.nn.Module):
    def __init__(self, m, loss): super().__init__(); self.m, self.loss = m, loss
    def forward(self, *a): return (self.loss(self.m, *a),)

def quiet(state): return {k: v.detach().clone().contiguous() for k, v in state.items()}

def make(name, model, inputs, labels, call, loss, folder, opt=None, notes=None, joint=True):
    opt = opt or {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    T, consts = {}, {}
    def put(prefix, items):
        for k, v in items: T[prefix + k] = v.detach().clone().contiguous()
    params = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers(remove_duplicate=False))
    put("param.", params.items()); put("buffer.", buffers.items())
    for i, x in enumerate(inputs): T[f"input.{i}"] = x.clone()
    if labels is not None: T["labels"] = labels.clone()
    model.eval()
    plain = Plain(model, call)
    with torch.no_grad(): outs = plain(*inputs)
    for i, o in enumerate(outs): T[f"output.{i}"] = o.detach().clone().contiguous()
    graphs, why = {}, {}
    def attempt(key, f):
        try: graphs[key] = f()
        except Exception as e:
            why[key] = f"{type(e).__name__}: {str(e)[:300]}"
    ikeys = [f"input.{i}" for i in range(len(inputs))]
    okinds = [("output", f"output.{i}") for i in range(len(outs))]
    ep = torch.export.export(plain, tuple(inputs), strict=False)
    attempt("export", lambda: exported(ep, "m.", ikeys, okinds, consts))
    attempt("core_aten", lambda: exported(ep.run_decompositions(), "m.", ikeys, okinds, consts))
    # training
    model.train()
    extra = () if labels is None else (labels,)
    keys = ikeys + ([] if labels is None else ["labels"])
    tl = Loss(model, loss)
    before = {k: v.clone() for k, v in buffers.items()}
    def train_graph():
        ep2 = torch.export.export(copy.deepcopy(tl), tuple(inputs) + extra, strict=False)
        return exported(ep2, "m.", keys, [("loss", "train.loss")], consts)
    attempt("train", train_graph)
    def joint_graph():
        ep3 = torch.export.export(copy.deepcopy(tl), tuple(inputs) + extra, strict=False)
        try: m = ep3.module(check_guards=False)
        except TypeError: m = ep3.module()
        for n in list(m.graph.nodes):
            if 'guards_fn' in str(n.target): m.graph.erase_node(n); m.recompile()
        tidy(m)
        gm, sig = aot_export_module(m, tuple(inputs) + extra, trace_joint=True, output_loss_index=0)
        src = []
        ph = [n for n in gm.graph.nodes if n.op == "placeholder"]
        users = iter(keys)
        strip = lambda t: t[2:]
        for n in ph:
            if n.name in sig.inputs_to_parameters: src.append("param." + strip(sig.inputs_to_parameters[n.name]))
            elif n.name in sig.inputs_to_buffers: src.append("buffer." + strip(sig.inputs_to_buffers[n.name]))
            else: src.append(next(users))
        # constants
        g = Graph()
        for n in list(gm.graph.nodes):
            if n.op == "get_attr":
                obj = gm
                for p in n.target.split("."): obj = getattr(obj, p)
                if isinstance(obj, torch.Tensor):
                    consts["j" + n.target] = obj
                    k = g.fresh(n.name)
                    g.nodes.append({"name": k, "kind": "placeholder", "source": "const.j" + n.target, "meta": meta_of(obj)})
                    g.names[n] = k
                    n.op = "gone"
        orig = list(gm.graph.nodes)
        class Fake: pass
        f = Fake(); f.graph = Fake(); f.graph.nodes = [n for n in orig if n.op != "gone"]
        outs2 = g.walk(f, src)
        kinds = []
        b = sig.backward_signature
        onode = [n for n in orig if n.op == "output"][0]
        flat = list(onode.args[0])
        lossat = len(sig.buffers_to_mutate)
        for at_, n in enumerate(flat):
            nm = n.name if isinstance(n, Node) else None
            if nm in sig.buffers_to_mutate: kinds.append(("buffer_after", "train.buffer." + strip(sig.buffers_to_mutate[nm])))
            elif at_ == lossat: kinds.append(("loss", "train.loss"))
            elif nm in b.gradients_to_parameters: kinds.append(("grad", "train.grad." + strip(b.gradients_to_parameters[nm])))
            else: kinds.append(("other", None))
        return finish(g, outs2, kinds)
    if joint: attempt("joint", joint_graph)
    for k, v in buffers.items(): v.copy_(before[k])
    # the step itself, in float32 and float64
    m64 = copy.deepcopy(tl).double()
    o = torch.optim.AdamW(model.parameters(), **opt)
    l = tl(*inputs, *extra)[0]
    l.backward()
    up = lambda x: x.double() if x.is_floating_point() else x
    l64 = m64(*[up(x) for x in inputs], *[up(x) for x in extra])[0]
    l64.backward()
    T["train.loss"] = l.detach().clone()
    off = abs(l.item() - l64.item())
    p64 = dict(m64.m.named_parameters(remove_duplicate=False))
    for k, p in params.items():
        if p.grad is None: continue
        T["train.grad." + k] = p.grad.clone().contiguous()
        off = max(off, (p.grad.double() - p64[k].grad).abs().max().item())
    for k, v in buffers.items():
        if not torch.equal(v, before[k]): T["train.buffer." + k] = v.clone().contiguous()
    o.step()
    for k, p in params.items():
        if p.grad is not None: T["train.param_after." + k] = p.detach().clone().contiguous()
    # a few more, for longer comparisons
    losses = [l.item()]
    for _ in range(9):
        o.zero_grad(); l = tl(*inputs, *extra)[0]; l.backward(); o.step(); losses.append(l.item())
    for k, v in consts.items(): T["const." + k] = v.detach().clone().contiguous()
    for g in graphs.values():
        for out in g["outputs"]:
            if out["key"] is not None and out["key"] not in T: out["key"] = None
    save_file(T, f"{folder}/{name}.safetensors")
    json.dump({"name": name, "tol": {"rtol": 1e-4, "atol": max(2e-5, 10 * off)}, "parameters": sum(p.numel() for p in model.parameters()),
               "inputs": len(inputs), "outputs": len(outs), "notes": {**(notes or {}), **({"missing": why} if why else {})},
               "train": {"optimizer": "AdamW", **{k: list(v) if isinstance(v, tuple) else v for k, v in opt.items()}, "has_param_after": True, "losses": losses},
               "graphs": graphs}, open(f"{folder}/{name}.json", "w"))
    print(name, sum(p.numel() for p in model.parameters()), {k: len(g["nodes"]) for k, g in graphs.items()}, "atol %.1e" % max(2e-5, 10*off), why, flush=True)


MODELS = {}


def model(make_model):
    MODELS[make_model.__name__] = make_model
    return make_model


def plain(m, *inputs):
    return m(*inputs)


def CE(m, x, y):
    return F.cross_entropy(m(x), y)


def ids(n, *sizes):
    return torch.randint(0, n, sizes)


@model
def discriminator():
    sn = torch.nn.utils.parametrizations.weight_norm
    m = nn.Sequential(sn(nn.Conv2d(3, 8, 4, 2, 1)), nn.LeakyReLU(.2), nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(.2), nn.PReLU(16), nn.Conv2d(16, 1, 4))
    return m, [torch.randn(4, 3, 16, 16)], torch.rand(4), lambda m, x: m(x).flatten(), lambda m, x, y: F.binary_cross_entropy_with_logits(m(x).flatten(), y) + F.softplus(-m(x)).mean()


@model
def moe_sparse():
    """Tokens gathered per expert with sorted indices: index_add, index_select."""
    class M(nn.Module):
        def __init__(s): super().__init__(); s.e = nn.Embedding(30, 12); s.g = nn.Linear(12, 3); s.x = nn.ModuleList(nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 12)) for _ in range(3)); s.h = nn.Linear(12, 5)
        def forward(s, x):
            f = s.e(x).flatten(0, 1); p = s.g(f).log_softmax(-1); c = 6
            out = torch.zeros_like(f)
            for j, e in enumerate(s.x):
                v, i = p[:, j].topk(c); out = out.index_add(0, i, e(f.index_select(0, i)) * v.exp().unsqueeze(1))
            return s.h((f + out).view(*x.shape, 12).amax(1))
    return M(), [ids(30, 2, 8)], ids(5, 2), plain, CE


@model
def stn():
    class M(nn.Module):
        def __init__(s): super().__init__(); s.l = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(2), nn.ReLU6(), nn.Flatten(), nn.Linear(144, 6)); s.c = nn.Conv2d(1, 3, 3, padding_mode="circular", padding=1); s.n = nn.LocalResponseNorm(3); s.h = nn.Linear(3 * 16, 4)
        def forward(s, x):
            t = s.l(x).view(-1, 2, 3) * .1 + torch.eye(2, 3)
            x = F.grid_sample(x, F.affine_grid(t, list(x.shape), align_corners=False), align_corners=False)
            return s.h(F.lp_pool2d(s.n(s.c(x)), 2, 4).flatten(1))
    return M(), [torch.randn(2, 1, 16, 16)], ids(4, 2), plain, lambda m, x, y: F.multi_margin_loss(m(x), y)


@model
def lstm_cell():
    class M(nn.Module):
        def __init__(s): super().__init__(); s.c, s.g, s.h = nn.LSTMCell(5, 8), nn.GRUCell(8, 8), nn.Linear(8, 3)
        def forward(s, x):
            h = c = g = x.new_zeros(x.shape[0], 8)
            for t in range(4):
                h, c = s.c(x[:, t], (h, c)); g = s.g(h, g)
            return s.h(g)
    return M(), [torch.randn(3, 4, 5)], ids(3, 3), plain, CE


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, made in MODELS.items():
        torch.manual_seed(len(name) * 7 + 1)
        make(name, *made(), sys.argv[1])
