"""The machine: its name, its caches, and its limits as benches/peers/limits measures them."""

import datetime
import glob
import json
import os
import pathlib
import platform
import subprocess

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def model(cpuinfo):
    """The processor's name in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def size(text):
    """`48K` in bytes."""
    text = text.strip()
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)


def caches(root="/sys/devices/system/cpu/cpu0/cache"):
    """Bytes of the data caches by level, of the commonest sizes where the system does not say."""
    found = {1: 32 << 10, 2: 1 << 20, 3: 16 << 20}
    for index in glob.glob(os.path.join(root, "index*")):
        part = lambda name: pathlib.Path(index, name).read_text().strip()
        try:
            if part("type") != "Instruction":
                found[int(part("level"))] = size(part("size"))
        except (OSError, ValueError):
            continue
    return found[1], found[2], found[3]


def levels(cpuinfo):
    """The instruction sets of ours that the machine has, the widest first."""
    flags = set()
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            flags = set(line.partition(":")[2].split())
            break
    have = []
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags:
        have.append("avx512")
    if {"avx2", "fma"} <= flags:
        have.append("avx2")
    return have or ["portable"]


def cpuinfo():
    try:
        with open("/proc/cpuinfo") as text:
            return text.read()
    except OSError:
        return ""


def describe(isa, threads, rounds, quick):
    """The row of the machine, without its limits."""
    return {
        "framework": "machine",
        "isa": isa,
        "threads": threads,
        "date": datetime.date.today().isoformat(),
        "cpu": model(cpuinfo()),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "caches": list(caches()),
        "rounds": rounds,
        "quick": quick,
    }


def limits(program, row):
    """The limits of the machine of this row, as the program finds them now; none without a program."""
    if not program:
        return {}
    argv = [program, row["isa"], *(str(n) for n in (row["threads"], *row["caches"]))]
    done = subprocess.run(argv, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def raised(row, more):
    """The row with the greater limits of the two: what else the machine does only takes from them."""
    found = dict(row)
    if "gflops" in more:
        found["gflops"] = max(more["gflops"], row.get("gflops", 0))
        old = row.get("gbs", {})
        found["gbs"] = {level: max(rate, old.get(level, 0)) for level, rate in more["gbs"].items()}
    return found
