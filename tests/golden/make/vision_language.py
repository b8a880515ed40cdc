# SPDX-License-Identifier: Apache-2.0
"""Models that read pictures among their tokens: configurations of three parts, texts with places for pictures, and the
files of a processor in the form of Transformers 4 or 5."""

import json
import pathlib

import torch
from safetensors.torch import load_file, save_file

import canvases
import gemma_pictures
import grids
import patch_blocks
import tiles
from common import generator, write_json
from sizes import SIZES
from vocabularies import BATCH

IMAGE = "<image>"
# Two pictures, none and one: the last row can be cut off with its picture.
TEXTS = ["short " + IMAGE + " and " + IMAGE + " " + BATCH[4], BATCH[1], IMAGE + "\n" + BATCH[1]]
PROMPTS = [IMAGE + "\nThe licence", "You may copy " + IMAGE + " and modify"]
READERS = patch_blocks.BLOCKS | grids.GRIDS | tiles.TILES | gemma_pictures.GEMMAS | canvases.CANVASES  # beside llava
WORDS, IMAGE_OF_WORDS = 60, 4  # of a case without a tokenizer
CLIP = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
ROPE = dict(rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})
TEXT_CONFIGS = {"llava": dict(model_type="llama"), "llava-qwen2": dict(model_type="qwen2", tie_word_embeddings=True)}
FIELDS = {
    "llava-qwen2": dict(
        vision_feature_layer=[-1, 1],
        vision_feature_select_strategy="full",
        multimodal_projector_bias=False,
        projector_hidden_act="gelu_pytorch_tanh",
    )
}
# Names of weights: those of Transformers 4 (and of the checkpoints that people have), those that the classes of 5 have,
# and else those that 5 writes.
RENAMED = {
    "llava": [("vision_tower.", "vision_tower.vision_model.")],
    "llava-onevision": [("vision_tower.", "vision_tower.vision_model.")],
    "llava-qwen2": [
        ("language_model.model.", "model.language_model."),
        ("language_model.lm_head.", "lm_head."),
        ("vision_tower.", "model.vision_tower."),
        ("multi_modal_projector.", "model.multi_modal_projector."),
    ],
}
PICTURES_FIRST = (
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}"
    "{# Render all images first #}{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}{# Render all text next #}{% if message['role'] != 'assistant' %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}"
    "{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
IN_ORDER = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}{% if part.type == 'image' %}<image>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def has_pictures(family_name):
    return family_name == "llava" or family_name in READERS


def has_grids(name):
    return name.startswith(("llava-next", "llava-onevision"))


def has_blocks(name):
    return name.startswith(("qwen2-vl", "qwen2-5-vl", "qwen3-vl"))


def image_token(name):
    if canvases.has(name):
        return canvases.IMAGE
    if gemma_pictures.has(name):
        return gemma_pictures.image_token(name)
    return patch_blocks.IMAGE if has_blocks(name) else IMAGE


def has_tiles(name):
    return name.startswith(tuple(tiles.TILES))


def marks_of(family_name):
    if family_name in patch_blocks.BLOCKS:
        return patch_blocks.MARKS
    if family_name == "gemma3":
        return [gemma_pictures.BEGIN, gemma_pictures.END]
    if family_name == "idefics2":
        return tiles.AROUND
    return tiles.MARKS if family_name in tiles.TILES else []


def add_image_token(folder, more=(), image=IMAGE):
    """One more special token, behind all others, and those that stand around pictures."""
    path = pathlib.Path(folder) / "tokenizer.json"
    made = json.loads(path.read_text())
    ids = [token["id"] for token in made["added_tokens"]] + list(range(len(made["model"]["vocab"])))
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    for place, content in enumerate((image, *more), max(ids) + 1):
        made["added_tokens"].append(dict(id=place, content=content, **flags))
    path.write_text(json.dumps(made, ensure_ascii=False))
    if image == gemma_pictures.SOFT:
        gemma_pictures.name_tokens(folder)


