# SPDX-License-Identifier: Apache-2.0
"""Runs of TRL's trainers of preferences and rewards, each in float32 and in float64: how far they are apart says how
far another implementation may be.

Run by itself, under torchrun, it makes one run of several processes (see `in_processes`).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import datasets
import peft
import torch
import transformers
import trl
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

from common import write_json, write_lines
from random_models import draw_weights
from sft import say
from trainers import QUIET, history_of

PREFERENCES = [
    ("What is the capital of France?", "Paris is the capital of France.", "I think it is Lyon."),
    ("Count to five.", "1, 2, 3, 4, 5", "1, 2, 3, 5, 4 and so on"),
    ("Who wrote Hamlet?", "William Shakespeare wrote it.", "Nobody knows."),
    ("Say hello in German.", "Hallo! 👋", "Bonjour"),
    ("Is the sun a star?", "Yes. It is the star that is nearest to us.", "No, it is a lamp."),
    ("What is 12 times 12?", "144", "It is 122, or about that."),
    ("Name a prime between 20 and 30.", "23, and 29 too.", "21"),
    ("What is water made of?", "Hydrogen and oxygen: H₂O.", "Of water."),
    ("Which planet is the largest?", "Jupiter", "The largest of the planets is Saturn, with its rings."),
    ("Translate 'gâteau'.", "cake", "gate"),
    ("Is ice lighter than water?", "Yes, and so it floats.", "It sinks."),
    ("How many legs has a spider?", "Eight.", "Six, as all insects."),
]


def pairs_of_chats(implicit):
    rows = []
    for i, (question, chosen, rejected) in enumerate(PREFERENCES):
        prompt = ([say("system", "You are brief.")] if i % 3 == 0 else []) + [say("user", question)]
        chosen, rejected = [say("assistant", chosen)], [say("assistant", rejected)]
        rows.append(
            dict(chosen=prompt + chosen, rejected=prompt + rejected)
            if implicit
            else dict(prompt=prompt, chosen=chosen, rejected=rejected)
        )
    return rows


def unpaired(rows):
    """Two thirds of the chosen answers, and all of the rejected ones, one behind the other."""
    result = []
    for i, row in enumerate(rows):
        if i % 3 != 2:
            result.append(dict(prompt=row["prompt"], completion=row["chosen"], label=True))
        result.append(dict(prompt=row["prompt"], completion=row["rejected"], label=False))
    return result


TEXTS = [dict(prompt=q, chosen=" " + a, rejected=" " + b) for q, a, b in PREFERENCES]
ROWS = {
    "chats": pairs_of_chats(False),
    "chats-implicit": pairs_of_chats(True),
    "texts": TEXTS,
    "texts-implicit": [dict(chosen=q + " " + a, rejected=q + " " + b) for q, a, b in PREFERENCES],
    "texts-margin": [row | dict(margin=0.25 * (i % 4)) for i, row in enumerate(TEXTS)],
    "answers": unpaired(pairs_of_chats(False)),
    "text-answers": unpaired(TEXTS),
}
TRAINERS = {
    "dpo": (trl.DPOTrainer, trl.DPOConfig),
    "kto": (trl.KTOTrainer, trl.KTOConfig),
    "reward": (trl.RewardTrainer, trl.RewardConfig),
    "orpo": (ORPOTrainer, ORPOConfig),
    "cpo": (CPOTrainer, CPOConfig),
}
BASE = dict(
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    learning_rate=1e-3,
    max_steps=10,
    logging_steps=1,
    seed=42,
    lr_scheduler_type="linear",
)
EVALUATED = dict(eval_strategy="steps", eval_steps=5)
ACCUMULATED = dict(per_device_train_batch_size=2, gradient_accumulation_steps=3)
LORA = dict(use_peft=True, lora_r=4, lora_alpha=8, lora_dropout=0.0)

# task, rows, model, arguments
CASES = {
    "dpo": ("dpo", "chats", "qwen2", EVALUATED),
    "dpo-implicit": ("dpo", "chats-implicit", "qwen2", {}),
    "dpo-texts": ("dpo", "texts", "gpt2", {}),
    "dpo-texts-implicit": ("dpo", "texts-implicit", "gpt2", {}),
    "dpo-cut": ("dpo", "chats", "qwen2", dict(max_length=36)),
    "dpo-accumulated": ("dpo", "chats", "qwen2", ACCUMULATED),
    "dpo-precomputed": ("dpo", "chats", "qwen2", dict(precompute_ref_log_probs=True, **EVALUATED)),
    "dpo-synced": (
        "dpo",
        "chats",
        "qwen2",
        dict(sync_ref_model=True, ref_model_sync_steps=3, ref_model_mixup_alpha=0.6),
    ),
    "dpo-lora": ("dpo", "chats", "qwen2", LORA),
    "dpo-lora-again": ("dpo", "chats", "qwen2", LORA),
    "dpo-two-processes": ("dpo", "chats", "qwen2", dict(per_device_train_batch_size=2, **EVALUATED)),
    "dpo-hinge": ("dpo", "chats", "qwen2", dict(loss_type=["hinge"], beta=0.5)),
    "dpo-ipo": ("dpo", "chats", "qwen2", dict(loss_type=["ipo"])),
    "dpo-exo-pair": ("dpo", "chats", "qwen2", dict(loss_type=["exo_pair"], label_smoothing=1e-3)),
    "dpo-nca-pair": ("dpo", "chats", "qwen2", dict(loss_type=["nca_pair"])),
    "dpo-robust": ("dpo", "chats", "qwen2", dict(loss_type=["robust"], label_smoothing=0.1)),
    "dpo-bco-pair": ("dpo", "chats", "qwen2", dict(loss_type=["bco_pair"])),
    "dpo-sppo-hard": ("dpo", "chats", "qwen2", dict(loss_type=["sppo_hard"])),
    "dpo-aot": ("dpo", "chats", "qwen2", dict(loss_type=["aot"], label_smoothing=0.1)),
    "dpo-aot-unpaired": ("dpo", "chats", "qwen2", dict(loss_type=["aot_unpaired"])),
    "dpo-apo-zero": ("dpo", "chats", "qwen2", dict(loss_type=["apo_zero"])),
    "dpo-apo-down": ("dpo", "chats", "qwen2", dict(loss_type=["apo_down"])),
    "dpo-discopop": ("dpo", "chats", "qwen2", dict(loss_type=["discopop"], discopop_tau=0.1)),
    "dpo-sft": ("dpo", "chats", "qwen2", dict(loss_type=["sft"])),
    "dpo-sigmoid-norm": ("dpo", "chats", "qwen2", dict(loss_type=["sigmoid_norm"], beta=2.0)),
    "dpo-several": (
        "dpo",
        "chats",
        "qwen2",
        dict(loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0]),
    ),
    "dpo-forward-kl": ("dpo", "chats", "qwen2", dict(f_divergence_type="forward_kl")),
    "dpo-js": ("dpo", "chats", "qwen2", dict(f_divergence_type="js_divergence")),
    "dpo-weighted": ("dpo", "chats", "qwen2", dict(use_weighting=True)),
    "dpo-length": ("dpo", "chats", "qwen2", dict(ld_alpha=0.5)),
    "kto": ("kto", "answers", "qwen2", EVALUATED),
    "kto-texts": ("kto", "text-answers", "gpt2", dict(desirable_weight=1.3, undesirable_weight=0.9)),
    "kto-pairs": ("kto", "chats", "qwen2", {}),
    "kto-accumulated": ("kto", "answers", "qwen2", ACCUMULATED),
    "kto-precomputed": ("kto", "answers", "qwen2", dict(precompute_ref_log_probs=True, **EVALUATED)),
    "kto-lora": ("kto", "answers", "qwen2", LORA),
    "kto-apo-zero-unpaired": (
        "kto",
        "answers",
        "qwen2",
        dict(loss_type="apo_zero_unpaired", train_sampling_strategy="random"),
    ),
    "kto-two-processes": ("kto", "answers", "qwen2", dict(per_device_train_batch_size=2)),
    "reward": ("reward", "chats", "qwen2-reward", EVALUATED),
    "reward-implicit": ("reward", "chats-implicit", "qwen2-reward", {}),
    "reward-margin": ("reward", "texts-margin", "qwen2-reward", dict(center_rewards_coefficient=0.01)),
    "reward-accumulated": ("reward", "chats", "qwen2-reward", ACCUMULATED),
    "reward-two-processes": ("reward", "chats", "qwen2-reward", dict(per_device_train_batch_size=2)),
    "orpo": ("orpo", "chats", "qwen2", EVALUATED),
    "orpo-texts": ("orpo", "texts", "gpt2", {}),
    "cpo": ("cpo", "chats", "qwen2", EVALUATED),
    "cpo-texts": ("cpo", "texts-implicit", "gpt2", dict(label_smoothing=0.1)),
    "cpo-hinge": ("cpo", "chats", "qwen2", dict(loss_type="hinge")),
    "cpo-ipo": ("cpo", "chats", "qwen2", dict(loss_type="ipo", cpo_alpha=0.5)),
    "cpo-simpo": ("cpo", "chats", "qwen2", dict(loss_type="simpo", cpo_alpha=0.0, beta=2.0, simpo_gamma=1.0)),
    "cpo-alphapo": ("cpo", "chats", "qwen2", dict(loss_type="alphapo", alpha=0.25, beta=2.0)),
}
# The tokens of whose rows are kept.
SAMPLES = [
    "dpo", "dpo-implicit", "dpo-texts", "dpo-texts-implicit", "kto", "kto-texts", "kto-pairs", "reward",
    "reward-implicit", "reward-margin", "orpo", "orpo-texts", "cpo", "cpo-texts",
]  # fmt: skip
TOKENS = [
    "prompt_ids", "chosen_ids", "rejected_ids", "completion_ids", "KL_completion_ids", "label", "margin",
    "chosen_input_ids", "chosen_labels", "rejected_input_ids", "rejected_labels",
]  # fmt: skip


def folder_of(model, out):
    return out / "qwen2-reward" / "model" if model == "qwen2-reward" else out.parent / "sft" / model / "model"


def adapters_of(model, dtype, again):
    """The model with new adapters, or with some that are trained already."""
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, task_type="CAUSAL_LM"))
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_A" in name or (again and "lora_B" in name):
                drawn = torch.randn(parameter.shape, generator=generator) * (0.2 if "lora_A" in name else 0.1)
                parameter.copy_(drawn.to(dtype))
    return wrapped


def evaluated_rows(name):
    """Those of several processes fill whole rounds: TRL's measures count rows twice that only fill one up."""
    return 8 if name.endswith("-two-processes") else 6


