"""Models of torchvision, timm and transformers through straightline, judged by PyTorch.

    python models.py --out models.json            # torch.compile: results, gradients of some
    python models.py --export --out export.json   # straightline.compile, i.e. torch.export

Small configurations with random weights; nothing is fetched. The judge is PyTorch's eager result: all
values within rtol 1e-4 and atol 1e-4 of it (of its largest value, where that is below 1), or no further
from a run in float64 than three times what PyTorch's own is. A model that runs with PyTorch's
kernels, in part or whole, has not passed. Each model runs in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings


def _vision(name, size=64, batch=2, **kwargs):
    def make(torch):
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, **kwargs)
        return model, (torch.randn(batch, 3, size, size),), {}

    return make


def _timm(name, size=224, **kwargs):
    def make(torch):
        import timm

        model = timm.create_model(name, pretrained=False, **kwargs)
        return model, (torch.randn(2, 3, size, size),), {}

    return make


def _text(model, config, length=9, vocabulary=97, mask=True, **settings):
    def make(torch):
        import transformers

        config_ = getattr(transformers, config)(**settings)
        module = getattr(transformers, model)(config_)
        ids = torch.randint(0, vocabulary, (2, length))
        kwargs = {}
        if mask:
            kwargs["attention_mask"] = torch.ones(2, length, dtype=torch.long)
            kwargs["attention_mask"][1, -3:] = 0
        return module, (ids,), kwargs

    return make


def _images(model, config, size=32, **settings):
    def make(torch):
        import transformers

        module = getattr(transformers, model)(getattr(transformers, config)(**settings))
        return module, (torch.randn(2, 3, size, size),), {}

    return make


_ENCODER = dict(
    vocab_size=97,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
)
_LLAMA = dict(_ENCODER, num_key_value_heads=2, use_cache=False)


def _seq2seq(model, config, names=("input_ids", "decoder_input_ids"), **settings):
    def make(torch):
        import transformers

        module = getattr(transformers, model)(getattr(transformers, config)(**settings))
        ids = {n: torch.randint(3, 97, (2, 7 + i)) for i, n in enumerate(names)}
        return module, (), dict(ids, use_cache=False)

    return make


def _clip(torch):
    import transformers

    config = transformers.CLIPConfig(
        text_config=dict(_ENCODER, projection_dim=16, eos_token_id=96, bos_token_id=0),
        vision_config=dict(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
            projection_dim=16,
        ),
        projection_dim=16,
    )
    model = transformers.CLIPModel(config)
    return model, (), {
        "input_ids": torch.randint(0, 97, (2, 9)),
        "pixel_values": torch.randn(2, 3, 32, 32),
    }


def _whisper(torch):
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=97,
        num_mel_bins=8,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        d_model=32,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=16,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    return model, (), {
        "input_features": torch.randn(2, 8, 32),
        "decoder_input_ids": torch.randint(3, 97, (2, 6)),
        "use_cache": False,
    }


MODELS = {
    "torchvision/resnet18": _vision("resnet18"),
    "torchvision/mobilenet_v3_small": _vision("mobilenet_v3_small"),
    "torchvision/efficientnet_b0": _vision("efficientnet_b0"),
    "torchvision/densenet121": _vision("densenet121"),
    "torchvision/squeezenet1_1": _vision("squeezenet1_1"),
    "torchvision/shufflenet_v2_x0_5": _vision("shufflenet_v2_x0_5"),
    "torchvision/vgg11": _vision("vgg11", size=32, batch=1),
    "torchvision/convnext_tiny": _vision("convnext_tiny", batch=1),
    "torchvision/swin_t": _vision("swin_t", batch=1),
    "torchvision/googlenet": _vision("googlenet", init_weights=False, aux_logits=False),
    "torchvision/regnet_y_400mf": _vision("regnet_y_400mf"),
    "torchvision/mobilenet_v2": _vision("mobilenet_v2"),
    "torchvision/VisionTransformer": lambda torch: (
        __import__("torchvision").models.VisionTransformer(32, 8, 2, 4, 32, 64),
        (torch.randn(2, 3, 32, 32),),
        {},
    ),
    "timm/mixer_s32": _timm("mixer_s32_224", size=64, img_size=64),
    "timm/deit_tiny": _timm("deit_tiny_patch16_224", size=32, img_size=32, depth=2),
    "timm/beit_base": _timm("beit_base_patch16_224", size=32, img_size=32, depth=2, embed_dim=48, num_heads=4),
    "timm/convmixer": _timm("convmixer_768_32", size=64),
    "timm/levit_128s": _timm("levit_128s"),
    "timm/pit_ti": _timm("pit_ti_224"),
    "timm/xcit_nano": _timm("xcit_nano_12_p16_224", size=64, img_size=64, depth=2),
    "timm/poolformer_s12": _timm("poolformer_s12", size=64),
    "timm/coat_tiny": _timm("coat_lite_tiny", size=64, img_size=64),
    "timm/ghostnet": _timm("ghostnet_050", size=64),
    "transformers/BERT": _text("BertModel", "BertConfig", **_ENCODER),
    "transformers/GPT-2": _text(
        "GPT2LMHeadModel", "GPT2Config", vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False
    ),
    "transformers/Llama": _text("LlamaForCausalLM", "LlamaConfig", **_LLAMA),
    "transformers/T5": _seq2seq(
        "T5ForConditionalGeneration",
        "T5Config",
        vocab_size=97,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
    ),
    "transformers/DistilBERT": _text(
        "DistilBertModel", "DistilBertConfig", vocab_size=97, dim=32, hidden_dim=64, n_layers=2, n_heads=4
    ),
    "transformers/ALBERT": _text("AlbertModel", "AlbertConfig", embedding_size=16, **_ENCODER),
    "transformers/ELECTRA": _text("ElectraModel", "ElectraConfig", embedding_size=16, **_ENCODER),
    "transformers/RoBERTa": _text("RobertaModel", "RobertaConfig", **_ENCODER),
    "transformers/OPT": _text(
        "OPTForCausalLM",
        "OPTConfig",
        vocab_size=97,
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        word_embed_proj_dim=32,
        use_cache=False,
    ),
    "transformers/GPT-NeoX": _text("GPTNeoXForCausalLM", "GPTNeoXConfig", use_cache=False, **_ENCODER),
    "transformers/Mistral": _text("MistralForCausalLM", "MistralConfig", sliding_window=4, **_LLAMA),
    "transformers/Qwen2": _text("Qwen2ForCausalLM", "Qwen2Config", **_LLAMA),
    "transformers/Gemma": _text("GemmaForCausalLM", "GemmaConfig", head_dim=8, **_LLAMA),
    "transformers/Phi": _text("PhiForCausalLM", "PhiConfig", **_LLAMA),
    "transformers/ViT": _images(
        "ViTModel",
        "ViTConfig",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
    ),
    "transformers/CLIP": _clip,
    "transformers/Whisper": _whisper,
    "transformers/BART": _seq2seq(
        "BartForConditionalGeneration",
        "BartConfig",
        vocab_size=97,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
    ),
}

# those of which a training step is compared as well
TRAINED = (
    "torchvision/resnet18",
    "torchvision/mobilenet_v3_small",
    "torchvision/VisionTransformer",
    "torchvision/swin_t",
    "timm/deit_tiny",
    "timm/mixer_s32",
    "transformers/BERT",
    "transformers/GPT-2",
    "transformers/Llama",
    "transformers/T5",
    "transformers/ViT",
    "transformers/Whisper",
)


# ---------------------------------------------------------------------------------------------------
# one model


def _tensors(torch, result):
    if hasattr(result, "to_tuple"):
        result = result.to_tuple()
    leaves = torch.utils._pytree.tree_leaves(result)
    return [t for t in leaves if isinstance(t, torch.Tensor)]


def _step(torch, call, parameters, train):
    """Results; in training the loss and all gradients."""
    torch.manual_seed(3)
    if not train:
        with torch.no_grad():
            return _tensors(torch, call())
    for p in parameters:
        p.grad = None
    outputs = [t for t in _tensors(torch, call()) if t.is_floating_point()]
    torch.manual_seed(5)
    loss = sum((t * torch.randn(t.shape).to(t.dtype)).sum() for t in outputs)
    loss.backward()
    return [loss.detach(), *(p.grad for p in parameters if p.grad is not None)]


def _worst(torch, got, expected):
    """The largest distance of results. Gradients that are zero but for roundings are compared in the
    scale of the largest."""
    floats = [t.abs().max().item() for t in expected if t.is_floating_point() and t.numel()]
    noise = 1e-7 * max(floats, default=0.0)
    return max(_distance(torch, a, b.to(a.dtype), noise) for a, b in zip(got, expected))


def _distance(torch, a, b, noise):
    """The largest difference, in units of what is allowed."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if not a.is_floating_point():
        return 0.0 if torch.equal(a, b) else float("inf")
    if a.numel() == 0:
        return 0.0
    size = b.abs()
    # tiny results are compared as well
    allowed = 1e-4 * size + 1e-4 * size.max().clamp(max=1.0) + noise + torch.finfo(b.dtype).tiny
    difference = (a - b).abs() / allowed
    return difference.max().item() if not difference.isnan().any() else float("inf")


