#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races Transom against its peers on the same checkpoints, inputs and number of threads.

Each contender is a process that stays warm. They take turns, so that only one computes at a time and a machine that
becomes slower is slower for all. Prints medians and the ratio peer/transom: above 1, Transom is faster.

  bench/peers/race.py --transom build/release/bin/transom --minilm DIR --sst2 DIR --output results.json --plot results.svg
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import cases as definitions

HERE = os.path.dirname(os.path.abspath(__file__))
BUSY = os.getloadavg()[0]
PEERS_THAT_SHOW = ("torch", "onnxruntime", "openvino")  # their outputs, to be compared; compiled, torch's are its own
PAUSE = 0.3  # seconds between turns: OpenMP's threads spin that long after their last work


class Contender:
    """A process that answers `run N` with {"seconds": [...]}."""

    def __init__(self, name, command, environment):
        self.name, self.seconds = name, []
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=environment)
        self.ready = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            raise RuntimeError(f"{self.name}: {self.log.read().strip()[-400:]}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def run(self, runs):
        return self.ask(f"run {runs}")["seconds"]

    def first(self):
        """Seconds of the first run, compilation included."""
        return next(self.ready[name] for name in ("first", "first_train", "first_forward") if name in self.ready)

    def close(self):
        self.memory = peak_memory(self.process.pid)
        try:
            self.process.stdin.write("quit\n")
            self.process.stdin.close()
        except OSError:
            pass
        self.process.wait()


def peak_memory(process):
    """Megabytes that were resident at the worst moment, mapped files included."""
    try:
        with open(f"/proc/{process}/status", encoding="utf-8") as file:
            return next((int(line.split()[1]) / 1e3 for line in file if line.startswith("VmHWM")), None)
    except OSError:
        return None


def static_model(case, options):
    """The model with 8-bit weights and inputs, made by `transom quantize`; kept for the next case."""
    path = f"{case.model}-static"
    if not os.path.exists(os.path.join(path, "config.json")):
        subprocess.run([options.transom, "quantize", case.model, path, "--method", "static", "--bits", "8",
                        "--calibration_file", case.calibration], check=True, stdout=subprocess.DEVNULL)
    return path


def command_of(case, peer, options):
    if peer in ("transom", "before"):
        program = options.transom if peer == "transom" else options.before
        kinds = {"int8": ["--quantization", "int8"], "static": ["--dtype", "float32"]}
        kind = kinds.get(case.dtype, ["--dtype", case.dtype])
        model = static_model(case, options) if case.dtype == "static" else case.model
        # Inference on one shape traces once, as the peers' graphs do; training traces every step, as eager PyTorch does.
        mode = ["--mode", "compile"] if case.task == "forward" else []
        command = [program, "bench", model, "--task", case.task, *kind, "--inputs", case.inputs, *mode,
                   "--threads", str(options.threads), "--interactive"]
        return command + (["--device", options.device] if options.device else [])
    return [sys.executable, os.path.join(HERE, "worker.py"), "--peer", peer, "--model", case.model, "--inputs", case.inputs,
            "--dtype", case.dtype, "--threads", str(options.threads), "--calibration", case.calibration or case.inputs] + (
                ["--training"] if case.training else [])


def environment_of(options, **more):
    return {**os.environ, "OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true",
            **more}


def our_outputs(case, options, folder):
    """What a run of Transom gives, by name."""
    from safetensors.numpy import load_file

    path = os.path.join(folder, "ours.safetensors")
    kind = ["--quantization", "int8"] if case.dtype == "int8" else ["--dtype", case.dtype]
    done = subprocess.run([options.transom, "forward", "--model", case.model, *kind, "--inputs", case.inputs, "--outputs",
                           path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment_of(options))
    if done.returncode:
        raise RuntimeError(f"transom forward: {done.stderr.strip()[-400:]}")
    return {name: array.astype("float32") for name, array in load_file(path).items()}


def distance(ours, theirs):
    """The mean distance of a peer's outputs to ours by their spread; of names that ONNX does not keep, the nearest."""
    import numpy

    worst = None
    for name, array in theirs.items():
        same = [ours[name]] if name in ours else [each for each in ours.values() if each.shape == array.shape]
        found = [float(numpy.abs(each - array).mean() / max(array.std(), 1e-6)) for each in same if each.shape == array.shape]
        if found:
            worst = max(worst or 0.0, min(found))
    if worst is None:
        raise RuntimeError(f"no output of {list(theirs)} is one of {list(ours)}")
    return worst


def compare(case, contenders, options):
    """How far each peer's outputs are from ours: in float32 they are the same, or there is no race."""
    from safetensors.numpy import load_file

    apart = {}
    with tempfile.TemporaryDirectory(prefix="transom-race-") as folder:
        ours = our_outputs(case, options, folder)
        for contender in contenders:
            if contender.name in PEERS_THAT_SHOW:
                path = os.path.join(folder, "theirs.safetensors")
                contender.ask(f"outputs {path}")
                apart[contender.name] = distance(ours, load_file(path))
    print(f"  {case.title}, apart: " + ", ".join(f"{name} {far:.0e}" for name, far in apart.items()), file=sys.stderr)
    if case.dtype == "float32" and not max(apart.values(), default=0.0) <= 1e-3:
        raise RuntimeError("the contenders do not give the same")
    return apart


def race(case, peers, options):
    """Seconds of each contender's runs by its name, and its peak memory in MB."""
    contenders = []
    for peer in ["transom", *(["before"] if options.before else []), *peers]:
        try:
            contenders.append(Contender(peer, command_of(case, peer, options), environment_of(options)))
        except RuntimeError as error:
            if peer == "transom":
                raise
            print(f"  {error}", file=sys.stderr)
    try:
        if case.task == "forward" and case.dtype in ("float32", "bfloat16", "int8"):
            compare(case, contenders, options)
        for turn in range(options.turns + 1):  # the first turn warms up
            # Nobody always comes after the same one.
            for contender in contenders if turn % 2 else reversed(contenders):
                time.sleep(PAUSE)
                seconds = contender.run(case.runs)
                if turn:
                    contender.seconds += seconds
            progress(case.title, turn, options.turns)
    finally:
        for contender in contenders:
            contender.close()
    return ({contender.name: contender.seconds for contender in contenders},
            {contender.name: contender.memory for contender in contenders})


def race_compilations(case, peers, turns, options):
    """What the first run takes longer than a later one: with empty caches on the disk, and in the next process."""
    found = {"cold": {}, "warm": {}}
    for turn in range(turns):
        for peer in ["transom", *peers]:
            with tempfile.TemporaryDirectory(prefix="transom-race-cache-") as cache:
                environment = environment_of(options, TORCHINDUCTOR_CACHE_DIR=cache, XDG_CACHE_HOME=cache,
                                             TRANSOM_CODEGEN="wait")
                for state in ("cold", "warm"):
                    contender = Contender(peer, command_of(case, peer, options), environment)
                    try:
                        steady = statistics.median(contender.run(4))
                        found[state].setdefault(peer, []).append(max(contender.first() - steady, 1e-4))
                    finally:
                        contender.close()
        progress(case.title, turn + 1, turns)
    return found


def race_lengths(case, peers, batches, options):
    """For batches of lengths not seen before: the first step's time by that of a repeated one."""
    ratios = {}
    for peer in ["transom", *peers]:
        contender = Contender(peer, command_of(case, peer, options), environment_of(options))
        try:
            contender.run(3)
            for batch in batches:
                contender.ask(f"inputs {batch}")
                first, *repeated = contender.run(4)
                ratios.setdefault(peer, []).append(first / statistics.median(repeated))
        finally:
            contender.close()
        progress(case.title, len(ratios), len(peers) + 1)
    return ratios


def progress(title, done, total):
    if sys.stderr.isatty():
        print(f"\r{title}: turn {done} of {total}   ", end="" if done < total else "\r", file=sys.stderr, flush=True)


def timed(command, options):
    """Seconds of a process from its start to its end, and its peak memory in MB."""
    with tempfile.TemporaryFile("w+") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment_of(options))
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)  # it is waited for already
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{command[0]}: {errors.read().strip()[-400:]}")
    return seconds, used.ru_maxrss / 1e3


