// SPDX-License-Identifier: Apache-2.0
// Models with byte-level and SentencePiece vocabularies, read from a tokenizer.json, train on texts and words.
#include <gtest/gtest.h>

#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/config.h"
#include "transom/fine_tuning.h"
#include "transom/tokenizer.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tiny_model.h"

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
    TrainArguments parsed = parse_train_arguments(flags);
    parsed.training.do_train = true;
    return parsed;
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

std::vector<int64_t> ids_of(const TinyModel& model, const std::string& file) {
  return prepare_task(model.arguments({"--train_file", file})).train->batch({0, 1}).sequences.at("input_ids").values;
}

// As run_glue, which tokenises columns of texts as pairs, whatever is in them.
TEST(TextClassification, TextsOfAPairMayBeEmpty) {
  const TinyModel model;
  const std::vector<int64_t> expected = {kCls, kAnn, kSep, kSep, kCls, kSep, kRome, kSep};
  EXPECT_EQ(ids_of(model, model.write("a.csv", "sentence1,sentence2,label\nAnn,,a\n,Rome,b\n")), expected);
  EXPECT_EQ(ids_of(model, model.write("a.jsonl",
                                      "{\"sentence1\": \"Ann\", \"sentence2\": \"\", \"label\": \"a\"}\n"
                                      "{\"sentence1\": \"\", \"sentence2\": \"Rome\", \"label\": \"b\"}\n")),
            expected);
  const std::string nothing = model.write("null.jsonl",
                                          "{\"sentence1\": \"Ann\", \"sentence2\": \"a\", \"label\": \"a\"}\n"
                                          "{\"sentence1\": \"Ann\", \"sentence2\": null, \"label\": \"b\"}\n");
  EXPECT_EQ(test::message_without_folders([&] { ids_of(model, nothing); }),
            "null.jsonl: row 2, column 'sentence2': expected text, found nothing");
}

TEST(TextClassification, SaysWhatItReads) {
  const TinyModel model;
  const std::string train = model.write("train.csv", "id,comment,label\n1,Ann,b\n2,Rome,c\n3,went,a\n"),
                    valid = model.write("valid.csv", "id,comment,label\n1,Ann,b\n"),
                    stars = model.write("stars.tsv", "title\tbody\tstars\nAnn\tRome\t0.5\n");
  const test::KeptLog log;
  prepare_task(model.arguments({"--train_file", train}));
  EXPECT_TRUE(log.has("text: column comment; label: 3 classes; 3 rows\n")) << log.text();
  prepare_task(model.arguments({"--train_file", train, "--validation_file", valid, "--max_train_samples", "2"}));
  EXPECT_TRUE(log.has("text: column comment; label: 3 classes; 2 rows to train on, 1 to evaluate\n")) << log.text();
  prepare_task(model.arguments({"--train_file", stars, "--label_column_name", "stars"}));
  EXPECT_TRUE(log.has("text: columns title and body, as a pair; label: column stars, a number; 1 row\n")) << log.text();
  EXPECT_FALSE(log.has("where rows are cut")) << log.text();
  prepare_task(model.arguments({"--train_file", train, "--max_seq_length", "100000"}));
  EXPECT_TRUE(log.has("--max_seq_length 100000: the model takes at most ")) << log.text();
}

// A column is found once, in the rows to train on: in the others it is that of the same name.
TEST(TextClassification, AllFilesOfARunHaveTheSameColumns) {
  const TinyModel model;
  const std::string train = model.write("train.csv", "id,comment,label\n1,Ann,b\n2,Rome,c\n"),
                    valid = model.write("valid.csv", "label,id,comment\nb,x1,Ann\n");
  const TaskSetup setup = prepare_task(model.arguments({"--train_file", train, "--validation_file", valid}));
  EXPECT_EQ(setup.validation->batch({0}).sequences.at("input_ids").values, (std::vector<int64_t>{kCls, kAnn, kSep}));
}

