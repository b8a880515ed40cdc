# SPDX-License-Identifier: Apache-2.0
"""Pictures and sounds that are drawn here, and what the processors of Transformers make of them."""

import math
import wave

import numpy
import torch
import transformers
from PIL import Image, ImageDraw
from safetensors.torch import save_file

import moving
from common import write_json

PICTURES = ("alpha.png", "gradient.png", "gray.png", "shapes.jpg")
WITH_NARROW = ("detr", "mask2former", "rt_detr", "owlv2", "yolos", "sam", "segformer", "siglip", "idefics", "llava_next", "llava_onevision", "mllama", "qwen2")
NARROW = ("pixel.png", "panorama.png")  # of one pixel, and much wider than high
RGB = dict(do_normalize=True, do_rescale=True, do_resize=True, rescale_factor=1 / 255)
HALF = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
IMAGENET = dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
CLIP = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
TIMM = "TimmWrapperImageProcessor"


def timm_fields(**fields):
    return {"pretrained_cfg": dict(input_size=[3, 32, 32], interpolation="bicubic", std=[0.5] * 3) | fields}


PROCESSORS = {  # class without its ending, and the fields of preprocessor_config.json
    "vit": ("ViTImageProcessor", RGB | HALF | dict(resample=2, size=dict(height=32, width=32))),
    "vit_48": ("ViTImageProcessor", RGB | HALF | dict(resample=2, size=dict(height=48, width=48))),
    "clip": (
        "CLIPImageProcessor",
        RGB
        | CLIP
        | dict(
            resample=3,
            size=dict(shortest_edge=32),
            do_center_crop=True,
            crop_size=dict(height=32, width=32),
            do_convert_rgb=True,
        ),
    ),
    "llava": (
        "LlavaImageProcessor",
        RGB
        | CLIP
        | dict(
            resample=3,
            size=dict(shortest_edge=32),
            do_center_crop=True,
            crop_size=dict(height=32, width=32),
            do_convert_rgb=True,
            do_pad=True,
        ),
    ),
    "mobilenet_v2": (
        "MobileNetV2ImageProcessor",
        RGB | HALF | dict(resample=2, size=dict(shortest_edge=27), do_center_crop=True, crop_size=dict(height=24, width=26)),
    ),
    "dinov3_vit": ("DINOv3ViTImageProcessor", RGB | IMAGENET | dict(resample=2, size=dict(height=19, width=26))),
    "dinov3_vit_cubic": ("DINOv3ViTImageProcessor", RGB | HALF | dict(resample=3, size=dict(shortest_edge=40))),
    "beit": (
        "BeitImageProcessor",
        RGB
        | HALF
        | dict(resample=3, size=dict(height=29, width=34), do_center_crop=True, crop_size=dict(height=24, width=24)),
    ),
    "siglip": ("SiglipImageProcessor", RGB | HALF | dict(resample=3, size=dict(height=37, width=30))),
    "siglip2": ("Siglip2ImageProcessor", RGB | HALF | dict(resample=2, patch_size=5, max_num_patches=14)),
    "idefics2": (
        "Idefics2ImageProcessor",
        RGB | HALF | dict(resample=2, do_pad=True, size=dict(shortest_edge=9, longest_edge=30), do_image_splitting=False),
    ),
    "idefics2_split": (
        "Idefics2ImageProcessor",
        RGB | HALF | dict(resample=2, do_pad=True, size=dict(shortest_edge=9, longest_edge=20), do_image_splitting=True),
    ),
    "idefics3": (
        "Idefics3ImageProcessor",
        RGB | HALF | dict(resample=1, size=dict(longest_edge=37), max_image_size=dict(longest_edge=16), do_pad=True),
    ),
    "idefics3_whole": (
        "Idefics3ImageProcessor",
        RGB
        | HALF
        | dict(resample=3, size=dict(longest_edge=33), max_image_size=dict(longest_edge=20), do_image_splitting=False),
    ),
    "llava_next": (
        "LlavaNextImageProcessor",
        RGB
        | CLIP
        | dict(
            resample=3,
            size=dict(shortest_edge=16),
            do_center_crop=True,
            crop_size=dict(height=16, width=16),
            do_convert_rgb=True,
            do_pad=True,
            image_grid_pinpoints=[[16, 32], [32, 16], [32, 32], [16, 64]],
        ),
    ),
    "llava_onevision": (
        "LlavaOnevisionImageProcessor",
        RGB
        | HALF
        | dict(
            resample=3,
            size=dict(height=15, width=15),
            do_convert_rgb=True,
            do_pad=True,
            image_grid_pinpoints=[[15, 15], [15, 30], [30, 15], [30, 30], [15, 45]],
        ),
    ),
    "mllama": (
        "MllamaImageProcessor",
        RGB | HALF | dict(resample=2, do_convert_rgb=True, do_pad=True, size=dict(height=16, width=16), max_image_tiles=4),
    ),
    "mllama_six": (
        "MllamaImageProcessor",
        RGB | IMAGENET | dict(resample=3, do_convert_rgb=True, do_pad=True, size=dict(height=11, width=11), max_image_tiles=6),
    ),
    "qwen2_vl": (
        "Qwen2VLImageProcessor",
        RGB | CLIP | dict(resample=3, patch_size=4, merge_size=2, size=dict(shortest_edge=100, longest_edge=640)),
    ),
    "qwen2_vl_apart": (
        "Qwen2VLImageProcessor",
        RGB
        | CLIP
        | dict(
            resample=2,
            patch_size=5,
            merge_size=1,
            temporal_patch_size=1,
            do_convert_rgb=True,
            size=dict(shortest_edge=300, longest_edge=2000),
        ),
    ),
    "convnext_crop": (
        "ConvNextImageProcessor",
        RGB | HALF | dict(resample=3, size=dict(shortest_edge=40), crop_pct=0.875),
    ),
    "dpt": (
        "DPTImageProcessor",
        RGB | HALF | dict(resample=3, size=dict(height=40, width=40), ensure_multiple_of=7, keep_aspect_ratio=True),
    ),
    "dpt_stretched": (
        "DPTImageProcessor",
        RGB | HALF | dict(resample=2, size=dict(height=45, width=33), ensure_multiple_of=14, keep_aspect_ratio=False),
    ),
    "detr": (
        "DetrImageProcessor",
        RGB | IMAGENET | dict(resample=2, do_pad=True, size=dict(shortest_edge=33, longest_edge=50)),
    ),
    "detr_padded": (
        "DetrImageProcessor",
        RGB
        | IMAGENET
        | dict(resample=2, do_pad=True, size=dict(shortest_edge=21, longest_edge=37), pad_size=dict(height=37, width=40)),
    ),
    "rt_detr": ("RTDetrImageProcessor", dict(size=dict(height=17, width=22))),
    "rt_detr_padded": (
        "RTDetrImageProcessor",
        RGB
        | IMAGENET
        | dict(resample=3, do_pad=True, size=dict(shortest_edge=9, longest_edge=15), pad_size=dict(height=15, width=16)),
    ),
    "mask2former": (
        "Mask2FormerImageProcessor",
        RGB | IMAGENET | dict(resample=2, size=dict(shortest_edge=21, longest_edge=37), size_divisor=8, ignore_index=255),
    ),
    "mask2former_squashed": (
        "Mask2FormerImageProcessor",
        RGB | IMAGENET | dict(resample=3, size=dict(height=13, width=18), size_divisor=5, pad_size=dict(height=17, width=24)),
    ),
    "yolos": (
        "YolosImageProcessor",
        RGB | IMAGENET | dict(resample=2, do_pad=True, size=dict(shortest_edge=21, longest_edge=400)),
    ),
    "blip": ("BlipImageProcessor", RGB | CLIP | dict(resample=3, size=dict(height=35, width=22))),
    "donut": (
        "DonutImageProcessor",
        RGB | HALF | dict(resample=2, size=dict(height=46, width=35), do_align_long_axis=True, do_thumbnail=True, do_pad=True),
    ),
    "donut_lying": (
        "DonutImageProcessor",
        RGB | HALF | dict(resample=3, size=dict(height=29, width=47), do_align_long_axis=False, do_thumbnail=True, do_pad=True),
    ),
    "owlvit": ("OwlViTImageProcessor", RGB | CLIP | dict(resample=3, size=dict(height=36, width=28))),
    "owlv2": ("Owlv2ImageProcessor", RGB | CLIP | dict(do_pad=True, size=dict(height=22, width=17))),
    "owlv2_apart": (
        "Owlv2ImageProcessor",
        RGB | CLIP | dict(do_pad=False, do_normalize=False, size=dict(height=12, width=70)),
    ),
    "sam": (
        "SamImageProcessor",
        RGB
        | IMAGENET
        | dict(resample=2, do_pad=True, size=dict(longest_edge=40), pad_size=dict(height=42, width=40), do_convert_rgb=True),
    ),
    "segformer": ("SegformerImageProcessor", RGB | IMAGENET | dict(resample=2, size=dict(height=35, width=29))),
    "videomae": (
        "VideoMAEImageProcessor",
        RGB | HALF | dict(resample=2, size=dict(shortest_edge=31), do_center_crop=True, crop_size=dict(height=34, width=27)),
    ),
    "efficientnet": (
        "EfficientNetImageProcessor",
        RGB | HALF | dict(resample=3, size=dict(height=38, width=38), rescale_offset=False, include_top=True),
    ),
    "timm": (TIMM, timm_fields(crop_pct=0.9, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])),
    "timm_squashed": (TIMM, timm_fields(crop_pct=0.95, crop_mode="squash", interpolation="bilinear", mean=[0.5] * 3)),
    "timm_whole": (TIMM, timm_fields(crop_pct=1.0, mean=[0.0] * 3, std=[1.0] * 3)),  # as MobileCLIP's towers have it
}


