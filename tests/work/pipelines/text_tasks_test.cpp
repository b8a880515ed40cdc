// SPDX-License-Identifier: Apache-2.0
// The tasks that read texts, on small models with a WordPiece or a plain tokenizer: what their options do, and that
// batches change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

class TextTasks : public testing::Test {
 protected:
  // A BERT with the head of `architecture`, whose words are a, b, c, and d with its continuation ##e.
  std::unique_ptr<Pipeline> pipeline(const char* task, const std::string& architecture, int64_t positions = 32) {
    const Json config{{"model_type", "bert"},
                      {"architectures", {architecture}},
                      {"vocab_size", 10},
                      {"hidden_size", 8},
                      {"num_hidden_layers", 1},
                      {"num_attention_heads", 2},
                      {"intermediate_size", 6},
                      {"initializer_range", 0.7},
                      {"max_position_embeddings", positions},
                      {"id2label", {{"0", "B-X"}, {"1", "I-X"}, {"2", "entailment"}}}};
    Model::from_config(dump_json(config), {.seed = 3})->save_pretrained(folder_.string());
    Json vocabulary = Json::object(), special = Json::array();
    int64_t next = 0;
    for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "##e"}) {
      if (token[0] == '[')
        special.push_back({{"id", next},
                           {"content", token},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", true}});
      vocabulary[token] = next++;
    }
    const Json tokenizer{
        {"version", "1.0"},
        {"added_tokens", special},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
        {"post_processor",
         {{"type", "BertProcessing"}, {"sep", Json::array({"[SEP]", 3})}, {"cls", Json::array({"[CLS]", 2})}}},
        {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
        {"model",
         {{"type", "WordPiece"}, {"vocab", vocabulary}, {"unk_token", "[UNK]"}, {"continuing_subword_prefix", "##"}}}};
    write_file(folder_ / "tokenizer.json", dump_json(tokenizer));
    write_file(folder_ / "tokenizer_config.json",
               R"({"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]", "cls_token": "[CLS]",
                   "sep_token": "[SEP]"})");
    return make_pipeline(task, folder_.string());
  }

  static Json all(const Pipeline& pipeline, const std::vector<Json>& inputs, const Json& parameters) {
    return Json(run_pipeline(pipeline, inputs, parameters));
  }
  // The same structure with numbers that differ in their last digits at most.
  static bool near(const Json& a, const Json& b) {
    if (a.is_number_float() && b.is_number_float()) return std::abs(a.get<double>() - b.get<double>()) < 1e-5;
    if (a.type() != b.type() || a.size() != b.size()) return false;
    if (a.is_object()) {
      for (const auto& [key, value] : a.items())
        if (!b.contains(key) || !near(value, b[key])) return false;
      return true;
    }
    if (!a.is_array()) return a == b;
    for (size_t i = 0; i < a.size(); ++i)
      if (!near(a[i], b[i])) return false;
    return true;
  }

  test::TemporaryFolder folder_;
};

TEST_F(TextTasks, BatchesGiveWhatSingleTextsGive) {
  const std::vector<Json> texts{"a b", "c", "de a b c", "b b"};
  const auto same = [&](const Pipeline& task, Json parameters) {
    const Json alone = all(task, texts, parameters);
    for (const int64_t size : {int64_t{3}, INT64_MAX}) {
      parameters["batch_size"] = size;
      EXPECT_TRUE(near(all(task, texts, parameters), alone)) << dump_json(alone);
    }
  };
  same(*pipeline("text-classification", "BertForSequenceClassification"), {{"top_k", nullptr}});
  same(*pipeline("token-classification", "BertForTokenClassification"), {{"aggregation_strategy", "simple"}});
  same(*pipeline("zero-shot-classification", "BertForSequenceClassification"), {{"candidate_labels", {"a", "b c"}}});
  same(*pipeline("feature-extraction", "BertModel"), Json::object());
  const auto answers = pipeline("question-answering", "BertForQuestionAnswering");
  const Json asked{{"question", "a"}, {"context", "a b c de a b c de a b"}};
  Json options{{"max_seq_len", 8}, {"doc_stride", 2}, {"top_k", 3}};
  const Json alone = run_pipeline(*answers, asked, options);
  options["batch_size"] = 2;
  EXPECT_TRUE(near(run_pipeline(*answers, asked, options), alone));
  options["batch_size"] = 0;
  EXPECT_NE(test::message_of([&] { run_pipeline(*answers, asked, options); }).find("batch_size"), std::string::npos);
}

