# SPDX-License-Identifier: Apache-2.0
"""Rows of tokens filled up to one length."""


def pad_rows(data, tokenizer, how, max_length, multiple_of, side, with_mask=True):
    """`data`: lists of rows by name. `how`: none, longest or max_length. Rows of input_ids get the padding token, those
    of the other names of a tokenizer what Transformers fills in; other columns stay as they are."""
    rows = data["input_ids"]
    if how == "none" or not rows:
        return data
    if with_mask and "attention_mask" not in data and "attention_mask" in tokenizer.model_input_names:
        data["attention_mask"] = [[1] * len(row) for row in rows]
    length = max(len(row) for row in rows) if how == "longest" else max_length
    if multiple_of:
        length = -(-length // multiple_of) * multiple_of
    if any(len(row) < length for row in rows) and tokenizer.pad_token_id is None:
        raise ValueError("padding: the tokenizer has no padding token; set one: tokenizer.pad_token = "
                         "tokenizer.eos_token")
    fills = {"input_ids": tokenizer.pad_token_id, "attention_mask": 0, "special_tokens_mask": 1,
             "token_type_ids": 0, "offset_mapping": (0, 0)}
    result = {}
    for name, column in data.items():
        if name not in fills:
            result[name] = column
            continue
        fill = fills[name]
        result[name] = [list(row) + [fill] * (length - len(row)) if side == "right"
                        else [fill] * (length - len(row)) + list(row) for row in column]
    return result
