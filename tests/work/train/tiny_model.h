// SPDX-License-Identifier: Apache-2.0
// A tiny BERT without a head, with a vocabulary, and files of rows, in a folder that goes away.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "inputs/data/text/padding.h"
#include "support/temporary_folder.h"
#include "transom/model.h"
#include "transom/training_arguments.h"

namespace transom {

constexpr std::string_view kTinyVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nann\nwent\nto\nrome\n##s\nthe\ntower\nis\nold\nwho\nwhere\nin\nand\n##"
    "n\nvery\n";

// Ids of words of the vocabulary.
constexpr int64_t kPad = 0, kCls = 2, kSep = 3, kMask = 4, kAnn = 5, kWent = 6, kTo = 7, kRome = 8, kPluralS = 9,
                  kThe = 10, kTower = 11, kIs = 12, kOld = 13, kWho = 14, kWhere = 15;

class TinyModel {
 public:
  // `fields` are further fields of config.json, each with a comma before it.
  explicit TinyModel(const std::string& fields = "") {
    const std::string config =
        R"({"model_type": "bert", "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 64, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0)" +
        fields + "}";
    LoadOptions options;
    options.task = "feature-extraction";
    Model::from_config(config, options)->save_pretrained(path().string());
    folder_.write("vocab.txt", kTinyVocabulary);
  }

  const std::filesystem::path& path() const { return folder_.path(); }
  std::string write(const std::string& name, std::string_view text) const { return folder_.write(name, text).string(); }
  std::string read(const std::string& name) const {
    std::ifstream file(path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The arguments of a run with this model and these flags; what it writes goes into the same folder.
  TrainArguments arguments(std::vector<std::string> flags) const {
    for (const char* name : {"--model_name_or_path", "--output_dir"}) {
      flags.emplace_back(name);
      flags.push_back(path().string());
    }
    TrainArguments parsed = parse_train_arguments(flags);
    parsed.training.do_train = !parsed.training.do_predict;  // it makes the heads that the model lacks
    return parsed;
  }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace transom
