#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of encoder-decoders with beam search, by `transom bench` and by CTranslate2, in turns.

  encoder_decoder_race.py FOLDER --transom build/release/bin/transom [--models t5-small marian whisper-tiny \
    --types int8 float32 --num_beams 4 --batch_size 1 --sequence_length 32 --max_new_tokens 64 --rounds 3 --threads 2]

Models of the shapes of T5-small, of a Marian of opus-mt and of Whisper-tiny with random weights are made in FOLDER, once;
Whisper (CTranslate2 is what computes in faster-whisper) hears 30 seconds of noise as mel bands. No token ends a text, so
that both write as many; a sequence is written whole, its encoder included. A round is a process of each; shown are
medians over all sequences of all rounds."""
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
parser.add_argument("--models", nargs="+", default=["t5-small", "marian", "whisper-tiny"])
parser.add_argument("--types", nargs="+", default=["int8", "float32"])
parser.add_argument("--num_beams", type=int, default=4)
parser.add_argument("--batch_size", type=int, default=1)
parser.add_argument("--sequence_length", type=int, default=32)
parser.add_argument("--max_new_tokens", type=int, default=64)
parser.add_argument("--repeat", type=int, default=5)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--peer", action="store_true", help="run CTranslate2 alone (used by the script itself)")
options = parser.parse_args()


def make(name, folder):
    """A checkpoint of Transformers, and the same in CTranslate2's format, both of float32."""
    import torch
    import transformers
    from ctranslate2.converters.transformers import MarianMTLoader, T5Loader, WhisperLoader

    class Whisper(WhisperLoader):
        def get_vocabulary(self, model, tokenizer):
            return []

        def set_config(self, config, model, tokenizer):
            config.suppress_ids = config.suppress_ids_begin = config.lang_ids = config.alignment_heads = []

        def set_vocabulary(self, spec, tokens):
            pass

    torch.manual_seed(0)
    if name == "t5-small":
        config = transformers.T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8,
                                       decoder_start_token_id=0)
        model, loader = transformers.T5ForConditionalGeneration(config), T5Loader
    elif name == "whisper-tiny":
        config = transformers.WhisperConfig(vocab_size=51865, d_model=384, encoder_layers=4, decoder_layers=4,
                                            encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536,
                                            decoder_ffn_dim=1536, num_mel_bins=80)
        model, loader = transformers.WhisperForConditionalGeneration(config), WhisperLoader
    else:
        config = transformers.MarianConfig(vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6,
                                           encoder_ffn_dim=2048, decoder_ffn_dim=2048, encoder_attention_heads=8,
                                           decoder_attention_heads=8, max_position_embeddings=512, pad_token_id=58100,
                                           eos_token_id=0, decoder_start_token_id=58100, activation_function="swish",
                                           scale_embedding=True, static_position_embeddings=True)
        model, loader = transformers.MarianMTModel(config), MarianMTLoader
    model.save_pretrained(folder / "transformers")

    class Words:
        """As much of a tokenizer as the converter asks for: tokens are called by their numbers."""

        unk_token, bos_token, eos_token, pad_token, mask_token = "1", "0", "0", "0", None
        eos_token_id, pad_token_id, unk_token_id = 0, 0, 1

        def get_vocab(self):
            return {str(i): i for i in range(config.vocab_size)}

        def __len__(self):
            return config.vocab_size

    if name == "whisper-tiny":
        spec = Whisper()(model, None)
        names = {50257: "<|endoftext|>", 50258: "<|startoftranscript|>", 50259: "<|en|>", 50359: "<|transcribe|>",
                 50360: "<|startoflm|>", 50361: "<|startofprev|>", 50362: "<|nospeech|>", 50363: "<|notimestamps|>"}
        names |= {50364 + i: f"<|{i * 0.02:.2f}|>" for i in range(config.vocab_size - 50364)}
        spec.register_vocabulary([names.get(i, str(i)) for i in range(config.vocab_size)])
        return save(spec, folder)

    class Own(loader):
        def get_vocabulary(self, model, tokenizer):
            return [str(i) for i in range(config.vocab_size)]

        def set_vocabulary(self, spec, tokens):
            count = spec.decoder.projection.weight.shape[0]  # a Marian's without the padding token
            spec.register_source_vocabulary(tokens[:count])
            spec.register_target_vocabulary(tokens[:count])

        def set_config(self, config, model, tokenizer):
            config.bos_token = config.eos_token = config.unk_token = "0"
            config.decoder_start_token = str(model.config.decoder_start_token_id)

    save(Own()(model, Words()), folder)


