// SPDX-License-Identifier: Apache-2.0
// Runs of --task sentence-embedding against SentenceTransformerTrainer: the rows of each batch, losses, norms, and what
// evaluations measure.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "work/train/tasks/sentences/batch_samplers.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"

namespace transom {
namespace {

fs::path sentences_folder() { return test::golden_folder() / "sentences"; }

std::vector<std::string> recorded_runs(const std::string& task) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(sentences_folder() / "runs"))
    if (read_json(entry.path())["task"] == task) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string word_of(const testing::TestParamInfo<std::string>& info) {
  std::string name;
  bool upper = true;
  for (const char letter : info.param)
    if (letter == '-') upper = true;
    else name += upper ? static_cast<char>(std::toupper(letter)) : letter, upper = false;
  return name;
}

std::string path_of(const Json& relative) {
  return (sentences_folder() / "runs" / relative.get<std::string>()).lexically_normal().string();
}

// A directory of PEFT with the adapters that a run began with.
void write_adapters(const fs::path& folder, const std::string& base, const Json& about) {
  make_directories(folder);
  write_file(folder / "adapter_config.json", dump_json({{"peft_type", "LORA"},
                                                        {"task_type", "FEATURE_EXTRACTION"},
                                                        {"base_model_name_or_path", base},
                                                        {"r", about["arguments"]["lora_r"]},
                                                        {"lora_alpha", about["arguments"]["lora_alpha"]},
                                                        {"lora_dropout", 0.0},
                                                        {"target_modules", {"query", "value"}}}));
  std::vector<std::vector<float>> values;
  std::vector<std::pair<std::string, std::vector<int64_t>>> names;
  for (const auto& [name, rows] : about["adapters"].items()) {
    std::string plain = name.substr(name.find("base_model."));
    plain.erase(plain.find(".default"), 8);
    std::vector<float>& flat = values.emplace_back();
    for (const Json& row : rows)
      for (const Json& each : row) flat.push_back(each.get<float>());
    names.emplace_back(plain,
                       std::vector<int64_t>{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())});
  }
  NamedViews views;
  for (size_t i = 0; i < names.size(); ++i)
    views.emplace_back(names[i].first,
                       TensorView{DType::kFloat32, names[i].second, std::as_bytes(std::span(values[i])), nullptr});
  write_safetensors(folder / "adapter_model.safetensors", views);
}

Json arguments_of(const Json& about, const fs::path& work) {
  Json given = about["arguments"];
  given["task"] = about["task"];
  given["model_name_or_path"] = path_of(about["model"]);
  if (about["rows"].is_object()) {
    for (const auto& [name, path] : about["rows"].items()) given["train_file"][name] = path_of(path);
  } else {
    given["train_file"] = path_of(about["rows"]);
    if (given.contains("eval_strategy")) given["validation_file"] = given["train_file"];
  }
  if (about.contains("adapters")) {
    write_adapters(work / "adapters", path_of(about["model"]), about);
    given["tokenizer_name"] = given["model_name_or_path"];
    given["model_name_or_path"] = (work / "adapters").string();
    for (const char* name : {"lora_r", "lora_alpha", "lora_dropout"}) given.erase(name);
  }
  for (const char* name : {"matryoshka_dims", "matryoshka_weights"})
    if (given.contains(name))
      for (Json& each : given[name]) each = dump_json(each);
  given["output_dir"] = (work / "out").string();
  given["save_strategy"] = "no";
  return given;
}

class SentenceRuns : public testing::TestWithParam<std::string> {};

TEST_P(SentenceRuns, LogWhatTheLibraryLogs) {
  const Json about = read_json(sentences_folder() / "runs" / (GetParam() + ".json"));
  const test::TemporaryFolder work;
  const test::KeptLog quiet;
  fine_tune(parse_train_json(dump_json(arguments_of(about, work.path())), "arguments"));
  const Json found = read_json(work.path() / "out" / "trainer_state.json")["log_history"],
             expected = about["log_history"];
  ASSERT_GE(found.size(), expected.size());
  const double rtol = about["rtol"];
  for (size_t i = 0; i < expected.size(); ++i)
    for (const auto& [name, value] : expected[i].items()) {
      ASSERT_TRUE(found[i].contains(name)) << name << " of record " << i + 1;
      const double right = value;
      EXPECT_NEAR(found[i][name].get<double>(), right, rtol * std::max(1e-3, std::abs(right)))
          << name << " of record " << i + 1;
    }
}