def race_processes(title, commands, turns, options):
    """The same as race() for whole processes."""
    seconds, memory = {name: [] for name in commands}, {}
    for turn in range(turns):
        for name in commands if turn % 2 else reversed(commands):
            time.sleep(PAUSE)
            taken, memory[name] = timed(commands[name], options)
            seconds[name].append(taken)
        progress(title, turn + 1, turns)
    return seconds, memory


def first_embedding(folder, options):
    text = "A small model learns slowly."
    script = [sys.executable, os.path.join(HERE, "first_embedding.py"), options.minilm, text]
    commands = {"transom": [options.transom, "run", "feature-extraction", "--model", options.minilm, "--pooling", "auto",
                            text, "--json"],
                "sentence-transformers": script}
    if "onnxruntime" in options.peers:
        sentences = definitions.make_sentences(folder, options.sst2)
        file = f"{sentences}.{os.path.basename(os.path.normpath(options.minilm))}.onnx"
        if not os.path.exists(file):
            subprocess.run([sys.executable, os.path.join(HERE, "worker.py"), "--peer", "onnxruntime", "--model",
                            options.minilm, "--inputs", sentences, "--export"], check=True)
        commands["onnxruntime"] = [*script, "--onnx", file]
    return commands


def fine_tuning(folder, options):
    file = definitions.make_training_file(folder, options.sst2)
    common = ["--train_file", file, "--max_steps", str(options.steps)]
    return {"transom": [options.transom, "train", "--model_name_or_path", options.minilm, *common,
                        "--per_device_train_batch_size", "32", "--max_seq_length", "128", "--learning_rate", "5e-5",
                        "--logging_steps", "50", "--save_strategy", "no", "--output_dir", os.path.join(folder, "ours")],
            "Trainer": [sys.executable, os.path.join(HERE, "finetune.py"), "--model", options.minilm, *common,
                        "--threads", str(options.threads), "--output_dir", os.path.join(folder, "theirs")]}


