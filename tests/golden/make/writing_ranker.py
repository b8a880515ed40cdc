# SPDX-License-Identifier: Apache-2.0
"""Scores that sentence_transformers.CrossEncoder gives pairs by a language model: logits of "yes" and "no" behind a prompt."""

import json
import pathlib
import shutil
import tempfile

from common import write_json

TEMPLATE = (
    "{% for m in messages if m['role'] == 'system' %}<|im_start|>system\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>user\n<Query>: {{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}\n"
    "<Document>: {{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first }}<|im_end|>\n"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The same of contents that are lists of parts.
STRUCTURED = (
    "<|im_start|>user\n<Query>: {{ (messages | selectattr('role', 'eq', 'query') | first).content[0].text }}\n"
    "<Document>: {{ (messages | selectattr('role', 'eq', 'document') | first).content[0].text }}<|im_end|>\n"
)
TEXT = {"method": "forward", "method_output_name": "logits"}
FILE = {
    "transformer_task": "text-generation",
    "modality_config": {"text": TEXT, "message": TEXT | {"format": "flat"}},
    "module_output_name": "causal_logits",
}
QUERY = "What is the capital of France?"
DOCUMENTS = ["Paris is the capital of France.", "Bread is baked.", "", "Rome. " * 30, "H₂O"]
CASES = {
    "plain": (TEMPLATE, {"true_token_id": 40, "false_token_id": 41}, {}, {}),
    "told": (
        TEMPLATE,
        {"true_token_id": 77, "false_token_id": 300},
        {"prompts": {"short": "Be strict."}, "default_prompt_name": "short"},
        {"processing_kwargs": {"chat_template": {"add_generation_prompt": True}}},
    ),
    "one-token": (
        STRUCTURED,
        {"true_token_id": 12, "false_token_id": None},
        {},
        {"modality_config": {"text": TEXT, "message": TEXT | {"format": "structured"}}},
    ),
    "without-messages": (TEMPLATE, {"true_token_id": 40, "false_token_id": 41}, {}, {"modality_config": {"text": TEXT}}),
    "cut": (
        TEMPLATE,
        {"true_token_id": 40, "false_token_id": 41},
        {"activation_fn": "torch.nn.modules.linear.Identity"},
        {"processing_kwargs": {"text": {"max_length": 60}}},
    ),
}


def write_model(folder, start, template, score, settings, transformer):
    shutil.copytree(start, folder)
    (folder / "chat_template.jinja").write_text(template)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
                {
                    "idx": 1,
                    "name": "1",
                    "path": "1_LogitScore",
                    "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore",
                },
            ]
        )
    )
    (folder / "1_LogitScore").mkdir()
    (folder / "1_LogitScore" / "config.json").write_text(json.dumps(score))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "CrossEncoder"} | settings))
    (folder / "sentence_bert_config.json").write_text(json.dumps(FILE | transformer))


def make(out):
    from sentence_transformers import CrossEncoder

    made = {}
    for name, (template, score, settings, transformer) in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work) / "model"
            write_model(folder, out / "sft" / "qwen2" / "model", template, score, settings, transformer)
            model = CrossEncoder(str(folder), device="cpu", model_kwargs={"attn_implementation": "eager"})
            pairs = [(QUERY, document) for document in DOCUMENTS]
            made[name] = {
                "chat_template": template,
                "logit_score": score,
                "settings": settings,
                "transformer": FILE | transformer,
                "scores": [float(score) for score in model.predict(pairs, batch_size=3)],
            }
    write_json(out / "sentences" / "writing-ranker.json", {"query": QUERY, "documents": DOCUMENTS, "cases": made})