def judge(name, train, export, dynamic=False):
    import logging

    import torch

    import straightline
    from straightline import torch_backend

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name](torch)
    model.train(train)
    # normalisation trains its statistics: each run begins with the same
    state = {k: v.clone() for k, v in model.state_dict().items()}
    parameters = list(model.parameters())

    def step(f):
        model.load_state_dict(state)
        return _step(torch, lambda: f(*args, **kwargs), parameters, train)

    expected = step(model)
    row = {"model": name, "train": train, "export": export}
    began = time.time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if export:
                try:
                    torch.export.export(model, args, kwargs)
                except Exception as e:
                    return dict(row, verdict="not exported by torch", note=_short(e))
                compiled = straightline.compile(model, args, kwargs=kwargs, eager_fallback=False)
            else:
                torch._dynamo.reset()
                compiled = torch.compile(model, backend=torch_backend.backend, dynamic=dynamic or None)
            got = step(compiled)
            row["first"] = round(time.time() - began, 2)
            again = step(compiled)
        except Exception as e:
            return dict(row, verdict="raised", note=_short(e))
    fell_back = [str(w.message) for w in caught if issubclass(w.category, straightline.FallbackWarning)]
    kinds = [[(t.dtype, t.shape) for t in r] for r in (expected, got, again)]
    if kinds[1] != kinds[0] or kinds[2] != kinds[0]:
        return dict(row, verdict="wrong", note=f"{len(got)} results of other dtypes, sizes or number")
    worst = max(_worst(torch, got, expected), _worst(torch, again, expected))
    row["worst"] = worst
    if worst > 1 and not fell_back:
        double = _step_in_float64(torch, model, args, kwargs, state, train)
        if double is not None:
            ours, theirs = _worst(torch, got, double), _worst(torch, expected, double)
            row["of_float64"] = [ours, theirs]
            # with dropout a run in float64 draws other numbers, and says nothing
            worst = 0 if ours <= 3 * theirs < 100 else worst
    if worst > 1:
        return dict(row, verdict="wrong", note=f"{worst:.3g} times what is allowed")
    if fell_back:
        return dict(row, verdict="fallback", note=fell_back[0].split(":", 1)[1].strip())
    return dict(row, verdict="passed", note="")


