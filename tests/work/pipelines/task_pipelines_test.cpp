// SPDX-License-Identifier: Apache-2.0
// Results as structs are those that pipeline() gives as JSON, and options reach the task.
#include "transom/task_pipelines.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/json/json.h"
#include "runtime/device/device.h"
#include "support/bitmap.h"
#include "support/message.h"
#include "support/word_models.h"
#include "transom/device.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr const char* kSpecial = R"({"mask_token": "w10", "pad_token": "w0", "unk_token": "w11"})";
constexpr const char* kWordT5 =
    R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 12,
  "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2,
  "is_encoder_decoder": true, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1, "initializer_factor": 3,
  "task_specific_params": {"translation_en_to_fr": {"prefix": "w3 w4 "}}})";

class TaskPipelines : public testing::Test {
 protected:
  std::string model(const char* config, const std::string& architecture = "") {
    test::save_word_model(folder_, config, architecture, kSpecial);
    return folder_.string();
  }
  static Json json(const std::string& task, const std::string& model, const Json& input, const Json& parameters) {
    return parse_json(pipeline(task, model).run_json(dump_json(input), dump_json(parameters)), "result");
  }
  static void expect_classes(const std::vector<ClassScore>& found, const Json& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].label, expected[i]["label"]);
      EXPECT_EQ(found[i].score, expected[i]["score"].get<double>());
    }
  }
  test::TemporaryFolder folder_;
};

TEST_F(TaskPipelines, TextClassification) {
  const std::string path = model(test::kWordBert, "BertForSequenceClassification");
  const TextClassificationPipeline classify(path);
  EXPECT_EQ(classify("w3 w4").size(), 1u);
  expect_classes(classify("w3 w4", {.top_k = std::nullopt}),
                 json("text-classification", path, "w3 w4", {{"top_k", nullptr}}));
  expect_classes(classify("w3 w4", {.top_k = 2, .function_to_apply = "none"}),
                 json("text-classification", path, "w3 w4", {{"top_k", 2}, {"function_to_apply", "none"}}));
  const auto both = classify.run_all({"w3 w4", "w5"});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0][0].score, classify("w3 w4")[0].score);
  EXPECT_NE(both[0][0].score, both[1][0].score);
  EXPECT_TRUE(classify.run_all({}).empty());
  EXPECT_NE(test::message_of([&] { classify("w3", {.function_to_apply = "relu"}); }).find("function_to_apply"),
            std::string::npos);
}

TEST_F(TaskPipelines, TokenClassification) {
  const std::string path = model(test::kWordBert, "BertForTokenClassification");
  const TokenClassificationPipeline tag(path);
  for (const char* strategy : {"none", "simple"}) {
    const auto found = tag("w3 w4 w5", {.aggregation_strategy = strategy});
    const Json expected = json("token-classification", path, "w3 w4 w5", {{"aggregation_strategy", strategy}});
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_FALSE(found.empty());
    const bool grouped = strategy == std::string("simple");
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].label, expected[i][grouped ? "entity_group" : "entity"]);
      EXPECT_EQ(found[i].word, expected[i]["word"]);
      EXPECT_EQ(found[i].score, expected[i]["score"].get<double>());
      EXPECT_EQ(found[i].start, expected[i]["start"]);
      EXPECT_EQ(found[i].end, expected[i]["end"]);
      if (grouped) EXPECT_EQ(found[i].index, -1);
      else EXPECT_EQ(found[i].index, expected[i]["index"]);
    }
  }
  EXPECT_TRUE(tag("w3", {.ignore_labels = {"contradiction", "entailment"}}).empty());
}

TEST_F(TaskPipelines, QuestionAnswering) {
  const std::string path = model(test::kWordBert, "BertForQuestionAnswering");
  const QuestionAnsweringPipeline ask(path);
  const Json expected =
      json("question-answering", path, {{"question", "w1"}, {"context", "w3 w4 w5 w6"}}, {{"top_k", 3}});
  const auto found = ask({"w1", "w3 w4 w5 w6"}, {.top_k = 3});
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].answer, expected[i]["answer"]);
    EXPECT_EQ(found[i].score, expected[i]["score"].get<double>());
    EXPECT_EQ(found[i].start, expected[i]["start"]);
    EXPECT_EQ(found[i].end, expected[i]["end"]);
  }
  const auto one = ask({"w1", "w3 w4 w5 w6"});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].answer, found[0].answer);
}

TEST_F(TaskPipelines, FillMask) {
  const std::string path = model(test::kWordBert, "BertForMaskedLM");
  const FillMaskPipeline fill(path);
  const Json expected = json("fill-mask", path, "w3 w10 w5", {{"top_k", 2}});
  const auto one = fill("w3 w10 w5", {.top_k = 2});
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(one[0].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(one[0][i].token_str, expected[i]["token_str"]);
    EXPECT_EQ(one[0][i].token, expected[i]["token"]);
    EXPECT_EQ(one[0][i].score, expected[i]["score"].get<double>());
    EXPECT_EQ(one[0][i].sequence, expected[i]["sequence"]);
  }
  EXPECT_EQ(fill("w10 w10", {.top_k = 3}).size(), 2u);
  EXPECT_EQ(fill("w10", {.targets = {"w7"}})[0][0].token, 7);
}

