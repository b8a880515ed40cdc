# SPDX-License-Identifier: Apache-2.0
"""What is raced: the checkpoints, inputs and cases that race.py knows. Everything is made from a seed."""
import csv
import dataclasses
import functools
import os
import random

from other_cases import other_cases, static_cases
from picture_cases import picture_cases
from seeing_cases import seeing_cases

PEERS = ["torch", "compile", "onnxruntime", "openvino"]


@dataclasses.dataclass
class Case:
    name: str
    title: str
    model: str  # this, inputs and calibration are files, or functions that make and name them
    inputs: str
    task: str = "forward"  # of `transom bench`
    dtype: str = "float32"  # int8: linear layers quantised as they run; static: with scales from `calibration`
    peers: tuple = ("torch",)  # those that can take part
    runs: int = 1  # a turn
    calibration: str = ""  # tensors that show the scales of inputs

    @property
    def training(self):
        return self.task == "train"

    def prepared(self):
        """The case with all its files there."""
        files = {name: getattr(self, name) for name in ("model", "inputs", "calibration")}
        return dataclasses.replace(self, **{name: file() for name, file in files.items() if callable(file)})


def make_bert(folder):
    """BERT-base with random weights and a head of two classes: its speed does not depend on the weights."""
    path = os.path.join(folder, "bert-base")
    if not os.path.exists(os.path.join(path, "model.safetensors")):
        import torch
        import transformers

        torch.manual_seed(0)
        config = transformers.BertConfig(num_labels=2, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
        transformers.BertForSequenceClassification(config).save_pretrained(path)
    return path


def make_gpt2(folder):
    """GPT-2 small with random weights."""
    path = os.path.join(folder, "gpt2")
    if not os.path.exists(os.path.join(path, "model.safetensors")):
        import torch
        import transformers

        torch.manual_seed(0)
        transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(path)
    return path


def make_image_model(folder, name):
    """ViT-base (patches of 16, images of 224) or ResNet-50 with random weights."""
    path = os.path.join(folder, name)
    if not os.path.exists(os.path.join(path, "model.safetensors")):
        import torch
        import transformers

        torch.manual_seed(0)
        if name == "vit-base":
            model = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))
        else:
            model = transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000))
        model.save_pretrained(path)
    return path


def make_images(folder, rows):
    path = os.path.join(folder, f"images-{rows}.safetensors")
    if not os.path.exists(path):
        import torch
        from safetensors.torch import save_file

        save_file({"pixel_values": torch.rand(rows, 3, 224, 224, generator=torch.Generator().manual_seed(0))}, path)
    return path


def make_text(folder, rows, length):
    """A batch for causal language models: the labels are the tokens."""
    path = os.path.join(folder, f"text-{rows}x{length}.safetensors")
    if not os.path.exists(path):
        import torch
        from safetensors.torch import save_file

        tokens = torch.randint(0, 50000, (rows, length), generator=torch.Generator().manual_seed(0))
        save_file({"input_ids": tokens, "labels": tokens.clone()}, path)
    return path


def make_batch(folder, rows, length):
    path = os.path.join(folder, f"batch-{rows}x{length}.safetensors")
    if not os.path.exists(path):
        import torch
        from safetensors.torch import save_file

        generator = torch.Generator().manual_seed(0)
        save_file({"input_ids": torch.randint(1000, 30000, (rows, length), generator=generator),
                   "attention_mask": torch.ones(rows, length, dtype=torch.long),
                   "token_type_ids": torch.zeros(rows, length, dtype=torch.long),
                   "labels": torch.randint(0, 2, (rows,), generator=generator)}, path)
    return path


def unlabelled(path):
    """The same batch without labels."""
    target = path.replace("batch-", "rows-")
    if not os.path.exists(target):
        from safetensors.torch import load_file, save_file

        save_file({name: tensor for name, tensor in load_file(path).items() if name != "labels"}, target)
    return target


def read_sentences(file):
    """Lines `sentence TAB label`."""
    with open(file, encoding="utf-8") as lines:
        return [line.rstrip("\n").rsplit("\t", 1) for line in lines if "\t" in line]


def make_sentences(folder, sst2, count=1000):
    """Lines of 3 to some 60 words: those of SST-2 where they are given, else random words."""
    path = os.path.join(folder, f"sentences-{count}.txt")
    draw = random.Random(0)
    if sst2:
        lines = [text for text, _ in read_sentences(os.path.join(sst2, "train.tsv"))]
        draw.shuffle(lines)
    else:
        words = "the a film story of and with great poor slow funny actor scene never always moves ends well".split()
        lines = [" ".join(draw.choices(words, k=min(60, 3 + int(draw.expovariate(1 / 16))))) for _ in range(count)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines[:count]) + "\n")
    return path


