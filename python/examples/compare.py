# SPDX-License-Identifier: Apache-2.0
"""Runs each example with Transom and, the import changed, with Transformers, and lays their logs side by side.

  compare.py GOLDEN DATA [NAME ...]    GOLDEN: small models, DATA: data sets, NAME: examples, by default all

Needs torch, transformers and accelerate beside transom. Exit status 1 if a loss differs by more than 2e-4."""
import json
import os
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
COMMON = ("--num_train_epochs 1 --per_device_train_batch_size 4 --per_device_eval_batch_size 4 --learning_rate 1e-3 "
          "--logging_steps 4 --save_strategy no --report_to none --seed 7 --use_cpu --disable_tqdm true").split()
WORDS = "program source warranty licence copy author work notice right model text small free change".split()


def questions(path):
    with open(path, "w", encoding="utf-8") as file:
        for i in range(24):
            words = [WORDS[(i * k) % len(WORDS)] for k in range(1, 24)]
            context, answer = " ".join(words), words[i % 20 + 2]
            row = {"question": f"which {WORDS[i % 5]}?", "context": context, "answer": answer,
                   "answer_start": len(" ".join(words[:i % 20 + 2])) + 1}
            file.write(json.dumps(row) + "\n")


def pairs(path):
    with open(path, "w", encoding="utf-8") as file:
        for i in range(24):
            words = [WORDS[(i + 3 * k) % len(WORDS)] for k in range(3 + i % 6)]
            file.write(json.dumps({"source": "The " + " ".join(words) + ".", "target": " ".join(words[::-1])}) + "\n")


def clips(path):
    with open(path, "w", encoding="utf-8") as file:
        for i in range(12):
            row = {"seconds": 0.3 + 0.02 * i, "pitch": 200 + 40 * i, "text": WORDS[i % 5].upper()[:3 + i % 4]}
            file.write(json.dumps(row) + "\n")


def cases(golden, data, folder):
    made = {name: os.path.join(folder, name) for name in ("questions", "pairs", "clips")}
    questions(made["questions"]), pairs(made["pairs"]), clips(made["clips"])
    return {
        "glue": ("distilbert-sequence-classification", "--train_file", f"{data}/sst2/train.tsv", "--validation_file",
                 f"{data}/sst2/dev.tsv", "--max_train_samples", "96", "--max_eval_samples", "32"),
        "ner": ("bert-token-classification", "--train_file", f"{data}/wnut17/wnut17train.conll", "--validation_file",
                f"{data}/wnut17/emerging.dev.conll", "--max_train_samples", "64", "--max_eval_samples", "32"),
        "qa": ("bert-question-answering", "--train_file", made["questions"]),
        "clm": ("gpt2-lm", "--train_file", f"{data}/tinyshakespeare/input.txt", "--max_train_samples", "64"),
        "translation": ("marian", "--train_file", made["pairs"], "--predict_with_generate"),
        "image_classification": ("vit-image-classification", "--train_file", f"{data}/digits/digits.csv.gz",
                                 "--max_train_samples", "64"),
        "asr": ("wav2vec2-ctc", "--train_file", made["clips"]),
        "fill_mask": ("bert-masked-lm", "--train_file", f"{data}/tinyshakespeare/input.txt", "--max_train_samples",
                      "64"),
    }


def run(name, library, model, arguments, folder):
    with open(os.path.join(FOLDER, name + ".py"), encoding="utf-8") as file:
        text = file.read().replace("from transom import", f"from {library} import")
    script, out = os.path.join(folder, f"{name}_{library}.py"), os.path.join(folder, f"{name}_{library}")
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)
    begin = time.monotonic()
    done = subprocess.run([sys.executable, script, "--model_name_or_path", model, "--output_dir", out, *arguments,
                           *COMMON], capture_output=True, text=True)
    seconds = time.monotonic() - begin
    if done.returncode:
        return None, done.stderr[-1500:], seconds
    with open(os.path.join(out, "trainer_state.json"), encoding="utf-8") as file:
        return json.load(file)["log_history"], done.stdout, seconds


def main():
    golden, data = sys.argv[1:3]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = os.environ.get("KEEP") or folder
        table = cases(golden, data, folder)
        for name in sys.argv[3:] or table:
            model, *arguments = table[name]
            model = os.path.join(golden, model, "model")
            ours, text, seconds = run(name, "transom", model, arguments, folder)
            theirs, other, their_seconds = run(name, "transformers", model, arguments, folder)
            if ours is None or theirs is None:
                print(f"{name}: {'transom' if ours is None else 'transformers'} failed:\n"
                      f"{text if ours is None else other}")
                failed = True
                continue
            worst, shown = 0.0, []
            for a, b in zip(ours, theirs):
                for key in a.keys() & b.keys():
                    if key.endswith("loss") or key in ("grad_norm", "learning_rate") or key.startswith(
                            "eval_") and not key.endswith(("runtime", "per_second")):
                        difference = abs(a[key] - b[key]) / max(1.0, abs(b[key]))
                        worst = max(worst, difference)
                        if difference > 2e-4:
                            shown.append(f"  {key} at step {b.get('step')}: {a[key]} and {b[key]}")
            missing = [sorted(b.keys() - a.keys()) for a, b in zip(ours, theirs) if b.keys() - a.keys()]
            failed |= worst > 2e-4 or len(ours) != len(theirs)
            print(f"{name}: {len(ours)} and {len(theirs)} records, largest difference {worst:.1e}, {seconds:.1f} s and "
                  f"{their_seconds:.1f} s", *missing[:1], *shown[:6], sep="\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