def draw(folder):
    folder.mkdir(parents=True, exist_ok=True)
    x, y = numpy.meshgrid(numpy.arange(57), numpy.arange(43))
    ramp = numpy.stack([x * 255 // 56, y * 255 // 42, (x + y) * 255 // 98], -1).astype(numpy.uint8)
    Image.fromarray(ramp).save(folder / "gradient.png")
    noise = numpy.random.Generator(numpy.random.PCG64(7)).integers(0, 256, (38, 90, 4), dtype=numpy.uint8)
    Image.fromarray(noise).save(folder / "alpha.png")
    Image.fromarray(noise[:31, :31, 0].copy()).save(folder / "gray.png")
    shapes = Image.new("RGB", (40, 64), (230, 220, 200))
    pen = ImageDraw.Draw(shapes)
    pen.ellipse((5, 5, 30, 30), fill=(200, 30, 30))
    pen.rectangle((10, 36, 36, 58), fill=(20, 60, 200))
    pen.line((0, 63, 39, 0), fill=(0, 120, 0), width=2)
    shapes.save(folder / "shapes.jpg", quality=90)
    Image.fromarray(ramp[:1, 30:31]).save(folder / "pixel.png")
    Image.fromarray(noise[:5, :, :3].copy()).resize((121, 5)).save(folder / "panorama.png")


def as_of_pictures(value, kind):
    return value[0] if kind.startswith("VideoMAE") else value  # of one video


def make_images(folder):
    draw(folder)
    for name, (kind, fields) in PROCESSORS.items():
        here = folder / name
        here.mkdir(exist_ok=True)
        if kind == TIMM:  # which stands in the file of the model
            write_json(here / "config.json", fields)
            processor = getattr(transformers, kind)(**fields)
        else:
            write_json(here / "preprocessor_config.json", {"image_processor_type": kind} | fields)
            with_pillow = getattr(transformers, kind + "Pil", None)  # DINOv3 has none
            processor = (with_pillow or getattr(transformers, kind)).from_pretrained(here)
        narrow = name.startswith(WITH_NARROW) and name != "idefics2_split"  # whose pictures have four quarters
        pictures = PICTURES + (NARROW if narrow else ())
        made = {
            f"{file}/{key}": as_of_pictures(value, kind) if value.is_floating_point() else value.long()
            for file in pictures
            for key, value in processor(Image.open(folder / file).convert("RGB"), return_tensors="pt").items()
            if key not in ("batch_num_images", "num_tiles")  # of one picture: 1; as many as aspect_ratio_mask tells
            and (key != "pixel_attention_mask" or name.startswith(("siglip2", "idefics2")))  # else nothing is hidden
        }
        save_file(made, here / "expected.safetensors")
        write_json(
            here / "case.json",
            {
                "processor": type(processor).__name__,
                "inputs": list(pictures),
                "convert": "to RGB first (PIL: transparency is dropped, gray is repeated)",
            },
        )


# ---- sounds


def write_sound(path, samples, rate):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((numpy.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def read_sound(path):
    with wave.open(str(path), "rb") as file:
        data = numpy.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
        return (data.astype(numpy.float32) / 32768).mean(1), file.getframerate()


def resampled(samples, rate, wanted):
    """torchaudio.functional.resample: sinc_interp_hann, lowpass_filter_width 6, rolloff 0.99."""
    divisor = math.gcd(rate, wanted)
    rate, wanted = rate // divisor, wanted // divisor
    width_of_filter, base = 6, min(rate, wanted) * 0.99
    width = math.ceil(width_of_filter * rate / base)
    index = torch.arange(-width, width + rate, dtype=torch.float64)[None, None] / rate
    t = torch.arange(0, -wanted, -1, dtype=torch.float64)[:, None, None] / wanted + index
    t = (t * base).clamp(-width_of_filter, width_of_filter)
    window = torch.cos(t * math.pi / width_of_filter / 2) ** 2
    t = t * math.pi
    kernels = torch.where(t == 0, 1.0, t.sin() / t) * window * (base / rate)
    padded = torch.nn.functional.pad(torch.from_numpy(samples).double()[None, None], (width, width + rate))
    made = torch.nn.functional.conv1d(padded, kernels, stride=rate).transpose(1, 2).reshape(-1)
    return made[: math.ceil(wanted * len(samples) / rate)].float().numpy()


def make_sounds(folder):
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.Generator(numpy.random.PCG64(11))
    t = numpy.arange(8000) / 16000
    mono = 0.4 * numpy.sin(2 * numpy.pi * 220 * t) + 0.2 * numpy.sin(2 * numpy.pi * (500 + 900 * t) * t)
    mono += 0.05 * random.standard_normal(len(t))
    write_sound(folder / "mono_16k.wav", mono[:, None], 16000)
    t = numpy.arange(8820) / 44100
    left = 0.5 * numpy.sin(2 * numpy.pi * 440 * t) + 0.05 * random.standard_normal(len(t))
    right = 0.3 * numpy.sign(numpy.sin(2 * numpy.pi * 97 * t)) + 0.05 * random.standard_normal(len(t))
    write_sound(folder / "stereo_44k.wav", numpy.stack([left, right], 1), 44100)
    sounds = {}
    for name in ("mono_16k.wav", "stereo_44k.wav"):
        samples, rate = read_sound(folder / name)
        sounds[name] = samples if rate == 16000 else resampled(samples, rate, 16000)
    wave2vec = transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True)
    whisper = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=1)
    ast = transformers.ASTFeatureExtractor(num_mel_bins=32, max_length=40)
    ast.save_pretrained(folder / "ast")
    wave2vec.save_pretrained(folder / "wav2vec2")
    whisper.save_pretrained(folder / "whisper")
    made = {"resampled/stereo_44k.wav": torch.from_numpy(sounds["stereo_44k.wav"])}
    for name, samples in [*sounds.items(), ("batch", list(sounds.values()))]:
        both = wave2vec(samples, sampling_rate=16000, padding=True, return_tensors="pt")
        place = f"wav2vec2/{name}"
        made[f"{place}/input_values"], made[f"{place}/attention_mask"] = both["input_values"], both["attention_mask"]
        if name != "batch":
            made[f"ast/{name}/input_values"] = ast(samples, sampling_rate=16000, return_tensors="pt")["input_values"]
            made[f"whisper/{name}/input_features"] = whisper(samples, sampling_rate=16000, return_tensors="pt")[
                "input_features"
            ]
    save_file({key: value.contiguous() for key, value in made.items()}, folder / "expected.safetensors")
    write_json(
        folder / "case.json",
        {
            "reading": "16-bit samples divided by 32768; channels averaged",
            "resampling": "torchaudio's windowed sinc, written out in media.py",
            "tolerance": {"resampled": 1e-5, "wav2vec2": 1e-4, "whisper": 1e-3, "ast": 2e-5},
        },
    )


def make(out):
    make_images(out / "image")
    moving.make(out / "video")
    make_sounds(out / "audio")