def text_of(seconds):
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def memory_of(result, peer):
    theirs, ours = (result.get("memory", {}).get(name) for name in (peer, "transom"))
    return f"{theirs / ours:.2f}" if ours and theirs else "-"


def table(results, markdown):
    """One line a peer of a case: medians and their ratio, that of the fastest runs, and of peak memory."""
    rows = [["CASE", "PEER", "TRANSOM", "PEER'S", "RATIO", "OF MINIMA", "OF MEMORY"]]
    for result in results:
        ours = result["seconds"]["transom"]
        for peer, theirs in result["seconds"].items():
            if peer != "transom":
                rows.append([result["title"], peer, text_of(statistics.median(ours)), text_of(statistics.median(theirs)),
                             f"{statistics.median(theirs) / statistics.median(ours):.2f}", f"{min(theirs) / min(ours):.2f}",
                             memory_of(result, peer)])
    if markdown:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0].lower(), "| --- " * 2 + "| ---: " * 5 + "|", *lines[1:]])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))) for row in rows)


def plot(results, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names, ratios = [], []
    for result in results:
        ours = statistics.median(result["seconds"]["transom"])
        for peer, theirs in result["seconds"].items():
            if peer != "transom":
                names.append(f"{result['title']}\nagainst {peer}")
                ratios.append(statistics.median(theirs) / ours)
    figure, axes = pyplot.subplots(figsize=(9, 0.55 * len(names) + 1.2))
    bars = axes.barh(names[::-1], ratios[::-1], color=["#2a7f62" if ratio >= 1 else "#b5483a" for ratio in ratios[::-1]])
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("time of the peer / time of Transom, medians (above 1: Transom is faster)")
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if max(ratios) / min(ratios) > 20:
        axes.set_xscale("log")
    figure.tight_layout()
    figure.savefig(path)


def machine(options):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    name = names[0] if names else "unknown processor"
    return f"{name}, {os.cpu_count()} cores, {options.threads} threads, load of others at the start {BUSY:.1f}"


def warn_if_busy():
    """OpenMP suffers more than Transom from other work on the cores: such ratios flatter Transom."""
    if BUSY > 0.5:
        print(f"the machine is busy (load {BUSY:.1f}): the ratios will not hold on a quiet one", file=sys.stderr)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transom", default="build/release/bin/transom", help="the program")
    parser.add_argument("--before", help="a Transom of an earlier commit, which takes part in the cases that stay in one process")
    parser.add_argument("--minilm", help="directory of all-MiniLM-L6-v2; without it its cases are left out")
    parser.add_argument("--sst2", help="directory with SST-2's train.tsv (sentence TAB label)")
    parser.add_argument("--folder", help="where checkpoints and inputs are made and kept (default: a temporary folder)")
    parser.add_argument("--peers", nargs="*", default=["torch"], choices=definitions.PEERS, help="besides Transom")
    parser.add_argument("--cases", nargs="+", help="names: train-f32, infer-1-f32, infer-8-f32, gpt2-train-f32, the same "
                                                   "with bf16, vit-base-1, vit-base-8, resnet-50-1, resnet-50-8, "
                                                   "the same and infer-1, infer-8 with -static, infer-1-int8, "
                                                   "infer-8-int8, efficientnet-1, efficientnet-8, clip-1, clip-8, "
                                                   "wav2vec2, whisper, dlrm-128, dlrm-2048, these with -int8 too, "
                                                   "siglip-1, siglip-8, detr with -f32, -bf16, -int8, vit-base-1, "
                                                   "vit-base-8 with -bf16, -int8, "
                                                   "embed, start, finetune, compilation, lengths (default: all)")
    parser.add_argument("--sizes", nargs="+", default=[], metavar="ROWSxTOKENS",
                        help="BERT-base at these sizes too: cases infer-ROWSxTOKENS-f32, train-ROWSxTOKENS-bf16 ...")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100, help="of fine-tuning")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", help="of Transom")
    parser.add_argument("--output", help="write all times here as JSON")
    parser.add_argument("--plot", help="write a picture of the ratios here (.svg, .png)")
    parser.add_argument("--markdown", action="store_true", help="print the table for a README")
    return parser.parse_args()


