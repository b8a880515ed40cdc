# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of every family: the steps of the family's own tokenizer (tokenizer_recipes.json) with a small vocabulary
that the tokenizers library, or sentencepiece, trains on the licence of this tree and a few lines in other languages."""

import base64
import collections
import json
import shutil
import tempfile
import pathlib

import sentencepiece
import sentencepiece.sentencepiece_model_pb2 as sentencepiece_model
import tokenizers
import transformers

from common import GOLDEN, HERE, ROOT, TEXTS, write_json, write_lines
from smaller import short_vector

RECIPES = json.loads((HERE / "tokenizer_recipes.json").read_text())
LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]  # of wav2vec2
BATCH = [
    "The licence grants you the right to copy and distribute this program.",
    "A small model learns slowly.",
    "You may modify the source code, but keep the notices intact!",
    "No warranty is given by the authors.",
    "short",
    "Le c\u0153ur a ses raisons que la raison ne conna\u00eet point.",
]
PAIRS = [
    "Die Stra\u00dfe f\u00fchrt \u00fcber den Flu\u00df nach K\u00f6ln; \u00c4pfel kosten 3,50 \u20ac.",
    "second text",
    "",
    "The licence grants you the right to copy and distribute this program.",
    "x y z",
    "trois mots ici",
]
PROTEINS = [
    "MKTVRQERLKSIVRILERSKEPVSGAQLAEELSVSRQVIVQDIAYLRSLGYNIVATPRGYVLAGG",
    "M K T <mask> V R Q",
    "MK<mask>TV<mask><mask>",
    "MKTV-QER.LKZBUOX",
    "mktvRQ",
    "MKT1V 22 Q?J",
    " MKT\n\tVRQ ",
    "<cls>MKT<eos>",
    "MKT<null_1><pad><clsV",
    "",
    "   ",
    "The licence grants \u00e9 \u4f60\u597d M",
]
# A normalization of sentencepiece with few rules: full-width letters, a ligature, spaces and marks that join.
RULES = [
    "FF21\t41",
    "FF22\t42",
    "FF23\t43",
    "FF41\t61",
    "FF11\t31",
    "FF12\t32",
    "FF13\t33",
    "FB01\t66 69",
    "A0\t20",
    "3000\t20",
    "2003\t20",
    "9\t20",
    "A\t20",
    "D\t20",
    "65 301\tE9",
    "212B\tC5",
    "BD\t31 2F 32",
    "200B\t20",
    "AD\t",
]


def corpus(alphabet=1000):
    """Lines without the characters that are rarer than the first `alphabet`: trainers settle ties by chance."""
    licence = [line.strip() for line in (ROOT / "LICENSE").read_text().splitlines() if line.strip()]
    lines = licence + [text for text in TEXTS if len(text.split()) > 1] + BATCH + PAIRS
    counts = collections.Counter("".join(lines))
    rare = {ord(c): None for c in sorted(counts, key=lambda c: (-counts[c], c))[alphabet:]}
    return [line.translate(rare) for line in lines]


def size_of(recipe):
    kind = recipe["model"]["type"]
    if recipe["bytes"]:
        return 700
    return {"WordPiece": 420, "Unigram": 360}.get(kind, 360)


def trained_pieces(recipe):
    """The model part of a tokenizer.json, and the normalizer where sentencepiece made one."""
    if recipe["normalizer"] == "charsmap":
        return sentencepiece_pieces(recipe)
    skeleton = dict(
        version="1.0",
        truncation=None,
        padding=None,
        added_tokens=[],
        normalizer=recipe["normalizer"],
        pre_tokenizer=recipe["pre_tokenizer"],
        post_processor=None,
        decoder=recipe["decoder"],
    )
    first = recipe["first"] + ([f"<0x{i:02X}>" for i in range(256)] if recipe["bytes"] else [])
    model = dict(recipe["model"])
    kind = model["type"]
    if kind == "Unigram":
        model |= {"unk_id": 0, "vocab": [["<unk>", 0.0]]}
        trainer = tokenizers.trainers.UnigramTrainer(
            vocab_size=size_of(recipe),
            special_tokens=first,
            max_piece_length=8,
            unk_token=next(t for t in first if t.lower() in ("<unk>", "[unk]")),
            show_progress=False,
        )
    elif kind == "WordPiece":
        model |= {"vocab": {model["unk_token"]: 0}}
        trainer = tokenizers.trainers.WordPieceTrainer(
            vocab_size=size_of(recipe), special_tokens=first, show_progress=False
        )
    else:
        model |= {"vocab": {}, "merges": [], "unk_token": None}
        by_bytes = not recipe["bytes"]
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size_of(recipe),
            special_tokens=first,
            show_progress=False,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet() if by_bytes else [],
            **({"end_of_word_suffix": model["end_of_word_suffix"]} if model["end_of_word_suffix"] else {}),
        )
    library = tokenizers.Tokenizer.from_str(json.dumps(skeleton | {"model": model}))
    library.train_from_iterator(corpus(90 if recipe["bytes"] else 110), trainer)
    made = json.loads(library.to_str())["model"]
    for key, value in recipe["model"].items():
        made[key] = value
    return made, recipe["normalizer"]


def sentencepiece_model_of(size, seed_words="", rules=True, **options):
    """The bytes of a small sentencepiece model; its alphabet is that of the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "rules.tsv").write_text("".join(rule + "\n" for rule in RULES))
        lines = [line.replace("\n", " ").replace("\0", "") for line in corpus()]
        (folder / "corpus.txt").write_text("\n".join(line + seed_words for line in lines if line.strip()))
        normal = (
            {"normalization_rule_tsv": str(folder / "rules.tsv")} if rules else {"normalization_rule_name": "nmt_nfkc"}
        )
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "corpus.txt"),
            model_prefix=str(folder / "m"),
            vocab_size=size,
            model_type="unigram",
            character_coverage=0.99,
            num_threads=1,
            minloglevel=2,
            hard_vocab_limit=False,
            **normal,
            **options,
        )
        return (folder / "m.model").read_bytes()


