# SPDX-License-Identifier: Apache-2.0
"""Detectors and segmenters: their families, and labels as tensors, which Transformers takes as lists."""

import timm
import torch

import dense
import masks
from deformable import DEFORMABLE, extents_of
from family import Family, names

DETR = dict(
    d_model=8,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=12,
    decoder_ffn_dim=12,
    num_queries=6,
)
RESNET = dict(
    use_timm_backbone=False,
    backbone_config=dict(
        model_type="resnet",
        layer_type="basic",
        depths=[1, 1],
        hidden_sizes=[6, 8],
        embedding_size=6,
        out_features=["stage2"],
    ),
)
# The ResNet of timm, made small by arguments that Transformers does not hand on: see small_backbones().
TIMM = dict(
    backbone_config=dict(
        model_type="timm_backbone",
        backbone="resnet18",
        num_channels=3,
        features_only=True,
        use_pretrained_backbone=False,
        out_indices=[1, 2, 3],
        model_args=dict(layers=[1, 1, 1, 1], channels=[4, 6, 8, 8]),
    )
)
FIVE = {i: name for i, name in enumerate(["cat", "dog", "boat", "tree", "car"])}

DETECTION = {
    "detr": Family(
        DETR | RESNET | dict(id2label=FIVE),
        names("Detr", "Model", "ForObjectDetection"),
        {"detr": ("DetrForObjectDetection", "a ResNet; sinusoids over padded pictures; boxes matched to queries")},
        sizes="none",
        more={
            "detr-timm": (
                "DetrForObjectDetection",
                TIMM | dict(use_timm_backbone=True, auxiliary_loss=True, position_embedding_type="learned"),
                "timm's ResNet; learned positions; losses of all layers",
            )
        },
    ),
    "table-transformer": Family(
        DETR | TIMM | dict(use_timm_backbone=True, auxiliary_loss=True, id2label=FIVE, activation_function="gelu"),
        names("TableTransformer", "Model", "ForObjectDetection"),
        {"table-transformer": ("TableTransformerForObjectDetection", "norms before the layers; timm's ResNet")},
        sizes="none",
        more={
            "table-transformer-resnet": (
                "TableTransformerForObjectDetection",
                RESNET
                | dict(
                    use_timm_backbone=False,
                    auxiliary_loss=False,
                    eos_coefficient=0.4,
                    class_cost=2,
                    bbox_cost=3,
                    giou_cost=1,
                    bbox_loss_coefficient=2,
                    giou_loss_coefficient=1,
                ),
                "other weights of costs and losses; a ResNet",
            )
        },
    ),
    "yolos": Family(
        dict(
            hidden_size=12,
            intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=3,
            image_size=[24, 32],
            patch_size=8,
            num_detection_tokens=5,
            id2label=FIVE,
        ),
        names("Yolos", "Model", "ForObjectDetection"),
        {
            "yolos": ("YolosForObjectDetection", "tokens of objects behind the patches; positions of every layer, resized"),
            "yolos-model": ("YolosModel", "a picture of the configured extents; positions before the first layer alone"),
        },
        sizes="none",
        heads={"YolosModel": dict(use_mid_position_embeddings=False, qkv_bias=False, image_size=[32, 16])},
    ),
    "segformer": Family(
        dict(
            depths=[1, 2, 1],
            num_encoder_blocks=3,
            hidden_sizes=[8, 12, 16],
            sr_ratios=[4, 2, 1],
            patch_sizes=[7, 3, 3],
            strides=[4, 2, 2],
            num_attention_heads=[1, 2, 4],
            mlp_ratios=[2, 2, 2],
            decoder_hidden_size=12,
            drop_path_rate=0.0,
            id2label=FIVE,
        ),
        names("Segformer", "Model", "ForImageClassification", "ForSemanticSegmentation"),
        {"segformer": ("SegformerForSemanticSegmentation", "keys of fewer places; a head over all stages; labels 255")},
        sizes="none",
        more={
            "segformer-binary": (
                "SegformerForSemanticSegmentation",
                dict(
                    num_encoder_blocks=2,
                    depths=[1, 1],
                    hidden_sizes=[6, 12],
                    sr_ratios=[3, 1],
                    patch_sizes=[3, 3],
                    strides=[2, 2],
                    num_attention_heads=[1, 3],
                    mlp_ratios=[2, 4],
                    hidden_act="relu",
                    id2label={0: "road"},
                    semantic_loss_ignore_index=7,
                ),
                "one class, by itself or not; pictures of odd sizes",
            )
        },
    ),
}

