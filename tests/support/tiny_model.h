// SPDX-License-Identifier: Apache-2.0
// The directory of a model so small that it runs in no time: a config.json without weights, removed at the end.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/files.h"

namespace transom::test {

class TinyModel {
 public:
  explicit TinyModel(const std::string& name)
      : folder_(fs::temp_directory_path() / ("transom_" + name + "_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    write_file(folder_ / "config.json",
               R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 40,
                   "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
                   "max_position_embeddings": 32, "type_vocab_size": 2})");
  }
  ~TinyModel() { fs::remove_all(folder_); }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;
  std::string path() const { return folder_.string(); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_;
};

}  // namespace transom::test
