// SPDX-License-Identifier: Apache-2.0
// Directories of small models whose tokenizers know the words w0 to w11.
#pragma once

#include <string>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace transom::test {

inline constexpr const char* kWordGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
  "vocab_size": 12, "n_positions": 40, "n_embd": 16, "n_layer": 1, "n_head": 2, "initializer_range": 0.6})";
inline constexpr const char* kWordBert = R"({"model_type": "bert", "vocab_size": 12, "hidden_size": 8,
  "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6, "initializer_range": 0.7,
  "max_position_embeddings": 32, "id2label": {"0": "contradiction", "1": "entailment"}})";

inline void save_word_tokenizer(const TemporaryFolder& folder, const std::string& configuration = "{}") {
  Json vocabulary = Json::object();
  for (int i = 0; i < 12; ++i) vocabulary["w" + std::to_string(i)] = i;
  const Json tokenizer{{"version", "1.0"},
                       {"added_tokens", Json::array()},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                       {"post_processor", nullptr},
                       {"decoder", nullptr},
                       {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "w11"}}}};
  write_file(folder / "tokenizer.json", dump_json(tokenizer));
  write_file(folder / "tokenizer_config.json", configuration);
}

inline void save_word_model(const TemporaryFolder& folder, const char* config, const std::string& architecture = "",
                            const std::string& tokenizer = "{}") {
  Json json = parse_json(config, "config");
  if (!architecture.empty()) json["architectures"] = {architecture};
  Model::from_config(dump_json(json), {.seed = 5})->save_pretrained(folder.string());
  save_word_tokenizer(folder, tokenizer);
}

}  // namespace transom::test