TEXT_TOWER = dict(
    hidden_size=12,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=3,
    max_position_embeddings=16,
    vocab_size=60,
    bos_token_id=58,
    eos_token_id=59,
    pad_token_id=0,
)
VISION_TOWER = dict(
    hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8
)
SAM_VISION = dict(
    hidden_size=12,
    output_channels=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    image_size=32,
    patch_size=4,
    window_size=3,
    global_attn_indexes=[1],
    num_pos_feats=4,
    mlp_dim=16,
)
SAM_PROMPT = dict(hidden_size=8, image_size=32, patch_size=4, mask_input_channels=4)
SAM_DECODER = dict(hidden_size=8, mlp_dim=12, num_hidden_layers=2, num_attention_heads=2, iou_head_hidden_dim=6)
CLIPSEG = dict(
    text_config=TEXT_TOWER,
    vision_config=VISION_TOWER,
    projection_dim=10,
    reduce_dim=8,
    extract_layers=[0, 1],
    decoder_num_attention_heads=2,
    decoder_intermediate_size=12,
)
DETECTION |= {
    "clipseg": Family(
        CLIPSEG,
        names("CLIPSeg", "Model", "ForImageSegmentation"),
        {"clipseg": ("CLIPSegForImageSegmentation", "texts say what is looked for; a picture of other extents")},
        sizes="none",
        more={
            "clipseg-refined": (
                "CLIPSegForImageSegmentation",
                dict(
                    extract_layers=[1, 0, 1],
                    conditional_layer=1,
                    use_complex_transposed_convolution=True,
                    vision_config=VISION_TOWER | dict(hidden_act="gelu", layer_norm_eps=1e-3, patch_size=16),
                ),
                "pictures say what is looked for, behind the second layer; enlarged in two steps",
            )
        },
    ),
    "sam": Family(
        dict(vision_config=SAM_VISION, prompt_encoder_config=SAM_PROMPT, mask_decoder_config=SAM_DECODER),
        ["SamModel"],
        {"sam": ("SamModel", "points of all kinds; windows that the grid does not fill, and a layer that sees all")},
        sizes="none",
        more={
            "sam-boxes": (
                "SamModel",
                dict(
                    vision_config=SAM_VISION
                    | dict(use_rel_pos=False, use_abs_pos=False, qkv_bias=False, window_size=4, hidden_act="relu")
                    | dict(image_size=16, output_channels=16, num_pos_feats=8),
                    prompt_encoder_config=dict(hidden_size=16, image_size=16, patch_size=4, mask_input_channels=16),
                    mask_decoder_config=SAM_DECODER
                    | dict(num_multimask_outputs=2, iou_head_depth=4, attention_downsample_rate=1, hidden_act="gelu")
                    | dict(hidden_size=16, num_hidden_layers=1),
                ),
                "points with boxes and masks; no positions inside the picture",
            )
        },
    ),
    "owlvit": Family(
        dict(text_config=TEXT_TOWER, vision_config=VISION_TOWER, projection_dim=12),
        names("OwlViT", "Model", "ForObjectDetection"),
        {"owlvit": ("OwlViTForObjectDetection", "two texts for each of two pictures; boxes of all patches")},
        "clip",
        sizes="none",
    ),
    "owlv2": Family(
        dict(text_config=TEXT_TOWER, vision_config=VISION_TOWER, projection_dim=12),
        names("Owlv2", "Model", "ForObjectDetection"),
        {"owlv2": ("Owlv2ForObjectDetection", "how sure it is of an object at each patch; pictures in squares")},
        "clip",
        sizes="none",
    ),
    **DEFORMABLE,
    **dense.DENSE,
    **masks.MASKS,
}


def small_backbones():
    """timm.create_model with `model_args` of the configuration, which TimmBackbone does not pass."""
    import transformers.models.timm_backbone.modeling_timm_backbone as module

    plain = module.TimmBackbone.__init__

    def with_arguments(self, config, **kwargs):
        plain(self, config, **kwargs, **(getattr(config, "model_args", None) or {}))

    module.TimmBackbone.__init__ = with_arguments


def losses_of_doubles():
    """The weights of the classes are float32 whatever the logits are."""
    from transformers.loss.loss_for_object_detection import ImageLoss

    plain = ImageLoss.loss_labels

    def with_types(self, outputs, *others):
        self.empty_weight = self.empty_weight.to(outputs["logits"].dtype)
        return plain(self, outputs, *others)

    ImageLoss.loss_labels = with_types


small_backbones()
losses_of_doubles()


def fields_of(fields, tokenizer):
    """With the words of a tokenizer."""
    if tokenizer is None:
        return fields
    words = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("bos", "eos", "pad")}
    return fields | dict(text_config=fields["text_config"] | words | dict(vocab_size=len(tokenizer)))


