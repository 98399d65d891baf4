"""PyTorch's database of modules, in the form that `opinfo.py --modules` takes operators in."""

import torch


class Sample:
    def __init__(self, values, args, kwargs):
        self.input, self.args, self.kwargs = values, args, kwargs


class Module:
    """A module in training or in evaluation, as a function of its parameters and its inputs."""

    supports_autograd = True

    def __init__(self, info, training):
        self.info, self.training = info, training
        self.name = info.name
        self.variant_test_name = "training" if training else "eval"
        self.module = None

    def supported_dtypes(self, device):
        return [torch.float32, torch.float64, torch.bfloat16]

    supported_backward_dtypes = supported_dtypes

    def sample_inputs(self, device, dtype, requires_grad=False):
        """One sample after the other: `op` is of the last one."""
        made = self.info.module_inputs_func(
            self.info, device=device, dtype=dtype, requires_grad=requires_grad, training=self.training
        )
        for sample in made:
            if sample.forward_input is None:
                continue
            given = sample.constructor_input
            module = self.info.module_cls(*given.args, **given.kwargs).to(device=device, dtype=dtype)
            module.train(self.training)
            values = {n: p.detach().requires_grad_(requires_grad) for n, p in module.named_parameters()}
            values.update(module.named_buffers())
            self.module = module
            yield Sample(values, sample.forward_input.args, sample.forward_input.kwargs)

    def op(self, values, *args, **kwargs):
        return torch.func.functional_call(self.module, values, args, kwargs)


def modules():
    from torch.testing._internal.common_modules import module_db

    return [Module(info, training) for info in module_db for training in (False, True)]
