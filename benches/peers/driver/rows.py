"""Rows: what rounds of measurements come to, whether results agree, and files of rows."""

import json
import math
import os
import statistics

MACHINE = "machine"
"""The framework of the rows that describe the machine."""
HEAD = ("framework", "version", "mode", "isa", "workload", "threads")
"""What every row begins with."""


def digits(x, n=5):
    return float(f"{x:.{n}g}")


def merged(head, answers):
    """One row of the rounds of a workload in one mode of one framework: medians of their quantiles, the round by round
    medians, and the spread of those, (greatest - least) / median. Without a measurement, the first note."""
    measured = [a for a in answers if a.get("median_us") is not None]
    row = {field: head[field] for field in HEAD if field in head}
    if not measured:
        notes = [a["note"] for a in answers if a.get("note")]
        return row | {"median_us": None, "note": notes[0] if notes else "n/a: no answer"}
    for field in ("median_us", "p10", "p90"):
        row[field] = digits(statistics.median(a[field] for a in measured))
    rounds = [digits(a["median_us"]) for a in measured]
    row["spread"] = digits((max(rounds) - min(rounds)) / row["median_us"], 3) if row["median_us"] else 0.0
    row["rounds"] = rounds
    first = [a["compile_ms"] for a in measured if a.get("compile_ms") is not None]
    if first:
        row["compile_ms"] = digits(statistics.median(first), 4)
    for field in ("dispatches", "check"):
        found = [a[field] for a in measured if a.get(field) is not None]
        if found:
            row[field] = found[0]
    if "check" in row:
        row["check"] = [[n] + [digits(x, 7) for x in sums] for n, *sums in row["check"]]
    return row


def agree(ours, theirs, bf16=False):
    """Whether check sums, [n, sum, sum of magnitudes, weighted sum] of each output, are those of the same numbers but
    for rounding."""
    if ours is None or theirs is None or len(ours) != len(theirs):
        return False
    share = 1e-3 if bf16 else 1e-4
    for (n, total, size, weighted), (m, *other) in zip(ours, theirs):
        if n != m or not all(math.isfinite(x) for x in (total, size, weighted, *other)):
            return False
        near = share * size + 1e-12
        if abs(total - other[0]) > near or abs(size - other[1]) > near:
            return False
        if abs(weighted - other[2]) > 100 * share * size / math.sqrt(max(n, 1)) + 1e-12:
            return False
    return True


def judged(rows):
    """Adds `agrees` to the rows of peers of one workload, and returns them with complaints. What we compiled is what
    the others are compared with."""
    ours = next((r for r in rows if r["framework"] == "straightline" and r.get("check")), None)
    complaints = []
    for row in rows:
        if row["framework"] == "straightline" or not row.get("check") or ours is None:
            continue
        row["agrees"] = agree(ours["check"], row["check"], row["workload"].endswith("_bf16"))
        if not row["agrees"]:
            complaints.append(
                f"{row['workload']}: {row['framework']} ({row['mode']}) gives {row['check']}, and we {ours['check']}"
            )
    return rows, complaints


def read(path):
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.strip()]


def group(row):
    """Rows of a group were measured together, and are replaced together."""
    return row.get("isa"), row.get("threads"), row.get("workload")


def joined(old, new, order):
    """The new rows with those of the old groups that were not measured again, in the order of the workloads; the
    machine first."""
    replaced = {group(r) for r in new}
    rows = [r for r in old if group(r) not in replaced] + new
    place = {name: i for i, name in enumerate(order)}
    sets = list(dict.fromkeys(r.get("isa") for r in rows))
    # of levels, the widest first
    sets.sort(key=lambda isa: -{"avx512": 3, "avx2": 2}.get(isa, 1))

    def key(row):
        machine = row["framework"] != MACHINE
        return sets.index(row.get("isa")), row.get("threads", 1), machine, place.get(row.get("workload"), len(place))

    return sorted(rows, key=key)


def write(path, rows):
    part = path + ".part"
    with open(part, "w") as out:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False, separators=(",", ":")), file=out)
    os.replace(part, path)


def spliced(document, name, text):
    """The document with the text between the markers of that name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if document.count(begin) != 1 or document.count(end) != 1:
        raise ValueError(f"the document needs one line `{begin.strip()}` and one `{end}`")
    head, rest = document.split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}{text.strip()}\n{end}{tail}"