def save(spec, folder):
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(_fresh(folder / "ctranslate2")))


def _fresh(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def prompts():
    return [[str(1000 + (37 * i + 11 * row) % 20000) for i in range(options.sequence_length)]
            for row in range(options.batch_size)]


def peer(folder, type_name):
    """Seconds of loading and of each sequence, as JSON on standard output."""
    import ctranslate2

    started = time.perf_counter()
    if folder.name == "whisper-tiny":
        import numpy

        model = ctranslate2.models.Whisper(str(folder / "ctranslate2"), device="cpu", compute_type=type_name,
                                           inter_threads=1, intra_threads=options.threads)
        noise = numpy.random.default_rng(0).standard_normal((options.batch_size, 80, 3000), dtype=numpy.float32)
        prompt = [[50258, 50259, 50359, 50363]] * options.batch_size
        # CTranslate2 writes half of max_length, as Whisper's own program does.
        write = lambda: [r.sequences_ids[0] for r in model.generate(  # noqa: E731
            ctranslate2.StorageView.from_array(noise), prompt, beam_size=options.num_beams,
            max_length=2 * options.max_new_tokens, suppress_tokens=[50257], suppress_blank=False)]
        return measure(write, time.perf_counter() - started)
    translator = ctranslate2.Translator(str(folder / "ctranslate2"), device="cpu", compute_type=type_name,
                                        inter_threads=1, intra_threads=options.threads)
    write = lambda: [r.hypotheses[0] for r in translator.translate_batch(  # noqa: E731
        prompts(), beam_size=options.num_beams, return_scores=True, min_decoding_length=options.max_new_tokens,
        max_decoding_length=options.max_new_tokens)]
    measure(write, time.perf_counter() - started)


def measure(write, load):
    seconds = []
    for turn in range(options.repeat + 1):  # the first warms up
        begin = time.perf_counter()
        texts = write()
        if turn:
            seconds.append(time.perf_counter() - begin)
        if any(len(text) < options.max_new_tokens - 1 for text in texts):
            sys.exit(f"CTranslate2 wrote {[len(text) for text in texts]} tokens")
    print(json.dumps({"load": load, "sequence": seconds}))


def ours(folder, type_name):
    with tempfile.TemporaryDirectory() as work:
        report = Path(work) / "report.json"
        quantization = ["--quantization", "int8"] if type_name == "int8" else []
        task = "automatic-speech-recognition" if folder.name == "whisper-tiny" else "translation"
        subprocess.run([options.transom, "bench", str(folder / "transformers"), "--task", task,
                        "--num_beams", str(options.num_beams), "--batch_size", str(options.batch_size),
                        "--sequence_length", str(options.sequence_length), "--max_new_tokens",
                        str(options.max_new_tokens), "--warmup_runs", "1", "--iterations", str(options.repeat),
                        "--duration", "0", "--threads", str(options.threads), "--json", str(report), *quantization],
                       check=True, stdout=subprocess.DEVNULL)
        phases = json.loads(report.read_text())["report"]
        return {"load": phases["load_model"]["latency"]["values"][0],
                "sequence": phases["generate"]["latency"]["values"]}


def theirs(folder, type_name):
    sizes = [f"--{name}={getattr(options, name)}" for name in
             ("num_beams", "batch_size", "sequence_length", "max_new_tokens", "repeat", "threads")]
    done = subprocess.run([sys.executable, sys.argv[0], str(folder), "--peer", "--transom", options.transom,
                           "--types", type_name, *sizes], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if options.peer:
    peer(options.folder, options.types[0])
    sys.exit()
print(f"{'model':<12} {'type':<8} {'who':<12} {'load s':>8} {'tokens a second':>16}")
for model in options.models:
    place = options.folder / model
    if not (place / "ctranslate2" / "model.bin").exists():
        make(model, _fresh(place))
    for kind in options.types:
        results = {"transom": [], "ctranslate2": []}
        for _ in range(options.rounds):
            results["transom"].append(ours(place, kind))
            results["ctranslate2"].append(theirs(place, kind))
        rates = {}
        for who, rounds in results.items():
            sequence = statistics.median(x for r in rounds for x in r["sequence"])
            rates[who] = options.batch_size * options.max_new_tokens / sequence
            load = statistics.median(r["load"] for r in rounds)
            print(f"{model:<12} {kind:<8} {who:<12} {load:>8.2f} {rates[who]:>16.1f}", flush=True)
        print(f"{model:<12} {kind:<8} ratio {rates['transom'] / rates['ctranslate2']:.2f}", flush=True)