def fields_of(name, is_main, tokenizer):
    text = SIZES["grouped"] | ROPE | TEXT_CONFIGS.get(name, TEXT_CONFIGS["llava"])
    if has_tiles(name):
        kind, vision, other = tiles.parts_of(name)
        text |= kind
    ids = dict(bos_token_id=2, eos_token_id=3, pad_token_id=0)
    if tokenizer is not None:
        roles = ("pad", "bos", "eos")
        ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id", None) for role in roles}
    text |= dict(vocab_size=WORDS if tokenizer is None else len(tokenizer), **ids)
    if not has_tiles(name):
        vision = SIZES["vision"] | dict(model_type="clip_vision_model", hidden_act="quick_gelu", projection_dim=12)
    if not is_main:
        text["num_hidden_layers"] = vision["num_hidden_layers"] = 1
    if canvases.has(name):
        return canvases.parts_of(name, text, tokenizer)
    image = IMAGE_OF_WORDS if tokenizer is None else tokenizer.convert_tokens_to_ids(image_token(name))
    if gemma_pictures.has(name):
        text = {key: value for key, value in text.items() if key != "model_type"}
        return gemma_pictures.parts_of(name, text, image, tokenizer)
    if has_blocks(name):
        kind, vision, other = patch_blocks.parts_of(name)
        return dict(text_config=text | kind, vision_config=vision, image_token_id=image) | other
    if has_tiles(name):
        return dict(text_config=text, vision_config=vision, image_token_id=image) | other
    if has_grids(name):
        kind, seen, other = grids.parts_of(name)
        vision = seen if "model_type" in seen else vision | seen
        return dict(text_config=text | kind, vision_config=vision, image_token_index=image) | other
    return dict(text_config=text, vision_config=vision, image_token_index=image) | FIELDS.get(name, {})


def places_of(config):
    if hasattr(config, "scale_factor") or hasattr(config, "perceiver_config"):
        return tiles.places_of(config)
    vision = config.vision_config
    patches = (vision.image_size // vision.patch_size) ** 2
    return patches + (1 if config.vision_feature_select_strategy == "full" else 0)


def expanded(texts, config):
    return [text.replace(IMAGE, IMAGE * places_of(config)) for text in texts]


def inputs_of(name, class_name, config, tokenizer):
    random = generator("inputs of " + name)
    if canvases.has(name):
        return canvases.inputs_of(class_name, config, tokenizer, random)
    if gemma_pictures.has(name):
        return gemma_pictures.inputs_of(name, class_name, config, tokenizer, config.image_token_index, random)
    if tokenizer is None and has_blocks(name):
        rows = patch_blocks.words_of(IMAGE_OF_WORDS, random, WORDS)
        length = max(map(len, rows))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        inputs = {"input_ids": ids, "attention_mask": torch.tensor([[1] * len(r) + [0] * (length - len(r)) for r in rows])}
    elif tokenizer is None and has_grids(name):
        rows = grids.rows_of(name, config, IMAGE_OF_WORDS, random, WORDS - 2)
        length = max(map(len, rows))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        inputs = {"input_ids": ids, "attention_mask": torch.tensor([[1] * len(r) + [0] * (length - len(r)) for r in rows])}
    elif tokenizer is None:
        places, rows = places_of(config), []
        for pictures in tiles.PICTURES if has_tiles(name) else (2, 0, 1):
            words = lambda count: torch.randint(5, WORDS - 2, (count,), generator=random).tolist()
            rows.append(sum((words(2) + [IMAGE_OF_WORDS] * places for _ in range(pictures)), []) + words(4))
        length = max(map(len, rows))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        inputs = {"input_ids": ids, "attention_mask": torch.tensor([[1] * len(r) + [0] * (length - len(r)) for r in rows])}
    else:
        tokenizer.padding_side = "right"
        if has_blocks(name):
            texts = patch_blocks.expanded(patch_blocks.TEXTS)
        elif has_grids(name):
            texts = grids.expanded(grids.texts_of(name), name, config)
        else:
            texts = expanded(tiles.texts_of(name) if has_tiles(name) else TEXTS, config)
        made = tokenizer(texts, padding=True, return_tensors="pt")
        inputs = {key: made[key] for key in ("input_ids", "attention_mask")}
    side = getattr(config.vision_config, "image_size", None)
    if has_blocks(name):
        inputs |= patch_blocks.pictures_of(random)
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == config.image_token_id).int()
    elif has_tiles(name):
        inputs |= tiles.pictures_of(name, config, random)
    elif has_grids(name):
        inputs |= grids.pictures_of(name, config, random)
    else:
        inputs["pixel_values"] = torch.empty(3, 3, side, side).normal_(generator=random)
    if class_name.endswith("Generation"):
        counted = (inputs["attention_mask"] == 1) & (inputs["input_ids"] != config.image_token_id)
        inputs["labels"] = torch.where(counted, inputs["input_ids"], -100)
    return inputs


