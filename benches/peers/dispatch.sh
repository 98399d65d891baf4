#!/usr/bin/env bash
# PyTorch's C++ dispatcher in the rows of benches/dispatch.rs, for developers who want to compare. No part of continuous
# integration. Needs g++ and a python3 with torch: the headers and libtorch are those of the Python package.
#
#   benches/peers/dispatch.sh [folder for the binary]
#   PYTHON=python3.12 CXXFLAGS=-O2 CPU=0 benches/peers/dispatch.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-${TMPDIR:-/tmp}}
mkdir -p "$out"
read -r root abi < <("${PYTHON:-python3}" -c '
import os, torch
print(os.path.dirname(torch.__file__), int(torch.compiled_with_cxx11_abi()))')
binary=$out/torch_dispatch
if [ ! -e "$binary" ] || [ "$here/dispatch.cpp" -nt "$binary" ]; then
  # shellcheck disable=SC2086
  ${CXX:-g++} -std=c++20 ${CXXFLAGS:--O3} -DNDEBUG -D_GLIBCXX_USE_CXX11_ABI="$abi" -pthread \
    -I"$root/include" -I"$root/include/torch/csrc/api/include" \
    "$here/dispatch.cpp" -o "$binary" \
    -L"$root/lib" -Wl,-rpath,"$root/lib" -Wl,--no-as-needed -ltorch_cpu -lc10
fi
if [ -n "${CPU:-}" ]; then exec taskset -c "$CPU" "$binary"; fi
exec "$binary"
