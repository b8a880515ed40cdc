# SPDX-License-Identifier: Apache-2.0
"""One batch of inputs and labels for every architecture, with some padding in it."""

import torch

import backbones
import detection
import documents
import captions
import questions
import sources
import speaking
import timm_networks
import towers
import videos
import vision_language
from common import generator
from random_models import WORDS
from vocabularies import BATCH, PAIRS

TEXT = 12  # positions of a row


def text_inputs(config, name, tokenizer, in_pairs, rows=3, length=TEXT):
    """Ids of texts with padding behind them, or of random words."""
    pad = getattr(config, "pad_token_id", 0) or 0
    random = generator("inputs of " + name)
    if tokenizer is None:
        first = 5
        ids = torch.randint(first, getattr(config, "vocab_size", WORDS) - 2, (rows, length), generator=random)
        mask = torch.ones_like(ids)
        for row, kept in enumerate([length, length - 3, length - 5][:rows]):
            mask[row, kept:] = 0
        ids[mask == 0] = pad
        return {"input_ids": ids, "attention_mask": mask}
    second = PAIRS[1 : 1 + rows] if in_pairs else None
    tokenizer.padding_side = "right"
    made = tokenizer(
        BATCH[1 : 1 + rows], second, padding="max_length", truncation=True, max_length=length, return_tensors="pt"
    )
    made["input_ids"][-1, length - 3 :], made["attention_mask"][-1, length - 3 :] = (
        pad,
        0,
    )  # some padding in every batch
    kept = {"input_ids": made["input_ids"], "attention_mask": made["attention_mask"]}
    if "token_type_ids" in made and getattr(config, "type_vocab_size", 0) > 1:
        kept["token_type_ids"] = made["token_type_ids"]
    return kept