def prompts_of(model, tokenizer, rows, name):
    """Prompts for generate(): row i has picture i of the case's inputs."""
    if canvases.has(name):
        return canvases.prompts_of(model, tokenizer, rows)
    if tokenizer is None and has_tiles(name):
        return tiles.prompts_of(model.config, IMAGE_OF_WORDS, rows) | {
            "pixel_values": f"inputs.safetensors:pixel_values[{rows.start}:{rows.stop}]"
        }
    if tokenizer is None:
        return grids.prompts_of(name, model.config, IMAGE_OF_WORDS, rows) | {
            "image_sizes": [list(size) for size in grids.SIZES_OF[name][rows]],
            "pixel_values": f"inputs.safetensors:pixel_values[{rows.start}:{rows.stop}]",
        }
    tokenizer.padding_side = "left"
    if gemma_pictures.has(name):
        return gemma_pictures.prompts_of(model, tokenizer, rows, name)
    if has_blocks(name):
        made = tokenizer(patch_blocks.expanded(patch_blocks.PROMPTS)[rows], padding=True, return_tensors="pt")
        kinds = (made["input_ids"] == model.config.image_token_id).int()
        return patch_blocks.pictures_of_prompts(rows) | {
            "input_ids": made["input_ids"].tolist(),
            "attention_mask": made["attention_mask"].tolist(),
            "mm_token_type_ids": kinds.tolist(),
        }
    texts = grids.expanded(PROMPTS, name, model.config) if has_grids(name) else expanded(PROMPTS, model.config)
    made = tokenizer(texts[rows], padding=True, return_tensors="pt")
    sizes = {"image_sizes": [list(size) for size in grids.SIZES_OF[name][rows]]} if has_grids(name) else {}
    return sizes | {
        "input_ids": made["input_ids"].tolist(),
        "attention_mask": made["attention_mask"].tolist(),
        "pixel_values": f"inputs.safetensors:pixel_values[{rows.start}:{rows.stop}]",
    }


def rename_weights(name, folder):
    """Where save_pretrained has not given back the names that the model was read from."""
    path = pathlib.Path(folder) / "model.safetensors"
    if name not in RENAMED:
        return

    def renamed(key):
        for beginning, other in RENAMED[name]:
            if key.startswith(beginning) and not key.startswith(other):
                return other + key[len(beginning) :]
        return key

    save_file({renamed(key): value for key, value in load_file(path).items()}, path, {"format": "pt"})


def save_processor(name, config, folder):
    """LlavaProcessor's files, as Transformers 4 writes them for `llava` and 5 for the other; those of other processors."""
    if has_blocks(name):
        kind = "Qwen3VLProcessor" if patch_blocks.is_newest(name) else "Qwen2VLProcessor"
        own = dict(processor_class=kind, image_processor=patch_blocks.images_of())
        write_json(folder / "processor_config.json", own)
        (folder / "chat_template.jinja").write_text(patch_blocks.CHAT)
        return
    if canvases.has(name):
        processor, images = canvases.processor_of(config)
        write_json(folder / "processor_config.json", processor | dict(image_processor=images))
        (folder / "chat_template.jinja").write_text(canvases.CHAT)
        return
    if gemma_pictures.has(name):
        processor, images = gemma_pictures.processor_of(name, config)
        write_json(folder / "processor_config.json", processor | dict(image_processor=images))
        (folder / "chat_template.jinja").write_text(gemma_pictures.chat_of(name))
        return
    if has_tiles(name) or has_grids(name):
        processor, images = grids.processor_of(name, config) if has_grids(name) else tiles.processor_of(name, config)
        write_json(folder / "processor_config.json", processor | dict(image_processor=images))
        (folder / "chat_template.jinja").write_text(IN_ORDER)
        return
    side = config.vision_config.image_size
    images = dict(
        image_processor_type="CLIPImageProcessor",
        do_resize=True,
        size=dict(shortest_edge=side),
        resample=3,
        do_center_crop=True,
        crop_size=dict(height=side, width=side),
        do_rescale=True,
        rescale_factor=1 / 255,
        do_normalize=True,
        do_convert_rgb=True,
        **CLIP,
    )
    processor = dict(
        processor_class="LlavaProcessor",
        image_token=IMAGE,
        patch_size=config.vision_config.patch_size,
        num_additional_image_tokens=1,
        vision_feature_select_strategy=config.vision_feature_select_strategy,
    )
    if name == "llava":
        write_json(folder / "preprocessor_config.json", images)
        write_json(folder / "chat_template.json", dict(chat_template=PICTURES_FIRST))
    else:
        processor["image_processor"] = images
        (folder / "chat_template.jinja").write_text(IN_ORDER)
    write_json(folder / "processor_config.json", processor)