TEST_F(TaskPipelines, FeatureExtractionAndSimilarity) {
  const std::string path = model(test::kWordBert, "BertModel");
  const FeatureExtractionPipeline extract(path);
  const FeatureArray tokens = extract("w3 w4 w5"), pooled = extract("w3 w4 w5", {.pooling = "mean"});
  EXPECT_EQ(tokens.shape, (Shape{1, 3, 8}));
  ASSERT_EQ(tokens.values.size(), 24u);
  const Json expected = json("feature-extraction", path, "w3 w4 w5", Json::object());
  EXPECT_EQ(tokens.values[8 + 2], expected[0][1][2].get<float>());
  EXPECT_EQ(pooled.shape, (Shape{8}));
  const SentenceSimilarityPipeline compare(path);
  const std::vector<double> scores = compare({"w3 w4", {"w3 w4", "w7", "w8 w9"}});
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_NEAR(scores[0], 1, 1e-5);
  EXPECT_GT(scores[0], scores[1]);
}

TEST_F(TaskPipelines, ZeroShotClassification) {
  const std::string path = model(test::kWordBert, "BertForSequenceClassification");
  const ZeroShotClassificationPipeline classify(path);
  const Json expected = json("zero-shot-classification", path, "w3 w4",
                             {{"candidate_labels", {"w5", "w6 w7"}}, {"hypothesis_template", "w1 {}"}});
  const auto found = classify("w3 w4", {.candidate_labels = {"w5", "w6 w7"}, .hypothesis_template = "w1 {}"});
  ASSERT_EQ(found.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found[i].label, expected["labels"][i]);
    EXPECT_EQ(found[i].score, expected["scores"][i].get<double>());
  }
  EXPECT_THROW(classify("w3"), Error) << "labels are needed";
}

TEST_F(TaskPipelines, ImageClassification) {
  write_file(folder_ / "a.bmp", test::bitmap(12, [](size_t place) {
               return std::array<uint8_t, 3>{90, static_cast<uint8_t>(place), 100};
             }));
  const Json config{{"model_type", "resnet"},
                    {"architectures", {"ResNetForImageClassification"}},
                    {"embedding_size", 8},
                    {"hidden_sizes", {8}},
                    {"depths", {1}},
                    {"layer_type", "basic"},
                    {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}};
  Model::from_config(dump_json(config), {.seed = 3})->save_pretrained(folder_.string());
  write_file(folder_ / "preprocessor_config.json",
             R"({"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}})");
  const std::string file = (folder_ / "a.bmp").string();
  const ImageClassificationPipeline classify(folder_.string());
  expect_classes(classify(file), json("image-classification", folder_.string(), file, Json::object()));
  EXPECT_EQ(classify(file, {.top_k = 2}).size(), 2u);
  EXPECT_EQ(classify(file, {.top_k = std::nullopt}).size(), 3u);
}

TEST_F(TaskPipelines, TextGeneration) {
  const std::string path = model(test::kWordGpt2);
  const TextGenerationPipeline write(path);
  TextGenerationTask::Options options;
  options.max_new_tokens = 4;
  options.do_sample = false;
  const auto whole = write("w3 w4", options);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0],
            json("text-generation", path, "w3 w4", {{"max_new_tokens", 4}, {"do_sample", false}})[0]["generated_text"]);
  options.return_full_text = false;
  EXPECT_EQ("w3 w4" + write("w3 w4", options)[0], whole[0]);
  options.num_beams = 3;
  options.num_return_sequences = 2;
  EXPECT_EQ(write("w3 w4", options).size(), 2u);
  options = {};
  options.max_new_tokens = 6;
  options.do_sample = true;
  options.seed = 5;
  EXPECT_EQ(write("w3", options), write("w3", options));
  options.parameters = R"({"min_new_tokens": 2})";
  EXPECT_EQ(write.run_all({"w3", "w4"}, options).size(), 2u);
  // Together as alone, sampled or not, one by one where they are more than the batch.
  const std::vector<std::string> texts{"w3 w4", "w5", "w3 w4 w6 w7 w8", "w9 w9", "w3"};
  for (const bool sample : {false, true}) {
    options.do_sample = sample;
    std::vector<std::vector<std::string>> alone;
    for (const std::string& text : texts) alone.push_back(write(text, options));
    for (const int64_t together : {2, 8})
      EXPECT_EQ(TextGenerationPipeline(path, {.batch_size = together}).run_all(texts, options), alone)
          << sample << ' ' << together;
  }
  options.parameters = R"({"no_such_option": 2})";
  EXPECT_NE(test::message_of([&] { write("w3", options); }).find("no_such_option"), std::string::npos);
  options.parameters = R"({"return_tensors": true})";
  EXPECT_NE(test::message_of([&] { write("w3", options); }).find("returns texts"), std::string::npos);
  options.parameters = "[1]";
  EXPECT_NE(test::message_of([&] { write("w3", options); }).find("TextOptions::parameters"), std::string::npos);
}

