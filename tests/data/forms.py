"""Writes the `out` and in-place forms that PyTorch has of operators that are declared here, with the rules of their `out`.

    python forms.py FORMS.yaml FORMS.jsonl.gz ERRORS.jsonl.gz CASES.jsonl.gz...

FORMS.yaml is catalog/ops/forms/forms.yaml: an entry for each such form in dispatch_tables.txt.gz that no other file there
declares. Schemas and keys are PyTorch's. What an `out` may be is found by asking PyTorch: recorded calls of the functional form
(CASES) are made again into an `out` of every dtype, of other strides, and over an operand. The same calls are kept in FORMS.jsonl.gz
and ERRORS.jsonl.gz, in the format of the conformance cases.
"""
import collections
import glob
import gzip
import json
import os
import pathlib
import pickle
import re
import signal
import sys
import warnings

import torch

from vectors import DTYPES, NAME, Unknown, copied, record, value

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
HERE = pathlib.Path(__file__).parent
SOURCES = HERE.parent.parent / "catalog/ops"
OPTIONS = {"dtype", "layout", "device", "pin_memory"}
target, out_path, err_path = sys.argv[1:4]
PER = 3
# what a few recorded calls do not show
KNOWN = {
    "all.dims_out": {"out_dtype": "truth"}, "cumprod.out": {"out_dtype": "chosen"}, "nansum.out": {"out_dtype": "chosen"},
    "linalg_matrix_power.out": {"out_dtype": "exact"}, "matrix_power.out": {"out_dtype": "exact"}, "take.out": {"out_overlap": "refused"},
}


def parts(text):
    """The arguments of a schema."""
    body, depth = "", 0
    for ch in text[text.index("("):]:
        depth += {"(": 1, ")": -1}.get(ch, 0)
        if depth == 0:
            break
        body += ch
    out, depth, this = [], 0, ""
    for ch in body[1:] + ",":
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(ch, 0)
        if ch == "," and depth == 0:
            out.append(this.strip())
            this = ""
        else:
            this += ch
    return [a for a in out if a]


def signature(text):
    """Types and names of what is read; the names of what is written."""
    read, written, keyword = [], [], False
    for a in parts(text):
        if a == "*":
            keyword = True
            continue
        kind, name = re.match(r"(.+?) (\w+)(?:=.*)?$", a).groups()
        if "!" in kind and keyword:
            written.append(name)
            continue
        kind = re.sub(r"\(\w+!?\)", "", kind)
        read.append((re.sub(r"\[\d+\]", "[]", kind).replace("SymInt", "int"), name))
    return read, written


def declared():
    """What other files declare: name to schema and tolerance."""
    out = {}
    for f in sorted(glob.glob(str(SOURCES / "**" / "*.yaml"), recursive=True)):
        if pathlib.Path(f).name == pathlib.Path(target).name:
            continue
        for entry in re.split(r"^- func: ", pathlib.Path(f).read_text(), flags=re.M)[1:]:
            schema = entry.splitlines()[0]
            if "(" not in schema:
                continue
            tolerance = re.search(r"^  tolerance: (\w+)", entry, re.M)
            out[schema.split("(")[0]] = (schema, tolerance and tolerance[1])
    return out


def functional(name, schema, ours):
    """The operator that a form is made of, where it is here."""
    base = name.split(".")[0]
    read, written = signature(schema)
    in_place = not written
    if in_place and (not base.endswith("_") or base.startswith("_foreach") or not re.search(r"^\S+\(Tensor\(a!\) self", schema)):
        return None
    wanted = base[:-1] if in_place else base
    best = None
    for other, (text, _) in ours.items():
        if other.split(".")[0] != wanted:
            continue
        of, writes = signature(text)
        if writes or "!" in text:
            continue
        if of == read or [k for k, _ in of] == [k for k, _ in read]:
            return other
        if not in_place and [a for a in of if a[1] not in OPTIONS] == [a for a in read if a[1] not in OPTIONS]:
            best = best or other
    return best


def op_of(name):
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def cases_of(paths):
    found = collections.defaultdict(list)
    for path in paths:
        for line in gzip.open(path, "rt"):
            if len(line) > 60000:
                continue
            c = json.loads(line)
            if "error" in c:
                continue
            found[c["op"].removeprefix("aten::")].append(c)
    return found


