# SPDX-License-Identifier: Apache-2.0
"""Families that speak, and whole sounds of theirs with the noise of a seed."""

import json
import shutil

import torch
import transformers
from safetensors.torch import save_file

from common import generator, write_json
from family import Family

VITS = dict(
    vocab_size=60,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    window_size=3,
    ffn_dim=12,
    ffn_kernel_size=3,
    flow_size=6,
    spectrogram_bins=5,
    num_speakers=3,
    speaker_embedding_size=4,
    upsample_initial_channel=8,
    upsample_rates=[3, 2],
    upsample_kernel_sizes=[7, 4],
    resblock_kernel_sizes=[3, 5],
    resblock_dilation_sizes=[[1, 2], [1, 3]],
    depth_separable_num_layers=2,
    duration_predictor_flow_bins=4,
    duration_predictor_num_flows=2,
    duration_predictor_filter_channels=6,
    prior_encoder_num_flows=2,
    prior_encoder_num_wavenet_layers=2,
    posterior_encoder_num_wavenet_layers=1,
    wavenet_kernel_size=3,
    wavenet_dilation_rate=2,
    noise_scale=0.0,
    noise_scale_duration=0.0,
    layerdrop=0.0,
    pad_token_id=0,
)

SPEAKING = {
    "vits": Family(
        VITS,
        ["VitsModel"],
        {"vits": ("VitsModel", "one of three speakers; without noise; each token is said for two frames")},
        sizes="none",
        more={
            "vits-predicted": (
                "VitsModel",
                dict(use_stochastic_duration_prediction=False, num_speakers=1, speaker_embedding_size=0),
                "durations that are predicted, not drawn",
            )
        },
    ),
}


def settle(model):
    """Weights of durations that no rounding moves over the border between two numbers of frames."""
    if not isinstance(model, transformers.VitsModel):
        return
    with torch.no_grad():
        predictor = model.duration_predictor
        if model.config.use_stochastic_duration_prediction:
            predictor.flows[0].log_scale.fill_(4.0)
            predictor.flows[0].translate.fill_(-27.0)
        else:
            predictor.proj.weight.mul_(0.02)
            predictor.proj.bias.fill_(0.4)


def inputs_of(family_name, texts):
    if family_name == "vits":
        return texts | {"speaker_id": torch.tensor([1])}
    return None


# ---- whole sounds

TEXTS = ["Hello, a cab!", "bad old cabbage", "a"]
SEEDS = [7, 42]


def make_vits(folder):
    """Sounds of texts, with noise. The vocabulary's token of padding is a letter, as in those of MMS."""
    letters = "kabcdegholnst '-"
    folder.mkdir(parents=True)
    (folder / "model").mkdir()
    (folder / "vocabulary.json").write_text(json.dumps({letter: i for i, letter in enumerate(letters)}))
    tokenizer = transformers.VitsTokenizer(
        folder / "vocabulary.json", pad_token="k", unk_token="<unk>", phonemize=False, language="eng"
    )
    (folder / "vocabulary.json").unlink()
    tokenizer.save_pretrained(folder / "model")
    fields = VITS | dict(
        vocab_size=len(tokenizer), num_speakers=1, speaker_embedding_size=0, noise_scale=0.667, noise_scale_duration=0.8
    )
    model = transformers.VitsModel(transformers.VitsConfig(**fields)).eval()
    random = generator("vits that speaks")
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 25
            parameter.normal_(std=0.6 / fan_in**0.5, generator=random)
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight") or "original0" in name:
                parameter.add_(1.0)
        model.duration_predictor.flows[0].translate.fill_(-1.0)
        model.decoder.conv_post.weight.mul_(8)
    model.save_pretrained(folder / "model")
    sounds, about = {}, []
    for text in TEXTS:
        for seed in SEEDS:
            for rate in (1.0, 1.5):
                model.speaking_rate = rate
                torch.manual_seed(seed)
                with torch.no_grad():
                    made = model(**tokenizer(text, return_tensors="pt"))
                name = f"sound{len(about)}"
                sounds[name] = made.waveform[0].contiguous()
                about.append({"name": name, "text": text, "seed": seed, "speed": rate})
    save_file(sounds, folder / "sounds.safetensors")
    write_json(folder / "case.json", about)


def make(out):
    folder = out / "speaking"
    shutil.rmtree(folder, ignore_errors=True)
    make_vits(folder / "vits")