def main():
    options = parse()
    warn_if_busy()
    folder = options.folder or tempfile.mkdtemp(prefix="transom-race-")
    os.makedirs(folder, exist_ok=True)
    wanted = lambda name: not options.cases or name in options.cases  # noqa: E731
    results, notes = [], []

    def add(name, title, seconds, memory=None):
        results.append({"case": name, "title": title, "seconds": seconds, "memory": memory or {}})
        print(table(results[-1:], False).split("\n", 1)[-1], file=sys.stderr)

    def attempt(name, title, run):
        try:
            found = run()
            add(name, title, *(found if isinstance(found, tuple) else (found,)))
        except (RuntimeError, OSError) as error:
            print(f"{title}: left out: {error}", file=sys.stderr)

    cases = definitions.make_cases(folder, options.minilm, options.sst2, options.sizes)
    for case in cases:
        peers = [peer for peer in case.peers if peer in options.peers or peer not in definitions.PEERS]
        if wanted(case.name) and peers:
            attempt(case.name, case.title, lambda: race(case.prepared(), peers, options))
    if options.minilm and wanted("start"):
        title = "MiniLM, process start to the first embedding"
        attempt("start", title, lambda: race_processes(title, first_embedding(folder, options), options.turns, options))
    if options.minilm and options.sst2 and wanted("finetune"):
        title = f"MiniLM, {options.steps} steps on SST-2 end to end"
        attempt("finetune", title, lambda: race_processes(title, fine_tuning(folder, options), 2, options))
    training = next(case for case in cases if case.name == "train-f32")
    if wanted("compilation") or wanted("lengths"):
        training = training.prepared()
    if wanted("compilation") and "compile" in options.peers:
        found = race_compilations(training, ["compile"], 2, options)
        add("compile-cold", f"{training.title}: compiling, no cache", found["cold"])
        add("compile-warm", f"{training.title}: compiling, cached", found["warm"])
    if wanted("lengths"):
        batches = [definitions.make_batch(folder, 8, length) for length in (120, 96, 112, 72, 104)]
        ratios = race_lengths(training, [peer for peer in training.peers if peer in options.peers], batches, options)
        for peer, found in ratios.items():
            notes.append(f"{training.title}, a length not seen before: {peer}'s first step takes "
                         f"{statistics.median(found):.2f} times a repeated one ({min(found):.2f} to {max(found):.2f})")
    if not results and not notes:
        raise SystemExit("nothing was raced: see --cases, --peers, --minilm and --sst2")
    if results:
        print(table(results, options.markdown))
    for note in notes:
        print(note)
    print(f"\n{machine(options)}")
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(options), "results": results, "notes": notes}, file, indent=1)
    if options.plot and results:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
