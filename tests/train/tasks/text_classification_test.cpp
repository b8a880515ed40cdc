// SPDX-License-Identifier: Apache-2.0
// Models with byte-level and SentencePiece vocabularies, read from a tokenizer.json, train on texts and words.
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "train/tasks/task_data.h"
#include "train/tiny_model.h"
#include "transom/fine_tuning.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

constexpr std::string_view kBytePairs =
    R"({"version": "1.0", "added_tokens": [
    {"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "<pad>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": true, "add_prefix_space": false},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "merges": ["Ġ a", "Ġa b", "a b"],
    "vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "b": 4, "Ġ": 5, "ab": 6, "Ġa": 7, "Ġab": 8}}})";
constexpr std::string_view kUnigram =
    R"({"version": "1.0", "added_tokens": [
    {"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "<pad>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
  "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": true, "add_prefix_space": false},
  "decoder": {"type": "Metaspace"},
  "model": {"type": "Unigram", "unk_id": 5, "vocab": [["<s>", 0], ["<pad>", 0], ["</s>", 0], ["a", -3], ["b", -3], ["<unk>", 0],
    ["ab", -4], ["▁a", -2], ["▁ab", -2.5], ["▁", -3]]}})";

// A model with 16 positions, of which RoBERTa's classes leave 14 to the text.
struct TextModelFolder {
  TextModelFolder(const std::string& type, std::string_view tokenizer, const std::string& tokenizer_class) {
    LoadOptions options;
    options.task = "feature-extraction";
    Model::from_config(R"({"model_type": ")" + type +
                           R"(", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 16, "type_vocab_size": 1, "pad_token_id": 1,
        "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0})",
                       options)
        ->save_pretrained(folder.path().string());
    folder.write("tokenizer.json", tokenizer);
    folder.write("tokenizer_config.json", R"({"tokenizer_class": ")" + tokenizer_class +
                                              R"(", "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>"})");
  }
  TrainArguments arguments(std::vector<std::string> flags) const {
    for (const std::string flag : {"--model_name_or_path", "--output_dir"}) {
      flags.push_back(flag);
      flags.push_back((flag == "--output_dir" ? folder.path() / "out" : folder.path()).string());
    }
    return parse_train_arguments(flags);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder.path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  test::TemporaryFolder folder;
};

// As run_glue and run_classification find them: before rows are left out.
TEST(TextClassification, HasTheClassesOfAllRows) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(model.arguments(
      {"--train_file", model.write("all.csv", "text,label\nAnn,b\nRome,c\nwent,a\n"), "--max_train_samples", "1"}));
  EXPECT_EQ(setup.train->rows, 1);
  EXPECT_EQ(setup.model->labels(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(setup.train->batch({0}).labels, (std::vector<int64_t>{1}));
}

TEST(TextClassification, TrainsFromATokenizerJson) {
  struct Case {
    std::string type, tokenizer_class;
    std::string_view tokenizer;
    std::vector<int64_t> ids;
  };
  for (const Case& c : {Case{"roberta", "RobertaTokenizer", kBytePairs, {0, 6, 8, 2, 0, 4, 2, 1}},
                        Case{"camembert", "CamembertTokenizer", kUnigram, {0, 8, 8, 2, 0, 9, 4, 2}}}) {
    const TextModelFolder model(c.type, c.tokenizer, c.tokenizer_class);
    const std::string file = model.folder.write("train.csv", "sentence,label\nab ab,yes\nb,no\n").string();
    const TrainArguments arguments = model.arguments(
        {"--task", "text-classification", "--train_file", file, "--max_steps", "2", "--learning_rate", "0.01"});
    EXPECT_EQ(prepare_task(arguments).train->batch({0, 1}).sequences.at("input_ids"), (PaddedRows{2, 4, c.ids}));
    fine_tune(arguments);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      EXPECT_EQ(model.read(std::string("out/") + name), model.read(name));
    EXPECT_EQ(Model::from_pretrained((model.folder.path() / "out").string())->labels(),
              (std::vector<std::string>{"no", "yes"}));
  }
}

TEST(TextClassification, TextsAreCutToThePositionsBehindThePaddingId) {
  const TextModelFolder model("roberta", kBytePairs, "RobertaTokenizer");
  const std::string file =
      model.folder.write("train.csv", "sentence,label\n" + std::string(50, 'b') + ",yes\nb,no\n").string();
  const TaskSetup setup = prepare_task(model.arguments({"--task", "text-classification", "--train_file", file}));
  EXPECT_EQ(setup.train->batch({0}).sequences.at("input_ids").length, 14);
}

TEST(TokenClassification, WordsOfByteLevelModelsBeginWithTheirSpace) {
  const TextModelFolder model("roberta", kBytePairs, "RobertaTokenizer");
  const std::string file = model.folder.write("train.conll", "ab\tB-X\na\tO\n\n").string();
  const TrainArguments arguments = model.arguments({"--train_file", file, "--max_steps", "1"});
  EXPECT_EQ(prepare_task(arguments).train->batch({0}).sequences.at("input_ids"), (PaddedRows{1, 4, {0, 8, 7, 2}}));
  fine_tune(arguments);
  const std::vector<std::string> words = {"ab", "a"};
  const Tokenizer saved = Tokenizer::from_pretrained((model.folder.path() / "out").string());
  EXPECT_EQ(saved.encode_words(words).ids, (std::vector<int64_t>{0, 8, 7, 2}));
}

}  // namespace
}  // namespace transom
