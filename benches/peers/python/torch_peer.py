"""PyTorch, eager or with torch.compile. Started by benches/peers/run."""

import numpy as np
import suite
import torch
import torch.nn.functional as F
import torch_models as models

SETTING = suite.options(["eager", "compile"])
EAGER = SETTING.mode == "eager"
torch.set_num_threads(SETTING.threads)
torch.set_num_interop_threads(1)
if not EAGER and SETTING.isa == "avx2":
    import torch._inductor.config

    torch._inductor.config.cpp.simdlen = 256


def wrapped(function):
    return function if EAGER else torch.compile(function, dynamic=False)


def arrays(*outputs):
    return [t.detach().float().numpy() for t in outputs]


def small(name):
    """W1, in the default mode, in which operations may be recorded; eagerly as a statement."""
    torch.set_grad_enabled(True)
    shape = (4, 8) if name == "w1.transpose" else (1,)
    a, b = models.floats("w1.a", shape), models.floats("w1.b", shape)
    if name == "w1.add_grad":
        a.requires_grad_()
        b.requires_grad_()
    statement, function = {
        "w1.transpose": ("a.transpose(0, 1)", lambda a, b: a.transpose(0, 1)),
        "w1.empty": ("torch.empty(16)", lambda a, b: torch.empty(16)),
    }.get(name, ("a + b", lambda a, b: a + b))
    call = wrapped(function)
    # uninitialised elements are not compared
    outputs = (lambda o: [np.zeros(1)]) if name == "w1.empty" else arrays
    names = {"a": a, "b": b, "torch": torch, "call": call}
    return suite.Case(lambda: call(a, b), outputs, statement if EAGER else "call(a, b)", names)


def train_mlp(batch, width):
    torch.set_grad_enabled(True)
    net = models.Mlp(width)
    x, t = (models.floats(f"w5.h{width}.{n}", (batch, width)) for n in "xt")
    optimizer = torch.optim.SGD(net.parameters(), lr=suite.RATE)
    loss_of = wrapped(lambda x, t: F.mse_loss(net(x), t))
    step = optimizer.step if EAGER else wrapped(lambda: optimizer.step())

    def call():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, t)
        loss.backward()
        step()
        return loss.detach()

    return suite.Case(call, arrays, training=True)


def train_gpt():
    torch.set_grad_enabled(True)
    net = models.MiniGpt()
    tokens, targets = (models.ids(n, (8, 16), 0, 600) for n in ("w6.tok", "w6.tgt"))
    loss_of = wrapped(lambda i, t: F.cross_entropy(net(i).view(-1, 600), t.view(-1)))
    parameters = list(net.parameters())

    def call():
        for p in parameters:
            p.grad = None
        loss = loss_of(tokens, targets)
        loss.backward()
        return loss.detach(), net.wte.grad

    return suite.Case(call, lambda o: arrays(*o))


def build(name):
    if name.startswith("w1."):
        return small(name)
    if name.startswith("w11.train_mlp_"):
        return train_mlp(*models.sizes(name.removeprefix("w11.train_mlp_")))
    if name == "w11.train_minigpt_b8":
        return train_gpt()
    found = models.inference(name, SETTING.minilm)
    if found is None:
        return None
    function, inputs = found
    if isinstance(function, torch.nn.Module):
        function = function.eval()
    call = wrapped(function)
    return suite.Case(lambda: call(*inputs), lambda o: arrays(o))


def before():
    torch._dynamo.reset()
    torch.set_grad_enabled(False)


if not EAGER:
    # the compiler's own start belongs to no workload
    torch.compile(lambda x: x.sin() + 1)(torch.ones(5))
suite.serve("torch", torch.__version__.partition("+")[0], SETTING.mode, build, before)
