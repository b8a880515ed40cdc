// SPDX-License-Identifier: Apache-2.0
// Vectors of sentences beside those of sentence-transformers (tests/wild/serve/sentence-transformers/make.py), and what
// of its files is refused.
#include "work/pipelines/text/sentence_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/folders.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/task_pipelines.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

fs::path cases() { return fs::path(test::source_folder()) / "tests/wild/serve/sentence-transformers"; }

void copy_over(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

// Each step adds about one unit of the last place to numbers of the size of what it sums; 16 of them for a model of
// one layer and its modules.
void expect_near(const std::vector<float>& found, const std::vector<float>& expected, const std::string& where) {
  ASSERT_EQ(found.size(), expected.size()) << where;
  float largest = 1;
  for (const float each : expected) largest = std::max(largest, std::abs(each));
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 16 * largest * std::ldexp(1.0f, -23) * 8) << where << " number " << i;
}

class SentenceCase : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    case_ = read_json(cases() / GetParam() / "case.json");
    copy_over(cases() / case_["model"].get<std::string>(), folder_);
    copy_over(cases() / GetParam(), folder_);
    if (case_["prompt_name"].is_string()) prompt_["prompt_name"] = case_["prompt_name"];
  }
  Json with(Json parameters) const {
    parameters.update(prompt_);
    return parameters;
  }
  test::TemporaryFolder folder_;
  Json case_, prompt_ = Json::object();
};

TEST_P(SentenceCase, HasTheVectorsOfSentenceTransformers) {
  const auto task = make_pipeline("feature-extraction", folder_.string());
  const auto texts = case_["texts"].get<std::vector<std::string>>();
  const std::vector<Json> found =
      run_pipeline(*task, std::vector<Json>(texts.begin(), texts.end()), with({{"pooling", "auto"}}));
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto expected = case_["vectors"][i].get<std::vector<float>>();
    expect_near(found[i].get<std::vector<float>>(), expected, "text " + std::to_string(i));
    const Json alone = run_pipeline(*task, Json(texts[i]), with({{"pooling", "auto"}}));
    expect_near(alone.get<std::vector<float>>(), expected, "alone, text " + std::to_string(i));
  }
}

TEST_P(SentenceCase, HasTheSimilaritiesOfSentenceTransformers) {
  const auto task = make_pipeline("sentence-similarity", folder_.string());
  auto texts = case_["texts"].get<std::vector<std::string>>();
  const std::string first = texts.front();
  texts.erase(texts.begin());
  const Json input{{"source_sentence", first}, {"sentences", texts}};
  const Json scores = run_pipeline(*task, input, with(Json::object()));
  expect_near(scores.get<std::vector<float>>(), case_["similarities"].get<std::vector<float>>(), "similarities");
  const Json closest = run_pipeline(*task, input, with({{"top_k", 2}}));
  ASSERT_EQ(closest.size(), 2u);
  EXPECT_EQ(closest[0]["score"], *std::max_element(scores.begin(), scores.end()));
  EXPECT_EQ(closest[1]["score"], scores[closest[1]["corpus_id"].get<size_t>()]);
}

TEST_P(SentenceCase, IsTheSameInCpp) {
  const FeatureExtractionPipeline vectors(folder_.string());
  const std::string name = case_["prompt_name"].is_string() ? case_["prompt_name"].get<std::string>() : "";
  expect_near(vectors(case_["texts"][0].get<std::string>(), {.pooling = "auto", .prompt_name = name}).values,
              case_["vectors"][0].get<std::vector<float>>(), "C++");
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cases()))
    if (fs::exists(entry.path() / "case.json")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Recorded, SentenceCase, testing::ValuesIn(case_names()),
                         [](const auto& info) { return "Case" + info.param; });

class SentenceFiles : public testing::Test {
 protected:
  SentenceFiles() {
    copy_over(cases() / "bert", folder_);
    fs::create_directory(folder_ / "1_Pooling");
    set("modules.json", modules({"Transformer", "Pooling"}));
    set("1_Pooling/config.json", {{"embedding_dimension", 8}, {"pooling_mode", "mean"}});
  }
  void set(const std::string& file, const Json& json) { write_file(folder_ / file, dump_json(json)); }
  static Json modules(const std::vector<std::string>& kinds) {
    Json list = Json::array();
    for (const std::string& kind : kinds)
      list.push_back({{"idx", list.size()},
                      {"name", std::to_string(list.size())},
                      {"path", list.empty() ? "" : std::to_string(list.size()) + "_" + kind},
                      {"type", "sentence_transformers.models." + kind}});
    return list;
  }
  std::string refusal() {
    return test::message_of([&] { read_sentence_modules(folder_.path()); });
  }
  test::TemporaryFolder folder_;
};