INSTANTIATE_TEST_SUITE_P(Recorded, SentenceRuns, testing::ValuesIn(recorded_runs("sentence-embedding")), word_of);

std::vector<Json> rows_of_file(const std::string& path) {
  std::vector<Json> rows;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) rows.push_back(parse_json(line, path));
  return rows;
}

// The rows that the library takes for each batch, of all recorded runs.
class SentenceBatches : public testing::TestWithParam<std::string> {};

TEST_P(SentenceBatches, AreThoseOfTheLibrary) {
  const Json about = read_json(sentences_folder() / "runs" / (GetParam() + ".json"));
  const Json& given = about["arguments"];
  BatchSampling sampling;
  sampling.batch_sampler = given.value("batch_sampler", sampling.batch_sampler);
  sampling.multi_dataset_batch_sampler =
      given.value("multi_dataset_batch_sampler", sampling.multi_dataset_batch_sampler);
  const Json files = about["rows"].is_object() ? about["rows"] : Json{{"", about["rows"]}};
  std::vector<SampledSet> sets;
  std::vector<std::string> names;
  std::map<std::string, uint64_t> texts;
  for (const auto& [name, path] : files.items()) {
    SampledSet set;
    std::vector<std::vector<uint64_t>> numbers;
    for (const Json& row : rows_of_file(path_of(path))) {
      numbers.emplace_back();
      for (const auto& [column, value] : row.items())
        if (value.is_string())
          numbers.back().push_back(texts.emplace(value.get<std::string>(), texts.size()).first->second);
      set.labels.push_back(row.contains("label") && row["label"].is_number_integer() ? row["label"].get<int64_t>() : 0);
    }
    set.rows = static_cast<int64_t>(numbers.size());
    set.texts = [numbers](int64_t row) { return numbers[static_cast<size_t>(row)]; };
    sets.push_back(std::move(set));
    names.push_back(name);
  }
  const Json& expected = about["batches"];
  const int64_t size = given["per_device_train_batch_size"];
  size_t next = 0;
  for (int64_t epoch = 0; next < expected.size(); ++epoch)
    for (const std::vector<int64_t>& batch : sampled_batches(sets, sampling, epoch, size)) {
      if (next == expected.size()) break;
      const bool several = names.size() > 1;
      const Json rows = several ? expected[next][1] : expected[next];
      const size_t set = several && expected[next][0] == names[1] ? 1 : 0;
      std::vector<int64_t> own = batch;
      for (int64_t& row : own) row -= set == 1 ? sets[0].rows : 0;
      EXPECT_EQ(own, rows.get<std::vector<int64_t>>()) << "batch " << next + 1;
      ++next;
    }
}

INSTANTIATE_TEST_SUITE_P(Recorded, SentenceBatches, testing::ValuesIn(recorded_runs("sentence-embedding")), word_of);

class SentenceEmbedding : public testing::Test {
 protected:
  std::string run(const std::string& rows, std::vector<std::string> flags, const std::string& model = "bert") {
    write_file(work_.path() / "rows.jsonl", rows);
    flags.insert(flags.end(), {"--task", "sentence-embedding", "--model_name_or_path",
                               (sentences_folder() / "models" / model).string(), "--train_file",
                               (work_.path() / "rows.jsonl").string(), "--output_dir", (work_.path() / "out").string(),
                               "--max_steps", "2", "--per_device_train_batch_size", "2", "--overwrite_output_dir"});
    const test::KeptLog log;
    const std::string message = test::message_of([&] { fine_tune(parse_train_arguments(flags)); });
    said_ = log.text();
    return message;
  }
  test::TemporaryFolder work_;
  std::string said_;
};

