# SPDX-License-Identifier: Apache-2.0
"""Families that speak, and whole sounds of theirs with the noise of a seed."""

import io
import json
import pathlib
import shutil
import tempfile

import numpy
import sentencepiece
import torch
import transformers
from safetensors.torch import save_file
from transformers.models.speecht5.modeling_speecht5 import SpeechT5SpeechDecoderPrenet

import speech
from common import generator, write_json
from family import Family
from trainers import history_of

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

SPEECHT5 = dict(
    vocab_size=30,
    hidden_size=8,
    encoder_layers=2,
    encoder_attention_heads=2,
    encoder_ffn_dim=12,
    decoder_layers=2,
    decoder_attention_heads=2,
    decoder_ffn_dim=12,
    encoder_layerdrop=0.0,
    decoder_layerdrop=0.0,
    num_mel_bins=6,
    speech_decoder_prenet_units=7,
    speaker_embedding_dim=5,
    speech_decoder_postnet_layers=3,
    speech_decoder_postnet_units=8,
    max_speech_positions=60,
    max_text_positions=40,
    encoder_max_relative_position=4,
    guided_attention_loss_num_heads=1,
    mask_time_prob=0.0,
)
HIFI_GAN = dict(
    model_in_dim=6,
    upsample_initial_channel=8,
    upsample_rates=[3, 2],
    upsample_kernel_sizes=[7, 4],
    resblock_kernel_sizes=[3, 5],
    resblock_dilation_sizes=[[1, 2], [1, 3]],
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
    "speecht5": Family(
        SPEECHT5,
        ["SpeechT5ForTextToSpeech"],
        {"speecht5": ("SpeechT5ForTextToSpeech", "two frames a step; one of two heads is guided; the prenet drops nothing")},
        sizes="none",
        more={
            "speecht5-single": (
                "SpeechT5ForTextToSpeech",
                dict(
                    reduction_factor=1,
                    use_guided_attention_loss=False,
                    hidden_act="relu",
                    encoder_max_relative_position=20,
                    speech_decoder_prenet_layers=1,
                    speech_decoder_postnet_layers=1,
                    decoder_attention_heads=4,
                ),
                "a frame a step; no attention is guided; a prenet and a postnet of one layer",
            )
        },
    ),
    "speecht5_hifigan": Family(
        HIFI_GAN,
        ["SpeechT5HifiGan"],
        {"speecht5-hifi-gan": ("SpeechT5HifiGan", "spectra are brought to the mean and the scale of those it learnt from")},
        sizes="none",
        more={
            "speecht5-hifi-gan-plain": (
                "SpeechT5HifiGan",
                dict(normalize_before=False, leaky_relu_slope=0.2, upsample_rates=[4], upsample_kernel_sizes=[9]),
                "spectra as they are; a window that is odd",
            )
        },
    ),
}


def settle(model):
    """Weights of durations that no rounding moves over the border between two numbers of frames."""
    if isinstance(model, transformers.SpeechT5HifiGan):
        random = generator("spectra that a vocoder learnt from")
        model.mean.normal_(std=0.5, generator=random)
        model.scale.uniform_(0.5, 1.5, generator=random)
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


DROPPED = SpeechT5SpeechDecoderPrenet._consistent_dropout


def dropped(self, values, probability):
    """Where the prenet is to drop nothing, Transformers 5.24 drops all: what it draws is which values stay."""
    return values if probability == 0 else DROPPED(self, values, probability)


SpeechT5SpeechDecoderPrenet._consistent_dropout = dropped


def inputs_of(name, family_name, config, texts):
    random = generator("spectra of " + name)
    floats = lambda *shape: torch.empty(shape).normal_(generator=random)
    if family_name == "vits":
        return texts | {"speaker_id": torch.tensor([1])}
    if family_name == "speecht5_hifigan":
        return {"spectrogram": floats(2, 5, config.model_in_dim)}
    if family_name == "speecht5":
        frames = 8 * config.reduction_factor
        labels = floats(3, frames, config.num_mel_bins)
        labels[1, frames - 5 :], labels[2, frames - 6 :] = -100.0, -100.0
        return texts | {"speaker_embeddings": floats(3, config.speaker_embedding_dim), "labels": labels}
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


# ---- SpeechT5

