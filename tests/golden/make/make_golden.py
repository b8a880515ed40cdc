#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the cases of tests/golden with the libraries of requirements.txt.

    make_golden.py [--out FOLDER] [PART ...]      all parts, or some of them
    make_golden.py --check [PART ...]             makes them beside, and compares with what is there

Parts: tokenizers, models, heads, media, pipelines, trainer, sft, preferences, policies, sentences, speech, speaking, formats, quantized, diffusion, listening, drafting; `models NAME ...` makes some cases
alone. `vocabularies` trains the tokenizers anew, of which all else follows; it is not among "all".
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time

import common
import sampled
import smaller

PARTS = ("tokenizers", "models", "heads", "media", "pipelines", "trainer", "sft", "preferences", "policies", "sentences", "speech", "speaking", "formats", "quantized", "diffusion", "listening", "drafting")


def make(part, out, only):
    if part == "vocabularies":
        import vocabularies

        vocabularies.train_all(out)
    elif part == "tokenizers":
        import vocabularies

        vocabularies.make(out)
    elif part == "models":
        import models

        models.make(out, only)
    elif part == "heads":
        import heads

        heads.make(out)
    elif part == "media":
        import media

        media.make(out)
    elif part == "listening":
        import listening

        listening.make(out)
    elif part == "pipelines":
        import pipelines

        pipelines.make(out)
    elif part == "trainer":
        import trainer

        trainer.make(out)
    elif part == "drafting":
        import draft_heads
        import draft_layers

        draft_heads.make(out)
        draft_layers.make(out / "drafting")
    elif part == "sft":
        import sft

        sft.make(out)
    elif part == "preferences":
        import preferences

        preferences.make(out, only)
    elif part == "policies":
        import policies

        policies.make(out, only)
    elif part == "sentences":
        import sentences

        sentences.make(out)
        import writing_ranker

        writing_ranker.make(out)
    elif part == "speech":
        import speech

        speech.make(out)
    elif part == "speaking":
        import speaking

        speaking.make(out)
    elif part == "formats":
        import formats

        formats.make(out)
    elif part == "diffusion":
        import diffusion
        import diffusion_pipelines
        import original_layouts
        import diffusion_training
        import flow_adapters
        import flow_training
        import learned_words

        diffusion.make(out)
        diffusion_pipelines.make(out)
        original_layouts.make(out)
        flow_adapters.make(out)
        learned_words.make(out)
        diffusion_training.make(out)
        flow_training.make(out)
    else:
        import quantized

        quantized.make(out)


def near(made, kept, tolerance=1e-5):
    """Numbers of JSON that differ by no more than other processors make them."""
    if isinstance(made, (int, float)) and isinstance(kept, (int, float)):
        return abs(made - kept) <= tolerance + 1e-3 * abs(kept)
    if type(made) is not type(kept) or hasattr(made, "__len__") and len(made) != len(kept):
        return False
    if isinstance(made, dict):
        return made.keys() == kept.keys() and all(near(made[key], kept[key]) for key in made)
    if isinstance(made, list):
        return all(near(a, b) for a, b in zip(made, kept))
    return made == kept


def differs(made, kept):
    """Why a file made again is not the one that is there, or None."""
    if not kept.exists():
        return "is not there"
    if made.read_bytes() == kept.read_bytes():
        return None
    if made.suffix == ".json":
        return None if near(json.loads(made.read_text()), json.loads(kept.read_text())) else "has other values"
    if made.suffix == ".safetensors":
        from safetensors.torch import load_file

        a, b = load_file(made), load_file(kept)
        if a.keys() != b.keys():
            return "has other tensors"
        for key, value in a.items():
            if value.shape != b[key].shape or value.dtype != b[key].dtype:
                return f"{key}: another shape or type"
            distance = (value.double() - b[key].double()).abs()
            if distance.numel() and bool((distance > 1e-4 + 1e-3 * b[key].double().abs()).any()):
                return f"{key}: differs by {float(distance.max()):.2g}"
        return None
    return "has other bytes"


def check(parts, only):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        for part in parts:
            make(part, out, only)
        sampled.sample_tree(out)
        for made in sorted(path for path in out.rglob("*") if path.is_file()):
            why = differs(made, common.GOLDEN / made.relative_to(out))
            if why:
                print(f"{made.relative_to(out)} {why}")
                wrong += 1
    print(f"{wrong} files differ" if wrong else "the cases made again are those that are there")
    return 1 if wrong else 0


def take_what_is_new(made, kept, begin):
    """Into the tree what was written since, and out of it what was removed from a folder that was written."""
    folders = set()
    for path in made.rglob("*"):
        if path.is_file() and path.stat().st_mtime >= begin:
            place = path.relative_to(made)
            folders.add(place.parent)
            for old in (kept / place, *(kept / f"{place}{ending}" for ending in smaller.ENDINGS)):
                old.unlink(missing_ok=True)
            (kept / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, kept / place)
    for folder in folders:
        for path in (kept / folder).iterdir():
            whole = made / folder / smaller.without_ending(path.name)
            if path.is_file() and not whole.exists() and path.name != "README.md":
                path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--out", type=pathlib.Path, help="beside, in place of what the tree has")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    parts = [part for part in given.parts if part in (*PARTS, "vocabularies")] or list(PARTS)
    only = [part for part in given.parts if part not in (*PARTS, "vocabularies")]
    if only and parts != ["models"]:
        parser.error(f"expected parts of {', '.join(PARTS)}, found {only[0]}")
    kept = common.GOLDEN
    with tempfile.TemporaryDirectory() as whole:
        common.GOLDEN = pathlib.Path(whole)  # makers read models that others made
        smaller.write_whole(kept, common.GOLDEN)
        if given.check:
            sys.exit(check(parts, only))
        begin, out = time.time(), given.out or common.GOLDEN
        for part in parts:
            make(part, out, only)
        if given.out is None:
            take_what_is_new(out, kept, begin)
    smaller.make_smaller(given.out or kept)


if __name__ == "__main__":
    main()
