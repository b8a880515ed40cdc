# SPDX-License-Identifier: Apache-2.0
"""Configurations of small models, and weights drawn at random for them."""

import copy
import math

import torch
import transformers

import captions
import detection
import questions
import towers
import vision_language
from architectures import FAMILIES, LABELS
from common import generator
from sizes import SIZES
from states import STATES

WORDS = 60  # of a case without a tokenizer


def without_dropout(config):
    for key, value in list(vars(config).items()):
        if key.startswith("_") or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if "drop" in key and "drop_path" not in key or key.endswith("_pdrop"):
            setattr(config, key, 0.0)
    for part in ("text_config", "vision_config", "audio_config", "encoder", "decoder"):
        if isinstance(getattr(config, part, None), transformers.PreTrainedConfig):
            without_dropout(getattr(config, part))


def config_of(name, family_name, class_name, is_main, tokenizer):
    family = FAMILIES[family_name]
    special = (family.more | family.small)[name][1] if name in family.more | family.small else {}
    fields = copy.deepcopy(SIZES[family.sizes] | family.config | family.heads.get(class_name, {}) | special)
    words = len(tokenizer) if tokenizer is not None else WORDS
    texts = dict(vocab_size=words) if family.sizes not in ("vision", "none", "speech", "spectrogram") else {}
    if family_name == "clip":
        texts = {}
        fields["text_config"] = SIZES["encoder"] | dict(
            vocab_size=words, max_position_embeddings=32, hidden_act="quick_gelu"
        )
        fields["vision_config"] = SIZES["vision"] | dict(hidden_act="quick_gelu")
        if tokenizer is not None:
            fields["text_config"] |= dict(
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
    if family_name == "clap":
        fields = towers.clap_fields(words, tokenizer)
    if family_name in ("siglip", "siglip2"):
        fields = towers.fields_of(fields, tokenizer)
    if family_name in ("owlvit", "owlv2"):
        fields = detection.fields_of(fields, tokenizer)
    if family_name in questions.QUESTIONS:
        fields, tokenizer = questions.fields_of(fields, is_main, tokenizer), None
    if family_name in captions.CAPTIONS:
        fields, tokenizer = captions.fields_of(fields, tokenizer), None
    if vision_language.has_pictures(family_name):
        texts, fields = {}, fields | vision_language.fields_of(name, is_main, tokenizer)
        tokenizer = None
    if family_name == "clip_text_model":
        texts |= dict(eos_token_id=WORDS - 1, bos_token_id=WORDS - 2, pad_token_id=1, max_position_embeddings=32)
    if tokenizer is not None and texts:
        texts |= {
            f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id")
            for kind in ("pad", "bos", "eos")
            if getattr(tokenizer, f"{kind}_token_id", None) is not None
        }
    elif texts and "pad_token_id" not in texts | fields:
        texts["pad_token_id"] = (
            1 if family_name in ("roberta", "camembert", "xlm-roberta", "mpnet", "bart", "opt") else 0
        )
        texts |= dict(bos_token_id=2, eos_token_id=3)
        if family_name == "modernbert":
            texts |= dict(cls_token_id=2, sep_token_id=3)
    if tokenizer is not None and family_name == "modernbert":
        texts |= dict(cls_token_id=tokenizer.cls_token_id, sep_token_id=tokenizer.sep_token_id)
    fields = texts | fields
    if family_name in ("marian", "bart", "whisper"):
        start = {"marian": fields["pad_token_id"], "bart": fields["eos_token_id"]}.get(family_name)
        if family_name == "whisper":
            start = tokenizer.convert_tokens_to_ids("<|startoftranscript|>") if tokenizer is not None else 4
        fields["decoder_start_token_id"] = start
        fields["forced_eos_token_id"] = None if family_name == "whisper" else fields["eos_token_id"]
    if family_name == "marian":
        fields |= dict(decoder_vocab_size=fields["vocab_size"])
    if family_name == "phi3":
        fields |= dict(original_max_position_embeddings=fields["max_position_embeddings"])
    if not is_main and name not in family.small:
        fields |= {
            key: 1
            for key in (
                "num_hidden_layers",
                "n_layers",
                "n_layer",
                "num_layers",
                "num_decoder_layers",
                "encoder_layers",
                "decoder_layers",
            )
            if key in fields
        }
        if family_name == "gemma4_text":
            fields |= dict(layer_types=["full_attention"], num_kv_shared_layers=0)
        if family_name == "gemma3_text":
            fields["layer_types"] = ["sliding_attention"]
        if family_name in STATES and "layer_types" in fields:
            fields["layer_types"] = fields["layer_types"][:1]
        if family_name == "gpt_neo":
            fields["attention_types"] = [[["local"], 1]]
    if family_name == "timm_wrapper":
        config = transformers.TimmWrapperConfig(do_pooling=True, **fields)
    else:
        config = transformers.AutoConfig.for_model(family.model_type or family_name, **fields)
    labels = LABELS.get(name)
    if labels is None and class_name.endswith(
        (
            "ForImageClassification",
            "ForVideoClassification",
            "ForSequenceClassification",
            "ForTokenClassification",
            "ForAudioClassification",
            "ForAudioFrameClassification",
            "ForXVector",
        )
    ):
        labels = [f"LABEL_{i}" for i in range(5 if "Image" in class_name else 3)]
    if labels:
        config.id2label, config.label2id = dict(enumerate(labels)), {label: i for i, label in enumerate(labels)}
    without_dropout(config)
    if class_name.endswith("TokenClassification") and getattr(config, "classifier_dropout", None) is None:
        config.classifier_dropout = 0.0  # without the field heads of decoders drop a tenth
    config.transformers_version = None
    return config


def draw_weights(model, name, signed_norms):
    """Every parameter and every statistic at random, so that one that is forgotten or turned round shows."""
    random = generator(name)

    def normal(tensor, deviation, mean=0.0):
        values = torch.empty(tensor.shape, dtype=torch.float32).normal_(generator=random)
        tensor.copy_((mean + deviation * values).to(tensor.dtype))

    with torch.no_grad():
        for key, parameter in sorted(model.named_parameters()):
            if not parameter.requires_grad:  # sinusoids
                continue
            is_norm = parameter.dim() == 1 and key.endswith("weight") and "bias" not in key
            from_one = "gemma" in type(model).__name__.lower() and not type(model).__name__.startswith("Gemma4")
            if is_norm:
                normal(parameter, 0.1, 0.0 if from_one else 1.0)
                if signed_norms and not from_one:
                    parameter.mul_(torch.randint(0, 2, parameter.shape, generator=random) * 2.0 - 1.0)
            elif "logit_scale" in key.rsplit(".", 1)[-1]:
                if type(model).__name__.startswith("Swinv2"):  # some beyond the largest
                    normal(parameter, 1.5, 3.0)
            elif (
                "embed" in key.lower()
                and "mask_embedder" not in key  # layers of a perceptron
                and parameter.dim() == 2
                or key.endswith(("wte.weight", "wpe.weight", "shared.weight"))
            ):
                normal(parameter, 0.5)
            elif parameter.dim() <= 1 or key.endswith("bias"):
                normal(parameter, 0.1)
            elif key.endswith("weight_g") or "original0" in key:
                parameter.copy_(1.0 + 0.2 * torch.rand(parameter.shape, generator=random))
            else:
                transposed = type(model).__name__.startswith("GPT2") and parameter.dim() == 2 and ".h." in key
                fan_in = parameter.shape[0] if transposed else math.prod(parameter.shape[1:])
                if ".experts." in key and not type(model).__name__.startswith("Mixtral"):  # whose cases are older
                    fan_in = parameter.shape[-1]
                normal(parameter, 1.2 / math.sqrt(fan_in))
        for key, buffer in sorted(model.named_buffers()):
            if key.endswith("running_mean"):
                normal(buffer, 0.1)
            elif key.endswith("running_var"):
                buffer.copy_(0.5 + torch.rand(buffer.shape, generator=random))
            elif key.endswith(("e_score_correction_bias", "feed_forward.expert_bias")):
                normal(buffer, 0.2)
            elif key.endswith("layer_scalar"):
                normal(buffer, 0.1, 0.9)
            elif key.endswith("final_logits_bias"):
                normal(buffer, 0.1)
            elif type(model).__name__.startswith("RTDetr") and key.endswith((".weight", ".bias")):  # of frozen norms
                normal(buffer, 0.1, 1.0 if key.endswith("weight") else 0.0)
    padding = [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None
    ]
    with torch.no_grad():
        for module in padding:
            module.weight[module.padding_idx].zero_()
    if hasattr(model, "tie_weights"):
        model.tie_weights()
