#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the ten pictures of this folder, and what they show: boxes, classes of pixels, masks of objects and chats.

  draw.py [FOLDER]    FOLDER: where to, by default the one that holds this script
"""
import json
import pathlib
import random
import struct
import sys
import zlib

SIDE, COUNT = 64, 10
# The classes, in order: of boxes from 0, of pixels from 1, beside 0, the ground.
COLOURS = {"red": (215, 60, 50), "green": (60, 170, 80), "blue": (60, 90, 210), "yellow": (230, 200, 60), "white": (240, 240, 235)}
SHAPES = ["disc", "square", "cross"]


def png(path, width, height, rows, channels):
    """The rows of bytes as a PNG file."""
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    data = b"".join(b"\0" + bytes(row) for row in rows)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def covers(shape, x, y, left, top, side):
    u, v = 2 * (x + 0.5 - left) / side - 1, 2 * (y + 0.5 - top) / side - 1  # within the box from -1 to 1
    if abs(u) > 1 or abs(v) > 1:
        return False
    return {"disc": u * u + v * v <= 1, "square": True, "cross": abs(u) < 0.35 or abs(v) < 0.35}[shape]


def mask(shape, left, top, side):
    """As COCO has it: a square is a polygon, others how long pixels stay the same, down the columns."""
    if shape == "square":
        return [[left, top, left + side, top, left + side, top + side, left, top + side]]
    counts, inside = [0], False
    for x in range(SIDE):
        for y in range(SIDE):
            if covers(shape, x, y, left, top, side) != inside:
                inside = not inside
                counts.append(0)
            counts[-1] += 1
    return {"size": [SIDE, SIDE], "counts": counts}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent)
    (folder / "maps").mkdir(parents=True, exist_ok=True)
    objects, maps, chats = [], ["image,label"], []
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(COLOURS)]
    coco = {"images": [], "annotations": [], "categories": categories}
    chance = random.Random(7)
    for number in range(COUNT):
        name = f"{number}.png"
        colour, shape = list(COLOURS)[number % 5], SHAPES[number % 3]
        things = [(shape, colour, chance.randrange(2, 8) * 4, 24)]
        if number % 2:  # another one beside
            other = SHAPES[(number + 1) % 3]
            things = [(shape, colour, 4, 24), (other, list(COLOURS)[(number + 2) % 5], 36, 24)]
        placed = [(s, c, left, chance.randrange(1, 9) * 4, side) for s, c, left, side in things]
        pixels = [[40] * (3 * SIDE) for _ in range(SIDE)]
        levels = [[0] * SIDE for _ in range(SIDE)]
        for s, c, left, top, side in placed:
            for y in range(SIDE):
                for x in range(SIDE):
                    if covers(s, x, y, left, top, side):
                        pixels[y][3 * x : 3 * x + 3] = COLOURS[c]
                        levels[y][x] = 1 + list(COLOURS).index(c)
        png(folder / name, SIDE, SIDE, pixels, 3)
        png(folder / "maps" / name, SIDE, SIDE, levels, 1)
        boxes = [[left, top, side, side] for _, _, left, top, side in placed]
        objects.append({"image": name, "objects": {"bbox": boxes, "category": [c for _, c, *_ in placed]}})
        maps.append(f"{name},maps/{name}")
        coco["images"].append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
        for s, c, left, top, side in placed:
            place = {"id": len(coco["annotations"]), "image_id": number, "category_id": 1 + list(COLOURS).index(c)}
            shown = {"iscrowd": 0, "bbox": [left, top, side, side], "segmentation": mask(s, left, top, side)}
            coco["annotations"].append(place | shown)
        answer = " and ".join(f"a {c} {s}" for s, c, *_ in placed) + "."
        user = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}
        said = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
        chats.append({"messages": [user, said], "images": [name]})
    lines = lambda rows: "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "objects.jsonl").write_text(lines(objects))
    (folder / "instances.json").write_text(json.dumps(coco) + "\n")
    (folder / "maps.csv").write_text("\n".join(maps) + "\n")
    (folder / "chats_with_pictures.jsonl").write_text(lines(chats))


if __name__ == "__main__":
    main()
