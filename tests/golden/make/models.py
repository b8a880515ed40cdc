# SPDX-License-Identifier: Apache-2.0
"""A model of random weights for every architecture, what it gives for one batch, its gradients and twenty updates."""

import contextlib
import copy
import json
import math
import pathlib
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

import captions
import detection
import dlrm
import generation
import speaking
import vision_language
from architectures import FAMILIES, STORED, TOKENIZERS
from batches import inputs_of
from common import HERE, rounded, seed_of, write_json
from random_models import config_of, draw_weights
from vocabularies import load, make_tokenizer_files

WRITERS = ("CausalLM", "LMHeadModel", "ConditionalGeneration", "MTModel", "EncoderDecoderModel", "BlipForQuestionAnswering")
STEPS, WARMUP, RATE = 20, 2, 1e-3
# While they train: codes, and what a head drops whatever the configuration says. Norms over two pictures tell little but
# signs, and the sharp cosines of Swin V2 turn at last bits: there curves in float32 and float64 part.
DRAWS = (
    "Wav2Vec2ForPreTraining",
    "DPTForSemanticSegmentation",
    "MobileNetV2ForImageClassification",
    "MobileNetV2ForSemanticSegmentation",
    "Swinv2ForImageClassification",
    "Swinv2ForMaskedImageModeling",
)


def kebab(class_name, family):
    """bert, BertForMaskedLM -> bert-masked-lm"""
    words, rest = "", class_name.split("For", 1)[1] if "For" in class_name else None
    if rest is None:
        tails = {
            "EncoderModel": "encoder-model",
            "LMHeadModel": "lm-head",
            "DoubleHeadsModel": "double-heads",
            "MTModel": "mt",
            "WithProjection": "with-projection",
            "Model": "model",
        }
        rest = next(tail for ending, tail in tails.items() if class_name.endswith(ending))
        return f"{family}-{rest}".replace("_", "-")
    for i, letter in enumerate(rest):
        if letter.isupper() and i and (not rest[i - 1].isupper() or (i + 1 < len(rest) and rest[i + 1].islower())):
            words += "-"
        words += letter.lower()
    return f"{family}-{words}".replace("_", "-")


def cases():
    """(name, family, class, whether it is a main one, what is special)"""
    for family_name, family in FAMILIES.items():
        mains = {class_name: (name, special) for name, (class_name, special) in family.main.items()}
        smalls = {class_name for class_name, _, _ in family.small.values()}
        for class_name in family.classes:
            if class_name in smalls and class_name not in mains:
                continue
            if class_name in mains:
                name, special = mains[class_name]
                yield name, family_name, class_name, True, special
            else:
                yield kebab(class_name, family_name.removesuffix("_model")), family_name, class_name, False, ""
        for name, (class_name, _, special) in family.more.items():
            yield name, family_name, class_name, True, special
        for name, (class_name, _, special) in family.small.items():
            yield name, family_name, class_name, False, special
    yield "dlrm", "dlrm", "DLRM_Net", True, dlrm.SPECIAL


# ---- what a model gives


def outputs_of(model, inputs, kwargs):
    made = model(**detection.arguments(inputs), **kwargs)
    if isinstance(made, torch.Tensor):  # a vocoder's
        return {"waveform": made}
    if isinstance(made, dict) and not hasattr(made, "to_tuple"):
        return made
    return {key: value for key, value in made.items() if isinstance(value, torch.Tensor)}


# Outputs of models for which Transformers has no loss: their gradients are those of the sum of the means.
OBJECTIVES = (
    ["predicted_depth"],
    ["logits", "pred_boxes"],
    ["pred_masks", "iou_scores"],
    ["waveform", "spectrogram"],
    ["waveform"],
)


def objectives_of(outputs):
    return next((names for names in OBJECTIVES if "loss" not in outputs and outputs.keys() >= set(names)), [])


