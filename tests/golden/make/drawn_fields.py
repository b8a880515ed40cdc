# SPDX-License-Identifier: Apache-2.0
"""Changes of single fields of a configuration, drawn anew for scripts/compare-fields."""

import transformers

# What says nothing of the numbers, or is drawn elsewhere.
LEFT = (
    "model_type architectures transformers_version dtype torch_dtype id2label label2id label_names task_specific_params "
    "return_dict output_hidden_states output_attentions use_cache is_decoder add_cross_attention is_encoder_decoder "
    "vocab_size decoder_vocab_size initializer_range initializer_factor init_std use_return_dict vocabulary_map "
    "torchscript pruned_heads _attn_implementation attn_implementation chunk_size_feed_forward name_or_path "
    "experts_implementation use_timm_backbone use_pretrained_backbone backbone finetuning_task"
).split()
ACTIVATIONS = ("gelu", "relu", "silu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "tanh", "gelu_fast", "sigmoid")
OTHERS = {
    "problem_type": ("regression", "single_label_classification", "multi_label_classification"),
    "position_embedding_type": ("absolute", "rotary", "rope"),
    "feat_extract_norm": ("group", "layer"),
    "norm_rel_ebd": ("layer_norm", "none"),
    "classifier_pooling": ("cls", "mean", "late", "bos"),
    "layer_type": ("basic", "bottleneck"),
    "hidden_act": ACTIVATIONS,
    "vision_feature_select_strategy": ("default", "full"),
    "readout_type": ("ignore", "add", "project"),
    "pooling_type": ("mean", "max"),
    "fusion_strategy": ("mean", "max"),
    "feed_forward_proj": ("relu", "gated-gelu", "gated-silu", "gelu"),
    "normalization_type": ("no_norm", "layer_norm"),
    "summary_type": ("last", "first", "mean", "cls_index"),
    "depth_estimation_type": ("relative", "metric"),
    "decoder_method": ("default", "discrete"),
    "adapter_act": ACTIVATIONS,
    "ctc_loss_reduction": ("mean", "sum"),
    "rope_type": ("default", "linear", "dynamic"),
}


def leaves(fields, path=()):
    """The path of every field that is no object."""
    for key, value in fields.items():
        if key in LEFT or key.startswith("_") or "drop" in key or key.endswith("_pdrop") or key.endswith("_token_id"):
            continue
        if isinstance(value, dict):
            yield from leaves(value, path + (key,))
        else:
            yield path + (key,)


def other_number(draw, key, value):
    if isinstance(value, float):
        if "eps" in key:
            return draw.choice([1e-12, 1e-3, 0.02])
        return draw.choice([0.0, 0.5, 1.0, 1.5 * value, 0.3 * value, 2.0 * value])
    return draw.choice([value + 1, value - 1, value * 2, max(value // 2, 1), 0, 3, value + 2])


def other_value(draw, path, value, annotation=""):
    """Another value for a field, or the same where none is known."""
    key = path[-1]
    if key in OTHERS and not isinstance(value, (int, float, list)):
        return draw.choice(OTHERS[key])
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return other_number(draw, key, value)
    if isinstance(value, str):
        if value in transformers.activations.ACT2FN:
            return draw.choice(ACTIVATIONS)
        return value
    if isinstance(value, (list, tuple)) and value:
        value = list(value)
        if draw.random() < 0.3:
            draw.shuffle(value)
        elif draw.random() < 0.2:
            value = value[:-1]
        else:
            at = draw.randrange(len(value))
            value[at] = other_value(draw, path, value[at])
        return value
    if value is None:
        kinds = []
        if "int" in annotation:
            kinds += [1, 2, 3, 4, 6, 8]
        if "float" in annotation:
            kinds += [0.5, 1.5, 4.0]
        if "bool" in annotation:
            kinds += [True, False]
        return draw.choice(kinds) if kinds else None
    return value


def weight_of(path, value):
    """Switches are more telling than sizes."""
    if isinstance(value, bool) or isinstance(value, str) or path[-1] in OTHERS:
        return 4
    return 2 if value is None or isinstance(value, float) else 1


def at(fields, path):
    for key in path:
        fields = fields[key]
    return fields


def annotation_of(config, path):
    for key in path[:-1]:
        config = getattr(config, key, None)
    for each in type(config).__mro__:
        if path[-1] in getattr(each, "__annotations__", {}):
            return str(each.__annotations__[path[-1]])
    return ""


def config_of_case(case):
    """The configuration of a case of models.py, with a tokenizer only where it cannot be without."""
    import models
    from random_models import config_of

    name, family_name, class_name, is_main, _ = case
    for main, with_words in ((is_main, False), (False, False), (is_main, True)):
        try:
            tokenizer = models.tokenizer_of(name, models.FAMILIES[family_name]) if with_words else None
            return config_of(name, family_name, class_name, main, tokenizer), tokenizer
        except (AttributeError, KeyError, TypeError) as error:
            failure = error
    raise failure


def change(draw, config, fields, count):
    """Changes so many fields of `fields` (of to_dict()); gives what it changed: {path: value}."""
    paths, changed = sorted(leaves(fields)), {}
    weights = [weight_of(path, at(fields, path)) for path in paths]
    for _ in range(50):
        if len(changed) == count:
            break
        path = draw.choices(paths, weights)[0]
        value = at(fields, path)
        other = other_value(draw, path, value, annotation_of(config, path))
        if other == value and type(other) is type(value):
            continue
        at(fields, path[:-1])[path[-1]] = other
        changed[".".join(path)] = other
    return changed
