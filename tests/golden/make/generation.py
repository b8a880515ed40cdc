# SPDX-License-Identifier: Apache-2.0
"""Runs of generate() whose ids do not hang on the last bits: greedy, beams, penalties, ends."""

import copy
import inspect
import json

import torch

import questions
import vision_language
from common import generator, rounded, write_json

PROMPTS = ["The licence", "You may copy and modify"]
WORDLESS = [[17, 42, 8, 23], [31, 9, 55, 12, 40, 6, 28]]  # the same for a model without a tokenizer
WORDLESS_PLANS = ("greedy_batch", "beam4_short_eos", "repetition_penalty", "embeddings")
NEW = 16


def inputs_of(model, tokenizer, rows, name=None):
    if questions.is_own(model):
        return questions.prompts_of(rows)
    if model.main_input_name == "input_features":
        return {"input_features": f"inputs.safetensors:input_features[{rows.start}:{rows.stop}]"}
    if model.main_input_name == "pixel_values":
        return {"pixel_values": f"inputs.safetensors:pixel_values[{rows.start}:{rows.stop}]"}
    if hasattr(model.config, "vision_config"):
        return vision_language.prompts_of(model, tokenizer, rows, name)
    if tokenizer is None:
        longest = max(len(ids) for ids in WORDLESS[rows])
        pad = getattr(model.config, "pad_token_id", None) or 0
        missing = [longest - len(ids) for ids in WORDLESS[rows]]
        return {
            "input_ids": [[pad] * more + ids for more, ids in zip(missing, WORDLESS[rows])],
            "attention_mask": [[0] * more + [1] * len(ids) for more, ids in zip(missing, WORDLESS[rows])],
        }
    tokenizer.padding_side = "right" if model.config.is_encoder_decoder else "left"
    made = tokenizer(PROMPTS[rows], padding=True, return_tensors="pt")
    return {"input_ids": made["input_ids"].tolist(), "attention_mask": made["attention_mask"].tolist()}


def embeddings_of(model, inputs, name, folder):
    """The prompts as embeddings that are those of no tokens, in a file beside the case."""
    from safetensors.torch import save_file

    with torch.no_grad():
        rows = model.get_input_embeddings()(torch.tensor(inputs["input_ids"])).float()
    noise = torch.empty(rows.shape).normal_(generator=generator("embeddings of " + name))
    save_file({"inputs_embeds": (rows + 0.3 * rows.std() * noise).contiguous()}, folder / "embeddings.safetensors")
    place = f"embeddings.safetensors:inputs_embeds[0:{len(rows)}]"
    return {"inputs_embeds": place, "attention_mask": inputs["attention_mask"]}


def tensors_of(inputs, folder, dtype):
    from safetensors.torch import load_file

    made = {}
    for key, value in inputs.items():
        if isinstance(value, str):
            file, place = value.split(":", 1)
            begin, end = place[place.index("[") + 1 : -1].split(":")
            made[key] = load_file(folder / file)[key][int(begin) : int(end)].to(dtype)
        else:
            made[key] = torch.tensor(value)
    return made


def noisy(model, name):
    """The model with weights that differ by two millionths."""
    other, random = copy.deepcopy(model), generator("noise of " + name)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1 + 2e-6 * torch.empty(parameter.shape).normal_(generator=random))
    return other


def run(model, inputs, folder, kwargs):
    dtype = next(model.parameters()).dtype
    whole = {"num_return_sequences": 1, **kwargs}
    generate = type(model).generate
    if model.main_input_name == "input_features":  # without Whisper's own rules
        from transformers import GenerationMixin

        generate = GenerationMixin.generate
    with torch.no_grad():
        return generate(
            model, **tensors_of(inputs, folder, dtype), return_dict_in_generate=True, output_scores=True, **whole
        )


