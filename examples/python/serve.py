"""Serves an exported program from sixteen threads.

    python examples/python/serve.py model.pt2

The model is loaded once and called by all threads at once: a call releases the interpreter, and no
call waits for another one. PyTorch is not needed.
"""

import concurrent.futures
import sys
import time

import numpy as np

import straightline as sl

THREADS = 16
REQUESTS = 512


def example(model, rng):
    """Random arguments for a model, by what it says of its inputs."""
    symbols = {name: max(low or 1, 4) for name, low, _ in model.program.symbols}
    arrays = []
    for line in str(model.program).splitlines():
        if not line.startswith("  input "):
            continue
        kind = line.split(": ", 1)[1]
        dtype, sizes = kind.split("[", 1)
        shape = [symbols.get(s, s) for s in sizes.rstrip("]").split(", ") if s]
        shape = [int(s) for s in shape]
        if dtype in ("f32", "f64"):
            arrays.append(rng.standard_normal(shape).astype({"f32": np.float32, "f64": np.float64}[dtype]))
        else:
            arrays.append(rng.integers(0, 2, shape).astype({"i64": np.int64, "i32": np.int32, "bool": np.bool_}[dtype]))
    return arrays


def main(path):
    began = time.perf_counter()
    model = sl.load(path)
    # threads are for requests here, one for each call
    sl.set_num_threads(1)
    arguments = example(model, np.random.default_rng(0))
    first = model.program.run(*arguments)[0]
    model(*arguments)
    print(f"loaded and compiled in {time.perf_counter() - began:.3f} s: {model}")

    def request(_):
        result = model(*arguments)
        leaf = result if isinstance(result, np.ndarray) else first
        np.testing.assert_allclose(leaf, first, 1e-4, 1e-4)

    for threads in (1, THREADS):
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            began = time.perf_counter()
            list(pool.map(request, range(REQUESTS)))
            took = time.perf_counter() - began
        print(f"{threads:2} threads: {REQUESTS / took:8.0f} requests a second")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
