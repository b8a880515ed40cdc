#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How training scales over Gaudi 2 cards, by the clock of the emulator: one card, eight of a server, and two servers,
each card with rows of its own.

  partners/gaudi/scaling.py --build build/release [--models bert-large llama-1b --plot partners/gaudi/gaudi_scaling.svg]

The emulator computes nothing here (TRANSOM_SYNAPSE_VALUES=0): its clock does not depend on values, and weights are a
file of zeros without blocks on the disk. The time of an update is the difference between runs of four updates and of
two. There is no dropout, so that nothing but the update itself hides the communication. The clock takes each engine at
its published peak and ranks as always together: what is shown is which share of the communication the order of work
leaves exposed, no forecast of a card."""
import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile

BERT = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 30522, "hidden_size": 1024,
        "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 512,
        "type_vocab_size": 2, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "pad_token_id": 0,
        "id2label": {"0": "a", "1": "b"}}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 2048,
         "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "pad_token_id": 0}
SMALL = dict(BERT, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, vocab_size=100)
# rows of a card, tokens of a row
MODELS = {"bert-large": (BERT, 32, 512), "llama-1b": (LLAMA, 8, 1024), "small": (SMALL, 4, 16)}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", default="build/release")
parser.add_argument("--models", nargs="+", default=["bert-large", "llama-1b"], choices=MODELS)
parser.add_argument("--ways", nargs="+", default=["dp", "fsdp", "hsdp"],
                    choices=["dp", "fsdp", "hsdp"], help="hsdp: over two servers, parameters sharded within each of them")
parser.add_argument("--cards", nargs="+", type=int, default=[8, 16], help="besides one; more than eight are two servers")
parser.add_argument("--bucket", type=int, help="--ddp_bucket_cap_mb")
parser.add_argument("--all", action="store_true", help="fsdp over two servers too")
parser.add_argument("--values", action="store_true", help="let the emulator compute, for models that the host can hold")
parser.add_argument("--read", nargs="+", help="measure nothing; take the numbers that --output wrote")
parser.add_argument("--output", help="write all numbers here as JSON")
parser.add_argument("--plot", help="write a picture here (.svg, .png)")
options = parser.parse_args()


def shapes_of(config):
    """The weights of a checkpoint, by name."""
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    shapes = {}

    def linear(name, outputs, inputs, bias=True):
        shapes[name + ".weight"] = [outputs, inputs]
        if bias:
            shapes[name + ".bias"] = [outputs]

    def norm(name, bias=True):
        shapes[name + ".weight"] = [hidden]
        if bias:
            shapes[name + ".bias"] = [hidden]

    if config["model_type"] == "bert":
        for name, rows in [("word", vocabulary), ("position", config["max_position_embeddings"]), ("token_type", 2)]:
            shapes[f"bert.embeddings.{name}_embeddings.weight"] = [rows, hidden]
        norm("bert.embeddings.LayerNorm")
        for layer in range(config["num_hidden_layers"]):
            at = f"bert.encoder.layer.{layer}."
            for part in ["query", "key", "value"]:
                linear(at + "attention.self." + part, hidden, hidden)
            linear(at + "attention.output.dense", hidden, hidden)
            norm(at + "attention.output.LayerNorm")
            linear(at + "intermediate.dense", inner, hidden)
            linear(at + "output.dense", hidden, inner)
            norm(at + "output.LayerNorm")
        linear("bert.pooler.dense", hidden, hidden)
        linear("classifier", 2, hidden)
        return shapes
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes["model.embed_tokens.weight"] = [vocabulary, hidden]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for part, rows in [("q", hidden), ("k", keys), ("v", keys), ("o", hidden)]:
            linear(at + f"self_attn.{part}_proj", rows, hidden, False)
        for part in ["gate", "up"]:
            linear(at + f"mlp.{part}_proj", inner, hidden, False)
        linear(at + "mlp.down_proj", hidden, inner, False)
        norm(at + "input_layernorm", False)
        norm(at + "post_attention_layernorm", False)
    norm("model.norm", False)
    linear("lm_head", vocabulary, hidden, False)
    return shapes


def write_model(folder, config):
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    header, end = {}, 0
    for name, shape in shapes_of(config).items():
        size = 4
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return end // 4


def write_rows(path, config, count, length):
    with open(path, "w", encoding="utf-8") as file:
        for row in range(count):
            line = {"input_ids": [3 + (row + place) % (config["vocab_size"] - 3) for place in range(length)]}
            if config["model_type"] == "bert":
                line["labels"] = row % 2
            file.write(json.dumps(line) + "\n")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(folder, model, way, cards, updates):
    """The report of rank 0."""
    config, rows, _ = MODELS[model]
    words = [os.path.join(options.build, "bin", "transom"), "train", "--device", "hpu", "--model_name_or_path",
             os.path.join(folder, model), "--train_file", os.path.join(folder, model + ".jsonl"), "--output_dir",
             os.path.join(folder, "out"), "--per_device_train_batch_size", str(rows), "--bf16", "--max_steps",
             str(updates), "--save_strategy", "no", "--logging_steps", "1000", "--disable_tqdm", "true"]
    if cards > 1:
        words += ["--ddp_backend", "hccl"]
        if way != "dp":
            words += ["--fsdp", "full_shard"]
        if way == "hsdp":
            words += ["--fsdp_config", json.dumps({"dp_replicate_size": cards // 8})]
        if options.bucket:
            words += ["--ddp_bucket_cap_mb", str(options.bucket)]
    report = os.path.join(folder, "report.json")
    local, port = min(cards, 8), str(free_port())
    processes = []
    for rank in range(cards):
        environment = dict(os.environ, TRANSOM_SYNAPSE_LIBRARY=os.path.join(options.build, "emulators", "libSynapse.so"),
                           TRANSOM_SYNAPSE_VALUES="1" if options.values else "0", TRANSOM_SYNAPSE_RACES="0",
                           TRANSOM_SYNAPSE_DEVICES=str(local), TRANSOM_SYNAPSE_TIMEOUT="600", TRANSOM_NUM_THREADS="1",
                           TRANSOM_SYNAPSE_SERVER=f"scaling-{os.getpid()}-{rank // local}", TRANSOM_CACHE_DIR=os.path.join(folder, "cache"))
        if cards > 1:
            environment.update(RANK=str(rank), WORLD_SIZE=str(cards), LOCAL_RANK=str(rank % local), LOCAL_WORLD_SIZE=str(local),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        if rank == 0:
            environment.update(TRANSOM_SYNAPSE_REPORT=report, TRANSOM_SYNAPSE_TIMELINE="1")
        processes.append(subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    try:
        said = [process.communicate()[1] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    if any(process.returncode for process in processes):
        sys.exit(f"{model}, {way}, {cards} cards failed:\n" + "".join(said))
    with open(report, encoding="utf-8") as file:
        return json.load(file)


def joined(intervals):
    result = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        else:
            result.append([begin, end])
    return result


def uncovered(intervals, others):
    """How long the first are busy while the others are not."""
    total = 0
    for begin, end in joined(intervals):
        total += end - begin
        for first, last in joined(others):
            total -= max(0, min(end, last) - max(begin, first))
    return total


def measure(folder, model, way, cards):
    two, four = (run(folder, model, way, cards, updates) for updates in (2, 4))
    step = (four["simulated_seconds"] - two["simulated_seconds"]) / 2
    busy = {name: (four["engines"][name]["busy_seconds"] - two["engines"][name]["busy_seconds"]) / 2 for name in four["engines"]}
    network = (four["engines"]["NIC"]["busy_seconds"] - two["engines"]["NIC"]["busy_seconds"]) / 2
    kinds = {"network": [(b, e) for kind, b, e in four["timeline"] if kind == "NIC"],
             "compute": [(b, e) for kind, b, e in four["timeline"] if kind == "launch"]}
    # The last update: up to the end of its compute. Sharded weights are gathered behind it, for the model that is saved:
    # those collectives are in both runs, beside two and four times those of an update.
    end = kinds["compute"][-1][1]
    count = {run: sum(kind == "NIC" for kind, _, _ in report["timeline"]) for run, report in [(2, two), (4, four)]}
    behind = 2 * count[2] - count[4] if way != "dp" and cards > 1 else 0
    if behind > 0:
        end = sorted(kinds["network"])[-behind][0]
    window = {kind: [(max(b, end - step) - end + step, min(e, end) - end + step) for b, e in all if e > end - step and b < end]
              for kind, all in kinds.items()}
    result = {"model": model, "way": way if cards > 1 else "one", "cards": cards, "seconds": step, "network_seconds": network,
              "busy_seconds": busy,
              "exposed_seconds": uncovered(window["network"], window["compute"]), "window": window,
              "memory_bytes": four["highest_memory_bytes"], "rule_violations": four["rule_violations"]}
    return result


def plot(results, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [result for result in results if result["cards"] > 1]
    figure, axes = pyplot.subplots(len(shown), 1, figsize=(9, 1.15 * len(shown) + 0.8), squeeze=False)
    for axis, result in zip(axes[:, 0], shown):
        for place, (kind, colour) in enumerate([("network", "#b5483a"), ("compute", "#2a7f62")]):
            axis.broken_barh([(begin * 1e3, (end - begin) * 1e3) for begin, end in joined(result["window"][kind])],
                             (place - 0.4, 0.8), color=colour)
        axis.set_yticks([0, 1], ["network", "compute"], fontsize=8)
        axis.set_xlim(0, result["seconds"] * 1e3)
        axis.tick_params(axis="x", labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_title(f"{result['model']}, {result['way']}, {result['cards']} cards: {result['seconds'] * 1e3:.1f} ms an update, "
                       f"{result['exposed_seconds'] * 1e3:.1f} ms of communication exposed, efficiency {result['efficiency']:.1%}",
                       fontsize=8, loc="left")
    axes[-1, 0].set_xlabel("milliseconds of one update, simulated", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main():
    if options.read:
        results = []
        for path in options.read:
            with open(path, encoding="utf-8") as file:
                results += json.load(file)
        return plot(results, options.plot)
    results = []
    with tempfile.TemporaryDirectory(prefix="transom-scaling-") as folder:
        for model in options.models:
            config, rows, length = MODELS[model]
            parameters = write_model(os.path.join(folder, model), config)
            write_rows(os.path.join(folder, model + ".jsonl"), config, 4 * rows * max(options.cards), length)
            one = measure(folder, model, "dp", 1)
            one["efficiency"] = 1
            results.append(one)
            print(f"{model}, {parameters / 1e6:.0f} M parameters, {rows} rows of {length} tokens a card: "
                  f"{one['seconds'] * 1e3:.2f} ms an update on one card", flush=True)
            for cards in options.cards:
                for way in options.ways:
                    if way == "fsdp" and cards > 8 and not options.all or way == "hsdp" and cards <= 8:
                        continue
                    result = measure(folder, model, way, cards)
                    result["efficiency"] = one["seconds"] / result["seconds"]
                    results.append(result)
                    print(f"  {cards} cards, {way}: {result['seconds'] * 1e3:.2f} ms, efficiency {result['efficiency']:.1%}; network "
                          f"busy {result['network_seconds'] * 1e3:.2f} ms, exposed {result['exposed_seconds'] * 1e3:.2f} ms; "
                          f"{result['memory_bytes'] / 2**30:.1f} GiB a card; {result['rule_violations']} broken rules", flush=True)
                    if options.output:
                        with open(options.output, "w", encoding="utf-8") as file:
                            json.dump(results, file)
    if options.plot:
        plot(results, options.plot)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left
main()