def make_runs(model, tokenizer, name, folder, only=None):
    """Writes generate.json; with `only`, those of its runs that begin so, beside the others that it has."""
    model = model.eval()
    both, first, second = slice(0, 2), slice(0, 1), slice(1, 2)
    greedy = dict(do_sample=False, max_new_tokens=NEW)
    probe = run(model, inputs_of(model, tokenizer, both, name), folder, greedy).sequences[0]
    start = 1 if model.config.is_encoder_decoder else probe.shape[0] - NEW
    end = int(probe[min(start + 6, len(probe) - 1)])  # a token that comes
    plans = [
        ("greedy_a", first, {}),
        ("greedy_b", second, {}),
        ("greedy_batch", both, {}),
        ("beam4", both, dict(num_beams=4, length_penalty=1.0, early_stopping=False)),
        ("beam4_early", both, dict(num_beams=4, length_penalty=2.0, early_stopping=True, num_return_sequences=2)),
        ("beam4_short_eos", both, dict(num_beams=4, length_penalty=0.5, early_stopping=True, eos_token_id=end)),
        ("repetition_penalty", both, dict(repetition_penalty=1.3)),
        ("no_repeat_ngram", both, dict(no_repeat_ngram_size=2)),
        ("beam3_no_repeat", both, dict(num_beams=3, no_repeat_ngram_size=2, repetition_penalty=1.1)),
        ("greedy_eos", both, dict(eos_token_id=end)),
        ("greedy_min_length", both, dict(min_new_tokens=10, eos_token_id=end)),
    ]
    plans = [(title, inputs_of(model, tokenizer, rows, name), kwargs) for title, rows, kwargs in plans]
    # Where rows say all that is read, and generate() gives them on.
    takes_rows = not getattr(model.config, "hidden_size_per_layer_input", 0)
    takes_rows &= "inputs_embeds" in inspect.signature(model.prepare_inputs_for_generation).parameters
    if takes_rows and not model.config.is_encoder_decoder and not hasattr(model.config, "vision_config"):
        embeddings = embeddings_of(model, inputs_of(model, tokenizer, both, name), name, folder)
        with_ids = inputs_of(model, tokenizer, both, name) | embeddings
        # Without padding: Transformers' repetition_penalty leaves out so many of the tokens that are written.
        unpadded = {key: value.replace("[0:", "[1:") if isinstance(value, str) else value[1:] for key, value in embeddings.items()}
        plans += [
            ("embeddings", embeddings, {}),
            ("embeddings_beam3", unpadded, dict(num_beams=3, repetition_penalty=1.2)),
            ("embeddings_min_length", embeddings, dict(max_new_tokens=None, max_length=24, min_length=20)),
            ("embeddings_with_ids", with_ids, dict(repetition_penalty=1.3)),
        ]
    if questions.is_own(model):
        plans = [plan for plan in plans if "eos_token_id" not in plan[2]]
    if tokenizer is None:
        plans = [plan for plan in plans if plan[0] in WORDLESS_PLANS]
    others, runs = [noisy(model, name), *([noisy(model, name + " again")] if tokenizer else [])], []
    exact = copy.deepcopy(model).double()  # with rows that begin with padding it gives NaN
    if only:
        plans = [plan for plan in plans if plan[0].startswith(only)]
        runs = [run for run in json.loads((folder / "generate.json").read_text())["runs"]]
        runs = [run for run in runs if not run["name"].startswith(only)]
    for title, inputs, kwargs in plans:
        kwargs = greedy | kwargs
        made = run(model, inputs, folder, kwargs)
        record = {"name": title, "inputs": inputs, "kwargs": kwargs, "sequences": made.sequences.tolist()}
        if getattr(made, "sequences_scores", None) is not None:
            record["sequences_scores"] = rounded(made.sequences_scores.tolist())
        padded = not model.config.is_encoder_decoder and any(0 in row for row in inputs["attention_mask"])
        if any(
            run(other, inputs, folder, kwargs).sequences.tolist() != record["sequences"]
            for other in [*others, *([] if padded or model.config.model_type == "xglm" else [exact])]
        ):
            record["unstable"] = True
        runs.append(record)
    write_json(folder / "generate.json", {"runs": runs})