def inputs_of(name, family_name, class_name, config, tokenizer):
    random = generator("labels of " + name)
    integers = lambda high, shape, low=0: torch.randint(low, high, shape, generator=random)
    floats = lambda *shape: torch.empty(shape).normal_(generator=random)
    classes = len(config.id2label) if getattr(config, "id2label", None) else 2
    seen = detection.inputs_of(name, family_name, class_name, config, random)
    if seen is not None:
        return seen
    if family_name in backbones.BACKBONES:
        return backbones.inputs_of(name, family_name, class_name, config, integers, floats)
    if family_name in ("wav2vec2", "hubert", "wavlm"):
        seconds = 1200 if "XVector" in class_name else 800
        sounds = floats(2, seconds)
        mask = torch.ones(2, seconds, dtype=torch.long)
        mask[1, seconds - 200 :] = 0
        sounds[1, seconds - 200 :] = 0
        inputs = {"input_values": sounds}
        if class_name == "Wav2Vec2ForPreTraining":
            frames = frames_of(config, seconds)
            chosen = torch.zeros(2, frames, dtype=torch.bool)
            chosen[0, 2:7], chosen[1, 4:9] = True, True
            negatives = torch.randint(0, 2 * frames - 1, (2, frames, config.num_negatives), generator=random)
            return inputs | {"mask_time_indices": chosen, "sampled_negative_indices": negatives}
        if not class_name.endswith("XVector"):
            inputs["attention_mask"] = mask
        if class_name.endswith("ForCTC"):
            labels = integers(config.vocab_size, (2, 5), 5)
            labels[1, 3:] = -100
            inputs["labels"] = labels
        elif class_name.endswith("FrameClassification"):
            frames = frames_of(config, seconds)
            inputs["labels"] = torch.nn.functional.one_hot(integers(classes, (2, frames)), classes).float()
        elif not class_name.endswith("Model"):
            inputs["labels"] = integers(classes, (2,))
        return inputs
    if family_name == "ast":
        inputs = {"input_values": floats(2, config.max_length, config.num_mel_bins)}
        return inputs | ({"labels": integers(classes, (2,))} if class_name.endswith("Classification") else {})
    if family_name == "whisper":
        features = {"input_features": floats(2, 80, 100)}
        if class_name.endswith("AudioClassification"):
            return features | {"labels": integers(classes, (2,))}
        texts = integers(config.vocab_size - 4, (2, 8), 5)
        start = torch.full((2, 1), config.decoder_start_token_id)
        inputs = features | {"decoder_input_ids": torch.cat([start, texts[:, :-1]], 1)}
        if class_name.endswith("Generation"):
            inputs["labels"] = texts.clone()
            inputs["labels"][1, 6:] = -100
        return inputs
    if (
        family_name
        in ("vit", "vit_mae", "swin", "convnext", "convnextv2", "resnet", "efficientnet", "dinov2", "timm_wrapper", "clip_vision_model", "deit", "donut-swin")
        or family_name == "dinov2_with_registers"
        or family_name == "siglip_vision_model"
        or class_name in ("CLIPForImageClassification", "SiglipForImageClassification")
    ):
        side = (
            getattr(config, "image_size", None)
            or getattr(getattr(config, "vision_config", None), "image_size", None)
            or timm_networks.side_of(name)
        )
        height, width = (35, 21) if family_name == "dinov2_with_registers" else (side if isinstance(side, list) else (side, side))
        inputs = {"pixel_values": floats(2, 3, height, width)}
        if class_name.endswith("MaskedImageModeling"):
            patches = (side // config.patch_size) ** 2
            inputs["bool_masked_pos"] = torch.rand(2, patches, generator=random) < 0.4
        elif family_name == "vit_mae":  # else it is drawn, and what is hidden by it
            inputs["noise"] = torch.rand(2, (side // config.patch_size) ** 2, generator=random)
        elif class_name.endswith("ImageClassification"):  # not that with a teacher, which has no loss
            inputs["labels"] = integers(classes, (2,))
        return inputs
    if family_name in videos.VIDEOS:
        return videos.inputs_of(name, class_name, config)
    if family_name.startswith("depth_anything"):
        height, width = (35, 21) if family_name.endswith("metric") else (28, 28)
        return {"pixel_values": floats(2, 3, height, width)}
    if vision_language.has_pictures(family_name):
        return vision_language.inputs_of(name, class_name, config, tokenizer)
    if family_name == "clap":
        audio = config.audio_config
        heard = floats(3, 1, 2 * audio.spec_size - 7, audio.num_mel_bins)
        return {**text_inputs(config.text_config, name, tokenizer, False), "input_features": heard}
    if family_name == "clip":
        texts = text_inputs(config.text_config, name, tokenizer, False)
        return {**texts, "pixel_values": floats(3, 3, 32, 32)}
    if family_name in questions.QUESTIONS:
        texts = text_inputs(config.text_config, name, tokenizer, False, 2, 8)
        return questions.inputs_of(class_name, config, texts, integers, floats)
    if family_name in captions.CAPTIONS:
        return captions.inputs_of(name, config, random)
    if family_name in sources.SOURCES:
        return sources.inputs_of(name, config, text_inputs(config, name, None, False), random)
    if family_name == "siglip2_vision_model" or class_name == "Siglip2ForImageClassification":
        inputs = towers.patches_of(name, getattr(config, "vision_config", config), floats)
        return inputs | ({"labels": integers(classes, (3,))} if class_name.endswith("Classification") else {})
    if family_name in ("siglip", "siglip2"):
        return towers.inputs_of(name, config, text_inputs(config.text_config, name, tokenizer, False), floats)
    if family_name == "speecht5_hifigan":
        return speaking.inputs_of(name, family_name, config, {})
    in_pairs = "QuestionAnswering" in class_name or "PreTraining" in class_name or "NextSentence" in class_name
    inputs = text_inputs(config, name, tokenizer, in_pairs)
    spoken = speaking.inputs_of(name, family_name, config, inputs)
    if spoken is not None:
        return spoken
    if family_name == "clip_text_model":
        inputs["input_ids"][:, 7] = config.eos_token_id
    if (
        tokenizer is None
        and getattr(config, "type_vocab_size", 0) > 1
        and "token_type_ids" not in inputs
        and family_name in ("bert", "albert", "electra", "nomic_bert", "jina_embeddings_v3", "deberta", "mobilebert")
    ):
        inputs["token_type_ids"] = (torch.arange(TEXT) >= 6).long().expand(3, TEXT).contiguous() * inputs[
            "attention_mask"
        ]
    if family_name in documents.DOCUMENTS:
        inputs |= documents.inputs_of(config, inputs, random)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    if family_name == "longformer" and class_name.endswith(("MultipleChoice", "QuestionAnswering")):
        ids[:, [3, 4, 6]] = config.sep_token_id  # behind the question, and around the text
        if class_name.endswith("MultipleChoice"):  # in float64 Transformers' padding among what sees all gives NaN
            mask[:] = 1
    if class_name.endswith("MultipleChoice"):
        flipped = {key: torch.stack([value, value.roll(1, 0)], 1) for key, value in inputs.items()}
        return flipped | {"labels": integers(2, (3,))}
    special = ids.new_tensor(
        [
            i
            for i in (getattr(config, key, None) for key in ("pad_token_id", "cls_token_id", "sep_token_id"))
            if isinstance(i, int)
        ]
    )
    if class_name.endswith("TokenClassification"):
        labels = integers(classes, ids.shape)
        labels[torch.isin(ids, special) | (mask == 0)] = -100
        labels[:, 0] = -100
        inputs["labels"] = labels
    elif class_name.endswith("SequenceClassification"):
        inputs["labels"] = integers(classes, (3,))
        if family_name in ("bart", "mbart", "t5", "mt5", "umt5"):  # all texts have as many ends
            ids[:, 6], ids[mask == 0] = config.eos_token_id, config.pad_token_id
            ids[:, 7:], mask[:, 7:] = config.pad_token_id, 0
    elif class_name.endswith("QuestionAnswering"):
        if family_name == "bart":
            ids[:, 6] = config.eos_token_id
        inputs |= {"start_positions": integers(6, (3,), 1), "end_positions": integers(8, (3,), 6)}
    elif class_name.endswith("MaskedLM"):
        labels = torch.where((torch.rand(ids.shape, generator=random) < 0.4) & (mask == 1), ids, -100)
        labels[0, 2] = ids[0, 2]
        inputs["labels"] = labels
        if getattr(config, "token_dropout", False):  # ESM reads masked tokens as nought
            ids[0, 2], ids[1, 4] = config.mask_token_id, config.mask_token_id
    elif class_name in ("BertForPreTraining", "AlbertForPreTraining", "MobileBertForPreTraining"):
        labels = torch.where((torch.rand(ids.shape, generator=random) < 0.4) & (mask == 1), ids, -100)
        labels[0, 2] = ids[0, 2]
        inputs["labels"] = labels
        inputs["sentence_order_label" if "Albert" == class_name[:6] else "next_sentence_label"] = integers(2, (3,))
    elif class_name == "ElectraForPreTraining":
        inputs["labels"] = integers(2, ids.shape)
    elif class_name.endswith("ForNextSentencePrediction"):
        inputs["labels"] = integers(2, (3,))
    elif class_name.endswith(("CausalLM", "LMHeadModel")):
        inputs["labels"] = torch.where(mask == 1, ids, -100)
    elif class_name.endswith(("ForConditionalGeneration", "MarianMTModel")):
        labels = integers(config.vocab_size - 3, (3, 8), 4)
        start = torch.full((3, 1), config.decoder_start_token_id)
        inputs["decoder_input_ids"] = torch.cat([start, labels[:, :-1]], 1)
        inputs["labels"] = labels.clone()
        inputs["labels"][1, 6:] = -100
    elif getattr(config, "is_encoder_decoder", False) and class_name.endswith("Model") and "Encoder" not in class_name:
        start = torch.full((3, 1), config.decoder_start_token_id)
        inputs["decoder_input_ids"] = torch.cat([start, integers(config.vocab_size - 3, (3, 7), 4)], 1)
    return inputs


def frames_of(config, samples):
    for kernel, stride in zip(config.conv_kernel, config.conv_stride):
        samples = (samples - kernel) // stride + 1
    return samples
