# SPDX-License-Identifier: Apache-2.0
"""heads.json: of the class of each case, what Transformers says of its head.

    output_layer   the module that get_output_embeddings() gives, by its name; null: the class has none
    shifts_labels  whether Trainer counts labels without the first of each row, as its loss does not see that one
    label_names    the arguments that Trainer takes for labels
    writes         whether generate() is offered, and writes tokens
"""

import json

import torch
import transformers
from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss
from transformers.utils.generic import find_labels

from common import GOLDEN


def about(class_name, config):
    cls = getattr(transformers, class_name)
    model = cls(config)
    try:
        layer = model.get_output_embeddings() if isinstance(model, transformers.PreTrainedModel) else None
    except NotImplementedError:
        layer = None
    names = [name for name, module in model.named_modules() if module is layer]
    shifts = LOSS_MAPPING.get(getattr(model, "loss_type", None)) is ForCausalLMLoss
    return {
        "output_layer": names[0] if names else None,
        "shifts_labels": shifts and not getattr(config, "is_encoder_decoder", False),
        "label_names": find_labels(cls),
        "writes": isinstance(model, transformers.GenerationMixin) and model.can_generate(),
    }


def make(out):
    heads = {}
    for case in sorted(GOLDEN.glob("*/case.json")):
        class_name = json.loads(case.read_text()).get("class", "")
        if not hasattr(transformers, class_name) or class_name in heads:
            continue  # DLRM is no class of Transformers
        try:
            config = transformers.AutoConfig.from_pretrained(case.parent / "model")
        except ValueError:  # a configuration of timm's own
            continue
        with torch.device("meta"):
            heads[class_name] = about(class_name, config)
    (out / "heads.json").write_text(
        "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(head)}" for name, head in sorted(heads.items())) + "\n}\n"
    )
