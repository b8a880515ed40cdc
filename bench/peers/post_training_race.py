#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning of real checkpoints on rows of real lengths: `transom train` beside TRL (sft, dpo, grpo),
sentence-transformers (pairs with MultipleNegativesRankingLoss) and Transformers' Trainer (SST-2), in turns, on the same
rows.

  post_training_race.py --transom build/release/bin/transom --chats chats.jsonl --lm DIR --pairs pairs.jsonl \
    --sentences DIR --sst2 sst2.csv [--lora DIR --rounds 3 --steps 6 --threads 2 \
    --cases sft sft-packed dpo grpo lora pairs sst2]

`--lm`: a language model with a chat template (SmolLM2-135M), `--lora`: one that is trained with LoRA, `--sentences`: an
encoder with modules.json (all-MiniLM-L6-v2). `--chats`: rows of `messages`; pairs of preferences are made of them:
the first answer, and that of the next row, which is rejected; policies complete their first questions. `--pairs`: rows
of `anchor` and `positive`. `--sst2`: rows of `text` and `label`. As many rows as the updates take are read of each file,
in one epoch, so that all contenders compute the same tokens (what policies write is drawn anew by each).

A round is a fresh process of each contender. Shown are medians over the rounds: seconds of the training from the first
batch to the last update, compilation included, and their ratio, that of the whole processes, the peaks of resident
memory and their ratio, and how far the means of the losses differ. `--bf16`: on processors that have it, both."""
import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def rows_of(path, count):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    if len(rows) < count:
        sys.exit(f"{path}: expected at least {count} rows, found {len(rows)}: give fewer --steps or a longer file")
    return rows[:count]


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
    return path


def preferences_of(chats):
    """Each first answer, and the next row's one, which is rejected."""
    def turn(row, role):
        return next(message for message in row["messages"] if message["role"] == role)

    answers = [turn(row, "assistant") for row in chats]
    return [{"prompt": [turn(row, "user")], "chosen": [answers[i]], "rejected": [answers[(i + 1) % len(answers)]]}
            for i, row in enumerate(chats)]


def prompts_of(chats):
    return [{"prompt": row["messages"][:1]} for row in chats]


class Case:
    def __init__(self, name, title, task, model, peer, rows, max_length, ours=(), theirs=()):
        self.name, self.title, self.task, self.model, self.peer = name, title, task, model, peer
        self.rows, self.max_length, self.ours, self.theirs = rows, max_length, list(ours), list(theirs)
        self.file = None


def cases_of(options):
    lora = ["--use_peft", "--lora_r", "16", "--lora_alpha", "32", "--lora_dropout", "0", "--lora_target_modules",
            "all-linear"]
    rows = options.rows
    found = []
    if options.lm:
        found += [Case("sft", "SFT", "sft", options.lm, "TRL", rows, 1024),
                  Case("sft-packed", "SFT, packed", "sft", options.lm, "TRL", rows, 1024, ["--packing"], ["--packing"]),
                  Case("dpo", "DPO", "dpo", options.lm, "TRL", rows, 1024),
                  Case("grpo", f"GRPO, 8 completions of {options.completion}", "grpo", options.lm, "TRL", 8 * rows,
                       options.completion, ["--reward_funcs", f"length:{options.completion // 2}"])]
    if options.lora:
        found.append(Case("lora", "SFT with LoRA", "sft", options.lora, "TRL and PEFT", rows, 1024, lora, ["--lora"]))
    if options.sentences and options.pairs:
        found.append(Case("pairs", "pairs of sentences", "pairs", options.sentences, "sentence-transformers", 16 * rows,
                          256, ["--loss", "MultipleNegativesRankingLoss"]))
    if options.sentences and options.sst2:
        found.append(Case("sst2", "SST-2", "sst2", options.sentences, "Trainer", 8 * rows, 128))
    return [case for case in found if not options.cases or case.name in options.cases]


def write_file(case, options):
    """The rows that the updates of a case take, and no more."""
    count = case.rows * options.steps_of(case)
    path = os.path.join(options.folder, f"{case.name}.{'csv' if case.task == 'sst2' else 'jsonl'}")
    if case.task == "sst2":
        with open(options.sst2, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))[:count]
        if len(rows) < count:
            sys.exit(f"{options.sst2}: expected at least {count} rows, found {len(rows)}")
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["text", "label"])
            writer.writeheader()
            writer.writerows({name: row[name] for name in ("text", "label")} for row in rows)
    elif case.task == "pairs":
        write_rows(path, rows_of(options.pairs, count))
    else:
        chats = rows_of(options.chats, count)
        write_rows(path, {"dpo": preferences_of, "grpo": prompts_of}.get(case.task, list)(chats))
    case.file = path


def our_command(case, options, output):
    tasks = {"pairs": "sentence-embedding", "sst2": "text-classification"}
    length = "--max_completion_length" if case.task == "grpo" else "--max_seq_length"
    return [options.transom, "train", "--task", tasks.get(case.task, case.task), "--model_name_or_path", case.model, "--train_file",
            case.file, "--output_dir", output, "--per_device_train_batch_size", str(case.rows), "--max_steps",
            str(options.steps_of(case)), length, str(case.max_length), "--logging_steps", "1",
            "--save_strategy", "no", "--seed", "42", *(["--bf16"] if options.bf16 else []), *case.ours,
            *options.transom_options]