TEST(TextClassification, ListsOfFractionsAreSeveralLabelsAtOnce) {
  const TinyModel model;
  const std::string rows =
                        "{\"text\": \"Ann\", \"label\": [0.0, 1.0, 1.0]}\n"
                        "{\"text\": \"Rome\", \"label\": [1.0, 0.5, 0.0]}\n",
                    file = model.write("a.jsonl", rows);
  TaskSetup setup = prepare_task(model.arguments({"--train_file", file}));
  EXPECT_EQ(setup.train->batch({0, 1}).label_values, (std::vector<float>{0, 1, 1, 1, 0.5F, 0}));
  EXPECT_EQ(setup.model->labels(), (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"}));
  EXPECT_EQ(setup.model->config().get_string("problem_type", ""), "multi_label_classification");
  const test::KeptLog log;
  prepare_task(model.arguments({"--train_file", model.write("b.jsonl", "{\"text\": \"a\", \"label\": [0, 1, 1]}\n")}));
  EXPECT_TRUE(log.has("lists of 0 and 1 are read as lists of the classes 0 and 1")) << log.text();
  fine_tune(model.arguments({"--train_file", file, "--max_steps", "1", "--overwrite_output_dir"}));
}

// GLUE's test files have -1 for all labels.
TEST(TextClassification, LabelsOfRowsToPredictAreLeftAside) {
  const TinyModel model;
  const std::string train = model.write("train.csv", "text,label\nAnn,yes\nRome,no\n"),
                    test = model.write("test.csv", "text,label\nAnn,-1\n");
  fine_tune(model.arguments({"--train_file", train, "--max_steps", "1", "--overwrite_output_dir"}));
  fine_tune(model.arguments({"--test_file", test, "--do_predict"}));
  const std::string predicted = model.read("predict_results.txt");
  EXPECT_TRUE(predicted == "index\tprediction\n0\tyes\n" || predicted == "index\tprediction\n0\tno\n") << predicted;
}

TEST(TextClassification, ListsWrittenAsTextAreNoClasses) {
  const TinyModel model;
  const std::string file = model.write("a.csv", "text,label\nAnn,\"['a', 'b']\"\nRome,['a']\n");
  EXPECT_EQ(test::message_without_folders([&] {
              prepare_task(model.arguments({"--train_file", file}));
            }),
            "a.csv, column 'label': expected labels, found lists that are written as text; several labels at once are "
            "lists of JSON lines");
}

TEST(TextClassification, AnOptionIsCarriedOutOrRefusedBeforeTraining) {
  const TinyModel model;
  const std::string classes = model.write("a.csv", "text,label\nAnn,b\nRome,c\n"),
                    numbers = model.write("b.csv", "text,label\nAnn,0.5\nRome,1.5\n");
  const auto message = [&](const std::string& file, std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--train_file", file, "--max_steps", "1", "--overwrite_output_dir"});
    return test::message_of([&] { fine_tune(model.arguments(flags)); });
  };
  EXPECT_EQ(message(classes, {"--metric_name", "mse"}),
            "metric_name: expected one of accuracy, f1, precision, recall, matthews_correlation, found 'mse'.");
  EXPECT_EQ(
      message(numbers, {"--label_smoothing_factor", "0.1"}),
      "label_smoothing_factor: is for labels that are classes; BertForSequenceClassification learns from numbers");
  EXPECT_EQ(message(classes, {"--label_smoothing_factor", "0.1"}), "");
  EXPECT_EQ(message(classes, {"--validation_file", classes, "--eval_strategy", "epoch", "--save_strategy", "epoch",
                              "--load_best_model_at_end", "--metric_for_best_model", "acuracy"}),
            "--metric_for_best_model: expected one of eval_loss, eval_runtime, eval_samples_per_second, "
            "eval_steps_per_second, eval_accuracy, found eval_acuracy, did you mean 'eval_accuracy'?");
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