# ---- what the processor makes of texts and chats


def part(file):
    return {"type": "image", "path": file}


def words(text):
    return {"type": "text", "text": text}


CHATS = [
    [{"role": "user", "content": [part("shapes.jpg"), words("What is it?")]}],
    [
        {"role": "user", "content": [part("alpha.png"), words("And"), part("gray.png")]},
        {"role": "assistant", "content": [words("A licence.")]},
        {"role": "user", "content": [words("Now?"), part("gradient.png")]},
    ],
    [{"role": "user", "content": [words("No picture at all.")]}],
    [{"role": "user", "content": [part("gray.png"), words("Go on")]}, {"role": "assistant", "content": [words("It is")]}],
]
PLAIN = [(IMAGE + " and a text", ["shapes.jpg"]), ("two " + IMAGE + IMAGE, ["gray.png", "alpha.png"]), ("none", [])]


def without_padding(made, processor):
    """The pictures of a text, of grids the parts that there are."""
    pixels = made["pixel_values"]
    if tiles.is_older(processor.__class__.__name__.lower()):
        return tiles.without_padding(pixels, made["pixel_attention_mask"])
    if "image_sizes" not in made:
        return pixels.contiguous()
    side, parts = pixels.shape[-1], []
    together = made.get("batch_num_images", torch.ones(len(pixels), dtype=torch.long)).tolist()
    for picture, size in zip(pixels, made["image_sizes"].tolist()):
        if together[0] > 1:
            parts.append(picture[:1])
            continue
        height, width = grids.select_best_resolution(size, processor.image_processor.image_grid_pinpoints)
        parts.append(picture[: height // side * (width // side) + 1])
    return torch.cat(parts).contiguous()


def make_processed(folder):
    """processed.json: prompts and ids; processed.safetensors: the pictures of each run."""
    import transformers
    from PIL import Image

    pictures = pathlib.Path(__file__).resolve().parent.parent / "image"
    if has_blocks(folder.name):
        processor = patch_blocks.processor_of(folder / "model")
    elif grids.is_onevision(folder.name):
        processor = patch_blocks.processor_of(folder / "model", IN_ORDER, grids.FIELDS)
    else:
        processor = transformers.AutoProcessor.from_pretrained(folder / "model", backend="pil")
    opened = lambda file: Image.open(pictures / file).convert("RGB")
    if folder.name == "gemma3":  # whose processor overrules what the file says of it
        processor.images_kwargs = processor.images_kwargs | gemma_pictures.SCANS
    runs, tensors = [], {}
    needs_pictures = gemma_pictures.has(folder.name) and gemma_pictures.sees_prompts(folder.name)
    for chat in CHATS:
        goes_on = chat[-1]["role"] == "assistant"
        files = [item["path"] for message in chat for item in message["content"] if "path" in item]
        if needs_pictures and not files:
            continue
        plain = [
            message | {"content": [{"type": "image"} if "path" in item else item for item in message["content"]]}
            for message in chat
        ]
        options = dict(add_generation_prompt=not goes_on, continue_final_message=goes_on)
        prompt = processor.apply_chat_template(plain, **options)
        with_pictures = [
            message
            | {"content": [{"type": "image", "image": opened(i["path"])} if "path" in i else i for i in message["content"]]}
            for message in chat
        ]
        made = processor.apply_chat_template(with_pictures, tokenize=True, return_dict=True, return_tensors="pt", **options)
        runs.append(dict(messages=plain, images=files, prompt=prompt, input_ids=made["input_ids"][0].tolist()))
        if files:
            tensors[str(len(runs) - 1)] = without_padding(made, processor)
    mark = image_token(folder.name) if canvases.has(folder.name) else gemma_pictures.mark_of(folder.name) if gemma_pictures.has(folder.name) else image_token(folder.name)
    # Of texts that begin with the token that begins texts, MllamaProcessor gives it twice.
    plain_runs = PLAIN[:1] if canvases.has(folder.name) else PLAIN
    for text, files in plain_runs + ([("no place", ["gray.png"])] if needs_pictures else []):
        if needs_pictures and not files:
            continue
        text = text.replace(IMAGE, mark)
        made = processor(text=text, images=[opened(file) for file in files] or None, return_tensors="pt")
        runs.append(dict(text=text, images=files, input_ids=made["input_ids"][0].tolist()))
        if files:
            tensors[str(len(runs) - 1)] = without_padding(made, processor)
    write_json(folder / "processed.json", {"runs": runs})
    save_file(tensors, folder / "processed.safetensors")
