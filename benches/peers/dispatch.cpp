// The rows of benches/dispatch.rs for PyTorch's C++ dispatcher. Built and run by dispatch.sh beside this file.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using Clock = std::chrono::steady_clock;

static double nanos(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::nano>(b - a).count();
}

template <class T>
static inline void keep(T const& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// The fastest of many short runs: on a shared machine the others measure the neighbours.
template <class F>
static void row(const char* name, F&& f) {
  double best = 1e300;
  for (int i = 0; i < 200; i++) {
    const int n = 2000;
    auto begin = Clock::now();
    for (int k = 0; k < n; k++) f();
    best = std::min(best, nanos(begin, Clock::now()) / n);
  }
  std::printf("%-44s %10.1f ns\n", name, best);
}

static int64_t nothing(const Tensor&, const Tensor&) { return 0; }
static int64_t one(const Tensor&) { return 0; }
static int64_t eight(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor&, const Tensor&) {
  return 0;
}
static int64_t list(at::TensorList) { return 0; }
static Tensor echo(const Tensor& a, const Tensor&, const at::Scalar&) { return a; }

using Two = int64_t(const Tensor&, const Tensor&);

static c10::OperatorHandle find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

TORCH_LIBRARY(bench, m) {
  m.def("nothing(Tensor a, Tensor b) -> int");
  m.def("one(Tensor a) -> int");
  m.def("eight(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f, Tensor g, Tensor h) -> int");
  m.def("list(Tensor[] xs) -> int");
  for (int n : {1, 2, 5}) {
    m.def(("typed_" + std::to_string(n) + "(Tensor a, Tensor b) -> int").c_str());
    m.def(("boxed_" + std::to_string(n) + "(Tensor a, Tensor b) -> int").c_str());
  }
}

TORCH_LIBRARY_IMPL(bench, CPU, m) {
  m.impl("nothing", nothing);
  m.impl("one", one);
  m.impl("eight", eight);
  m.impl("list", list);
  for (int n : {1, 2, 5}) {
    m.impl(("typed_" + std::to_string(n)).c_str(), nothing);
    m.impl(("boxed_" + std::to_string(n)).c_str(), nothing);
  }
}

constexpr DispatchKey ABOVE[] = {
    DispatchKey::ADInplaceOrView,
    DispatchKey::AutogradCPU,
    DispatchKey::Tracer,
    DispatchKey::TESTING_ONLY_GenericWrapper,
    DispatchKey::TESTING_ONLY_GenericMode,
};

template <int N, DispatchKey KEY>
static int64_t layer(DispatchKeySet keys, const Tensor& a, const Tensor& b) {
  static auto op = find(("bench::typed_" + std::to_string(N)).c_str()).typed<Two>();
  return op.redispatch(keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, KEY), a, b);
}

template <DispatchKey KEY>
static void boxed_layer(const c10::OperatorHandle& op, DispatchKeySet keys, torch::jit::Stack* stack) {
  op.redispatchBoxed(keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, KEY), stack);
}

template <int N, int I = 0>
static void add_layers(std::vector<std::unique_ptr<torch::Library>>& libs) {
  if constexpr (I < N) {
    constexpr DispatchKey key = ABOVE[I];
    auto lib = std::make_unique<torch::Library>(torch::Library::IMPL, "bench", std::make_optional(key), __FILE__, __LINE__);
    lib->impl(("typed_" + std::to_string(N)).c_str(), layer<N, key>);
    lib->impl(("boxed_" + std::to_string(N)).c_str(), torch::CppFunction::makeFromBoxedFunction<boxed_layer<key>>());
    libs.push_back(std::move(lib));
    add_layers<N, I + 1>(libs);
  }
}

static void interposed(int count, const Tensor& x) {
  DispatchKeySet keys;
  for (int i = 0; i < count; i++) keys = keys | DispatchKeySet(ABOVE[i]);
  c10::impl::IncludeDispatchKeyGuard guard(keys);
  auto typed = find(("bench::typed_" + std::to_string(count)).c_str()).typed<Two>();
  row(("interposed unboxed, " + std::to_string(count)).c_str(), [&] { keep(typed.call(x, x)); });
  auto boxed = find(("bench::boxed_" + std::to_string(count)).c_str());
  torch::jit::Stack stack;
  row(("interposed boxed, " + std::to_string(count)).c_str(), [&] {
    stack.clear();
    stack.emplace_back(x);
    stack.emplace_back(x);
    boxed.callBoxed(stack);
  });
}

