"""What is installed: interpreters with the peers' packages, and the Rust programs beside this folder."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(HERE, "python")

PEERS = ("torch", "torch-compile", "onnxruntime", "jax", "candle", "burn")
# the package that a peer is, its program, its mode
PROGRAMS = {
    "torch": ("torch", "torch_peer.py", "eager"),
    "torch-compile": ("torch", "torch_peer.py", "compile"),
    "onnxruntime": ("onnxruntime", "onnx_peer.py", "session"),
    "jax": ("jax", "jax_peer.py", "jit"),
}
LIMITED = ("torch", "torch-compile", "jax")
"""Peers that can be told to leave out AVX-512. The others choose by what the machine has."""


def packages(interpreter):
    """Which of the peers' packages an interpreter has, without importing them."""
    names = ["torch", "onnxruntime", "jax", "onnxscript"]
    program = "import importlib.util as u, json; print(json.dumps([n for n in %r if u.find_spec(n)]))" % names
    try:
        found = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, timeout=60)
        return json.loads(found.stdout) if found.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return []


def interpreters():
    """STRAIGHTLINE_PYTHON names interpreters, separated by colons; this one is the last of them."""
    named = [p for p in os.environ.get("STRAIGHTLINE_PYTHON", "").split(":") if p]
    return {p: packages(p) for p in dict.fromkeys(named + [sys.executable])}


def build(crate, folder, native=True):
    """The path of a Rust program of this folder, built in `folder`, and None or the path and why there is none."""
    environment = dict(os.environ, CARGO_TARGET_DIR=os.path.join(folder, "target"))
    if native:
        environment["RUSTFLAGS"] = "-C target-cpu=native"
    manifest = os.path.join(HERE, crate, "Cargo.toml")
    argv = ["cargo", "build", "--release", "--quiet", "--manifest-path", manifest]
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    except OSError:
        return None, "cargo is not installed"
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
        return None, f"it does not build: {' '.join(errors)[:300] or done.stderr[-300:]}"
    return os.path.join(folder, "target", "release", f"peer-{crate}"), None


def find(wanted, folder):
    """Programs by peer, and why the others are missing."""
    have = interpreters()
    found, missing = {}, {}
    for peer in wanted:
        if peer in PROGRAMS:
            package, program, mode = PROGRAMS[peer]
            python = next((p for p, names in have.items() if package in names), None)
            if python is None:
                missing[peer] = f"no package {package} in {', '.join(have)}: name its interpreter in STRAIGHTLINE_PYTHON"
            else:
                found[peer] = [python, os.path.join(PYTHON, program), "--mode", mode]
        else:
            program, reason = build(peer, folder)
            if reason:
                missing[peer] = reason
            else:
                found[peer] = [program]
    exporter = next((p for p, names in have.items() if "torch" in names and "onnxscript" in names), None)
    if "onnxruntime" in found and exporter is None:
        del found["onnxruntime"]
        missing["onnxruntime"] = "its models are exported by torch and onnxscript, which no interpreter has"
    return found, missing, exporter


def export(exporter, folder, minilm, names):
    """Exports what is not in the folder yet."""
    done = lambda name: any(os.path.exists(os.path.join(folder, name + end)) for end in (".onnx", ".txt"))
    # a workload that lacked its weights may have them now
    todo = [n for n in names if not done(n) or (minilm and os.path.exists(os.path.join(folder, n + ".txt")))]
    if todo:
        print(f"exporting {len(todo)} workloads to ONNX", file=sys.stderr)
        argv = [exporter, os.path.join(PYTHON, "onnx_export.py"), folder, minilm or "", *todo]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def limits(peer, isa):
    """What a peer's environment says about instruction sets."""
    if isa != "avx2":
        return {}
    return {
        "torch": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
        "torch-compile": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    }.get(peer, {})
