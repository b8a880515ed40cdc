#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bf16 autocast costs PyTorch on each golden case, for tests/backends/hpu/golden_test.cpp.

    bf16_of_pytorch.py GOLDEN [CASE ...] > bf16_of_pytorch.json        needs torch, transformers, safetensors

Cases of the larger set have names that begin with shared/.

Differences between bf16 and f32 by the largest value of the f32 one. Each number is the largest of SEEDS runs, the first
from the weights of the case, the others from weights that noise moved by a millionth: one curve of twenty updates is one
draw of a random walk, whose largest step differs from draw to draw by a factor of two and more.
"""
import json, os, sys, warnings
os.environ["HF_HUB_OFFLINE"] = "1"
import torch, transformers
from safetensors.torch import load_file

SEEDS, NOISE = 9, 1e-6
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)


def load(folder, case, seed=0):
    eager = None if "timm" in folder else "eager"
    model = getattr(transformers, case["class"]).from_pretrained(
        f"{folder}/model", attn_implementation=eager, dtype=torch.float32)
    if seed:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + NOISE * torch.randn(parameter.shape, generator=generator))
    return model


def forward(model, inputs, bf16):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        return model(**inputs)


def deviation(got, expected, mask):
    got, expected = got.double(), expected.double()
    if mask is not None and got.dim() >= 2 and got.shape[:2] == mask.shape:
        got, expected = got[mask == 1], expected[mask == 1]
    return float((got - expected).abs().max() / expected.abs().max().clamp(min=1e-30))


def gradients(model, inputs, bf16):
    forward(model, inputs, bf16).loss.backward()
    return {name: p.grad.double() for name, p in model.named_parameters() if p.grad is not None}


def curve(model, inputs, bf16, given):
    h, still = given["hyperparameters"], set(given["no_decay"])
    model.train()
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = [{"params": [p for n, p in named if n not in still], "weight_decay": h["weight_decay"]},
              {"params": [p for n, p in named if n in still], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=h["learning_rate"], betas=h["betas"], eps=h["eps"])
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, h["num_warmup_steps"], h["num_training_steps"])
    losses = []
    for _ in range(h["num_training_steps"]):
        loss = forward(model, inputs, bf16).loss
        losses.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), h["max_grad_norm"])
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return losses


def measure(folder, case):
    inputs = load_file(f"{folder}/inputs.safetensors")
    mask = inputs.get("attention_mask")
    inputs.update(case.get("forward_kwargs", {}))
    result = {"outputs": {}}

    def keep(place, name, value):
        place[name] = float(f"{max(value, place.get(name, 0)):.3g}")

    exact = forward(load(folder, case).eval(), inputs, False)
    grads = gradients(load(folder, case).eval(), inputs, False) if os.path.exists(f"{folder}/grads.safetensors") else {}
    given = json.load(open(f"{folder}/train.json")) if os.path.exists(f"{folder}/train.json") else None
    losses = curve(load(folder, case), inputs, False, given) if given else []
    for seed in range(SEEDS):
        got = forward(load(folder, case, seed).eval(), inputs, True)
        for stored in load_file(f"{folder}/expected.safetensors"):
            name = stored.split(" [")[0]  # of a sampled tensor too
            if isinstance(exact.get(name), torch.Tensor):
                keep(result["outputs"], name, deviation(got[name], exact[name], mask))
        if grads:
            mine = gradients(load(folder, case, seed).eval(), inputs, True)
            top = max(float(v.abs().max()) for v in grads.values())
            keep(result, "gradients", max(float((mine[n] - grads[n]).abs().max()) for n in grads) / top)
        if losses:
            mine = curve(load(folder, case, seed), inputs, True, given)
            keep(result, "losses", max(abs(p - q) for p, q in zip(mine, losses)) / max(map(abs, losses)))
    return result


golden = sys.argv[1]
lines = []
for name in sys.argv[2:] or sorted(os.listdir(golden)):
    folder = f"{golden}/{name}"
    if not all(os.path.exists(f"{folder}/{f}") for f in ("case.json", "inputs.safetensors", "expected.safetensors")):
        continue
    case = json.load(open(f"{folder}/case.json"))
    try:
        lines.append(f' "{name}": {json.dumps(measure(folder, case))}')
        print(lines[-1], file=sys.stderr)
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        print(f"{name}: {error}", file=sys.stderr)
print("{\n" + ",\n".join(lines) + "\n}")
