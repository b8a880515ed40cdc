# SPDX-License-Identifier: Apache-2.0
"""What models write about pictures in the tasks that this version of Transformers has no pipeline for."""

import torch
import transformers
from PIL import Image

from common import GOLDEN, write_json


def make_captions(out):
    """What generate() of TrOCR writes."""
    model = GOLDEN / "trocr" / "model"
    writer = transformers.VisionEncoderDecoderModel.from_pretrained(model).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(model, backend="pil")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    runs = []
    for file, beams in (("gradient.png", 1), ("gray.png", 1), ("alpha.png", 3)):
        kwargs = {"max_new_tokens": 10, "do_sample": False, "num_beams": beams}
        pixels = processor(Image.open(GOLDEN / "image" / file).convert("RGB"), return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            ids = writer.generate(pixel_values=pixels, **kwargs)[0]
        result = [{"generated_text": tokenizer.decode(ids, skip_special_tokens=True)}]
        runs.append({"inputs": f"../image/{file}", "kwargs": kwargs, "result": result})
    write_json(
        out / "pipelines" / "image-to-text.json",
        {
            "task": "image-to-text",
            "model": "../trocr/model",
            "made_by": "image processor, generate() and decode(skip_special_tokens=True)",
            "runs": runs,
        },
    )


# Of BLIP: file, text, options. The last versions with these tasks gave what the processor makes to generate().
ASKED = [
    ("gradient.png", "what is free ?", {"max_new_tokens": 8}),
    ("gray.png", "may you copy it", {"max_new_tokens": 8, "num_beams": 3}),
    ("alpha.png", "who wrote the licence", {"max_new_tokens": 6, "num_beams": 2, "num_return_sequences": 2}),
]
BEGUN = [
    ("gradient.png", None, {"max_new_tokens": 8}),
    ("gray.png", "the licence", {"max_new_tokens": 8}),
    ("alpha.png", "you may", {"max_new_tokens": 6, "num_beams": 3}),
]


def make_written(out, case, class_name, task, asked):
    """What BLIP writes about pictures and texts."""
    model = GOLDEN / case / "model"
    writer = getattr(transformers, class_name).from_pretrained(model).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(model, backend="pil")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    is_answer, runs = task == "visual-question-answering", []
    for file, text, kwargs in asked:
        kwargs = {"do_sample": False} | kwargs
        inputs = {"pixel_values": processor(Image.open(GOLDEN / "image" / file).convert("RGB"), return_tensors="pt")["pixel_values"]}
        if text is not None:
            inputs |= {key: torch.tensor([tokenizer(text)[key]]) for key in ("input_ids", "attention_mask")}
        with torch.no_grad():
            rows = writer.generate(**inputs, **kwargs)
        texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in rows]
        result = [{"answer": each.strip()} if is_answer else {"generated_text": each} for each in texts]
        given = {"image": f"../image/{file}", "question": text} if is_answer else f"../image/{file}"
        if not is_answer and text is not None:
            kwargs |= {"prompt": text}
        runs.append({"inputs": given, "kwargs": kwargs, "result": result})
    name = task if is_answer else task + "-blip"
    write_json(
        out / "pipelines" / f"{name}.json",
        {
            "task": task,
            "model": f"../{case}/model",
            "made_by": "image processor, tokenizer, generate() and decode(skip_special_tokens=True)",
            "runs": runs,
        },
    )


def make_asked_and_begun(out):
    make_written(out, "blip-questions", "BlipForQuestionAnswering", "visual-question-answering", ASKED)
    make_written(out, "blip-captions", "BlipForConditionalGeneration", "image-to-text", BEGUN)
