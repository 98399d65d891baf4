"""Keeps a small part of what opinfo_cases.py recorded of the operators listed in overloads.txt.

    python opinfo_cases.py ALL.jsonl.gz ALL_ERRORS.jsonl.gz --ops overloads.txt --per 2
    python overloads.py ALL.jsonl.gz ALL_ERRORS.jsonl.gz overloads.jsonl.gz overloads_errors.jsonl.gz

Vectors of eigenvalues and singular values are theirs up to a sign or a phase: of the calls that return them dtypes, sizes and strides are
kept, and no values. The values are those of `linalg_eigvalsh` and the like; that the vectors belong to them is for the unit tests.
"""
import collections
import gzip
import json
import sys

ANY_SIGN = {"aten::" + n for n in (
    "_linalg_eigh", "linalg_eigh", "_linalg_eigh.eigenvalues", "linalg_eigh.eigvals", "linalg_eig", "linalg_eig.out",
    "linalg_eigvals", "linalg_eigvals.out", "_linalg_eigvals", "_linalg_svd", "_linalg_svd.U", "linalg_svd", "linalg_svd.U", "svd", "svd.U")}

# calls that come out otherwise here, with what differs: complex operands of linear algebra, above all
LEFT_OUT = {line.split("\t")[0] for line in open("overloads_differences.txt") if not line.startswith("#")}


def keep(path, target, per, longest):
    counts = collections.Counter()
    n = 0
    with gzip.GzipFile(target, "wb", 9, mtime=0) as out:
        for line in gzip.open(path, "rt"):
            c = json.loads(line)
            key = (c["op"], c["dtype"], "error" in c and c["error"]["type"])
            if len(line) > longest or counts[key] >= per or c["id"] in LEFT_OUT:
                continue
            if c["op"] in ANY_SIGN and "error" not in c:
                c["nondeterministic"] = True
                for r in c["outs"]:
                    if r:
                        r.pop("values", None)
                for r in c["mutated"].values():
                    r.pop("data", None)
            counts[key] += 1
            n += 1
            out.write((json.dumps(c) + "\n").encode())
    print(target, n)


keep(sys.argv[1], sys.argv[3], 2, 6000)
keep(sys.argv[2], sys.argv[4], 1, 4000)
