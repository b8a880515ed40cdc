# SPDX-License-Identifier: Apache-2.0
"""Runs of TRL's GRPOTrainer and RLOOTrainer, each in float32 and, on the completions of that run, in float64: how far
they are apart says how far another implementation may be. The completions are kept, so that another implementation
learns from the same."""

import json
import math
import pathlib
import re
import shutil
import tempfile

import datasets
import peft
import torch
import transformers
import trl
import trl.trainer.grpo_trainer
import trl.trainer.rloo_trainer
from trl.data_utils import maybe_apply_chat_template
from trl.experimental import online_dpo
from trl.experimental.online_dpo import online_dpo_trainer

from common import write_json, write_lines
from sft import say
from trainers import QUIET

QUESTIONS = [
    ("What is 2 plus 3?", "5"),
    ("Name a vowel.", "a"),
    ("Count to three.", "1, 2, 3"),
    ("Is the sun a star?", "yes"),
    ("What is 12 times 12?", "144"),
    ("Who wrote Hamlet?", ""),
    ("What is water made of?", "hydrogen and oxygen"),
    ("Which planet is the largest?", "Jupiter"),
]
ROWS = {
    "texts": [dict(prompt=question + " ", answer=answer) for question, answer in QUESTIONS],
    "chats": [
        dict(prompt=([say("system", "You are brief.")] if i % 3 == 0 else []) + [say("user", question)], answer=answer)
        for i, (question, answer) in enumerate(QUESTIONS)
    ],
}


def text_of(completion):
    return completion if isinstance(completion, str) else completion[0]["content"]


def length(completion_ids, **kwargs):
    """--reward_funcs length:8"""
    return [max(0.0, 1 - abs(len(ids) - 8) / 8) for ids in completion_ids]


def pattern(completions, **kwargs):
    """--reward_funcs pattern:[aeiou]"""
    return [1.0 if re.search("[aeiou]", text_of(completion)) else 0.0 for completion in completions]


def exact(completions, answer, **kwargs):
    """--reward_funcs exact:answer"""
    return [
        None if not right.strip() else 1.0 if text_of(completion).strip() == right.strip() else 0.0
        for completion, right in zip(completions, answer, strict=True)
    ]


def second_pattern(completions, **kwargs):
    """--reward_funcs pattern:[st]"""
    return [1.0 if re.search("[st]", text_of(completion)) else 0.0 for completion in completions]


REWARDS = {"length:8": length, "pattern:[aeiou]": pattern, "pattern:[st]": second_pattern, "exact:answer": exact}
ONLINE = dict(max_completion_length=12, learning_rate=2e-3, logging_steps=1, seed=42, lr_scheduler_type="linear",
              per_device_train_batch_size=4, max_steps=6, reward_funcs=["pattern:[aeiou]", "pattern:[st]"])
# Numbers of the log in which TRL counts the padding behind a completion, too.
PADDED = ("objective/kl", "objective/entropy", "objective/non_score_reward", "objective/rlhf_reward")
TRAINERS = {"grpo": (trl.GRPOTrainer, trl.GRPOConfig), "rloo": (trl.RLOOTrainer, trl.RLOOConfig)}
BASE = dict(
    per_device_train_batch_size=8,
    num_generations=4,
    max_completion_length=12,
    learning_rate=2e-3,
    max_steps=10,
    logging_steps=1,
    seed=42,
    lr_scheduler_type="linear",
    reward_funcs=["length:8", "pattern:[aeiou]"],
)
# Completions are learnt from after the policy has moved.
REUSED = dict(num_iterations=2, steps_per_generation=2, per_device_train_batch_size=4, learning_rate=5e-3)
# The completions were written by something that is not quite the policy, as with vLLM, whose log probabilities are kept.
OTHERWISE = dict(use_vllm=True, **REUSED)
LORA = dict(use_peft=True, lora_r=4, lora_alpha=8, lora_dropout=0.0)