// pipeline() gives a list for one text, a list for a list, and lists of lists with top_k.
TEST_F(TextTasks, ClassesComeInTransformersStructure) {
  const auto task = pipeline("text-classification", "BertForSequenceClassification");
  EXPECT_TRUE(run_pipeline(*task, Json("a"), Json::object()).is_array());
  EXPECT_TRUE(run_pipeline(*task, Json{{"text", "a"}}, Json::object()).is_object());
  EXPECT_TRUE(all(*task, {"a", "b"}, Json::object())[0].is_object());
  EXPECT_EQ(all(*task, {"a", "b"}, {{"top_k", 2}})[1].size(), 2u);
}

TEST_F(TextTasks, TextsAreCutWhereAsked) {
  const auto task = pipeline("text-classification", "BertForSequenceClassification");
  const Json cut{{"truncation", true}, {"max_length", 4}};
  EXPECT_TRUE(near(run_pipeline(*task, Json("a b c de"), cut), run_pipeline(*task, Json("a b"), Json::object())));
  EXPECT_FALSE(
      near(run_pipeline(*task, Json("a b c de"), Json::object()), run_pipeline(*task, Json("a b"), Json::object())));
  EXPECT_NE(test::message_of([&] {
              run_pipeline(*task, Json("a"), {{"truncation", "sideways"}});
            }).find("sideways"),
            std::string::npos);
}

// Nothing is cut that nobody asks for: what has no place is refused, as Transformers' models do it less clearly.
TEST_F(TextTasks, LongTextsAreRefusedOrCutAsAsked) {
  std::string words = "a";
  for (int i = 0; i < 40; ++i) words += " b";
  const auto message = [&](const Pipeline& task, const Json& parameters) {
    return test::message_of([&] { run_pipeline(task, Json(words + " [MASK]"), parameters); });
  };
  const Json cut{{"truncation", true}};
  for (const auto& [name, architecture] : {std::pair("text-classification", "BertForSequenceClassification"),
                                           std::pair("feature-extraction", "BertModel")}) {
    const auto task = pipeline(name, architecture);
    for (const Json& whole : {Json::object(), Json{{"truncation", false}}, Json{{"truncation", "do_not_truncate"}}})
      EXPECT_NE(message(*task, whole).find("44 tokens, and the model takes at most 32"), std::string::npos) << name;
    EXPECT_EQ(message(*task, cut), "") << name;
  }
  const auto task = pipeline("text-classification", "BertForSequenceClassification");
  EXPECT_NE(message(*task, {{"truncation_side", "left"}}).find("has no effect without truncation"), std::string::npos);
  EXPECT_NE(message(*task, {{"truncation", false}, {"max_length", 4}}).find("max_length: has no effect"),
            std::string::npos);
  // As in Transformers, the length alone asks for truncation.
  EXPECT_EQ(message(*task, {{"max_length", 4}}), "");
  const auto masked = pipeline("fill-mask", "BertForMaskedLM");
  EXPECT_NE(message(*masked, Json::object()).find("tokenizer_kwargs"), std::string::npos);
  EXPECT_NE(message(*masked, {{"tokenizer_kwargs", {{"stride", 2}}}}).find("'stride' is not supported"),
            std::string::npos);
}

TEST_F(TextTasks, WhatIsReadOfALongTextIsSaidOnce) {
  std::string said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) said += text;
  });
  std::string words = "a";
  for (int i = 0; i < 40; ++i) words += " b";
  const auto task = pipeline("token-classification", "BertForTokenClassification");
  run_pipeline(*task, Json("a b"), Json::object());
  EXPECT_EQ(said, "");
  run_pipeline(*task, Json(words), Json::object());
  run_pipeline(*task, Json(words), Json::object());
  set_log_sink({});
  EXPECT_EQ(said,
            "of a long text only the first 32 tokens are read; stride with an aggregation_strategy reads all of it");
}