def objective_of(outputs):
    return outputs["loss"] if "loss" in outputs else sum(outputs[name].mean() for name in objectives_of(outputs))


def as_double(inputs):
    return {key: value.double() if value.is_floating_point() else value for key, value in inputs.items()}


@contextlib.contextmanager
def in_double(family_name):
    """XGLM makes the lowest number of the scores' type as one of torch's own type."""
    if family_name == "xglm":
        torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def copy_of(model):
    return copy.deepcopy(model)


def stored_tensors(model, name, folder):
    """A model's tensors by the names that save_pretrained gives them."""
    model.save_pretrained(folder)
    if type(model).__name__ == "TimmWrapperForImageClassification":
        with_names_of_timm(folder)
    vision_language.rename_weights(name, folder)
    tensors = load_file(pathlib.Path(folder) / "model.safetensors")
    if type(model).__name__.startswith("Timm"):  # whose scales are called gamma
        return tensors
    # Some families are written with the names that norms had in TensorFlow.
    older = {".gamma": ".weight", ".beta": ".bias"}
    return {key[: key.rfind(".")] + older.get(key[key.rfind(".") :], key[key.rfind(".") :]): value for key, value in tensors.items()}


def with_names_of_timm(folder):
    """The names of files that timm writes; those of TimmWrapperModel keep the prefix of save_pretrained."""
    path = pathlib.Path(folder) / "model.safetensors"
    tensors = {key.removeprefix("timm_model."): value for key, value in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})


def gradients_of(model, name, inputs, kwargs):
    """By the names of the checkpoint: a copy whose weights are the gradients is saved. NaN: no gradient."""
    model = copy_of(model).eval()
    objective_of(outputs_of(model, inputs, kwargs)).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            gradient = parameter.grad
            parameter.copy_(torch.full_like(parameter, math.nan) if gradient is None else gradient)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.fill_(math.nan)
    with tempfile.TemporaryDirectory() as folder:
        if hasattr(model, "save_pretrained"):
            found = stored_tensors(model, name, folder)
        else:
            found = {key: value.detach().clone() for key, value in model.state_dict().items()}
    return {
        key: value.contiguous() for key, value in found.items() if value.is_floating_point() and not value.isnan().all()
    }


def tolerance_of(value, double):
    largest = float(value.abs().max()) if value.numel() else 0.0
    distance = float((value.double() - double).abs().max()) if value.numel() else 0.0
    return dict(atol=rounded_up(max(10 * distance, 5e-6 * largest, 1e-6)), rtol=1e-4, max_abs=rounded(largest, 4))


NORMS = 5e-3  # how far norms of a curve are apart, relatively, at most


def norms_apart(curve, exact):
    pairs = zip(curve["grad_norms_before_clipping"], exact["grad_norms_before_clipping"])
    return max(abs(found - true) / abs(true) for found, true in pairs)


def rounded_up(value):
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-12)):.3g}")


def train(model, inputs, kwargs):
    """Twenty updates of AdamW on the one batch."""
    model = copy_of(model).train()
    decay = transformers.Trainer.get_decay_parameter_names(None, model)
    named = [(key, parameter) for key, parameter in model.named_parameters() if parameter.requires_grad]
    groups = [
        dict(params=[p for key, p in named if key in decay], weight_decay=0.01),
        dict(params=[p for key, p in named if key not in decay], weight_decay=0.0),
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, WARMUP, STEPS)
    losses, norms, rates = [], [], []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        loss = outputs_of(model, inputs, kwargs)["loss"]
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        losses.append(float(loss))
        optimizer.step()
        schedule.step()
    record = {
        "hyperparameters": {
            "optimizer": "torch.optim.AdamW",
            "learning_rate": RATE,
            "betas": [0.9, 0.999],
            "eps": 1e-8,
            "weight_decay": 0.01,
            "schedule": "linear (get_linear_schedule_with_warmup)",
            "num_warmup_steps": WARMUP,
            "num_training_steps": STEPS,
            "max_grad_norm": 1.0,
        },
        "losses": losses,
        "grad_norms_before_clipping": norms,
        "learning_rates": rates,
        "no_decay": sorted(key for key, _ in named if key not in decay),
    }
    statistics = {
        key: {"sum": float(value.double().sum()), "l2": float(value.double().norm())}
        for key, value in model.named_buffers()
        if key.endswith(("running_mean", "running_var"))
    }
    if statistics:
        record["final_buffers"] = statistics
    return rounded(record)


