// SPDX-License-Identifier: Apache-2.0
// What the pipeline of a Whisper says beside the text.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/model.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

constexpr const char* kWords[] = {
    "<|endoftext|>",    "<|startoftranscript|>", "<|en|>", "<|de|>", "<|transcribe|>", "a", "b", "c", "d",
    "<|notimestamps|>", "<|startofprev|>"};

// A model with random weights that knows two languages.
void write_whisper(const test::TemporaryFolder& folder) {
  Model::from_config(R"({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"],
      "vocab_size": 12, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
      "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "num_mel_bins": 4,
      "max_source_positions": 50, "max_target_positions": 16, "init_std": 0.5, "pad_token_id": 0, "bos_token_id": 0,
      "eos_token_id": 0, "decoder_start_token_id": 1})",
                     {.seed = 5})
      ->save_pretrained(folder.string());
  write_file(folder / "generation_config.json",
             R"({"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "decoder_start_token_id": 1, "max_length": 10,
                 "lang_to_id": {"<|en|>": 2, "<|de|>": 3}, "task_to_id": {"transcribe": 4}, "is_multilingual": true,
                 "no_timestamps_token_id": 9, "suppress_tokens": [0, 1, 2, 3, 4, 9, 10, 11]})");
  write_file(folder / "preprocessor_config.json",
             R"({"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 4, "chunk_length": 1})");
  Json vocabulary = Json::object(), added = Json::array();
  for (int64_t id = 0; id < 11; ++id) {
    vocabulary[kWords[id]] = id;
    if (kWords[id][0] == '<')
      added.push_back({{"id", id},
                       {"content", kWords[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
  }
  const Json tokenizer = {{"version", "1.0"},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", {{"type", "Whitespace"}}},
                          {"post_processor", nullptr},
                          {"decoder", nullptr},
                          {"model", {{"type", "WordLevel"}, {"unk_token", "a"}, {"vocab", vocabulary}}}};
  write_file(folder / "tokenizer.json", dump_json(tokenizer));
}

// The model writes no token of a language: it is told it, or finds it by the first one.
TEST(WhisperRecognition, SaysTheLanguageThatItWasToldOrFound) {
  const test::TemporaryFolder folder;
  write_whisper(folder);
  const auto task = make_pipeline("automatic-speech-recognition", folder.string());
  Json sound = {{"array", Json::array()}, {"sampling_rate", 16000}};
  for (int i = 0; i < 8000; ++i) sound["array"].push_back(std::sin(0.05 * i));
  const auto languages = [&](Json parameters) {
    parameters["return_language"] = true;
    const Json result = run_pipeline(*task, sound, parameters);
    std::vector<std::string> all;
    for (const Json& chunk : result.at("chunks"))
      all.push_back(chunk.at("language").is_null() ? "none" : chunk.at("language").get<std::string>());
    return all;
  };
  EXPECT_EQ(languages({{"language", "de"}}), std::vector<std::string>{"german"});
  EXPECT_EQ(languages({{"language", "english"}}), std::vector<std::string>{"english"});
  const auto found = languages(Json::object());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0] == "german" || found[0] == "english") << found[0];
}

TEST(WhisperRecognition, GoesOnFromAPrompt) {
  const test::TemporaryFolder folder;
  write_whisper(folder);
  const auto task = make_pipeline("automatic-speech-recognition", folder.string());
  Json sound = {{"array", Json::array()}, {"sampling_rate", 16000}};
  for (int i = 0; i < 8000; ++i) sound["array"].push_back(std::sin(0.05 * i));
  const auto text = [&](const std::string& prompt) {
    return run_pipeline(*task, sound, Json{{"language", "en"}, {"prompt", prompt}, {"num_beams", 1}})
        .at("text")
        .get<std::string>();
  };
  const std::string plain = text(" ");
  EXPECT_EQ(run_pipeline(*task, sound, Json{{"language", "en"}, {"num_beams", 1}}).at("text"), plain);
  std::set<std::string> texts;
  for (const char* prompt : {"a", "b c", "d d d d", "c a b d", "a a a a a a a"}) texts.insert(text(prompt));
  EXPECT_GT(texts.size(), 1U);
  // The decoder has 16 places: the last 7 tokens of a prompt count, and what is written has the rest of them.
  EXPECT_EQ(text("b b b b b b b b b b a b c d a b c"), text("a b c d a b c"));
  EXPECT_EQ(test::message_of([&] { text("a <|en|>"); }),
            "parameter prompt: expected text, found the special token '<|en|>'");
}

}  // namespace
}  // namespace transom