SAID = [
    ("Hello, a cab!", {"voice": "anna", "seed": 7, "maxlenratio": 3.0}, False),
    ("Hello, a cab!", {"voice": "anna", "seed": 8, "maxlenratio": 2.0}, True),
    ("Hello, a cab!", {"voice": "bert", "seed": 7, "maxlenratio": 2.0, "threshold": 0.0, "minlenratio": 1.0}, False),
    ("bad 12", {"voice": "bert", "seed": 42, "maxlenratio": 2.0}, True),
]
SPELT = [
    "I have 1,250 books at $12.50, or -5%; 3rd, 0.5 and 00.",
    "1,000,000 12.345 €7 £1.00 ¥20% a5 5a 1000000007 0 _3 - 7  x",
    "tens: 10 11 19 20 21 99 100 101 110 999 1001 12000 123456789012",
    "~bad @@ caf\u00e9 <s> b</s>",
]


def threshold_of(model, speak):
    """One that the sum of the last probabilities crosses on its way, halfway up a rise; None where it does not rise."""
    sums = []
    hook = model.speech_decoder_postnet.prob_out.register_forward_hook(
        lambda module, inputs, logits: sums.append(float(torch.sigmoid(logits).sum()))
    )
    speak(threshold=1e9)
    hook.remove()
    rise, at = max((sums[i] - max(sums[:i]), i) for i in range(3, len(sums)))
    return sums[at] - rise / 2 if rise > 1e-3 else None


def draw(model, random):
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 25
            parameter.normal_(std=1.0 / fan_in**0.5, generator=random)
        for name, parameter in model.named_parameters():
            if ("norm" in name and name.endswith("weight")) or name.endswith("alpha"):
                parameter.add_(1.0)
        for name, buffer in sorted(model.named_buffers()):
            if name.endswith(("running_mean", "mean")):
                buffer.normal_(std=0.1, generator=random)
            elif name.endswith(("running_var", "scale")):
                buffer.uniform_(0.5, 1.5, generator=random)


def make_speecht5(folder):
    """Sounds of texts, with what a seed leaves of the prenet, by a vocoder; ids of texts with numbers."""
    (folder / "model" / "voices").mkdir(parents=True)
    letters = "abcdefghijklmnopqrstuvwxyzBHI,.!'-:;"
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(letters), letters]),
        model_writer=written,
        model_type="char",
        vocab_size=len(letters) + 5,
        normalization_rule_name="identity",
        bos_id=0,
        pad_id=1,
        eos_id=2,
        unk_id=3,
        minloglevel=2,
    )
    (folder / "spm_char.model").write_bytes(written.getvalue())
    tokenizer = transformers.SpeechT5Tokenizer(str(folder / "spm_char.model"), normalize=True)
    tokenizer.save_pretrained(folder / "model")
    (folder / "spm_char.model").unlink()
    random = generator("speaking-speecht5")
    fields = SPEECHT5 | dict(
        vocab_size=len(tokenizer), encoder_layers=1, decoder_layers=1, max_text_positions=50, max_speech_positions=200
    )
    model = transformers.SpeechT5ForTextToSpeech(transformers.SpeechT5Config(**fields)).eval()
    vocoder = transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig(**HIFI_GAN)).eval()
    draw(model, random)
    draw(vocoder, random)
    with torch.no_grad():
        model.speech_decoder_postnet.prob_out.bias.fill_(-2.5)
        vocoder.conv_post.weight.mul_(0.3)
    model.save_pretrained(folder / "model")
    vocoder.save_pretrained(folder / "model" / "vocoder")
    voices = {name: torch.empty(1, fields["speaker_embedding_dim"]).normal_(generator=random) for name in ("anna", "bert")}
    numpy.save(folder / "model" / "voices" / "anna.npy", voices["anna"][0].numpy())
    save_file({"voice": voices["bert"][0]}, folder / "model" / "voices" / "bert.safetensors")
    sounds, about = {}, []
    for text, options, ends in SAID:
        options = dict(options)
        ids = tokenizer(text, return_tensors="pt").input_ids

        def speak(**more):
            told = {key: value for key, value in options.items() if key not in ("voice", "seed")} | more
            torch.manual_seed(options["seed"])
            return model.generate(ids, speaker_embeddings=voices[options["voice"]], vocoder=vocoder, **told)

        while ends and not options.get("threshold"):
            options["seed"] += 1
            options["threshold"] = threshold_of(model, speak)
        name = f"sound{len(about)}"
        sounds[name] = speak().contiguous()
        about.append({"name": name, "text": text} | options)
    extractor = transformers.SpeechT5FeatureExtractor(num_mel_bins=fields["num_mel_bins"])
    extractor.save_pretrained(folder / "model")
    sounds["wave"] = torch.round(torch.empty(2000).normal_(generator=random) * 3000) / 32768
    heard = extractor(audio_target=sounds["wave"].numpy(), sampling_rate=16000, return_tensors="pt")
    sounds["spectrum"] = heard.input_values[0].contiguous()
    save_file(sounds, folder / "sounds.safetensors")
    spelt = [{"text": text, "ids": tokenizer(text).input_ids, "decoded": tokenizer.decode(tokenizer(text).input_ids)} for text in SPELT]
    write_json(folder / "case.json", {"sounds": about, "texts": spelt})
    with tempfile.TemporaryDirectory() as rows:
        speech.write_rows(pathlib.Path(rows))
        make_training(folder, speech.sounds(pathlib.Path(rows)), voices)


