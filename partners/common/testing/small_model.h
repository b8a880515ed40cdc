// SPDX-License-Identifier: Apache-2.0
// A BERT small enough to train in moments, in a directory, and rows of token ids for it.
#pragma once

#include <filesystem>
#include <string>

#include "testing/files.h"
#include "transom/model.h"

namespace transom::test {

inline constexpr const char* kSmallBert = R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
  "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
  "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_dropout_prob": 0.1,
  "attention_probs_dropout_prob": 0.1, "id2label": {"0": "a", "1": "b"}, "pad_token_id": 0})";

inline void save_small_model(const std::filesystem::path& directory) {
  Model::from_config(kSmallBert, {.seed = 3})->save_pretrained(directory.string());
}

// Lines {"input_ids": [...], "labels": 0 or 1}.
inline void write_rows(const std::filesystem::path& path, int rows) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    text += "{\"input_ids\": [1";
    for (int k = 0; k < 3 + i % 5; ++k) text += ", " + std::to_string(2 + (i * 7 + k * 13) % 38);
    text += "], \"labels\": " + std::to_string(i * i % 3 == 1) + "}\n";
  }
  write_file(path, text);
}

}  // namespace transom::test