def make_training_file(folder, sst2):
    path = os.path.join(folder, "sst2.csv")
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(read_sentences(os.path.join(sst2, "train.tsv")))
    return path


def add_inference(cases, bert, one, eight, dtype, short, peers):
    for rows, batch, runs in ((1, one, 8), (8, eight, 3)):
        cases.append(Case(f"infer-{rows}-{short}", f"BERT-base inference {rows}x128 {short}", bert, batch, "forward",
                          dtype, peers, runs))


def make_cases_of_size(folder, bert, rows, tokens):
    """BERT-base at another size: inference and training in each precision."""
    size = f"{rows}x{tokens}"
    batch = functools.partial(make_batch, folder, rows, tokens)
    runs = max(1, 1024 // (rows * tokens))
    cases = []
    for dtype, short, peers in (("float32", "f32", ("torch", "compile", "onnxruntime", "openvino")),
                                ("bfloat16", "bf16", ("torch", "compile", "openvino")),
                                ("int8", "int8", ("torch", "onnxruntime", "openvino"))):
        cases.append(Case(f"infer-{size}-{short}", f"BERT-base inference {size} {short}", bert,
                          lambda: unlabelled(batch()), "forward", dtype, peers, runs))
        if dtype != "int8":
            cases.append(Case(f"train-{size}-{short}", f"BERT-base training step {size} {short}", bert, batch, "train",
                              dtype, ("torch", "compile"), max(1, runs // 4)))
    return cases


def make_cases(folder, minilm, sst2, sizes=()):
    later = functools.partial  # files are made when their case is raced
    bert = later(make_bert, folder)
    one, eight = later(make_batch, folder, 1, 128), later(make_batch, folder, 8, 128)
    one_row, eight_rows = lambda: unlabelled(one()), lambda: unlabelled(eight())
    cases = []
    for size in sizes:
        cases += make_cases_of_size(folder, bert, *(int(extent) for extent in size.split("x")))
    for dtype, short in (("float32", "f32"), ("bfloat16", "bf16"), ("int8", "int8")):
        if dtype == "int8":
            add_inference(cases, bert, one_row, eight_rows, dtype, short, ("torch", "onnxruntime", "openvino"))
            continue
        cases.append(Case(f"train-{short}", f"BERT-base training step 8x128 {short}", bert, eight, "train", dtype,
                          ("torch", "compile"), 2))
        peers = ("torch", "compile", "onnxruntime", "openvino") if dtype == "float32" else ("torch", "compile", "openvino")
        add_inference(cases, bert, one_row, eight_rows, dtype, short, peers)
    gpt2, text = later(make_gpt2, folder), later(make_text, folder, 4, 256)
    for dtype, short in (("float32", "f32"), ("bfloat16", "bf16")):
        cases.append(Case(f"gpt2-train-{short}", f"GPT-2 small training step 4x256 {short}", gpt2, text, "train", dtype,
                          ("torch", "compile"), 2))
    for name, title in (("vit-base", "ViT-base"), ("resnet-50", "ResNet-50")):
        for rows in (1, 8):
            cases.append(Case(f"{name}-{rows}", f"{title} inference {rows}x224x224 f32",
                              later(make_image_model, folder, name), later(make_images, folder, rows), "forward", "float32",
                              ("torch", "compile", "onnxruntime", "openvino"), 8 if rows == 1 else 3))
    pictures = [later(make_images, folder, rows) for rows in (1, 8)]
    cases += other_cases(folder, Case, make_images)
    cases += seeing_cases(folder, Case, later(make_image_model, folder, "vit-base"))
    cases += picture_cases(folder, Case)
    cases += static_cases(Case, [("resnet-50", "ResNet-50", later(make_image_model, folder, "resnet-50"), *pictures),
                                 ("vit-base", "ViT-base", later(make_image_model, folder, "vit-base"), *pictures),
                                 ("infer", "BERT-base of 128 tokens", bert, one_row, eight_rows)])
    if minilm:
        cases.append(Case("embed", "MiniLM, 1000 sentences with tokenising", minilm, make_sentences(folder, sst2),
                          "feature-extraction", "float32", ("sentence-transformers", "onnxruntime"), 1))
    return cases