// For each option of each task a value is found that changes a result, or is refused.
TEST_F(TextTasks, EachOptionHasAnEffectOrIsRefused) {
  std::string long_text = "a";
  for (int i = 0; i < 40; ++i) long_text += " b";
  struct Subject {
    const char *task, *architecture;
    std::vector<Json> inputs;
    Json base;
  };
  const Json question{{"question", "a"}, {"context", "a b c de a b c de a b"}};
  const std::vector<Subject> subjects{
      {"text-classification", "BertForSequenceClassification", {"a de b", long_text}, Json::object()},
      {"token-classification", "BertForTokenClassification", {"a de b c"}, {{"ignore_labels", Json::array()}}},
      {"question-answering", "BertForQuestionAnswering", {question}, {{"max_seq_len", 12}, {"top_k", 20}}},
      {"fill-mask", "BertForMaskedLM", {"a [MASK] b"}, Json::object()},
      {"feature-extraction", "BertModel", {"a de b", long_text}, Json::object()},
      {"feature-extraction", "BertModel", {"a de b"}, {{"pooling", "auto"}}},
      {"sentence-similarity",
       "BertModel",
       {{{"source_sentence", "a b"}, {"sentences", {"a de", "c", "b"}}}},
       Json::object()},
      {"zero-shot-classification", "BertForSequenceClassification", {"a de b"}, {{"candidate_labels", {"a", "b c"}}}},
  };
  const std::vector<std::string> of_nature{"padding"};  // a text has the numbers that it has alone
  for (const Subject& subject : subjects) {
    const auto task = pipeline(subject.task, subject.architecture);
    const auto outcome = [&](const Json& parameters) {
      std::string all;
      for (const Json& input : subject.inputs) {
        const std::string refused = test::message_of([&] { all += dump_json(run_pipeline(*task, input, parameters)); });
        all += refused;
      }
      return all;
    };
    const std::string usual = outcome(subject.base);
    for (const TaskParameter& parameter : need_task(subject.task).parameters()) {
      if (std::find(of_nature.begin(), of_nature.end(), parameter.name) != of_nature.end()) continue;
      std::vector<Json> values{true,
                               false,
                               1,
                               2,
                               3,
                               0.5,
                               "a",
                               "c {}.",
                               Json::array({"a", "b"}),
                               Json::array({"B-X"}),
                               Json{{"truncation", true}},
                               Json{{"unknown", 1}},
                               Json{{"add_special_tokens", false}}};
      values.insert(values.end(), parameter.choices.begin(), parameter.choices.end());
      bool changes = false;
      for (const Json& value : values) {
        if (!test::message_of([&] { check_parameter(parameter, value_of_json(parameter, value)); }).empty()) continue;
        Json with = subject.base;
        with[parameter.name] = value;
        changes = changes || outcome(with) != usual;
      }
      EXPECT_TRUE(changes) << subject.task << ": " << parameter.name;
    }
  }
}

TEST_F(TextTasks, AListOfOneMaskedTextCountsAsTheText) {
  const auto task = pipeline("fill-mask", "BertForMaskedLM");
  const Json alone = run_pipeline(*task, Json("a [MASK]"), {{"top_k", 2}});
  EXPECT_EQ(joined_results(task->record(), run_pipeline(*task, std::vector<Json>{"a [MASK]"}, {{"top_k", 2}})), alone);
  EXPECT_EQ(
      joined_results(task->record(), run_pipeline(*task, std::vector<Json>{"a [MASK]", "b [MASK]"}, {{"top_k", 2}}))
          .size(),
      2u);
}

TEST_F(TextTasks, UnknownWordsStandAsTheyWereWritten) {
  const auto task = pipeline("token-classification", "BertForTokenClassification");
  for (const char* strategy : {"first", "average", "max"}) {
    std::string words;
    for (const Json& entity : run_pipeline(*task, Json("a Zürich de b"),
                                           {{"aggregation_strategy", strategy}, {"ignore_labels", Json::array()}}))
      words += entity["word"].get<std::string>() + " ";
    EXPECT_NE(words.find("Zürich"), std::string::npos) << strategy << ": " << words;
    EXPECT_EQ(words.find("[UNK]"), std::string::npos) << strategy << ": " << words;
    EXPECT_EQ(words.find("##"), std::string::npos) << strategy << ": " << words;
  }
}

TEST_F(TextTasks, WordsThatAreCutAlreadyKeepTheirPlaces) {
  const auto task = pipeline("token-classification", "BertForTokenClassification");
  const Json options{{"is_split_into_words", true}, {"delimiter", "--"}, {"ignore_labels", Json::array()}};
  const Json result = all(*task, {"a", "de", "b"}, options);  // one text of three words
  ASSERT_EQ(result.size(), 1u);
  ASSERT_EQ(result[0].size(), 4u);
  EXPECT_EQ(result[0][1]["start"], 3);  // a--de--b
  EXPECT_EQ(result[0][2]["word"], "##e");
  EXPECT_EQ(result[0][2]["end"], 5);
  EXPECT_EQ(result[0][3]["start"], 7);
  EXPECT_NE(test::message_of([&] { run_pipeline(*task, Json("a b"), options); }).find("a list of words"),
            std::string::npos);
}

