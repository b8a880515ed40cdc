// SPDX-License-Identifier: Apache-2.0
// Language models as rankers: scores of sentence-transformers' CrossEncoder with LogitScore, and the prompt of
// Qwen3-Reranker where a checkpoint says nothing.
#include "work/pipelines/text/writing_ranker.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/writing_ranker.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/task_of_model.h"
#include "work/pipelines/text/pair_ranking.h"

namespace transom {
namespace {

using test::ranker_cases;
using test::small_writer;
using test::write_ranker;

std::vector<double> ranked_scores(const fs::path& folder, const std::string& query,
                                  const std::vector<std::string>& documents, const TaskOptions& options = {}) {
  const auto pipeline = make_pipeline("text-ranking", folder.string());
  const std::vector<TaskResult> results = run_pipeline(*pipeline, {SentencesInput(query, documents)}, options);
  std::vector<double> scores(documents.size());
  double last = INFINITY;
  for (const SentenceMatch& match : std::get<std::vector<SentenceMatch>>(results.at(0))) {
    EXPECT_LE(match.score, last);
    last = scores.at(static_cast<size_t>(match.corpus_id)) = match.score;
  }
  return scores;
}

TEST(WritingRanker, HasTheScoresOfSentenceTransformers) {
  const Json all = ranker_cases();
  const auto documents = all["documents"].get<std::vector<std::string>>();
  for (const auto& [name, about] : all["cases"].items()) {
    SCOPED_TRACE(name);
    const test::TemporaryFolder work;
    const fs::path folder = work.path() / "model";
    fs::copy(small_writer(), folder);
    write_ranker(folder, about);
    EXPECT_EQ(task_of_model(folder.string()), "text-ranking");
    for (const int64_t batch_size : {1, 3}) {
      const std::vector<double> found =
          ranked_scores(folder, all["query"], documents, TaskOptions{{"batch_size", batch_size}});
      const auto expected = about["scores"].get<std::vector<double>>();
      // Sums of a model of 16 numbers in f32.
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << "document " << i;
    }
  }
}

TEST(WritingRanker, APromptStandsInPlaceOfTheCheckpoints) {
  const Json all = ranker_cases(), about = all["cases"]["told"];
  const test::TemporaryFolder work;
  const fs::path folder = work.path() / "model";
  fs::copy(small_writer(), folder);
  write_ranker(folder, about);
  const std::vector<std::string> documents{"Paris", "Rome"};
  const std::string own = about["settings"]["prompts"]["short"];
  const std::vector<double> usual = ranked_scores(folder, "where?", documents);
  EXPECT_EQ(usual, ranked_scores(folder, "where?", documents, TaskOptions{{"prompt", own}}));
  EXPECT_NE(usual, ranked_scores(folder, "where?", documents, TaskOptions{{"prompt", std::string("Be kind.")}}));
}

// The words of Qwen3-Reranker's card, as a template.
constexpr const char* kPublishedTemplate =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a "
    "web "
    "search query, retrieve relevant passages that answer the query\n<Query>: {{ messages[0]['content'] }}\n"
    "<Document>: {{ messages[1]['content'] }}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n{{ '' }}";

TEST(WritingRanker, CutsDocumentsAtMaxLength) {
  const Json all = ranker_cases(), about = all["cases"]["plain"];
  const test::TemporaryFolder work;
  const fs::path folder = work.path() / "model";
  fs::copy(small_writer(), folder);
  write_ranker(folder, about);
  const auto pipeline = make_pipeline("text-ranking", folder.string());
  const auto& ranking = dynamic_cast<const PairRanking&>(*pipeline);
  const std::string query = "where?", start = "Rome Rome Rome", document = start + " Paris Paris Paris";
  const int64_t short_pair = ranking.tokens_of_pair(query, start);
  EXPECT_LT(short_pair, ranking.tokens_of_pair(query, document));
  const auto cut = ranked_scores(folder, query, {document, start}, TaskOptions{{"max_length", short_pair}});
  EXPECT_EQ(cut[0], cut[1]);
  EXPECT_NE(cut[0], ranked_scores(folder, query, {document})[0]);
  EXPECT_NE(test::message_of([&] {
              ranked_scores(folder, query, {start}, TaskOptions{{"max_length", int64_t{0}}});
            }).find("above 0"),
            std::string::npos);
}

TEST(WritingRanker, OfQwensFormIsAskedAsItWasTrained) {
  const test::TemporaryFolder work;
  const fs::path plain = work.path() / "plain", told = work.path() / "told";
  fs::create_directories(plain);
  Model::from_config(R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 367,
      "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
      "intermediate_size": 24, "max_position_embeddings": 1024, "initializer_range": 0.4, "pad_token_id": 360})",
                     {.seed = 5})
      ->save_pretrained(plain.string());
  Json tokenizer = read_json(small_writer() / "tokenizer.json");
  for (const char* word : {"yes", "no", "<think>", "</think>"}) {
    Json token = tokenizer["added_tokens"].back();
    token["id"] = 360 + tokenizer["added_tokens"].size(), token["content"] = word;
    tokenizer["added_tokens"].push_back(token);
  }
  write_file(plain / "tokenizer.json", dump_json(tokenizer));
  fs::copy(small_writer() / "tokenizer_config.json", plain / "tokenizer_config.json");
  // It knows no messages of queries and documents.
  write_file(plain / "chat_template.jinja",
             "{% for m in messages if m['role'] in ['system', 'user', 'assistant'] %}<|im_start|>{{ m['role'] }}\n"
             "{{ m['content'] }}<|im_end|>\n{% endfor %}");
  fs::copy(plain, told);
  Json about = ranker_cases()["cases"]["plain"];
  about["chat_template"] = kPublishedTemplate;
  about["logit_score"] = {{"true_token_id", 363}, {"false_token_id", 364}};
  about["transformer"].erase("processing_kwargs");
  write_ranker(told, about);
  const std::vector<std::string> documents{"Paris is the capital.", "Bread."};
  EXPECT_EQ(ranked_scores(plain, "capital of France", documents), ranked_scores(told, "capital of France", documents));
}