class Probe:
    """What PyTorch says of one form."""

    def __init__(self, name, of, schema):
        self.name, self.op, self.of = name, op_of(name), op_of(of)
        self.written = signature(schema)[1]
        self.dtypes, self.facts = {}, collections.Counter()

    def arguments(self, case):
        args, kwargs = [value(j) for j in case["args"]], {k: value(j) for k, j in case["kwargs"].items()}
        names = [a.name for a in self.op._schema.arguments]
        given = dict(zip([a.name for a in self.of._schema.arguments], args)) | kwargs
        wanted = [a for a in self.op._schema.arguments if a.name not in self.written]
        if not all(a.name in given for a in wanted):
            # by place: the names of some forms differ
            given = dict(zip([a.name for a in wanted], args)) | kwargs
        pos = [given[a.name] for a in wanted if not a.kwarg_only]
        return pos, {a.name: given[a.name] for a in wanted if a.kwarg_only and a.name in names}, (args, kwargs)

    def call(self, pos, kw, outs):
        with torch.no_grad():
            return self.op(*pos, **kw, **dict(zip(self.written, outs)))

    def results(self, whole):
        with torch.no_grad():
            r = self.of(*copied(list(whole[0])), **copied(dict(whole[1])))
        flat = list(r) if isinstance(r, (list, tuple)) else [r]
        return flat if len(flat) == len(self.written) and all(isinstance(t, torch.Tensor) for t in flat) else None

    def ask(self, case):
        pos, kw, whole = self.arguments(case)
        results = self.results(whole)
        if results is None:
            return
        first = results[0]
        same = [torch.empty(0, dtype=t.dtype) for t in results]
        # dtypes of the first result
        for d in DTYPES.values():
            outs = [torch.empty(0, dtype=d), *same[1:]]
            try:
                self.call(*copied([pos, kw]), outs)
                values = outs[0].shape == first.shape and torch.equal(
                    torch.nan_to_num(outs[0]), torch.nan_to_num(first.to(d)))
                self.dtypes.setdefault((first.dtype, d), set()).add("same" if values else "other")
            except Exception as e:  # noqa: BLE001
                self.dtypes.setdefault((first.dtype, d), set()).add(type(e).__name__)
        # strides of one that has the sizes already, and of one that is resized
        if first.dim() >= 2 and first.numel() > 1:
            turned = [torch.empty(t.shape[::-1], dtype=t.dtype).permute(*reversed(range(t.dim()))) for t in results]
            before = turned[0].stride()
            try:
                self.call(*copied([pos, kw]), turned)
                if before != first.stride():
                    self.facts[f"relaid{first.dim()}" if turned[0].stride() == first.stride() else f"kept{first.dim()}"] += 1
            except Exception:  # noqa: BLE001
                pass
            if not first.is_contiguous():
                empty = [torch.empty(0, dtype=t.dtype) for t in results]
                try:
                    self.call(*copied([pos, kw]), empty)
                    self.facts["resized" if empty[0].stride() == first.stride() else "row_major"] += 1
                except Exception:  # noqa: BLE001
                    pass
        # over an operand
        pos, kw = copied([pos, kw])
        over = [t for t in pos if isinstance(t, torch.Tensor) and t.dtype == first.dtype and t.shape == first.shape]
        if over:
            try:
                self.call(pos, kw, [over[0], *same[1:]])
                self.facts["shares"] += 1
            except Exception as e:  # noqa: BLE001
                self.facts["apart" if "single memory location" in str(e) else "shares"] += 1

    def checked_first(self, case):
        """An operand of a dtype that is not implemented, and an `out` of another one: which of the two is named."""
        pos, kw, whole = self.arguments(case)
        for d in (torch.bool, torch.int64, torch.float16, torch.complex64):
            change = lambda v: v.to(d) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
            changed = [change(v) for v in pos], {k: change(v) for k, v in kw.items()}
            try:
                with torch.no_grad():
                    self.of(*[change(v) for v in whole[0]], **{k: change(v) for k, v in whole[1].items()})
                continue
            except NotImplementedError:
                pass
            except Exception:  # noqa: BLE001
                continue
            outs = [torch.empty(0, dtype=torch.int8) for _ in self.written]
            try:
                self.call(*changed, outs)
            except Exception as e:  # noqa: BLE001
                self.facts["first" if type(e) is RuntimeError else "last"] += 1

    def dtype_rule(self, composite):
        if not self.dtypes:
            return "castable" if torch.Tag.pointwise in self.op.tags and not composite else "exact"
        refused = lambda said: all(s not in ("same", "other") for s in said)
        rank = lambda d: 3 if d.is_complex else 2 if d.is_floating_point else 0 if d == torch.bool else 1
        if all(refused(said) == (r != d) for (r, d), said in self.dtypes.items()):
            return "exact"
        if all(r == torch.bool and refused(said) == (d not in (torch.bool, torch.uint8)) for (r, d), said in self.dtypes.items()):
            return "truth"
        if all(not refused(said) for said in self.dtypes.values()):
            return "chosen" if any(said == {"other"} and rank(r) < rank(d) for (r, d), said in self.dtypes.items()) else "copied"
        if any("TypeError" in said for said in self.dtypes.values()):
            return "joined"
        return "castable"

    def rules(self, composite):
        out = {"out_dtype": self.dtype_rule(composite)}
        for n in (4, 5):
            if self.facts[f"relaid{n}"] and not self.facts[f"kept{n}"]:
                out.setdefault("out_strides", f"result_from_{n}d")
        if composite and self.facts["resized"] and not self.facts["row_major"]:
            out.setdefault("out_strides", "when_resized")
        if self.facts["first"] > self.facts["last"]:
            out["out_checked"] = "first"
        if self.facts["apart"] and not self.facts["shares"]:
            out["out_overlap"] = "refused"
        return {k: v for k, v in out.items() if v != "castable"}


