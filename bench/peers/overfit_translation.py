#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets a small T5 learn a hundred pairs by heart: sentences that this script makes, German beside English. Trains with
`transom train --task translation --config_name`, then reads the model with Transformers and translates greedily.

  overfit_translation.py --transom build/release/bin/transom --out FOLDER [--max_steps 600]"""
import argparse
import itertools
import json
import os
import subprocess
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

parser = argparse.ArgumentParser()
parser.add_argument("--transom", required=True)
parser.add_argument("--out", required=True)
parser.add_argument("--max_steps", type=int, default=600)
options = parser.parse_args()
out = Path(options.out)

WHO = [("the dog", "der Hund"), ("the cat", "die Katze"), ("the child", "das Kind"), ("my friend", "mein Freund"),
       ("the old woman", "die alte Frau")]
DOES = [("sees", "sieht"), ("likes", "mag"), ("seeks", "sucht"), ("draws", "zeichnet")]
WHAT = [("a tree", "einen Baum"), ("the house", "das Haus"), ("two birds", "zwei Vögel"), ("the red car", "das rote Auto"),
        ("nothing", "nichts")]


def sentence(parts):
    text = " ".join(parts)
    return text[0].upper() + text[1:] + "."


pairs = [{"en": sentence([part[0] for part in parts]), "de": sentence([part[1] for part in parts])}
         for parts in itertools.product(WHO, DOES, WHAT)]
assert len(pairs) == 100

import tokenizers  # noqa: E402
import transformers  # noqa: E402

out.mkdir(parents=True, exist_ok=True)
(out / "pairs.jsonl").write_text("".join(json.dumps({"translation": pair}) + "\n" for pair in pairs), encoding="utf-8")
tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
tokenizer.decoder = tokenizers.decoders.Metaspace()
tokenizer.train_from_iterator([text for pair in pairs for text in pair.values()], tokenizers.trainers.UnigramTrainer(
    vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
    single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>",
                                               unk_token="<unk>")
wrapped.save_pretrained(out / "start")
transformers.T5Config(vocab_size=len(wrapped), d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                      dropout_rate=0.0, decoder_start_token_id=0).save_pretrained(out / "start")
subprocess.run(
    [options.transom, "train", "--task", "translation", "--config_name", str(out / "start"), "--tokenizer_name",
     str(out / "start"), "--train_file", str(out / "pairs.jsonl"), "--source_lang", "en", "--target_lang", "de",
     "--output_dir", str(out / "model"), "--max_steps", str(options.max_steps), "--per_device_train_batch_size", "20",
     "--learning_rate", "3e-3", "--lr_scheduler_type", "constant_with_warmup", "--warmup_steps", "20",
     "--save_strategy", "no", "--logging_steps", "50"], check=True)

model = transformers.T5ForConditionalGeneration.from_pretrained(out / "model").eval()
wrapped = transformers.AutoTokenizer.from_pretrained(out / "model")
batch = wrapped([pair["en"] for pair in pairs], return_tensors="pt", padding=True)
written = model.generate(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=40,
                         num_beams=1, do_sample=False)
texts = wrapped.batch_decode(written, skip_special_tokens=True)
right = sum(text.strip() == pair["de"] for text, pair in zip(texts, pairs))
print(f"{right} of {len(pairs)} sentences are translated to the letter; the first: {texts[0]}")
