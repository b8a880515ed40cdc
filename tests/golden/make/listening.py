# SPDX-License-Identifier: Apache-2.0
"""Whisper's own way of generating: times of words, temperatures, thresholds, prompts, long sounds. The model is
tests/golden/whisper with the generation_config.json of the case; sounds are made of whole numbers, by sound() here and in the test."""

import json
import pathlib
import shutil
import tempfile

import numpy
import torch
import transformers

from common import GOLDEN, write_json

GENERATION = {
    "alignment_heads": [[0, 1], [1, 0], [1, 3]],
    "begin_suppress_tokens": [360],
    "bos_token_id": 360,
    "decoder_start_token_id": 361,
    "eos_token_id": 360,
    "is_multilingual": True,
    "lang_to_id": {"<|de|>": 364, "<|en|>": 362, "<|fr|>": 363},
    "max_initial_timestamp_index": 20,
    "max_length": 48,
    "no_timestamps_token_id": 370,
    "pad_token_id": 360,
    "prev_sot_token_id": 368,
    "suppress_tokens": [361, 362, 363, 364, 365, 366, 367, 368, 369],
    "task_to_id": {"transcribe": 366, "translate": 365},
}


def sound(samples, seed):
    i = numpy.arange(samples, dtype=numpy.int64)
    tone = (i * (37 + 11 * seed + 17 * ((i // 2000) % 5))) % 400
    loud = (i // 1600 + seed) % 4
    return ((tone - 200) * loud / 1024).astype(numpy.float32)


SHORT = {"max_new_tokens": 16, "num_beams": 1, "language": "en"}
LONG = {"num_beams": 1, "language": "en", "max_new_tokens": 14}
SURE = {"temperature": [0.0, 1e-6], "logprob_threshold": -1.0, "compression_ratio_threshold": 1.3}
RUNS = [
    (12000, 1, {"return_timestamps": "word"}, SHORT),
    (16000, 2, {"return_timestamps": "word"}, SHORT),
    (16000, 3, {"return_timestamps": "word"}, SHORT | {"num_beams": 3}),
    (16000, 4, {"return_timestamps": True}, SHORT),
    (41000, 1, {"return_timestamps": "word"}, LONG),
    (52000, 2, {"return_timestamps": "word"}, LONG),
    (52000, 5, {"return_timestamps": True}, LONG),
    (60000, 3, {"return_timestamps": "word", "chunk_length_s": 0.9, "stride_length_s": [0.2, 0.1]}, LONG),
    (60000, 4, {"return_timestamps": True, "chunk_length_s": 1.0}, LONG),
    (41000, 6, {"return_timestamps": True}, LONG | {"condition_on_prev_tokens": True}),
    (41000, 7, {"return_timestamps": "word"}, LONG | {"condition_on_prev_tokens": True, "prompt_ids": [368, 40, 41, 42]}),
    (
        41000,
        8,
        {"return_timestamps": True},
        LONG | {"condition_on_prev_tokens": True, "prompt_ids": [368, 40, 41, 42], "prompt_condition_type": "all-segments"},
    ),
    (41000, 9, {"return_timestamps": True}, LONG | {"prompt_ids": [368, 50, 51]}),
    (41000, 10, {"return_timestamps": True}, LONG | SURE | {"num_beams": 3}),
    (41000, 11, {"return_timestamps": True}, LONG | SURE | {"logprob_threshold": -100.0, "compression_ratio_threshold": 1.1, "num_beams": 4}),
    (41000, 12, {"return_timestamps": True}, LONG | {"temperature": [0.0], "logprob_threshold": 0.0, "no_speech_threshold": 0.00236}),
    (16000, 13, {"return_language": True}, SHORT | {"language": None}),
    (16000, 14, {"return_timestamps": True, "return_language": True}, SHORT | {"language": None, "task": "translate"}),
]


def answer(pipe, samples, seed, kwargs, generate):
    generate = {key: value for key, value in generate.items() if value is not None}
    if "prompt_ids" in generate:
        generate["prompt_ids"] = torch.tensor(generate["prompt_ids"])
    if isinstance(generate.get("temperature"), list):
        generate["temperature"] = tuple(generate["temperature"])
    torch.manual_seed(1)
    return pipe(sound(samples, seed), generate_kwargs=generate, **kwargs)


def make(out=GOLDEN):
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made) / "model"
        shutil.copytree(GOLDEN / "whisper" / "model", folder)
        (folder / "generation_config.json").write_text(json.dumps(GENERATION))
        pipes = []
        for dtype in (torch.float32, torch.float64):
            pipe = transformers.pipeline("automatic-speech-recognition", model=str(folder), device="cpu")
            pipe.model = pipe.model.to(dtype)
            pipes.append(pipe)
        runs = []
        for samples, seed, kwargs, generate in RUNS:
            results = [answer(pipe, samples, seed, kwargs, generate) for pipe in pipes]
            run = {"samples": samples, "seed": seed, "kwargs": kwargs, "generate_kwargs": generate, "result": results[0]}
            if results[0] != results[1]:
                run["unstable"] = True
            runs.append(run)
        write_json(
            out / "listening" / "whisper.json",
            {"made_by": "transformers.pipeline()", "model": "../whisper/model", "generation_config": GENERATION, "runs": runs},
        )


if __name__ == "__main__":
    make()