constexpr const char* kPair = "{\"anchor\": \"A licence.\", \"positive\": \"The licence is granted.\"}\n";
constexpr const char* kScored = "{\"a\": \"A licence.\", \"b\": \"It is granted.\", \"score\": 0.5}\n";

TEST_F(SentenceEmbedding, BadRowsAreNamedBeforeTheFirstStep) {
  const std::string pair(kPair), scored(kScored);
  struct Bad {
    std::string rows, loss, message;
  };
  const Bad cases[] = {
      {pair + "{\"anchor\": \"One\", \"positive\": null}\n", "MultipleNegativesRankingLoss", "row 2"},
      {"{\"a\": \"x\", \"b\": \"y\", \"c\": \"y\"}\n", "TripletLoss", "not the positive"},
      {scored + "{\"a\": \"x\", \"b\": \"y\", \"score\": null}\n", "CoSENTLoss", "row 2"},
      {"{\"a\": \"x\", \"b\": \"y\", \"label\": 2}\n", "ContrastiveLoss", "0 or 1"},
      {"{\"a\": \"x\", \"b\": \"y\", \"label\": 3}\n", "SoftmaxLoss", "a class from 0 to 2"},
      {"{\"a\": \"x\", \"label\": [1.0, 2.0]}\n", "MSELoss", "16 numbers"},
      {scored, "TripletLoss", "takes 3 columns"},
      {pair, "CosineSimilarityLoss", "needs a column label or score"},
      {"{\"a\": \"x\", \"b\": 3}\n", "MultipleNegativesRankingLoss", "b"},
  };
  for (const Bad& bad : cases) {
    std::vector<std::string> flags{"--loss", bad.loss};
    if (bad.loss == "SoftmaxLoss") flags.insert(flags.end(), {"--loss_kwargs", "{\"num_labels\": 3}"});
    const std::string message = run(bad.rows, flags);
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.loss << ": " << message;
    EXPECT_NE(message.find("rows.jsonl"), std::string::npos) << message;
  }
}

TEST_F(SentenceEmbedding, WhatIsSavedIsADirectoryOfTheLibrary) {
  for (const char* model : {"bert", "dense"}) {
    ASSERT_EQ(run(std::string(kPair) + kPair, {"--loss", "MultipleNegativesRankingLoss"}, model), "");
    const fs::path out = work_.path() / "out";
    const Json modules = read_json(out / "modules.json"),
               before = read_json(sentences_folder() / "models" / model / "modules.json");
    EXPECT_EQ(modules, before);
    for (const Json& module : modules)
      if (const std::string path = module["path"]; !path.empty()) {
        EXPECT_TRUE(path_exists(out / path / "config.json")) << path;
      }
    EXPECT_EQ(path_exists(out / "2_Dense" / "model.safetensors"), std::string(model) == "dense");
  }
}

// A masked-language model without modules becomes one of SparseEncoder, which opens again and is trained on.
TEST_F(SentenceEmbedding, SpladeIsMadeOfAPlainModel) {
  const fs::path plain = work_.path() / "plain";
  make_directories(plain);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
    write_file(plain / name, read_file(sentences_folder() / "models" / "splade" / name));
  const std::string rows = std::string(kPair) + kPair;
  ASSERT_EQ(run(rows, {"--loss", "SpladeLoss"}, plain.string()), "");
  const fs::path out = work_.path() / "out", again = work_.path() / "again";
  EXPECT_EQ(read_json(out / "1_SpladePooling" / "config.json")["pooling_strategy"], "max");
  EXPECT_EQ(read_json(out / "config_sentence_transformers.json")["model_type"], "SparseEncoder");
  fs::rename(out, again);
  ASSERT_EQ(run(rows, {}, again.string()), "");  // SpladeLoss is its default
  EXPECT_EQ(read_json(out / "modules.json"), read_json(again / "modules.json"));
  EXPECT_NE(run(rows, {"--loss", "CoSENTLoss"}, again.string()).find("expected SpladeLoss"), std::string::npos);
  EXPECT_NE(run(rows, {"--loss", "SpladeLoss"}).find("expected another loss"), std::string::npos);
}