# task, rows, arguments
CASES = {
    "grpo": ("grpo", "texts", {}),
    "grpo-chats": ("grpo", "chats", dict(beta=0.04)),
    "grpo-of-rows": ("grpo", "texts", dict(loss_type="grpo", beta=0.04, **REUSED)),
    "grpo-bnpo": ("grpo", "texts", dict(loss_type="bnpo", epsilon=0.1, epsilon_high=0.28, **REUSED)),
    "grpo-dr": ("grpo", "texts", dict(loss_type="dr_grpo", scale_rewards="none", **REUSED)),
    "grpo-dapo": ("grpo", "texts", dict(epsilon_high=0.28, mask_truncated_completions=True, **REUSED)),
    "grpo-luspo": ("grpo", "texts", dict(loss_type="luspo", importance_sampling_level="sequence", **REUSED)),
    "grpo-cispo": ("grpo", "texts", dict(loss_type="cispo", epsilon_high=1.05, **REUSED)),
    "grpo-sapo": ("grpo", "texts", dict(loss_type="sapo", **REUSED)),
    "grpo-vespo": ("grpo", "texts", dict(loss_type="vespo", **REUSED)),
    "grpo-sequence": ("grpo", "texts", dict(loss_type="grpo", importance_sampling_level="sequence", epsilon=0.01, **REUSED)),
    "grpo-delta": ("grpo", "texts", dict(delta=1.3, use_bias_correction_kl=False, beta=0.1, **REUSED)),
    "grpo-near": ("grpo", "texts", dict(off_policy_mask_threshold=0.001, **REUSED)),
    "grpo-corrected": ("grpo", "texts", dict(mask_truncated_completions=True, off_policy_mask_threshold=0.02, **OTHERWISE)),
    "grpo-corrected-tokens": (
        "grpo",
        "texts",
        dict(
            vllm_importance_sampling_mode="token_truncate",
            vllm_importance_sampling_clip_max=1.1,
            vllm_importance_sampling_clip_min=0.95,
            importance_sampling_level="sequence",
            loss_type="grpo",
            beta=0.04,
            **OTHERWISE,
        ),
    ),
    "grpo-corrected-vespo": (
        "grpo",
        "texts",
        dict(loss_type="vespo", vllm_importance_sampling_mode="token_mask", vllm_importance_sampling_clip_max=1.15, **OTHERWISE),
    ),
    "grpo-entropy": ("grpo", "texts", dict(entropy_coef=0.05, **REUSED)),
    "grpo-warm": ("grpo", "texts", dict(temperature=0.7, beta=0.04)),
    "grpo-accumulated": ("grpo", "texts", dict(per_device_train_batch_size=4, gradient_accumulation_steps=2)),
    "grpo-batch": ("grpo", "texts", dict(scale_rewards="batch", reward_funcs=["exact:answer", "length:8"], num_generations=2)),
    "grpo-weighted": (
        "grpo",
        "texts",
        dict(reward_weights=[0.5, 2.0], multi_objective_aggregation="normalize_then_sum"),
    ),
    "grpo-model": ("grpo", "chats", dict(reward_funcs=["model:../../preferences/qwen2-reward/model", "length:8"])),
    "grpo-lora": ("grpo", "texts", dict(beta=0.1, **LORA)),
    "grpo-synced": ("grpo", "texts", dict(beta=0.1, sync_ref_model=True, ref_model_sync_steps=3)),
    "rloo": ("rloo", "texts", {}),
    "rloo-chats": ("rloo", "chats", dict(normalize_advantages=True, reward_clip_range=[-0.5, 0.9])),
    "rloo-reused": ("rloo", "texts", dict(beta=0.1, epsilon=0.1, mask_truncated_completions=True, **REUSED)),
    "online-dpo": ("online-dpo", "texts", {}),
    # All completions have one length.
    "online-dpo-ipo": ("online-dpo", "chats", dict(loss_type="ipo", beta=0.2, reward_weights=[0.5, 2.0], min_new_tokens=12)),
    "online-dpo-lora": ("online-dpo", "texts", LORA),
    "rloo-accumulated": ("rloo", "texts", dict(per_device_train_batch_size=4, gradient_accumulation_steps=2)),
}