def run(name, dtype, out, work):
    """The log of one run, its samples, and the adapters that it began with."""
    task, rows, family, more = CASES[name]
    start = folder_of(family, out)
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    loaded = dict(attn_implementation="eager", dtype=dtype)
    if task == "reward":
        model = transformers.AutoModelForSequenceClassification.from_pretrained(start, **loaded)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(start, **loaded)
    trainer, config = TRAINERS[task]
    arguments = BASE | more
    adapted = arguments.pop("use_peft", False)
    for key in [key for key in arguments if key.startswith("lora_")]:
        arguments.pop(key)
    if adapted:
        model = adapters_of(model, dtype, name.endswith("-again"))
        model.save_pretrained(work / "adapters")
    reference = {}
    if adapted and not name.endswith("-again"):
        # New adapters: the reference is the model without them. A PeftModel without a reference would get a copy.
        reference = dict(ref_model=transformers.AutoModelForCausalLM.from_pretrained(start, **loaded))
    made = trainer(
        model=model,
        **reference,
        args=config(
            **arguments,
            output_dir=str(work / "out"),
            **QUIET,
        ),
        train_dataset=datasets.Dataset.from_list(ROWS[rows]),
        eval_dataset=datasets.Dataset.from_list(ROWS[rows][: evaluated_rows(name)]) if "eval_strategy" in arguments else None,
        processing_class=tokenizer,
    )
    samples = [{key: row[key] for key in TOKENS if key in row} for row in made.train_dataset]
    history = history_of(made)
    return history, samples