# ---- cases


def implementations(family_name):
    if family_name == "timm_wrapper":
        return {}
    if family_name == "falcon":  # whose eager form adds its bias of positions twice: docs/differences.md
        return {"attn_implementation": "sdpa"}
    family = FAMILIES[family_name]
    fields = set(family.config).union(*(own for _, own, _ in family.small.values()))
    has_experts = bool(fields & {"num_experts", "num_local_experts", "n_routed_experts"})
    return {"attn_implementation": "eager"} | ({"experts_implementation": "eager"} if has_experts else {})


def build(name, family_name, class_name, is_main):
    """The model, its tokenizer and configuration."""
    if family_name == "dlrm":
        return dlrm.build(name), None, None
    tokenizer = None
    family = FAMILIES[family_name]
    if is_main and family.tokenizer and family_name not in ("hubert", "wav2vec2"):
        tokenizer = tokenizer_of(name, family)
    config = config_of(name, family_name, class_name, is_main, tokenizer)
    torch.manual_seed(seed_of(name))
    eager = implementations(family_name)
    model = (
        getattr(transformers, class_name)._from_config(config, **eager)
        if eager
        else getattr(transformers, class_name)(config)
    )
    writes = class_name.endswith(WRITERS) and (
        is_main or name in FAMILIES[family_name].small
    )
    draw_weights(model, name, writes)
    speaking.settle(model)
    return model.eval(), tokenizer, config


def tokenizer_of(name, family):
    kind = TOKENIZERS.get(name, family.tokenizer)
    kind = TOKENIZERS.get(kind, kind)
    with tempfile.TemporaryDirectory() as folder:
        make_tokenizer_files(kind, pathlib.Path(folder))
        named = next(key for key, each in FAMILIES.items() if each is family)
        if vision_language.has_pictures(named):
            vision_language.add_image_token(folder, vision_language.marks_of(named), vision_language.image_token(name))
        if name == "donut":
            vision_language.add_image_token(folder, captions.TAGS[1:], captions.TAGS[0])
        return load(folder)


def save(model, name, family_name, is_main, folder):
    folder.mkdir(parents=True, exist_ok=True)
    stored = STORED.get(name, "safetensors") if is_main else "safetensors"
    if family_name == "dlrm":
        return dlrm.save(model, folder)
    if stored == "bf16":
        model = copy_of(model).to(torch.bfloat16)
    model.save_pretrained(folder, **({"max_shard_size": "24KB"} if stored == "sharded" else {}))
    if type(model).__name__ == "TimmWrapperForImageClassification":
        with_names_of_timm(folder)
    vision_language.rename_weights(name, folder)
    if stored == "bin":
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    family = FAMILIES[family_name]
    if is_main and family.tokenizer:
        kind = TOKENIZERS.get(name, family.tokenizer)
        make_tokenizer_files(TOKENIZERS.get(kind, kind), folder)
        if vision_language.has_pictures(family_name):
            vision_language.add_image_token(folder, vision_language.marks_of(family_name), vision_language.image_token(name))
            vision_language.save_processor(name, model.config, folder)
        if name == "donut":
            vision_language.add_image_token(folder, captions.TAGS[1:], captions.TAGS[0])
    processor = PROCESSORS.get(name)
    if processor and is_main:
        write_json(folder / "preprocessor_config.json", processor)


PROCESSORS = json.loads((HERE / "processors.json").read_text())