TEST(WritingRanker, WithoutAFormIsRefused) {
  EXPECT_NE(
      test::message_of([] { make_pipeline("text-ranking", small_writer().string()); }).find("no tokens yes and no"),
      std::string::npos);
}

TEST(WritingRanker, AListOfModulesIsReadAsThatOfSentenceModels) {
  const auto refusal = [](const char* modules) {
    const test::TemporaryFolder work;
    const fs::path folder = work.path() / "model";
    fs::copy(small_writer(), folder);
    write_ranker(folder, ranker_cases()["cases"]["plain"]);
    write_file(folder / "modules.json", modules);
    return test::message_of([&] { make_pipeline("text-ranking", folder.string()); });
  };
  EXPECT_NE(refusal(R"([{"type": "sentence_transformers.x.LogitScore", "path": "../1_LogitScore"}])").find("leads out"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"type": "sentence_transformers.x.LogitScore", "path": ""}])").find("a folder of its own"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"type": "sentence_transformers.x.LogitScore", "path": "1_LogitScore", "softness": 1}])")
                .find("'softness'"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"type": "own.LogitScore", "path": "1_LogitScore"}])").find("code of their own"),
            std::string::npos);
}

TEST(WritingRanker, FilesThatSayOtherThingsAreRefused) {
  const auto refusal = [](const char* part, const Json& change) {
    Json about = ranker_cases()["cases"]["plain"];
    about[part].update(change);
    const test::TemporaryFolder work;
    const fs::path folder = work.path() / "model";
    fs::copy(small_writer(), folder);
    write_ranker(folder, about);
    return test::message_of([&] { make_pipeline("text-ranking", folder.string()); });
  };
  EXPECT_NE(refusal("logit_score", {{"true_token_id", 363}}).find("is beyond the model's 363"), std::string::npos);
  EXPECT_NE(refusal("logit_score", {{"true_token_id", "yes"}}).find("expected the id of a token"), std::string::npos);
  EXPECT_NE(refusal("logit_score", {{"softness", 2}}).find("'softness'"), std::string::npos);
  EXPECT_NE(refusal("transformer", {{"transformer_task", "fill-mask"}}).find("is not supported"), std::string::npos);
}

}  // namespace
}  // namespace transom