TEST_F(TextTasks, LongTextsAreTaggedInWindows) {
  const auto task = pipeline("token-classification", "BertForTokenClassification", 8);
  const Json options{{"aggregation_strategy", "simple"}, {"stride", 2}, {"ignore_labels", Json::array()}};
  const Json entities = run_pipeline(*task, Json("a b c a b c a b c a b c a"), options);
  ASSERT_FALSE(entities.empty());
  EXPECT_EQ(entities.back()["end"], 25);
  for (size_t i = 1; i < entities.size(); ++i) EXPECT_GE(entities[i]["start"], entities[i - 1]["end"]);
  EXPECT_NE(test::message_of([&] {
              run_pipeline(*task, Json("a"), {{"stride", 2}});
            }).find("aggregation_strategy"),
            std::string::npos);
}

TEST_F(TextTasks, ShortModelsAnswerQuestions) {
  const auto task = pipeline("question-answering", "BertForQuestionAnswering", 48);
  std::string context;
  for (int i = 0; i < 60; ++i) context += i % 3 ? "a b " : "c de ";
  const Json asked{{"question", "a"}, {"context", context}};
  const Json answer = run_pipeline(*task, asked, Json::object());
  EXPECT_TRUE(answer.contains("answer")) << dump_json(answer);
  // The default is what Transformers 4 takes: half of the length.
  EXPECT_TRUE(near(answer, run_pipeline(*task, asked, {{"doc_stride", 24}})));
}

TEST_F(TextTasks, ValuesOfAnotherTypeAreNamed) {
  const auto task = pipeline("text-classification", "BertForSequenceClassification");
  const auto message = [&](const Json& parameters) {
    return test::message_of([&] { run_pipeline(*task, Json("a"), parameters); });
  };
  EXPECT_EQ(message({{"top_k", "three"}}), "parameter top_k: expected a whole number, found '\"three\"'");
  EXPECT_EQ(message({{"function_to_apply", "tanh"}}),
            "parameter function_to_apply: expected one of softmax, sigmoid, none, found '\"tanh\"'");
  EXPECT_EQ(message({{"return_all_scores", 1}}), "parameter return_all_scores: expected true or false, found '1'");
  EXPECT_EQ(message({{"top_k", nullptr}}), "");
}

// Nothing is shortened then, as in Transformers, up to what the model has positions for.
TEST_F(TextTasks, ZeroShotReadsWholePairsWhoseLabelAloneIsTooLong) {
  const auto ranked = [&](const std::string& text, const std::string& label) {
    const auto task = make_pipeline("zero-shot-classification", folder_.string());
    return all(*task, {text}, {{"candidate_labels", {label}}, {"hypothesis_template", "{}"}})[0];
  };
  pipeline("zero-shot-classification", "BertForSequenceClassification");
  const Json whole = ranked("a b c", "b c a d b c"), part = ranked("a", "b c");
  const std::string known = read_file(folder_ / "tokenizer_config.json");
  write_file(folder_ / "tokenizer_config.json", known.substr(0, known.rfind('}')) + R"(, "model_max_length": 6})");
  EXPECT_EQ(ranked("a b c", "b c a d b c"), whole);  // 12 tokens, of which the text has 3
  EXPECT_EQ(ranked("a b c", "b c")["scores"], part["scores"]);
  pipeline("zero-shot-classification", "BertForSequenceClassification", 8);
  const std::string refusal = test::message_of([&] { ranked("a b c", "b c a d b c"); });
  EXPECT_NE(refusal.find("has 12 tokens, and the model takes at most 8"), std::string::npos) << refusal;
}

TEST_F(TextTasks, ZeroShotSaysThatNoLabelIsEntailment) {
  std::string said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) said += text;
  });
  pipeline("zero-shot-classification", "BertForSequenceClassification");
  EXPECT_EQ(said, "");
  Json config = read_json(folder_ / "config.json");
  config["id2label"] = {{"0", "yes"}, {"1", "no"}, {"2", "maybe"}};
  config.erase("label2id");
  write_file(folder_ / "config.json", dump_json(config));
  make_pipeline("zero-shot-classification", folder_.string());
  set_log_sink({});
  EXPECT_NE(said.find("no label of the model begins with \"entail\" (its labels: yes, no, maybe)"), std::string::npos)
      << said;
}

}  // namespace
}  // namespace transom