def in_processes(name, dtype, out):
    """The same by two processes."""
    with tempfile.TemporaryDirectory() as work:
        result = pathlib.Path(work) / "result.json"
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", __file__,
             name, str(dtype).removeprefix("torch."), str(out), str(result)],
            check=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )  # fmt: skip
        return json.loads(result.read_text())


def logged(name, dtype, out):
    if name.endswith("-two-processes"):
        return *in_processes(name, dtype, out), None
    with tempfile.TemporaryDirectory() as work:
        history, samples = run(name, dtype, out, pathlib.Path(work))
        adapters = pathlib.Path(work) / "adapters"
        kept = {file.name: file.read_bytes() for file in adapters.iterdir()} if adapters.exists() else None
        return history, samples, kept


def make_case(name, out):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    task, rows, family, more = CASES[name]
    history, samples, adapters = logged(name, torch.float32, out)
    exact, _, _ = logged(name, torch.float64, out)
    distances = {}
    for record, other in zip(history, exact, strict=True):
        for key, value in record.items():
            distances[key] = max(distances.get(key, 0.0), abs(value - other[key]))
    write_json(folder / "log_history.json", history)
    arguments = BASE | more
    start = f"../../sft/{family}/model" if family != "qwen2-reward" else "../qwen2-reward/model"
    if adapters:
        start = "adapters"
        (folder / start).mkdir(parents=True)
        config = json.loads(adapters["adapter_config.json"])
        config["base_model_name_or_path"] = f"../../../sft/{family}/model"
        write_json(folder / start / "adapter_config.json", config)
        (folder / start / "adapter_model.safetensors").write_bytes(adapters["adapter_model.safetensors"])
        arguments = {key: value for key, value in arguments.items() if not key.startswith(("lora", "use_peft"))}
    write_json(folder / "training_args.json", arguments)
    if name in SAMPLES:
        write_lines(folder / "samples.jsonl", samples)
    about = {"name": name, "task": task, "start": start, "rows": f"../rows/{rows}.jsonl", "distances": distances}
    if "eval_strategy" in arguments:
        about["evaluated_rows"] = evaluated_rows(name)
    if name.endswith("-two-processes"):
        about["processes"] = 2
    write_json(folder / "case.json", about)


def make_reward_model(out):
    folder = out / "qwen2-reward" / "model"
    shutil.rmtree(folder, ignore_errors=True)
    start = out.parent / "sft" / "qwen2" / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    config = transformers.AutoConfig.from_pretrained(start)
    config.num_labels = 1
    model = transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
    draw_weights(model, "preferences-reward", False)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make(out, names=()):
    out = out / "preferences"
    for name, rows in ROWS.items():
        write_lines(out / "rows" / f"{name}.jsonl", rows)
    make_reward_model(out)
    for name in names or CASES:
        make_case(name, out)


if __name__ == "__main__":
    case, type_name, golden, target = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        found, tokens = run(case, getattr(torch, type_name), pathlib.Path(golden), pathlib.Path(temporary))
    if int(os.environ["RANK"]) == 0:
        pathlib.Path(target).write_text(json.dumps([found, tokens]))