// What each key of each file may say is read, or known to change nothing, or named.
TEST_F(SentenceFiles, WhatIsNotCarriedOutIsRefusedByName) {
  EXPECT_EQ(refusal(), "");
  const std::vector<std::tuple<std::string, Json, std::string>> wrong{
      {"modules.json", modules({"Transformer", "Pooling", "CNN"}), "the module 'CNN' is not supported"},
      {"modules.json", modules({"WordEmbeddings", "Pooling"}), "WordEmbeddings"},
      {"modules.json", modules({"Transformer", "WordWeights", "Pooling"}), "WordWeights"},
      {"modules.json", modules({"Transformer"}), "expected a Pooling"},
      {"modules.json", modules({"Transformer", "Pooling", "Pooling"}), "two"},
      {"modules.json", modules({"Transformer", "Normalize", "Pooling"}), "before the Pooling"},
      {"modules.json", Json::array({{{"type", "custom_st.Transformer"}, {"path", ""}}}), "code of their own"},
      {"modules.json", Json::array({{{"type", "sentence_transformers.models.Transformer"}, {"path", "../.."}}}),
       "leads out"},
      {"1_Pooling/config.json", {{"pooling_mode", "median"}}, "median"},
      {"1_Pooling/config.json", {{"pooling_mode_middle_token", true}}, "pooling_mode_middle_token"},
      {"sentence_bert_config.json", {{"max_seq_length", "long"}}, "max_seq_length"},
      {"sentence_bert_config.json", {{"strange", 1}}, "strange"},
      {"sentence_bert_config.json", {{"transformer_task", "fill-mask"}}, "transformer_task"},
      {"sentence_bert_config.json", {{"query_length", 32}}, "query_length"},
      {"sentence_bert_config.json", {{"tokenizer_args", {{"add_eos_token", true}}}}, "add_eos_token"},
      {"sentence_bert_config.json", {{"model_args", {{"rope_scaling", 2}}}}, "rope_scaling"},
      {"sentence_bert_config.json", {{"modality_config", {{"message", {{"method", "forward"}}}}}}, "message"},
      {"config_sentence_transformers.json", {{"similarity_fn_name", "maxsim"}}, "maxsim"},
      {"config_sentence_transformers.json", {{"default_prompt_name", "other"}}, "other"},
      {"config_sentence_transformers.json", {{"query_prefix", "[Q]"}}, "query_prefix"},
      {"config_sentence_transformers.json", {{"model_type", "MultiVectorEncoder"}}, "MultiVectorEncoder"},
      {"config_sentence_transformers.json", {{"truncate_dim", 0}}, "truncate_dim"},
  };
  for (const auto& [file, json, named] : wrong) {
    const bool before = fs::exists(folder_ / file);
    const Json kept = before ? read_json(folder_ / file) : Json();
    set(file, json);
    const std::string message = refusal();
    EXPECT_NE(message.find(named), std::string::npos) << dump_json(json) << ": " << message;
    EXPECT_NE(message.find(file), std::string::npos) << message;
    if (before) set(file, kept);
    else fs::remove(folder_ / file);
  }
  EXPECT_EQ(refusal(), "");
}

// The states of tokens ask for no modules.
TEST_F(SentenceFiles, UnknownModulesAreRefusedWhereTheyAreAskedFor) {
  set("modules.json", modules({"Transformer", "Pooling", "CNN"}));
  const auto task = make_pipeline("feature-extraction", folder_.string());
  EXPECT_EQ(run_pipeline(*task, Json("cat"), Json::object())[0].size(), 3u);
  EXPECT_EQ(run_pipeline(*task, Json("cat"), {{"pooling", "mean"}}).size(), 8u);
  EXPECT_NE(test::message_of([&] {
              run_pipeline(*task, Json("cat"), {{"pooling", "auto"}});
            }).find("CNN"),
            std::string::npos);
}

TEST_F(SentenceFiles, WeightsOfModulesHaveTheShapesOfTheirConfiguration) {
  set("modules.json", modules({"Transformer", "Pooling", "Dense"}));
  fs::create_directory(folder_ / "2_Dense");
  set("2_Dense/config.json", {{"in_features", 9}, {"out_features", 2}});
  const auto load = [&] { return test::message_of([&] { SentenceModel::load(folder_.string(), {}); }); };
  EXPECT_NE(load().find("2_Dense"), std::string::npos) << load();
  set("2_Dense/config.json", {{"in_features", 8}, {"out_features", 2}, {"activation_function", "my.Own"}});
  EXPECT_NE(load().find("my.Own"), std::string::npos) << load();
  set("2_Dense/config.json", {{"in_features", 8}, {"out_features", 2}, {"activation_function", "torch.nn.Softmax"}});
  EXPECT_NE(load().find("Softmax"), std::string::npos) << load();
}

// Options that would change nothing where they stand are named.
TEST_F(SentenceFiles, OptionsOfTheOtherKindOfVectorsAreRefused) {
  const auto task = make_pipeline("feature-extraction", folder_.string());
  for (const Json& wrong : {Json{{"prompt", "a"}}, Json{{"truncate_dim", 2}}, Json{{"normalize_embeddings", true}},
                            Json{{"pooling", "auto"}, {"truncation", true}},
                            Json{{"pooling", "mean"}, {"tokenize_kwargs", {{"max_length", 4}}}}}) {
    const std::string message = test::message_of([&] { run_pipeline(*task, Json("cat"), wrong); });
    EXPECT_NE(message.find("has no effect"), std::string::npos) << dump_json(wrong) << message;
  }
  EXPECT_NE(test::message_of([&] {
              run_pipeline(*task, Json("cat"), {{"pooling", "auto"}, {"prompt_name", "none"}});
            }).find("has no prompts"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
