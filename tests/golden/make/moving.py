# SPDX-License-Identifier: Apache-2.0
"""Animations that are drawn here, and their frames as Pillow shows them."""

import numpy
import torch
from PIL import Image, ImageDraw
from safetensors.torch import save_file

FRAMES, WIDTH, HEIGHT = 8, 14, 11


def drawn(number, mode):
    """A square and a disc that go about before what stands still."""
    clear = (0, 0, 0, 0) if mode == "RGBA" else (210, 220, 235)
    picture = Image.new(mode, (WIDTH, HEIGHT), clear)
    pen = ImageDraw.Draw(picture)
    whole = (255,) if mode == "RGBA" else ()
    pen.rectangle((1, 8, 12, 9), fill=(20, 90, 40) + whole)
    pen.rectangle((number, 1, number + 3, 4), fill=(200, 30, 30) + whole)
    half = (140,) if mode == "RGBA" else ()
    pen.ellipse((9 - number, 3 + number // 3, 13 - number, 7 + number // 3), fill=(30, 60, 210) + half)
    return picture


def with_colours(picture):
    """Of a palette whose last place is for what is clear."""
    alpha = numpy.asarray(picture)[..., 3]
    flat = picture.convert("RGB").quantize(15)
    values = numpy.asarray(flat).copy()
    values[alpha == 0] = 15
    made = Image.fromarray(values)
    made.putpalette(flat.getpalette()[:45] + [255, 0, 255])
    made.info["transparency"] = 15
    return made


def draw(folder):
    folder.mkdir(parents=True, exist_ok=True)
    plain = [drawn(number, "RGB") for number in range(FRAMES)]
    clear = [drawn(number, "RGBA") for number in range(FRAMES)]
    plain[0].save(folder / "plain.gif", save_all=True, append_images=plain[1:])
    for name, disposal in (("kept", 1), ("cleared", 2), ("restored", 3)):
        coloured = [with_colours(picture) for picture in clear]
        coloured[0].save(
            folder / f"{name}.gif", save_all=True, append_images=coloured[1:], disposal=disposal, optimize=False
        )
    plain[0].save(folder / "plain.png", save_all=True, append_images=plain[1:])
    few = [picture.quantize(16) for picture in plain]
    few[0].save(folder / "palette.png", save_all=True, append_images=[each.convert("RGB").quantize(palette=few[0]) for each in plain[1:]])
    for name, disposal, blend in (("over", 0, 1), ("cleared", 1, 1), ("restored", 2, 1), ("replaced", 1, 0)):
        clear[0].save(folder / f"{name}.png", save_all=True, append_images=clear[1:], disposal=disposal, blend=blend)
    beside = Image.new("RGB", (WIDTH, HEIGHT), (1, 2, 3))
    beside.save(folder / "beside.png", save_all=True, append_images=plain[1:], default_image=True)
    frames = folder / "frames"
    frames.mkdir(exist_ok=True)
    for number, picture in enumerate(plain):
        picture.resize((WIDTH + number % 2, HEIGHT)).save(frames / f"{number:02}.png")


def frame_of(path, number):
    """Opened anew: of a frame that was looked at Pillow 13 forgets what was below it (APNG, disposal "previous")."""
    with Image.open(path) as video:
        video.seek(number)
        return numpy.asarray(video.convert("RGB"))


def make(folder):
    draw(folder)
    made = {}
    for path in sorted([*folder.glob("*.gif"), *folder.glob("*.png")]):
        with Image.open(path) as video:
            numbers = range(1 if path.name == "beside.png" else 0, video.n_frames)
        made[path.name] = torch.from_numpy(numpy.stack([frame_of(path, number) for number in numbers]))
    save_file(made, folder / "expected.safetensors")