TEST_F(SentenceEmbedding, RegularizersOfSpladeCountInFullWhereNothingIsTrained) {
  write_file(work_.path() / "rows.jsonl", std::string(kPair) + kPair);
  const auto loss = [&](const std::string& weight) {
    const test::KeptLog quiet;
    const FineTuneResult result = fine_tune(
        parse_train_arguments({"--task", "sentence-embedding", "--do_eval", "--model_name_or_path",
                               (sentences_folder() / "models" / "splade").string(), "--validation_file",
                               (work_.path() / "rows.jsonl").string(), "--output_dir", (work_.path() / "out").string(),
                               "--loss_kwargs", "{\"document_regularizer_weight\": " + weight + "}"}));
    for (const auto& [name, value] : result.evaluation)
      if (name == "eval_loss") return value;
    return -1.0;
  };
  const double base = loss("0");
  EXPECT_GE(base, 0);
  EXPECT_GT(loss("1"), base);
}

TEST_F(SentenceEmbedding, RegularizersOfSpladeGrowInRunsOfSeveralSets) {
  write_file(work_.path() / "rows.jsonl", std::string(kPair) + kPair);
  const std::string rows = (work_.path() / "rows.jsonl").string();
  const auto first_loss = [&](const std::string& weight) {
    const test::KeptLog quiet;
    fine_tune(parse_train_arguments(
        {"--task", "sentence-embedding", "--model_name_or_path", (sentences_folder() / "models" / "splade").string(),
         "--train_file", dump_json({{"a", rows}, {"b", rows}}), "--output_dir", (work_.path() / "out").string(),
         "--max_steps", "1", "--logging_steps", "1", "--per_device_train_batch_size", "2", "--overwrite_output_dir",
         "--loss_kwargs", "{\"document_regularizer_weight\": " + weight + "}"}));
    return read_json(work_.path() / "out" / "trainer_state.json")["log_history"][0]["loss"].get<double>();
  };
  EXPECT_EQ(first_loss("0"), first_loss("1"));  // the share of the first update is 0
}

TEST(SpladeOptions, WeightsGrowInTheFirstPartOfARun) {
  Json given{{"loss", "SparseMultipleNegativesRankingLoss"}, {"scale", 2}};
  SpladeOptions options = SpladeOptions::of(given);
  EXPECT_EQ(given, (Json{{"scale", 2}}));
  EXPECT_EQ(options.query_weight, 5e-5);
  EXPECT_EQ(options.share(0, 30), 0);
  EXPECT_EQ(options.share(5, 30), 0.25);
  EXPECT_EQ(options.share(10, 30), 1);
  options.linear = true;
  EXPECT_EQ(options.share(5, 30), 0.5);
  EXPECT_EQ(options.share(0, 2), 0);  // one update at least
  options.warmup_ratio = 0;
  EXPECT_EQ(options.share(0, 30), 1);
}

TEST_F(SentenceEmbedding, OptionsThatDoNotFitAreRefused) {
  const std::string rows = std::string(kPair) + kPair;
  EXPECT_NE(run(rows, {"--loss", "MultipleNegativeRankingLoss"}).find("MultipleNegativesRankingLoss"),
            std::string::npos);
  EXPECT_NE(run(rows, {"--loss", "MultipleNegativesRankingLoss", "--matryoshka_dims", "32"}).find("from 1 to 16"),
            std::string::npos);
  EXPECT_NE(
      run(rows, {"--loss", "MultipleNegativesRankingLoss", "--prompts", "{\"anchr\": \"query: \"}"}).find("anchor"),
      std::string::npos);
  EXPECT_NE(run(rows, {"--loss", "MultipleNegativesRankingLoss", "--batch_sampler", "group_by_label"}).find("classes"),
            std::string::npos);
  EXPECT_NE(run(rows, {"--loss", "MultipleNegativesRankingLoss", "--pooling_mode", "cls"}).find("modules.json"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
