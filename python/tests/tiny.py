# SPDX-License-Identifier: Apache-2.0
"""Models of a few thousand values with tokenizers of a few words, made in a directory of their own."""
import json
import os
import tempfile

from transom import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForTokenClassification
from transom import AutoModelForMaskedLM, AutoModelForQuestionAnswering, PretrainedConfig

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a film is good bad long short very not and ##s kettle cup warm cold".split()
TEXTS = ["the film is good", "a bad film", "the kettle is warm", "a cup is not cold", "the film is very long and bad",
         "a short film is good", "the cup is bad", "a warm kettle is good"]
LABELS = [1, 0, 1, 1, 0, 1, 0, 1]
HEADS = {"sequence": AutoModelForSequenceClassification, "token": AutoModelForTokenClassification,
         "masked": AutoModelForMaskedLM, "question": AutoModelForQuestionAnswering}


def write_tokenizer(directory):
    with open(os.path.join(directory, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(WORDS) + "\n")
    with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 32,
                   "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
                   "mask_token": "[MASK]"}, file)


def bert(head="sequence", **fields):
    """A directory (of a TemporaryDirectory) with a model and its tokenizer."""
    holder = tempfile.TemporaryDirectory(prefix="transom-test-")
    config = PretrainedConfig(model_type="bert", vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2,
                              num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
                              hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **fields)
    HEADS[head].from_config(config).save_pretrained(holder.name)
    write_tokenizer(holder.name)
    return holder


def gpt2(**fields):
    holder = tempfile.TemporaryDirectory(prefix="transom-test-")
    config = PretrainedConfig(model_type="gpt2", vocab_size=len(WORDS), n_embd=16, n_layer=2, n_head=2, n_positions=64,
                              resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=2, eos_token_id=3,
                              **fields)
    AutoModelForCausalLM.from_config(config).save_pretrained(holder.name)
    write_tokenizer(holder.name)
    return holder