def make_case(name, family_name, class_name, is_main, special, out):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model, tokenizer, config = build(name, family_name, class_name, is_main)
    if STORED.get(name) == "bf16" and is_main:  # weights that bfloat16 holds exactly
        model = model.to(torch.bfloat16).float()
    kwargs = {"return_loss": True} if class_name in ("CLIPModel", "CLIPSegModel", "OwlViTModel", "Owlv2Model", "SiglipModel", "Siglip2Model", "ClapModel", "BlipModel") else {}
    inputs = dlrm.inputs(name) if family_name == "dlrm" else inputs_of(name, family_name, class_name, config, tokenizer)
    save(model, name, family_name, is_main, folder / "model")
    if (
        family_name != "dlrm"
    ):  # what is frozen in a new model is trained in one that was loaded: the positions of Whisper
        model = type(model).from_pretrained(folder / "model", dtype=torch.float32, **implementations(family_name)).eval()
        if family_name == "marian":  # its sinusoids are in no file: training them would be lost
            for key, parameter in model.named_parameters():
                parameter.requires_grad_("embed_positions" not in key)
    with torch.no_grad():
        expected = {key: value.clone() for key, value in outputs_of(model, inputs, kwargs).items()}
        with in_double(family_name):
            doubles = outputs_of(copy_of(model).double(), as_double(inputs), kwargs)
    save_file({key: value.contiguous() for key, value in inputs.items()}, folder / "inputs.safetensors")
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")
    tolerance = {key: tolerance_of(value, doubles[key]) for key, value in expected.items()}
    about = {
        "name": name,
        "class": class_name,
        "special": special,
        "seed": seed_of(name),
        "forward_kwargs": kwargs,
        "stored_as": STORED.get(name, "safetensors") if is_main else "safetensors",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    if "loss" in expected or objectives_of(expected):
        if "loss" not in expected:
            about["objective"] = " ".join(objectives_of(expected))
        gradients = gradients_of(model, name, inputs, kwargs)
        with in_double(family_name):
            exact = gradients_of(copy_of(model).double(), name, as_double(inputs), kwargs)
        save_file(gradients, folder / "grads.safetensors")
        largest = max(float(value.abs().max()) for value in gradients.values())
        distance = max(float((value.double() - exact[key].double()).abs().max()) for key, value in gradients.items())
        tolerance["grads"] = dict(atol=rounded_up(max(10 * distance, 5e-6 * largest, 1e-6)), rtol=1e-3)
        about["gradient_max_abs"] = rounded(largest, 4)
        if "loss" in expected and class_name not in DRAWS:
            tolerance["train_losses"] = dict(rtol=1e-3, atol=1e-4)
            curve = train(model, inputs, kwargs)
            write_json(folder / "train.json", curve)
            with in_double(family_name):
                exact = train(copy_of(model).double(), as_double(inputs), kwargs)
            relative = norms_apart(curve, exact)
            if relative > NORMS:  # the curve is chaotic: its norms are no nearer to those of float64
                tolerance["train_norms"] = dict(rtol=rounded_up(2 * relative))
    about["tolerance"] = tolerance
    write_json(folder / "case.json", about)
    return model, tokenizer


def make(out, only=None):
    for name, family_name, class_name, is_main, special in cases():
        if only and name not in only:
            continue
        model, tokenizer = make_case(name, family_name, class_name, is_main, special, out)
        if (
            (is_main or family_name in FAMILIES and name in FAMILIES[family_name].small)
            and hasattr(model, "generate")
            and model.can_generate()
            and class_name.endswith(WRITERS)
        ):
            if getattr(model.config, "output_router_logits", False):  # with it 5.24 fails at the second token
                model.config.output_router_logits = False
            generation.make_runs(model, tokenizer, name, out / name)
            if vision_language.has_pictures(family_name) and family_name != "smolvlm" and tokenizer is not None:  # whose class reads videos too
                vision_language.make_processed(out / name)
