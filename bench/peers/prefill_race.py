#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of reading a prompt with 8-bit weights and inputs, by `transom bench` and by CTranslate2, in turns.

  prefill_race.py FOLDER --transom build/release/bin/transom [--sequence_length 512 --rounds 3 --threads 2]

A LLaMA of 160M parameters with random weights is made in FOLDER, once. Both read the prompt and choose one token behind
it; a round is a process of each, shown are medians over all prompts of all rounds."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--transom", required=True)
parser.add_argument("--sequence_length", type=int, default=512)
parser.add_argument("--batch_size", type=int, default=1)
parser.add_argument("--repeat", type=int, default=5)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--peer", action="store_true", help="run CTranslate2 alone (used by the script itself)")
options = parser.parse_args()


def make(folder):
    """The checkpoint as Transformers has it, and the same in CTranslate2's format, both of float32."""
    import torch
    import transformers
    from ctranslate2.converters.transformers import LlamaLoader

    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=32000, hidden_size=768, intermediate_size=3072, num_hidden_layers=12,
                                      num_attention_heads=12, max_position_embeddings=2048)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder / "transformers")

    class Loader(LlamaLoader):
        def get_vocabulary(self, model, tokenizer):
            return [str(i) for i in range(config.vocab_size)]

        def set_config(self, made, model, tokenizer):
            made.bos_token, made.eos_token, made.unk_token = "1", "2", "0"
            made.layer_norm_epsilon = model.config.rms_norm_eps

    spec = Loader()(model, None)
    spec.validate()
    spec.optimize(quantization=None)
    (folder / "ctranslate2").mkdir(parents=True, exist_ok=True)
    spec.save(str(folder / "ctranslate2"))


def peer():
    """Seconds of each prompt, as JSON on standard output."""
    import ctranslate2

    generator = ctranslate2.Generator(str(options.folder / "ctranslate2"), device="cpu", compute_type="int8",
                                      inter_threads=1, intra_threads=options.threads)
    prompts = [[str(1000 + (37 * i + 11 * row) % 20000) for i in range(options.sequence_length)]
               for row in range(options.batch_size)]
    seconds = []
    for turn in range(options.repeat + 1):  # the first warms up
        begin = time.perf_counter()
        generator.generate_batch(prompts, max_length=1, min_length=1, beam_size=1, include_prompt_in_result=False)
        if turn:
            seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds))


def ours():
    with tempfile.TemporaryDirectory() as work:
        report = Path(work) / "report.json"
        subprocess.run([options.transom, "bench", str(options.folder / "transformers"), "--task", "text-generation",
                        "--batch_size", str(options.batch_size), "--sequence_length", str(options.sequence_length),
                        "--max_new_tokens", "2", "--warmup_runs", "1", "--iterations", str(options.repeat), "--duration",
                        "0", "--threads", str(options.threads), "--quantization", "int8", "--json", str(report)],
                       check=True, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text())["report"]["prefill"]["latency"]["values"]


def theirs():
    done = subprocess.run([sys.executable, *sys.argv, "--peer"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if options.peer:
    peer()
    sys.exit()
if not (options.folder / "ctranslate2" / "model.bin").exists():
    make(options.folder)
seconds = {"transom": [], "ctranslate2": []}
for _ in range(options.rounds):
    seconds["transom"] += ours()
    seconds["ctranslate2"] += theirs()
rates = {who: options.batch_size * options.sequence_length / statistics.median(found) for who, found in seconds.items()}
for who, rate in rates.items():
    print(f"{who:<12} {rate:>10.1f} tokens a second")
print(f"ratio {rates['transom'] / rates['ctranslate2']:.2f}")