def their_command(case, options, output):
    return [sys.executable, os.path.join(HERE, "post_training.py"), "--task", case.task, "--model", case.model,
            "--train_file", case.file, "--output_dir", output, "--rows", str(case.rows), "--steps",
            str(options.steps_of(case)), "--max_length", str(case.max_length), "--threads", str(options.threads),
            *(["--bf16"] if options.bf16 else []), *case.theirs]


def timed(command, options):
    """Seconds of the process, bytes of its peak of resident memory, and what it wrote."""
    environment = {**os.environ, "TRANSOM_NUM_THREADS": str(options.threads), "TOKENIZERS_PARALLELISM": "true"}
    with tempfile.TemporaryFile("w+") as written, tempfile.TemporaryFile("w+") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=written, stderr=errors, text=True, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        written.seek(0), errors.seek(0)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {process.returncode}\n{errors.read()[-4000:]}")
        return seconds, used.ru_maxrss * 1024, written.read()


def run_ours(case, options):
    output = os.path.join(options.folder, "ours")
    shutil.rmtree(output, ignore_errors=True)
    seconds, memory, _ = timed(our_command(case, options, output), options)
    with open(os.path.join(output, "trainer_state.json"), encoding="utf-8") as file:
        log = json.load(file)["log_history"]
    losses = [record["loss"] for record in log if "loss" in record]
    return {"process": seconds, "memory": memory, "training": next(r["train_runtime"] for r in log if "train_runtime" in r),
            "losses": losses, "updates": []}


def run_theirs(case, options):
    output = os.path.join(options.folder, "theirs")
    shutil.rmtree(output, ignore_errors=True)
    seconds, memory, text = timed(their_command(case, options, output), options)
    return {"process": seconds, "memory": memory, **json.loads(text.strip().splitlines()[-1])}


def race(case, options):
    write_file(case, options)
    ours, theirs = [], []
    for number in range(options.rounds):
        turns = [(ours, run_ours), (theirs, run_theirs)]
        for results, run in turns if number % 2 == 0 else reversed(turns):
            results.append(run(case, options))
            print(f"{case.name}: round {number + 1}: {run.__name__[4:]} {results[-1]['training']:.2f} s, "
                  f"{results[-1]['memory'] / 2**30:.2f} GiB", file=sys.stderr)
    return {"case": case.name, "title": case.title, "peer": case.peer, "updates": options.steps_of(case),
            "rows": case.rows, "ours": ours, "theirs": theirs}


def table(results):
    lines = [["case", "beside", "updates", "transom", "peer's", "ratio", "whole process", "memory", "peer's", "ratio",
              "losses differ by"]]
    for result in results:
        def median(side, name):
            return statistics.median(run[name] for run in result[side])

        losses = [statistics.fmean(result[side][0]["losses"]) for side in ("ours", "theirs")]
        lines.append([
            result["title"], result["peer"], f"{result['updates']} of {result['rows']}",
            f"{median('ours', 'training'):.2f} s", f"{median('theirs', 'training'):.2f} s",
            f"{median('theirs', 'training') / median('ours', 'training'):.2f}",
            f"{median('theirs', 'process') / median('ours', 'process'):.2f}",
            f"{median('ours', 'memory') / 2**30:.2f} GiB", f"{median('theirs', 'memory') / 2**30:.2f} GiB",
            f"{median('theirs', 'memory') / median('ours', 'memory'):.2f}",
            f"{abs(losses[0] - losses[1]) / max(abs(losses[1]), 1e-9):.1e}"])
    return "\n".join(["| " + " | ".join(lines[0]) + " |", "| --- " * 3 + "| ---: " * 8 + "|",
                      *("| " + " | ".join(line) + " |" for line in lines[1:])])


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transom", required=True)
    parser.add_argument("--lm")
    parser.add_argument("--chats")
    parser.add_argument("--lora")
    parser.add_argument("--sentences")
    parser.add_argument("--pairs")
    parser.add_argument("--sst2")
    parser.add_argument("--cases", nargs="+", choices=["sft", "sft-packed", "dpo", "grpo", "lora", "pairs", "sst2"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="updates of language models; four times as many of encoders")
    parser.add_argument("--rows", type=int, default=4, help="of an update of language models; pairs 16 times as many, "
                                                            "SST-2 8 times, completions of policies too")
    parser.add_argument("--completion", type=int, default=64, help="the longest completion of a policy, in tokens")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--transom_options", nargs="+", default=[], metavar="OPTION", help="as padding_free=false")
    parser.add_argument("--folder", help="where files are made and kept (default: a temporary folder)")
    parser.add_argument("--output", help="write all numbers here as JSON")
    options = parser.parse_args()
    if (options.lm or options.lora) and not options.chats:
        parser.error("--chats: expected a file of chats for the language models, found none")
    options.transom_options = [part for option in options.transom_options for part in ("--" + option).split("=", 1)]
    options.steps_of = lambda case: options.steps if case.task in ("sft", "dpo", "grpo") else 4 * options.steps
    options.folder = options.folder or tempfile.mkdtemp(prefix="transom-race-")
    os.makedirs(options.folder, exist_ok=True)
    return options


def main():
    options = parse()
    if os.getloadavg()[0] > 0.5:
        print(f"the machine is busy: a load of {os.getloadavg()[0]:.1f}", file=sys.stderr)
    results = []
    for case in cases_of(options):
        results.append(race(case, options))
        print(table(results[-1:]).splitlines()[-1], file=sys.stderr)
    print(table(results))
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump({"threads": options.threads, "bf16": options.bf16, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
