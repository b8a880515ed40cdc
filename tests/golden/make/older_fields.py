# SPDX-License-Identifier: Apache-2.0
"""Configurations as Transformers 4 wrote them, which most published checkpoints have."""


def older(draw, fields):
    """The fields of config.json under their older names."""
    made = dict(fields)
    rope = made.pop("rope_parameters", None)
    if "dtype" in made:
        made["torch_dtype"] = made.pop("dtype")
    if rope and "full_attention" in rope:
        made["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    if rope:
        made |= older_rope(draw, dict(rope), made["model_type"])
    return made


def older_rope(draw, rope, model_type):
    kind, theta = rope.pop("rope_type", "default"), rope.pop("rope_theta", None)
    part, fields = rope.pop("partial_rotary_factor", None), {}
    neox = model_type == "gpt_neox"
    if theta is not None:
        fields["rotary_emb_base" if neox else "rope_theta"] = theta
    if part is not None:
        fields["rotary_pct" if neox else "partial_rotary_factor"] = part
    if kind == "default":
        return fields | ({} if draw.random() < 0.5 else {"rope_scaling": None})
    if kind == "longrope" and model_type == "phi3":
        fields["original_max_position_embeddings"] = rope.pop("original_max_position_embeddings")
    names = draw.choice([("type",), ("rope_type",), ("type", "rope_type")])
    if model_type == "gemma3_text":  # docs/differences.md
        names = ("rope_type",)
    return fields | {"rope_scaling": rope | {name: kind for name in names}}