# ---- what SpeechT5 learns

TAUGHT = [("hello there", "anna"), ("a high note", "bert"), ("low, then high", "anna"), ("nothing new", "bert")]
NOTHING_DROPPED = {
    "activation_dropout": 0.0,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "positional_dropout": 0.0,
    "speech_decoder_postnet_dropout": 0.0,
    "speech_decoder_prenet_dropout": 0.0,
}
TEACHING = dict(
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    learning_rate=2e-3,
    max_steps=6,
    logging_steps=1,
    seed=42,
    lr_scheduler_type="linear",
    warmup_steps=2,
    eval_strategy="steps",
    eval_steps=3,
)


def collate_spoken(rows):
    """As the collator of Transformers' guide to text-to-speech: frames that fill no step are cut off."""
    padded = torch.nn.utils.rnn.pad_sequence
    ids = [torch.tensor(row["input_ids"]) for row in rows]
    labels = padded([row["labels"] for row in rows], batch_first=True, padding_value=-100.0)
    whole = max(len(row["labels"]) // 2 * 2 for row in rows)
    return {
        "input_ids": padded(ids, batch_first=True, padding_value=1),
        "attention_mask": padded([torch.ones_like(row) for row in ids], batch_first=True),
        "labels": labels[:, :whole],
        "speaker_embeddings": torch.stack([row["voice"] for row in rows]),
    }


def make_training(folder, sounds, voices):
    """A run of Seq2SeqTrainer on sounds of tests/golden/speech, without dropout."""
    tokenizer = transformers.SpeechT5Tokenizer.from_pretrained(folder / "model")
    extractor = transformers.SpeechT5FeatureExtractor.from_pretrained(folder / "model")
    model = transformers.SpeechT5ForTextToSpeech.from_pretrained(folder / "model", **NOTHING_DROPPED)
    rows = []
    for (text, voice), (_, sound) in zip(TAUGHT, sounds):
        labels = extractor(audio_target=sound, sampling_rate=16000, return_tensors="pt").input_values[0]
        rows.append({"input_ids": tokenizer(text).input_ids, "labels": labels, "voice": voices[voice][0]})
    with tempfile.TemporaryDirectory() as work:
        trainer = transformers.Seq2SeqTrainer(
            model=model,
            args=transformers.Seq2SeqTrainingArguments(
                output_dir=work,
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                dataloader_pin_memory=False,
                remove_unused_columns=False,
                label_names=["labels"],
                **TEACHING,
            ),
            train_dataset=rows,
            eval_dataset=rows,
            data_collator=collate_spoken,
        )
        history = history_of(trainer)
    about = {"rows": [{"audio": f"{i}.wav", "text": text, "voice": voice} for i, (text, voice) in enumerate(TAUGHT)]}
    about |= {"config": NOTHING_DROPPED, "arguments": TEACHING, "tolerance": {"rtol": 2e-3, "atol": 2e-4}}
    write_json(folder / "training.json", about | {"log_history": history})


def make(out):
    folder = out / "speaking"
    shutil.rmtree(folder, ignore_errors=True)
    make_vits(folder / "vits")
    make_speecht5(folder / "speecht5")