def settled(probe, case, outs, results):
    """Whether an `out` of its own layout gets what the functional form gives: some of PyTorch's kernels take it for row-major."""
    pos, kw, _ = probe.arguments(case)
    outs = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in outs]
    try:
        probe.call(pos, kw, outs)
    except Exception:  # noqa: BLE001
        return True
    return all(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(outs, results))


def kept(probe, cases):
    """Cases of the form: an empty `out`, one of another layout, one of another dtype; of an in-place one, the call."""
    for i, case in enumerate(cases[:PER]):
        pos, kw, whole = probe.arguments(case)
        if probe.written:
            results = probe.results(whole)
            if results is None:
                continue
            kinds = [[torch.empty(0, dtype=t.dtype) for t in results],
                     [torch.zeros(*t.shape, 2, dtype=t.dtype)[..., 0] for t in results]]
            if i == 0:
                kinds += [[torch.empty(0, dtype=d), *(torch.empty(0, dtype=t.dtype) for t in results[1:])]
                          for d in (torch.float64, torch.int64)]
        else:
            kinds = [[]]
        for k, outs in enumerate(kinds):
            if k == 1 and not settled(probe, case, outs, results):
                continue
            made = record(probe.op, pos, {**kw, **dict(zip(probe.written, outs))}, f"forms/aten::{probe.name}/{i}.{k}", "manual:forms")
            if made is not None:
                yield made


def learnt(name, of, schema, cases, composite):
    """The rules of a form, and cases of it."""
    probe = Probe(name, of, schema)
    # one of each dtype first
    by = collections.defaultdict(list)
    for c in cases:
        by[c["dtype"]].append(c)
    cases = [cs[i] for i in range(4) for cs in by.values() if i < len(cs)]
    for c in cases[:12] if probe.written else []:
        for ask in (probe.ask, probe.checked_first):
            try:
                ask(c)
            except Unknown:
                pass
    lines = []
    try:
        for made in kept(probe, cases):
            lines.append(made)
    except Unknown:
        pass
    return (probe.rules(composite) if probe.written else {}), lines


def apart(work):
    """What a function gives, in a process of its own: PyTorch does not survive every `out`."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            with os.fdopen(write, "wb") as f:
                pickle.dump(work(), f)
        except Exception as e:  # noqa: BLE001
            print(type(e).__name__, str(e)[:200], file=sys.stderr)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        data = f.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else None


def main():
    ours = declared()
    found = cases_of(sys.argv[4:])
    text = ["# `out` and in-place forms of operators that other files declare, written by tests/data/forms.py: schemas, keys and rules of",
            "# `out` are PyTorch's. An entry waits until its functional variant is declared, and gives way to a declaration of its own in",
            "# another file."]
    out, err = gzip.open(out_path, "wt"), gzip.open(err_path, "wt")
    left_out = {line.split("\t")[0] for line in open(HERE / "overloads_differences.txt") if not line.startswith("#")}
    silent = []
    for line in gzip.open(HERE / "dispatch_tables.txt.gz", "rt").read().splitlines()[3:]:
        name, schema, registered, _ = line.split("\t")
        if not name.startswith("aten::") or name.removeprefix("aten::") in ours:
            continue
        name, schema = name.removeprefix("aten::"), schema.removeprefix("aten::")
        registered = {k.rstrip("!") for k in registered.split()}
        of = functional(name, schema, ours)
        if of is None:
            continue
        keys = ("CompositeImplicitAutograd" if "CompositeImplicitAutograd" in registered else
                "SparseCsrCPU" if not registered & {"CPU", "CompositeExplicitAutograd"} else
                "CompositeExplicitAutograd" if "CPU" not in registered else
                "CPU, Meta, CompositeExplicitAutograd" if "CompositeExplicitAutograd" in registered else "CPU, Meta")
        composite = "CPU" not in keys
        rules, lines = apart(lambda: learnt(name, of, schema, found[of], composite)) or (Probe(name, of, schema).rules(composite), [])
        rules |= KNOWN.get(name, {})
        for made in lines:
            if made["id"] in left_out:
                continue
            (err if "error" in made else out).write(json.dumps(made) + "\n")
        if not lines:
            silent.append(name)
        text.append(f"\n- func: {schema}\n  variant_of: {of}")
        text += [f"  {k}: {v}" for k, v in rules.items()]
        text.append(f"  variant_at: {keys}")
        if ours[of][1]:
            text.append(f"  tolerance: {ours[of][1]}")
    out.close()
    err.close()
    pathlib.Path(target).write_text("\n".join(text) + "\n")
    print("without cases:", " ".join(silent))


main()
