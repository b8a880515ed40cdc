# SPDX-License-Identifier: Apache-2.0
"""Makes the cases of this folder anew: small models of sentence-transformers 6.2 in random configurations, and the
vectors that SentenceTransformer.encode() gives for them (transformers 5.24, torch 2.15, float32 on a CPU).

    python make.py

`bert` and `qwen3` are two models with random weights; a case is a folder of what lies over a copy of one of them, and
`case.json`: the model, the texts, the prompt name, the vectors.
"""
import json
import os
import random
import shutil
import tempfile

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = ["rain", "wet", "cat", "dog", "car", "red", "blue", "sun", "Rain", "query", ":", "find", "the", "a"]
OLD_FLAGS = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len_tokens":
             "mean_sqrt_len_tokens", "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken"}


def tokenizer(kind):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: i for i, word in enumerate(special + WORDS)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.normalizer = normalizers.Sequence([normalizers.NFC()])
    form = "[CLS] $A [SEP]" if kind == "bert" else "$A [SEP]"
    made.post_processor = processors.TemplateProcessing(single=form, special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
                                   sep_token="[SEP]", padding_side="right" if kind == "bert" else "left")


def save_base(kind):
    folder = os.path.join(HERE, kind)
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(3)
    size = len(WORDS) + 4
    if kind == "bert":
        model = BertModel(BertConfig(vocab_size=size, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                                     intermediate_size=8, max_position_embeddings=24, initializer_range=0.6))
    else:
        model = Qwen3Model(Qwen3Config(vocab_size=size, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                       num_attention_heads=2, num_key_value_heads=1, head_dim=4,
                                       max_position_embeddings=24, initializer_range=0.6))
    model.save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)


def choose_modules(draw, number):
    """The modules behind the Transformer, and the old keys of the pooling."""
    names = list(OLD_FLAGS)
    modes = [names[number % 6]] if draw.random() < 0.6 else draw.sample(names, draw.choice([2, 3]))
    modes.sort(key=names.index)
    pooling = st.Pooling(8, pooling_mode=modes, include_prompt=draw.random() < 0.6)
    chain, width = [pooling], 8 * len(modes)
    activations = [torch.nn.Tanh(), torch.nn.Identity(), torch.nn.GELU(), torch.nn.ReLU(), torch.nn.SiLU(),
                   torch.nn.ELU(), torch.nn.Sigmoid(), torch.nn.Mish(), torch.nn.LeakyReLU(), torch.nn.Softplus(),
                   torch.nn.Hardtanh(), torch.nn.Softsign()]
    for _ in range(draw.choice([0, 0, 1, 1, 2])):
        out = draw.choice([width, 5, 12])
        chain.append(st.Dense(width, out, bias=draw.random() < 0.7, activation_function=draw.choice(activations),
                              use_residual=draw.random() < 0.3))
        width = out
    if draw.random() < 0.3:
        norm = st.LayerNorm(width)
        torch.nn.init.normal_(norm.norm.weight)
        torch.nn.init.normal_(norm.norm.bias)
        chain.append(norm)
    if draw.random() < 0.3:
        chain.append(st.Dropout(0.3))
    if draw.random() < 0.6:
        chain.append(st.Normalize())
    return chain, modes, width


def rewrite_as_old(folder, modes, limit, lower):
    """As versions before 5.4 wrote it."""
    path = os.path.join(folder, "modules.json")
    modules = json.load(open(path))
    for module in modules:
        module["type"] = "sentence_transformers.models." + module["type"].rsplit(".", 1)[1]
        if module["type"].endswith("Pooling"):
            config = {"word_embedding_dimension": 8}
            for mode, flag in OLD_FLAGS.items():
                config["pooling_mode_" + flag] = mode in modes
            file = os.path.join(folder, module["path"], "config.json")
            config["include_prompt"] = json.load(open(file))["include_prompt"]
            json.dump(config, open(file, "w"), indent=1)
    json.dump(modules, open(path, "w"), indent=1)
    json.dump({"max_seq_length": limit, "do_lower_case": lower},
              open(os.path.join(folder, "sentence_bert_config.json"), "w"), indent=1)


def make_case(number):
    draw = random.Random(number)
    torch.manual_seed(100 + number)
    kind = "qwen3" if number % 4 == 3 else "bert"
    case = os.path.join(HERE, f"{number:02d}")
    shutil.rmtree(case, ignore_errors=True)
    prompts = {"query": "query : ", "document": "", "find": "find the "}
    with tempfile.TemporaryDirectory() as folder:
        chain, modes, width = choose_modules(draw, number)
        limit = draw.choice([None, 5, 7, 12])
        old, lower = draw.random() < 0.5, draw.random() < 0.3
        model = SentenceTransformer(modules=[st.Transformer(os.path.join(HERE, kind)), *chain], device="cpu",
                                    prompts=prompts,
                                    default_prompt_name=draw.choice([None, None, "query", "find"]),
                                    similarity_fn_name=draw.choice(["cosine", "dot", "euclidean", "manhattan"]),
                                    truncate_dim=draw.choice([None, None, None, max(1, width - 2)]))
        for layer in chain:
            if isinstance(layer, st.Dense):
                torch.nn.init.normal_(layer.linear.weight)
        if limit and not old:
            model.max_seq_length = limit
        model.save(folder, create_model_card=False)
        if old:
            rewrite_as_old(folder, modes, limit, lower)
        model = SentenceTransformer(folder, device="cpu")
        texts = [" ".join(draw.choices(WORDS + ["snow"], k=draw.choice([1, 2, 3, 6, 20, 40]))) for _ in range(6)]
        texts += ["", "Rain RAIN rain"]
        name = draw.choice([None, None, "query", "find"])
        vectors = model.encode(texts, prompt_name=name, batch_size=3)
        scores = model.similarity(vectors[0], vectors[1:])[0]
        for path, _, files in os.walk(folder):
            for file in files:
                inner = os.path.relpath(os.path.join(path, file), folder)
                same = os.path.join(HERE, kind, inner)
                if inner == "model.safetensors" or (os.path.exists(same) and
                                                    open(same, "rb").read() == open(os.path.join(path, file),
                                                                                    "rb").read()):
                    continue
                os.makedirs(os.path.dirname(os.path.join(case, inner)), exist_ok=True)
                shutil.copy(os.path.join(path, file), os.path.join(case, inner))
        json.dump({"model": kind, "texts": texts, "prompt_name": name, "vectors": vectors.tolist(),
                   "similarities": scores.tolist()}, open(os.path.join(case, "case.json"), "w"))


if __name__ == "__main__":
    save_base("bert")
    save_base("qwen3")
    for number in range(28):
        make_case(number)