class RecordedPairs:
    """The same of OnlineDPOTrainer, whose completions are two of each prompt; kept with those of a prompt together."""

    def __init__(self, trainer, kept, seed, logprobs):
        self.kept, self.given, self.taken = [], kept, 0

    def __enter__(self):
        self.generate, recorded = online_dpo.OnlineDPOTrainer._generate, self
        online_dpo_trainer.round = lambda value, digits: value

        def generate(trainer, model, prompts, images=None):
            count = len(prompts)
            if recorded.given is None:
                ids, mask, made, made_mask, more = recorded.generate(trainer, model, prompts, images)
                texts = [row[keep.bool()].tolist() for row, keep in zip(made, made_mask)]
                for i in range(count):
                    recorded.kept += [dict(completion_ids=texts[j]) for j in (i, count + i)]
            else:
                said = [maybe_apply_chat_template({"prompt": each}, trainer.processing_class)["prompt"] for each in prompts]
                read = trainer.processing_class(
                    text=said, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False
                )
                ids, mask, more = read["input_ids"].repeat(2, 1), read["attention_mask"].repeat(2, 1), None
                part = [each["completion_ids"] for each in recorded.given[recorded.taken : recorded.taken + 2 * count]]
                recorded.taken += 2 * count
                texts = part[0::2] + part[1::2]
                width = max(map(len, texts))
                made = torch.full((2 * count, width), trainer._tokenizer.pad_token_id)
                made_mask = torch.zeros(2 * count, width, dtype=mask.dtype)
                for row, text in enumerate(texts):
                    made[row, : len(text)] = torch.tensor(text)
                    made_mask[row, : len(text)] = 1
            return ids, mask, made, made_mask, more

        online_dpo.OnlineDPOTrainer._generate = generate
        return self

    def __exit__(self, *error):
        online_dpo.OnlineDPOTrainer._generate = self.generate


def written_logprobs(trainer, prompts, completions, first):
    """Log probabilities of the tokens as they were written: those of the policy, and a little more or less."""
    lists = []
    for number, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        with torch.no_grad():
            logits = trainer.model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        logs = torch.log_softmax(logits / trainer.temperature, -1)
        own = logs.gather(-1, torch.tensor(completion)[:, None])[:, 0].tolist()
        lists.append(
            [round(min(x + 0.1 * math.sin(7 * (first + number) + 3 * i), 0.0), 6) for i, x in enumerate(own)]
        )
    return lists


class Recorded:
    """While it lives, a trainer's completions are kept, or are those that were kept; and its batches are drawn by a
    generator of their own, which another implementation can have."""

    def __init__(self, trainer, kept, seed, logprobs):
        self.trainer, self.kept, self.given, self.seed, self.shuffles = trainer, [], kept, seed, 0
        self.taken, self.logprobs = 0, logprobs

    def __enter__(self):
        self.generate = self.trainer._generate_single_turn
        self.shuffle = trl.trainer.grpo_trainer.shuffle_sequence_dict
        recorded = self

        def generate(trainer, *args, **kwargs):
            logs = None
            if recorded.given is None:
                corrects, trainer.use_vllm = trainer.use_vllm, False
                made = recorded.generate(trainer, *args, **kwargs)
                trainer.use_vllm = corrects
                ids = made[0] if isinstance(made, tuple) else made
                if recorded.logprobs:
                    logs = written_logprobs(trainer, args[0], ids, len(recorded.kept))
            else:
                part = recorded.given[recorded.taken : recorded.taken + len(args[0])]
                recorded.taken += len(part)
                ids = [each["completion_ids"] for each in part]
                if recorded.logprobs:
                    logs = [each["logprobs"] for each in part]
            for i, each in enumerate(ids):
                recorded.kept.append(dict(completion_ids=each) | (dict(logprobs=logs[i]) if logs else {}))
            return ids if isinstance(trainer, trl.RLOOTrainer) else (ids, logs)

        def shuffle(values):
            generator = torch.Generator().manual_seed(recorded.seed + recorded.shuffles)
            recorded.shuffles += 1
            drawn = torch.randperm
            torch.randperm = lambda count: drawn(count, generator=generator)
            try:
                return recorded.shuffle(values)
            finally:
                torch.randperm = drawn

        self.trainer._generate_single_turn = generate
        for module in (trl.trainer.grpo_trainer, trl.trainer.rloo_trainer):
            module.shuffle_sequence_dict = shuffle
        return self

    def __exit__(self, *error):
        self.trainer._generate_single_turn = self.generate
        for module in (trl.trainer.grpo_trainer, trl.trainer.rloo_trainer):
            module.shuffle_sequence_dict = self.shuffle


def adapters_of(model, dtype):
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, task_type="CAUSAL_LM"))
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_A" in name:
                parameter.copy_((torch.randn(parameter.shape, generator=generator) * 0.2).to(dtype))
    return wrapped