def sentencepiece_pieces(recipe):
    proto = sentencepiece_model.ModelProto()
    proto.ParseFromString(sentencepiece_model_of(340, rules=recipe["first"][0] == "<s>"))
    pieces = [[piece.piece, rounded_score(piece.score)] for piece in proto.pieces if piece.type == 1]
    vocab = [[token, 0.0] for token in recipe["first"]] + pieces
    unk = [token for token, _ in vocab].index("<unk>")
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return (
        {"type": "Unigram", "unk_id": unk, "vocab": vocab, "byte_fallback": False},
        {"type": "Precompiled", "precompiled_charsmap": charsmap},
    )


def rounded_score(score):
    return float(f"{score:.7g}")


FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "source.spm", "target.spm")


def make_tokenizer_files(family, folder):
    """Writes what a checkpoint of the family has beside its weights: the files of tokenizers/."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        trained = GOLDEN / "tokenizers" / family / file
        if trained.exists() and trained != folder / file:
            shutil.copyfile(trained, folder / file)


def train(family, folder):
    """Makes those files. The libraries settle ties by chance, so that other runs give other vocabularies."""
    folder.mkdir(parents=True, exist_ok=True)
    if family == "wav2vec2":
        write_json(folder / "vocab.json", {token: i for i, token in enumerate(LETTERS)})
        tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
        tokenizer.save_pretrained(folder)
        write_json(folder / "vocab.json", {token: i for i, token in enumerate(LETTERS)})
        return
    if family == "marian":
        return make_marian(folder)
    if family == "esm":
        (folder / "vocab.txt").write_text("\n".join(transformers.models.esm.configuration_esm.get_default_vocab_list()))
        config = dict(tokenizer_class="EsmTokenizer", model_max_length=1024)
        return write_json(folder / "tokenizer_config.json", config)
    recipe = RECIPES[family]
    model, normalizer = trained_pieces(recipe)
    kind = model["type"]
    names = [e[0] for e in model["vocab"]] if kind == "Unigram" else sorted(model["vocab"], key=model["vocab"].get)
    for token in recipe["last_in_vocabulary"]:
        if token in names:
            continue
        if kind == "Unigram":
            model["vocab"].append([token, 0.0])
        else:
            model["vocab"][token] = len(names)
        names.append(token)
    if kind == "Unigram":
        model["vocab"] = [
            [token, 0.0 if token in recipe["first"] else rounded_score(score)] for token, score in model["vocab"]
        ]
        model["unk_id"] = names.index(next(t for t in recipe["first"] if t.lower() in ("<unk>", "[unk]")))
    ids = {token: i for i, token in enumerate(names)}
    added = [token for token in recipe["first"] if not token.endswith("NOTUSED")] + recipe["last"]
    for token in added:
        ids.setdefault(token, len(ids))
    entries = []
    for token in sorted(added, key=ids.get):
        flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        entries.append({"id": ids[token], "content": token} | flags | recipe["flags"].get(token, {}))
    post = json.loads(json.dumps(recipe["post_processor"]))
    for part in post.get("processors", [post]) if post else []:
        for name, item in (part.get("special_tokens") or {}).items():
            item["ids"] = [ids[token] for token in item["tokens"]]
        for key in ("sep", "cls"):
            if key in part:
                part[key] = [part[key][0], ids[part[key][0]]]
    whole = dict(
        version="1.0",
        truncation=None,
        padding=None,
        added_tokens=entries,
        normalizer=normalizer,
        pre_tokenizer=recipe["pre_tokenizer"],
        post_processor=post,
        decoder=recipe["decoder"],
        model=model,
    )
    (folder / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False, indent=0))
    write_json(folder / "tokenizer_config.json", recipe["config"])


def make_marian(folder):
    """Two sentencepiece models over one vocabulary, as Marian's checkpoints have them."""
    pieces = []
    for side, seed in (("source", ""), ("target", " le la les des une")):
        data = sentencepiece_model_of(200, seed)
        (folder / f"{side}.spm").write_bytes(data)
        proto = sentencepiece_model.ModelProto()
        proto.ParseFromString(data)
        pieces += [piece.piece for piece in proto.pieces if piece.type == 1 and piece.piece not in pieces]
    vocabulary = {token: i for i, token in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    write_json(folder / "vocab.json", vocabulary)
    tokenizer = transformers.MarianTokenizer(
        str(folder / "source.spm"),
        str(folder / "target.spm"),
        str(folder / "vocab.json"),
        source_lang="en",
        target_lang="fr",
        model_max_length=512,
    )
    with tempfile.TemporaryDirectory() as saved:
        tokenizer.save_pretrained(saved)
        shutil.copy(pathlib.Path(saved) / "tokenizer_config.json", folder / "tokenizer_config.json")


def load(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def vectors_of(tokenizer, texts=TEXTS):
    """Lines of vectors.jsonl: texts alone, in pairs, with and without special tokens."""
    for i, text in enumerate(texts):
        pair = None if i % 7 else texts[(i * 5 + 3) % len(texts)]
        special = i % 9 != 5
        call = dict(add_special_tokens=special, return_token_type_ids=True, return_attention_mask=True)
        fast = tokenizer.is_fast
        made = tokenizer(text, pair if pair else None, return_offsets_mapping=fast, **call)
        ids = list(made["input_ids"])
        yield short_vector({
            "text": text,
            "text_pair": pair,
            "add_special_tokens": special,
            "ids": ids,
            "type_ids": list(made["token_type_ids"]),
            "attention_mask": list(made["attention_mask"]),
            "offsets": [list(pair) for pair in made["offset_mapping"]] if fast else None,
            "tokens": tokenizer.convert_ids_to_tokens(ids),
            "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            "decoded_skip_special": tokenizer.decode(ids, skip_special_tokens=True),
        })


def batches_of(tokenizer):
    calls = [
        ({"padding": True}, False, {}),
        ({"padding": True, "pad_to_multiple_of": 8}, False, {}),
        ({"padding": "max_length", "max_length": 16, "truncation": True}, False, {}),
        ({"truncation": True, "max_length": 8}, False, {}),
        ({"padding": "max_length", "max_length": 24, "truncation": "only_first"}, True, {}),
        ({"padding": True, "truncation": "longest_first", "max_length": 20}, True, {}),
        ({"padding": True, "padding_side": "left"}, False, {}),
        ({"padding": True, "truncation": True, "max_length": 10}, False, {"truncation_side": "left"}),
    ]
    if tokenizer.is_fast:
        calls.append(
            ({"truncation": True, "max_length": 12, "stride": 3, "return_overflowing_tokens": True}, False, {})
        )
    for kwargs, in_pairs, settings in calls:
        before = tokenizer.truncation_side
        tokenizer.truncation_side = settings.get("truncation_side", "right")
        line = {"texts": BATCH, "text_pairs": PAIRS if in_pairs else None, "kwargs": kwargs}
        try:
            made = tokenizer(BATCH, PAIRS if in_pairs else None, return_token_type_ids=True, **kwargs)
            line |= {
                "truncation_side": tokenizer.truncation_side,
                "padding_side": kwargs.get("padding_side", tokenizer.padding_side),
            }
            line |= {
                key: made[key]
                for key in ("input_ids", "token_type_ids", "attention_mask", "overflow_to_sample_mapping")
                if key in made
            }
        except Exception as error:  # pyo3 raises Exception itself
            line["error"] = f"{type(error).__name__}: {error}"
        tokenizer.truncation_side = before
        yield line


FAMILIES = sorted([*RECIPES, "esm", "marian", "wav2vec2"])


def train_all(out):
    for family in FAMILIES:
        shutil.rmtree(out / "tokenizers" / family, ignore_errors=True)
        train(family, out / "tokenizers" / family)


def make(out, only=None):
    for family in only or FAMILIES:
        folder = out / "tokenizers" / family
        make_tokenizer_files(family, folder)
        if family == "wav2vec2":
            write_json(folder / "config.json", {"model_type": "wav2vec2"})
        tokenizer = load(folder)
        lines = list(vectors_of(tokenizer, PROTEINS if family == "esm" else TEXTS))
        write_lines(folder / "vectors.jsonl", lines)
        write_lines(folder / "batch.jsonl", batches_of(tokenizer))
        write_json(
            folder / "case.json",
            {"family": family, "class": type(tokenizer).__name__, "size": len(tokenizer), "vectors": len(lines)},
        )