def inputs_of(name, family_name, class_name, config, random):
    """None: another kind of family."""
    if family_name not in DETECTION:
        return None
    floats = lambda *shape: torch.empty(shape).normal_(generator=random)
    if family_name == "clipseg":
        return clipseg_inputs(name, class_name, config, random, floats)
    if family_name == "sam":
        return sam_inputs(name, random, floats)
    if family_name in ("owlvit", "owlv2"):
        pictures, texts = (3, 3) if class_name.endswith("Model") else (2, 4)
        return {"pixel_values": floats(pictures, 3, 32, 32)} | texts_of(config.text_config, texts, random)
    if family_name in dense.DENSE:
        return dense.inputs_of(name, class_name, config, random, floats)
    if family_name in masks.MASKS:
        return masks.inputs_of(class_name, config, random, floats)
    if family_name in DEFORMABLE:
        inputs = {"pixel_values": floats(2, 3, *extents_of(config))}
        return inputs | box_labels(random) if class_name.endswith("ObjectDetection") else inputs
    if family_name == "yolos":
        height, width = (32, 24) if class_name.endswith("ObjectDetection") else config.image_size
        inputs = {"pixel_values": floats(2, 3, height, width)}
        return inputs | box_labels(random) if class_name.endswith("ObjectDetection") else inputs
    height, width = (33, 21) if name == "segformer-binary" else (32, 24) if family_name == "segformer" else (32, 32)
    inputs = {"pixel_values": floats(2, 3, height, width)}
    if family_name == "segformer":
        classes = max(len(config.id2label), 2)
        if class_name.endswith("ImageClassification"):
            inputs["labels"] = torch.randint(0, classes, (2,), generator=random)
        elif class_name.endswith("SemanticSegmentation"):
            inputs["labels"] = torch.randint(0, classes, (2, height, width), generator=random)
            inputs["labels"][1, :7] = config.semantic_loss_ignore_index
        return inputs
    mask = torch.ones(2, height, width, dtype=torch.long)
    mask[1, 25:], mask[1, :, 21:] = 0, 0
    inputs["pixel_values"] *= mask[:, None]
    inputs["pixel_mask"] = mask
    return inputs | box_labels(random) if class_name.endswith("ObjectDetection") else inputs


def texts_of(config, rows, random):
    """Words between a beginning and an end, and padding behind the end."""
    ids = torch.randint(1, 57, (rows, 7), generator=random)
    ids[:, 0], ids[:, -1] = config.bos_token_id, config.eos_token_id
    ids[-1, 4], ids[-1, 5:] = config.eos_token_id, config.pad_token_id
    mask = torch.ones_like(ids)
    mask[-1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def clipseg_inputs(name, class_name, config, random, floats):
    if not class_name.endswith("Segmentation"):
        return {"pixel_values": floats(3, 3, 32, 32)} | texts_of(config.text_config, 3, random)
    side = 32 if name == "clipseg-refined" else 24
    inputs = {"pixel_values": floats(2, 3, side, side), "labels": torch.rand(2, side, side, generator=random).round()}
    if name == "clipseg-refined":
        return inputs | {"conditional_pixel_values": floats(2, 3, 32, 32)}
    return inputs | texts_of(config.text_config, 2, random)


def sam_inputs(name, random, floats):
    """In pixels: 1 a point of what is meant, 0 one that is not, -1 none, -10 filling."""
    if name == "sam-boxes":
        corners = 16 * torch.rand(1, 3, 2, 2, generator=random).sort(2).values
        return {
            "pixel_values": floats(1, 3, 16, 16),
            "input_points": 16 * torch.rand(1, 3, 1, 2, generator=random),
            "input_boxes": corners.reshape(1, 3, 4),
            "input_masks": floats(1, 1, 16, 16),
        }
    labels = torch.tensor([[[1, 0, -1], [1, 1, -10]], [[0, 1, 1], [1, -10, -10]]])
    points = 32 * torch.rand(2, 2, 3, 2, generator=random)
    return {"pixel_values": floats(2, 3, 32, 32), "input_points": points, "input_labels": labels}


def box_labels(random):
    """Three boxes of the first picture, two of the second."""
    extents = 0.1 + 0.4 * torch.rand(2, 3, 2, generator=random)
    centres = extents / 2 + torch.rand(2, 3, 2, generator=random) * (1 - extents)
    labels = torch.randint(0, 5, (2, 3), generator=random)
    labels[1, 2:] = -100
    return {"class_labels": labels, "boxes": torch.cat([centres, extents], -1)}


def arguments(inputs):
    """The labels of detectors as a list, one dictionary a picture, without what is padding."""
    if "mask_labels" in inputs:
        return masks.arguments(inputs)
    if "boxes" not in inputs:
        return inputs
    others = {key: value for key, value in inputs.items() if key not in ("boxes", "class_labels")}
    labels = []
    for classes, boxes in zip(inputs["class_labels"], inputs["boxes"]):
        labels.append({"class_labels": classes[classes >= 0], "boxes": boxes[classes >= 0]})
    return others | {"labels": labels}
