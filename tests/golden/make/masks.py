# SPDX-License-Identifier: Apache-2.0
"""Segmenters whose queries are matched with objects: labels as tensors, and the points at which masks are compared.

The loss draws its points. Here they are drawn beforehand and stand among the inputs, by the names that Transom takes them
under: `matching_points` [B, L, P, 2], `candidate_points` [B, L, N, candidates, 2] and `other_points` [B, L, N, others, 2]
of L predictions, the last one first. Those of a picture are for its objects in the order of their queries.
"""

import torch

from family import Family, names

FIVE = {i: name for i, name in enumerate(["cat", "dog", "boat", "tree", "car"])}
PREDICTIONS, POINTS = 2, 16

SWIN = dict(
    model_type="swin",
    embed_dim=4,
    depths=[1, 1, 1, 2],
    num_heads=[1, 2, 2, 4],
    window_size=3,
    qkv_bias=False,
    mlp_ratio=2.0,
    drop_path_rate=0.0,
    image_size=32,
    out_features=["stage1", "stage2", "stage3", "stage4"],
)
RESNET = dict(
    model_type="resnet",
    layer_type="basic",
    depths=[1, 1, 1],
    hidden_sizes=[4, 6, 8],
    embedding_size=4,
    out_features=["stem", "stage1", "stage2", "stage3"],
)
MASKED = dict(
    backbone_config=SWIN,
    feature_size=32,
    mask_feature_size=6,
    hidden_dim=8,
    encoder_feedforward_dim=12,
    encoder_layers=1,
    decoder_layers=PREDICTIONS,
    num_attention_heads=2,
    dim_feedforward=12,
    num_queries=5,
    train_num_points=POINTS,
    id2label=FIVE,
)

MASKS = {
    "mask2former": Family(
        MASKED,
        names("Mask2Former", "Model", "ForUniversalSegmentation"),
        {
            "mask2former": (
                "Mask2FormerForUniversalSegmentation",
                "a Swin whose windows are larger than the last grid; points of the loss among the inputs",
            ),
            "mask2former-model": ("Mask2FormerModel", "two finer maps; projections though the widths are equal"),
        },
        sizes="none",
        heads={
            "Mask2FormerModel": dict(
                hidden_dim=32,
                enforce_input_projection=True,
                common_stride=2,
                decoder_layers=5,
                backbone_config=SWIN | dict(depths=[1, 2, 1, 1], window_size=4, qkv_bias=True),
            )
        },
        more={
            "mask2former-resnet": (
                "Mask2FormerForUniversalSegmentation",
                dict(
                    backbone_config=RESNET,
                    hidden_dim=32,
                    mask_feature_size=8,
                    num_attention_heads=4,
                    feature_strides=[4, 8, 8, 16],
                    pre_norm=True,
                    activation_function="gelu",
                    oversample_ratio=2.0,
                    importance_sample_ratio=0.5,
                    no_object_weight=0.3,
                    class_weight=1.0,
                    mask_weight=3.0,
                    dice_weight=2.0,
                    num_queries=4,
                ),
                "a ResNet; norms before the layers; other weights of costs and losses, and other parts of the points",
            )
        },
    ),
}


def mask_labels(random, height, width):
    """Three objects of the first picture, of which one is beside another, two of the second."""
    masks = torch.zeros(2, 3, height, width, dtype=torch.long)
    masks[0, 0, 3:21, 5:30], masks[0, 1, 21:, 2:17], masks[0, 2, 30:44, 17:] = 1, 1, 1
    masks[1, 0, : height // 2], masks[1, 1, height // 2 :, 11:40] = 1, 1
    labels = torch.randint(0, 5, (2, 3), generator=random)
    labels[1, 2:] = -100
    return {"class_labels": labels, "mask_labels": masks}


def inputs_of(class_name, config, random, floats):
    height, width = 64, 48
    inputs = {"pixel_values": floats(2, 3, height, width)}
    if class_name.endswith("Model"):
        return inputs
    points, of_object = config.train_num_points, (2, config.decoder_layers, 3)
    unsure = int(config.importance_sample_ratio * points)
    drawn = lambda *shape: torch.rand(*shape, 2, generator=random)
    return (
        inputs
        | mask_labels(random, height, width)
        | {
            "matching_points": drawn(2, config.decoder_layers, points),
            "candidate_points": drawn(*of_object, int(points * config.oversample_ratio)),
            "other_points": drawn(*of_object, points - unsure),
        }
    )


# ---- the draws of Transformers


class Draws:
    """What torch.rand gives while a loss is computed."""

    def __init__(self):
        self.prediction, self.waiting = 0, []

    def start(self, inputs):
        self.inputs, self.prediction = inputs, 0
        self.objects = [int((classes >= 0).sum()) for classes in inputs["class_labels"]]

    def of_objects(self, name, queries):
        rows = [self.inputs[name][i, self.prediction, : min(count, queries)] for i, count in enumerate(self.objects)]
        return torch.cat(rows)

    def given(self, *shape, device=None):
        drawn = self.waiting.pop(0)
        assert drawn.shape == torch.Size(shape), (drawn.shape, shape)
        return drawn


DRAWS = Draws()


def with_given_points():
    import transformers.models.mask2former.modeling_mask2former as module

    matcher, criterion = module.Mask2FormerHungarianMatcher, module.Mask2FormerLoss
    plain_match, plain_sample = matcher.forward, criterion.sample_points_using_uncertainty

    def with_draws(function, waiting, *arguments):
        drawn, DRAWS.waiting, torch.rand = torch.rand, waiting, DRAWS.given
        try:
            return function(*arguments)
        finally:
            torch.rand = drawn

    def match(self, masks, logits, *labels):
        points = DRAWS.inputs["matching_points"][:, DRAWS.prediction]
        DRAWS.queries = logits.shape[1]
        return with_draws(plain_match, [each[None] for each in points], self, masks, logits, *labels)

    def sample(self, *arguments):
        waiting = [DRAWS.of_objects(name, DRAWS.queries) for name in ("candidate_points", "other_points")]
        found = with_draws(plain_sample, waiting, self, *arguments)
        DRAWS.prediction += 1
        return found

    matcher.forward, criterion.sample_points_using_uncertainty = match, sample


with_given_points()


def arguments(inputs):
    """Masks and classes as lists, one tensor a picture, without what is padding."""
    DRAWS.start(inputs)
    kept = [classes >= 0 for classes in inputs["class_labels"]]
    return {
        "pixel_values": inputs["pixel_values"],
        "mask_labels": [
            masks[keep].to(inputs["matching_points"].dtype) for masks, keep in zip(inputs["mask_labels"], kept)
        ],
        "class_labels": [classes[keep] for classes, keep in zip(inputs["class_labels"], kept)],
    }
