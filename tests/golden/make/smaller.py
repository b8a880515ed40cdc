#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the cases of a tree small: what can be derived is not kept (tests/golden/README.md, "How it is kept small").

    smaller.py [FOLDER]            all that is not small yet; make_golden.py does the same with what it made
    smaller.py --whole TARGET      the files as models are read, in another folder, as the build writes them

Needs numpy alone.
"""

import argparse
import hashlib
import json
import pathlib
import re
import shutil

import drawn
import sampled
import tensor_files

GOLDEN = pathlib.Path(__file__).resolve().parent.parent
COPY, PARTS_OF_TEXT = ".copy", ".parts"
WORTH_A_COPY = 512  # bytes
ENDINGS = (COPY, PARTS_OF_TEXT, drawn.ENDING)
LONG_TEXT = re.compile(r'"precompiled_charsmap": ?"([^"]{4096,})"')  # which several tokenizers have
DIFFUSION = ("sd", "sd-pndm", "sd-euler", "sdxl", "flux", "schnell", "sd3", "ddpm")
PARTS = {"text_encoder": ("text",), "text_encoder_2": ("text 2", "t5"), "text_encoder_3": ("t5",)}


def without_ending(name):
    """Of the whole file."""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name


def short_vector(line):
    """A line of vectors.jsonl without what it says of most texts (tests/golden/README.md, "Tokenizers")."""
    usual = [
        ("text_pair", None),
        ("add_special_tokens", True),
        ("type_ids", [0] * len(line["ids"])),
        ("attention_mask", [1] * len(line["ids"])),
        ("decoded_skip_special", line.get("decoded")),
        ("decoded", line["text"]),
    ]
    line = dict(line)
    for key, value in usual:
        if key in line and line[key] == value:
            del line[key]
    if line["offsets"] and isinstance(line["offsets"][0], list):
        line["offsets"] = [place for pair in line["offsets"] for place in pair]
    return line


def shorten_vectors(golden):
    for path in sorted(golden.glob("tokenizers/*/vectors.jsonl")):
        lines = [short_vector(json.loads(line)) for line in path.read_text().splitlines()]
        text = "".join(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n" for line in lines)
        if text != path.read_text():
            path.write_text(text)


def names_of_generators(path, golden):
    """Whose generators may have drawn the tensors of a file: named after its case, or after the part that made it."""
    *folders, file = path.relative_to(golden).parts
    folders = [folder for folder in folders if folder != "model"]
    case = folders[-1] if folders else ""
    names = [case, "-".join(folders), "-".join(folders[:2])]
    if len(folders) > 1:
        names += [f"{folders[0]}-{case}", "-".join(folders[-2:]), folders[-2]]
    if file == "inputs.safetensors":
        return [words for name in dict.fromkeys(names) for words in (f"labels of {name}", f"inputs of {name}", f"{name} inputs")]
    if folders[:1] == ["diffusion"]:  # parts of pipelines, some of which are the same in several
        parts = PARTS.get(case, (case,))
        names = [f"{each} {part}" for part in parts for each in dict.fromkeys((*folders[1:2], *DIFFUSION))] + names
    return list(dict.fromkeys(names))


def keep_as_drawn(golden):
    for path in sorted(golden.rglob("*.safetensors")):
        place = path.relative_to(golden)
        if place.parts[0] == "make" or path.name in sampled.FILES and place.parts[0] not in ("image", "audio"):
            continue
        recipe = path.with_name(path.name + drawn.ENDING)
        if recipe.exists():
            if not json.loads(recipe.read_text())["tensors"].keys() & tensor_files.read(path)[0].keys():
                continue  # what is left
            recipe.unlink()  # the file was made again
        drawn.keep_as_drawn(path, () if path.name in sampled.FILES else names_of_generators(path, golden))


def keep_copies(golden):
    """Of equal files the first by its name is kept, and of the others where it is."""
    for path in sorted(golden.rglob("*" + COPY)):
        if path.with_name(without_ending(path.name)).exists():  # made again
            path.unlink()
    first = {}
    for path in sorted(golden.rglob("*")):
        if not path.is_file() or path.stat().st_size < WORTH_A_COPY or path.relative_to(golden).parts[0] == "make":
            continue
        if path.name.endswith(ENDINGS) or path.with_name(path.name + drawn.ENDING).exists():
            continue
        key = hashlib.sha256(path.read_bytes()).digest()
        if key in first:
            path.with_name(path.name + COPY).write_text(f"{first[key]}\n")
            path.unlink()
        else:
            first[key] = path.relative_to(golden).as_posix()


def keep_long_texts_once(golden):
    """Of files that hold the same long text the first by its name is kept, and of the others the text before and behind."""
    first = {}
    for path in sorted(golden.rglob("tokenizer.json")):
        path.with_name(path.name + PARTS_OF_TEXT).unlink(missing_ok=True)  # made again
        text = path.read_text(encoding="utf-8")
        found = LONG_TEXT.search(text)
        if not found:
            continue
        begin, end = (len(text[:place].encode()) for place in found.span(1))
        if found[1] in first:
            same = first[found[1]] | {"count": end - begin}
            parts = json.dumps([text[: found.start(1)], same, text[found.end(1) :]], ensure_ascii=False, indent=1)
            path.with_name(path.name + PARTS_OF_TEXT).write_text(parts + "\n", encoding="utf-8")
            path.unlink()
        else:
            first[found[1]] = {"file": path.relative_to(golden).as_posix(), "from": begin}


def make_smaller(golden):
    shorten_vectors(golden)
    sampled.sample_tree(golden)
    keep_as_drawn(golden)
    keep_copies(golden)
    keep_long_texts_once(golden)


def whole_tensors(recipe_path):
    """What a file says by places, with what is beside it."""
    rest = recipe_path.with_name(recipe_path.name.removesuffix(drawn.ENDING))
    tensors = tensor_files.read(rest)[0] if rest.exists() else {}
    recipe = json.loads(recipe_path.read_text())
    return tensors | drawn.tensors_of(recipe), recipe.get("metadata")


def part_of(golden, part):
    data = (golden / part["file"]).read_bytes()
    return data[part["from"] : part["from"] + part["count"]].decode()


def write_whole(golden, target):
    copies = []
    for path in sorted(golden.rglob("*")):
        place = path.relative_to(golden)
        if not path.is_file() or place.parts[0] == "make":
            continue
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        if path.name.endswith(COPY):
            copies.append((target / path.read_text().strip(), (target / place).with_name(path.name.removesuffix(COPY))))
        elif path.name.endswith(PARTS_OF_TEXT):
            parts = [part if isinstance(part, str) else part_of(golden, part) for part in json.loads(path.read_text())]
            (target / place).with_name(path.name.removesuffix(PARTS_OF_TEXT)).write_text("".join(parts), encoding="utf-8")
        elif path.name.endswith(drawn.ENDING):
            whole = (target / place).with_name(path.name.removesuffix(drawn.ENDING))
            tensor_files.write(whole, *whole_tensors(path))
        elif not path.with_name(path.name + drawn.ENDING).exists():
            shutil.copy(path, target / place)
    for source, place in copies:
        shutil.copy(source, place)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--whole", type=pathlib.Path, metavar="TARGET")
    given = parser.parse_args()
    if given.whole:
        write_whole(given.folder.resolve(), given.whole.resolve())
    else:
        make_smaller(given.folder.resolve())


if __name__ == "__main__":
    main()