def _step_in_float64(torch, model, args, kwargs, state, train):
    wide = lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
    try:
        model.load_state_dict(state)
        model.double()
        args, kwargs = torch.utils._pytree.tree_map(wide, (args, kwargs))
        return _step(torch, lambda: model(*args, **kwargs), list(model.parameters()), train)
    except Exception:
        return None


def _short(e):
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return f"{type(e).__name__}: " + " ".join(lines[:3])[:600]


# ---------------------------------------------------------------------------------------------------
# all models


def run_all(options):
    done = json.load(open(options.out)) if os.path.exists(options.out) else []
    known = {(r["model"], r["train"], r["export"]) for r in done}
    todo = [(name, False) for name in MODELS]
    if not options.export and not options.no_training:
        todo += [(name, True) for name in TRAINED]
    for name, train in todo:
        if (name, train, options.export) in known or (options.only and options.only not in name):
            continue
        if options.only_training and not train:
            continue
        command = [sys.executable, os.path.abspath(__file__), "--one", name]
        command += ["--train"] if train else []
        command += ["--export"] if options.export else []
        command += ["--dynamic"] if options.dynamic else []
        row = {"model": name, "train": train, "export": options.export}
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds)
            lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
            if lines:
                row = json.loads(lines[-1])
            else:
                last = ended.stderr.strip().splitlines()[-1:] or [""]
                row.update(verdict="crashed", note=f"status {ended.returncode}: {last[0][:300]}")
        except subprocess.TimeoutExpired:
            row.update(verdict="timeout", note=f"after {options.seconds} s")
        done.append(row)
        with open(options.out, "w") as out:
            json.dump(done, out, indent=1)
        print(_line(row), flush=True)
    report(done)


def _line(row):
    kind = "training" if row["train"] else "export" if row["export"] else "inference"
    worst = f"{row['worst']:.1e}" if "worst" in row else ""
    return f"{row['model']:34}{kind:11}{row['verdict']:10}{worst:>9}{row.get('first', ''):>8}  {row['note'][:300]}"


def report(rows):
    print()
    for export, train, what in ((False, False, "inference"), (False, True, "training"), (True, False, "export")):
        some = [r for r in rows if r["export"] == export and r["train"] == train]
        if some:
            passed = sum(r["verdict"] == "passed" for r in some)
            others = sorted({r["verdict"] for r in some} - {"passed"})
            counts = ", ".join(f"{sum(r['verdict'] == v for r in some)} {v}" for v in others)
            print(f"{what}: {passed} of {len(some)} passed{'; ' if counts else ''}{counts}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", default="models.json")
    p.add_argument("--only", help="a part of the name")
    p.add_argument("--export", action="store_true")
    p.add_argument("--dynamic", action="store_true", help="with symbolic sizes")
    p.add_argument("--no-training", action="store_true")
    p.add_argument("--only-training", action="store_true")
    p.add_argument("--seconds", type=float, default=400)
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.one:
        print(json.dumps(judge(options.one, options.train, options.export, options.dynamic)), flush=True)
    else:
        run_all(options)


if __name__ == "__main__":
    main()