def run(name, dtype, out, work, completions):
    """The log of one run, its completions, and the adapters that it began with."""
    task, rows, more = CASES[name]
    start = out.parent / "sft" / "qwen2" / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    # Eager attention rounds a row that is all padding to float32, where the mask of float64 is infinite.
    loaded = dict(attn_implementation="eager" if dtype == torch.float32 else "sdpa", dtype=dtype)
    model = transformers.AutoModelForCausalLM.from_pretrained(start, **loaded)
    is_online = task == "online-dpo"
    trainer, config = (online_dpo.OnlineDPOTrainer, online_dpo.OnlineDPOConfig) if is_online else TRAINERS[task]
    arguments = (ONLINE if is_online else BASE) | more
    adapted = arguments.pop("use_peft", False)
    arguments = {key: value for key, value in arguments.items() if not key.startswith("lora_")}
    if adapted:
        model = adapters_of(model, dtype)
        model.save_pretrained(work / "adapters")
    rewards = [
        transformers.AutoModelForSequenceClassification.from_pretrained(
            out.parent / "preferences" / "qwen2-reward" / "model", **loaded
        )
        if reward.startswith("model:")
        else REWARDS[reward]
        for reward in arguments.pop("reward_funcs")
    ]
    # A text ends now and then.
    drawn = dict(sequence_bias=[[[tokenizer.eos_token_id], 3.0]])
    if is_online:
        arguments["max_new_tokens"] = arguments.pop("max_completion_length")
        drawn |= {key: arguments.pop(key) for key in ("min_new_tokens",) if key in arguments}
    corrects = arguments.pop("use_vllm", False)
    torch.set_default_dtype(dtype)  # of rewards and advantages, too
    with (RecordedPairs if is_online else Recorded)(trainer, completions, arguments["seed"], corrects) as recorded:
        made = trainer(
            model=model,
            reward_funcs=rewards,
            args=config(
                **arguments,
                generation_kwargs=drawn,
                output_dir=str(work / "out"),
                **QUIET,
            ),
            train_dataset=datasets.Dataset.from_list(ROWS[rows]),
            processing_class=tokenizer,
        )
        made.use_vllm = corrects  # whose completions are those that are recorded
        made.remove_callback(transformers.PrinterCallback)
        made.train()
    torch.set_default_dtype(torch.float32)
    unwanted = ("_runtime", "_per_second", "total_flos", "step_time")
    if is_online and "min_new_tokens" not in more:
        unwanted += PADDED
    history = [
        {key: value for key, value in record.items() if not key.endswith(unwanted) and value is not None}
        for record in made.state.log_history
    ]
    return history, recorded.kept


def make_case(name, out):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    task, rows, more = CASES[name]
    adapters = None
    with tempfile.TemporaryDirectory() as work:
        history, completions = run(name, torch.float32, out, pathlib.Path(work), None)
        if (pathlib.Path(work) / "adapters").exists():
            adapters = {file.name: file.read_bytes() for file in (pathlib.Path(work) / "adapters").iterdir()}
    with tempfile.TemporaryDirectory() as work:
        exact_history, _ = run(name, torch.float64, out, pathlib.Path(work), completions)
    distances = {}
    for record, other in zip(history, exact_history, strict=True):
        for key, value in record.items():
            distances[key] = max(distances.get(key, 0.0), abs(value - other[key]))
    write_json(folder / "log_history.json", history)
    write_lines(folder / "completions.jsonl", completions)
    arguments = (ONLINE if task == "online-dpo" else BASE) | more
    arguments.pop("min_new_tokens", None)
    start = "../../sft/qwen2/model"
    if adapters:
        start = "adapters"
        (folder / start).mkdir(parents=True)
        config = json.loads(adapters["adapter_config.json"])
        config["base_model_name_or_path"] = "../../../sft/qwen2/model"
        write_json(folder / start / "adapter_config.json", config)
        (folder / start / "adapter_model.safetensors").write_bytes(adapters["adapter_model.safetensors"])
        arguments = {key: value for key, value in arguments.items() if not key.startswith(("lora", "use_peft"))}
    if isinstance(arguments.get("loss_type"), str):
        arguments["loss_type"] = [arguments["loss_type"]]
    write_json(folder / "training_args.json", arguments)
    write_json(
        folder / "case.json",
        {"name": name, "task": task, "start": start, "rows": f"../rows/{rows}.jsonl", "distances": distances},
    )


def make(out, names=()):
    out = out / "policies"
    for name, rows in ROWS.items():
        write_lines(out / "rows" / f"{name}.jsonl", rows)
    for name in names or CASES:
        make_case(name, out)
