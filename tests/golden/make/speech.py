# SPDX-License-Identifier: Apache-2.0
"""Runs of Seq2SeqTrainer on sounds and what is said in them, as run_speech_recognition_seq2seq.py sets them up."""

import json
import math
import pathlib
import shutil
import struct
import tempfile
import wave

import torch
import transformers

from common import write_json
from trainers import history_of

RATE = 16000
# What is said, and its tones: hertz, samples.
ROWS = [
    ("Hello there.", [(440, 1600), (660, 1600)]),
    ("A high note", [(1760, 2400)]),
    ("low, then HIGH", [(220, 1600), (1760, 1200)]),
    ("nothing new", [(330, 1000), (330, 2000)]),
    ("Two notes", [(550, 1500), (770, 1500)]),
    ("three notes up", [(300, 1000), (600, 1000), (900, 1000)]),
    ("too long for this", [(440, 11200)]),
]
BASE = dict(
    per_device_train_batch_size=2,
    per_device_eval_batch_size=2,
    learning_rate=2e-3,
    max_steps=10,
    logging_steps=1,
    seed=42,
    lr_scheduler_type="linear",
    warmup_steps=2,
    eval_strategy="steps",
    eval_steps=5,
    predict_with_generate=True,
    generation_max_length=16,
)
# Of a model of many languages.
MANY = {
    "is_multilingual": True,
    "lang_to_id": {"<|en|>": 362, "<|fr|>": 363, "<|de|>": 364},
    "task_to_id": {"translate": 365, "transcribe": 366},
    "no_timestamps_token_id": 370,
    "suppress_tokens": [1, 5],
    "begin_suppress_tokens": [2],
}
# name: arguments of the trainer, those of the script, fields of generation_config.json
CASES = {
    "whisper": (BASE, {}, {}),
    "whisper-german": (BASE | dict(generation_num_beams=2), dict(language="german"), MANY),
    "whisper-translated": (BASE, dict(language="english", task="translate", freeze_encoder=True), MANY),
    "whisper-accumulated": (
        BASE | dict(gradient_accumulation_steps=3, max_steps=5, predict_with_generate=False, eval_strategy="no"),
        dict(do_lower_case=False),
        {},
    ),  # recorded with the whole batch at once: trainer.py says why
}


def write_rows(folder):
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["audio,text"]
    for i, (text, tones) in enumerate(ROWS):
        samples = [
            int(8000 * math.sin(2 * math.pi * hertz * k / RATE)) for hertz, count in tones for k in range(count)
        ]
        with wave.open(str(folder / f"{i}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
        lines.append(f'{i}.wav,"{text}"')
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")


def sounds(folder):
    for i, (text, _) in enumerate(ROWS):
        with wave.open(str(folder / f"{i}.wav"), "rb") as file:
            frames = file.readframes(file.getnframes())
        yield text, torch.tensor(struct.unpack(f"<{len(frames) // 2}h", frames)).numpy() / 32768.0


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for k, y in enumerate(b, 1):
            before, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, before + (x != y))
    return row[-1]


def word_error_rate(references, said):
    wrong = sum(distance(a.split(), b.split()) for a, b in zip(references, said))
    return wrong / sum(len(a.split()) for a in references)


def make_case(name, arguments, script, fields, out):
    start = out.parent / "whisper" / "model"
    recorded = dict(arguments)
    recorded["per_device_train_batch_size"] *= recorded.pop("gradient_accumulation_steps", 1)
    with tempfile.TemporaryDirectory() as work:
        model_folder = pathlib.Path(work) / "model"
        shutil.copytree(start, model_folder)
        path = model_folder / "generation_config.json"
        if fields:
            kept = json.loads(path.read_text()) | fields
            kept.pop("_from_model_config")  # else Transformers makes it of config.json anew
            path.write_text(json.dumps(kept))
        tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
        extractor = transformers.AutoFeatureExtractor.from_pretrained(model_folder)
        model = transformers.WhisperForConditionalGeneration.from_pretrained(
            model_folder, attn_implementation="eager", dtype=torch.float32
        )
        if script.get("freeze_encoder"):
            model.freeze_encoder()
        if getattr(model.generation_config, "is_multilingual", False):
            task = script.get("task", "transcribe")
            tokenizer.set_prefix_tokens(language=script.get("language"), task=task)
            model.generation_config.language, model.generation_config.task = script.get("language"), task
        rows = []
        for text, sound in sounds(out / "rows"):
            if len(sound) >= 0.7 * RATE:
                continue
            text = text.lower() if script.get("do_lower_case", True) else text
            features = extractor(sound, sampling_rate=RATE)["input_features"][0]
            rows.append({"input_features": features, "labels": tokenizer(text).input_ids})

        def collate(some):
            batch = extractor.pad([{"input_features": row["input_features"]} for row in some], return_tensors="pt")
            labels = tokenizer.pad([{"input_ids": row["labels"]} for row in some], return_tensors="pt")
            ids = labels["input_ids"].masked_fill(labels.attention_mask.ne(1), -100)
            if (ids[:, 0] == model.config.decoder_start_token_id).all():
                ids = ids[:, 1:]
            batch["labels"] = ids
            return batch

        written = []

        def metrics(given):
            labels = given.label_ids
            labels[labels == -100] = tokenizer.pad_token_id
            said = tokenizer.batch_decode(given.predictions, skip_special_tokens=True)
            written.append(said)
            return {"wer": word_error_rate(tokenizer.batch_decode(labels, skip_special_tokens=True), said)}

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
                **recorded,
            ),
            train_dataset=rows,
            eval_dataset=rows[:3],
            processing_class=extractor,
            data_collator=collate,
            compute_metrics=metrics if arguments["predict_with_generate"] else None,
        )
        history = history_of(trainer)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    write_json(folder / "log_history.json", history)
    write_json(folder / "training_args.json", arguments)
    about = {"name": name, "start": "../../whisper/model", "script": script, "generation_config": fields}
    about |= {"labels": [row["labels"] for row in rows], "written": written}
    about["tolerance"] = {"rtol": 2e-3, "atol": 2e-4}
    write_json(folder / "case.json", about)


def make(out):
    out = out / "speech"
    write_rows(out / "rows")
    for name, (arguments, script, fields) in CASES.items():
        make_case(name, arguments, script, fields, out)