static void threads(int count) {
  auto op = find("bench::nothing").typed<Two>();
  const int calls = 2000000;
  double best = 1e300;
  for (int round = 0; round < 5; round++) {
    std::atomic<int> ready{0};
    std::vector<std::thread> all;
    std::vector<double> took(count);
    for (int t = 0; t < count; t++) {
      all.emplace_back([&, t] {
        Tensor x = at::ones({1});
        ready++;
        while (ready.load() < count) std::this_thread::yield();
        auto begin = Clock::now();
        for (int i = 0; i < calls; i++) keep(op.call(x, x));
        took[t] = nanos(begin, Clock::now());
      });
    }
    for (auto& t : all) t.join();
    best = std::min(best, *std::max_element(took.begin(), took.end()));
  }
  std::printf("%-44s %10.1f M calls/s\n", ("empty on threads, " + std::to_string(count)).c_str(), 1e3 * calls * count / best);
}

static void registration() {
  double best = 1e300;
  for (int round = 0; round < 3; round++) {
    auto space = "bench_" + std::to_string(round);
    torch::Library lib(torch::Library::DEF, space, std::nullopt, __FILE__, __LINE__);
    auto begin = Clock::now();
    for (int i = 0; i < 3000; i++) {
      auto name = "operator_" + std::to_string(i);
      lib.def((name + "(Tensor a, Tensor b, *, Scalar alpha=1) -> Tensor").c_str());
      for (auto key : {DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::AutogradCPU})
        lib.impl(name.c_str(), torch::dispatch(key, TORCH_FN(echo)));
    }
    best = std::min(best, nanos(begin, Clock::now()));
  }
  std::printf("%-44s %10.1f ms\n", "registration, 3000 operators x 3 kernels", best / 1e6);
}

int main() {
  at::set_num_threads(1);
  Tensor x = at::ones({1});
  Tensor y = at::ones({1});
  auto op = find("bench::nothing");
  auto typed = op.typed<Two>();
  row("empty unboxed", [&] { keep(typed.call(x, x)); });
  row("empty redispatch", [&] { keep(typed.redispatch(DispatchKeySet(DispatchKey::CPU), x, x)); });
  {
    // the operator has no autograd kernel, and PyTorch's fallback for those is a boxed kernel: this row leaves it out
    at::AutoDispatchBelowADInplaceOrView guard;
    row("empty unboxed, below autograd", [&] { keep(typed.call(x, x)); });
  }
  torch::jit::Stack stack;
  row("empty boxed", [&] {
    stack.clear();
    stack.emplace_back(x);
    stack.emplace_back(x);
    op.callBoxed(stack);
  });

  std::vector<std::unique_ptr<torch::Library>> libs;
  add_layers<1>(libs);
  add_layers<2>(libs);
  add_layers<5>(libs);
  for (int n : {1, 2, 5}) interposed(n, x);

  auto op1 = find("bench::one").typed<int64_t(const Tensor&)>();
  row("key set of tensors, 1", [&] { keep(op1.call(x)); });
  row("key set of tensors, 2", [&] { keep(typed.call(x, x)); });
  auto op8 = find("bench::eight")
                 .typed<int64_t(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                const Tensor&, const Tensor&)>();
  row("key set of tensors, 8", [&] { keep(op8.call(x, x, x, x, x, x, x, x)); });
  auto opl = find("bench::list").typed<int64_t(at::TensorList)>();
  std::vector<Tensor> xs(8, x);
  row("key set of tensors, list of 8", [&] { keep(opl.call(xs)); });

  {
    at::NoGradGuard guard;
    row("at::add, 1 element, no_grad", [&] { keep(at::add(x, y)); });
    Tensor u = at::ones({16}), v = at::ones({16});
    row("at::add, 16 elements, no_grad", [&] { keep(at::add(u, v)); });
    row("add_, 1 element, no_grad", [&] { keep(x.add_(y)); });
    c10::InferenceMode inference;
    Tensor a = at::ones({1}), b = at::ones({1});
    row("at::add, 1 element, inference mode", [&] { keep(at::add(a, b)); });
  }
  for (int n : {1, 2, 4}) threads(n);
  registration();
}