TEST_F(TaskPipelines, TextToText) {
  const std::string path = model(kWordT5);
  const TextOptions options{.max_new_tokens = 5, .num_beams = 2};
  const Json parameters{{"max_new_tokens", 5}, {"num_beams", 2}};
  EXPECT_EQ(Text2TextGenerationPipeline(path)("w3 w4", options)[0],
            json("text2text-generation", path, "w3 w4", parameters)[0]["generated_text"]);
  EXPECT_EQ(SummarizationPipeline(path)("w3 w4", options)[0],
            json("summarization", path, "w3 w4", parameters)[0]["summary_text"]);
  const TranslationPipeline translate(path, {}, "translation_en_to_fr");
  EXPECT_EQ(translate("w3 w4", options)[0],
            json("translation_en_to_fr", path, "w3 w4", parameters)[0]["translation_text"]);
  EXPECT_EQ(translate.run_all({"w3 w4", "w5"}, options)[0], translate("w3 w4", options));
  EXPECT_NE(test::message_of([&] { TranslationPipeline(path, {}, "summarization"); }).find("expected translation"),
            std::string::npos);
}

// ---- options of the pipeline

TEST_F(TaskPipelines, PrecisionIsThatOfTheOptions) {
  const std::string path = model(test::kWordBert, "BertForSequenceClassification");
  const double full = TextClassificationPipeline(path)("w3 w4")[0].score;
  const double half = TextClassificationPipeline(path, {.dtype = "bfloat16"})("w3 w4")[0].score;
  const double rounded = TextClassificationPipeline(path, {.quantization = "int8"})("w3 w4")[0].score;
  EXPECT_NE(full, half);
  EXPECT_NEAR(full, half, 0.05);
  EXPECT_NE(full, rounded);
  EXPECT_NE(test::message_of([&] { TextClassificationPipeline(path, {.dtype = "float17"}); }).find("float17"),
            std::string::npos);
  const std::string json_of_half =
      pipeline("text-classification", path, {.dtype = "bfloat16"})("w3 w4", R"({"top_k": 1})");
  EXPECT_EQ(parse_json(json_of_half, "result")[0]["score"].get<double>(), half);
}

TEST_F(TaskPipelines, BatchSizesChangeNoResult) {
  const std::string path = model(test::kWordBert, "BertForSequenceClassification");
  const std::vector<std::string> texts{"w3", "w4 w5 w6", "w7 w8", "w1 w2", "w9"};
  const auto one = TextClassificationPipeline(path).run_all(texts);
  const auto together = TextClassificationPipeline(path, {.batch_size = 3}).run_all(texts);
  const auto as_json = pipeline("text-classification", path, {.batch_size = 4})(texts, R"({"top_k": 1})");
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(one[i][0].label, together[i][0].label);
    EXPECT_NEAR(one[i][0].score, together[i][0].score, 1e-5);
    EXPECT_NEAR(parse_json(as_json[i], "result")[0]["score"].get<double>(), one[i][0].score, 1e-5);
  }
  EXPECT_NE(test::message_of([&] { TextClassificationPipeline(path, {.batch_size = 0}); }).find("batch_size"),
            std::string::npos);
}

TEST_F(TaskPipelines, AProcessComputesOnOneDevice) {
  const std::string path = model(test::kWordBert, "BertForSequenceClassification");
  const std::string in_use = device_name();
  EXPECT_NO_THROW(TextClassificationPipeline(path, {.device = in_use})("w3"));
  EXPECT_THROW(pipeline("text-classification", path, {.device = "nowhere"}), Error);
  std::string other;
  for (const DeviceInfo& device : list_devices())
    if (device.reason.empty() && device.name != in_use && !device.emulated) other = device.name;
  if (other.empty()) GTEST_SKIP() << "there is one device";
  const std::string message = test::message_of([&] { TextClassificationPipeline(path, {.device = other}); });
  EXPECT_NE(message.find("expected " + in_use), std::string::npos) << message;
  EXPECT_EQ(device_name(), in_use);
}

TEST_F(TaskPipelines, RevisionsAreLookedUp) {
  const std::string message = test::message_of([&] {
    TextClassificationPipeline(
        "no-one/no-model",
        {.hub = {.revision = "v9", .cache_dir = (folder_ / "cache").string(), .local_files_only = true}});
  });
  EXPECT_NE(message.find("no-one/no-model"), std::string::npos) << message;
}

TEST_F(TaskPipelines, ThreadsShareAPipeline) {
  const std::string path = model(test::kWordBert, "BertForSequenceClassification");
  const TextClassificationPipeline classify(path);
  std::vector<std::string> texts;
  std::vector<double> alone;
  for (int i = 1; i < 9; ++i) texts.push_back("w" + std::to_string(i) + (i % 2 ? " w3 w4" : ""));
  for (const std::string& text : texts) alone.push_back(classify(text)[0].score);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, copy = classify] {
      for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(copy(texts[i])[0].score, alone[i]);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace transom
