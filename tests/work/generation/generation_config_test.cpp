// SPDX-License-Identifier: Apache-2.0
// The options of generation by their names in Transformers.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "work/generation/generation_fields.h"

namespace transom {
namespace {

TEST(GenerationConfig, TakesFieldsByName) {
  GenerationConfig config;
  config.update(R"({"num_beams": 4, "eos_token_id": [5, 6], "early_stopping": "never", "stop_strings": "end",
                    "forced_eos_token_id": 7, "length_penalty": 2, "bad_words_ids": [[1], [2, 3]]})");
  EXPECT_EQ(config.num_beams, 4);
  EXPECT_EQ(config.eos_token_id, (TokenIds{5, 6}));
  EXPECT_EQ(config.early_stopping, GenerationConfig::EarlyStopping::kNever);
  EXPECT_EQ(config.stop_strings, std::vector<std::string>{"end"});
  EXPECT_EQ(config.forced_eos_token_id, TokenIds{7});
  EXPECT_EQ(config.length_penalty, 2);
  EXPECT_EQ(config.bad_words_ids, (std::vector<TokenIds>{{1}, {2, 3}}));
  config.update(R"({"num_beams": null, "eos_token_id": null, "top_k": null})");
  EXPECT_EQ(config.num_beams, 1);
  EXPECT_TRUE(config.eos_token_id.empty());
  EXPECT_EQ(config.top_k, 0);  // without a limit, though there is one by default
}

TEST(GenerationConfig, RefusesByName) {
  const auto message = [](const char* options) {
    return test::message_of([&] { GenerationConfig().update(options); });
  };
  EXPECT_NE(message(R"({"num_beam": 4})").find("did you mean 'num_beams'"), std::string::npos);
  EXPECT_NE(message(R"({"penalty_alpha": 0.6})").find("penalty_alpha"), std::string::npos);
  EXPECT_NE(message(R"({"num_beams": "four"})").find("num_beams: expected a whole number"), std::string::npos);
  EXPECT_NE(message(R"({"early_stopping": "sometimes"})").find("early_stopping"), std::string::npos);
  EXPECT_NE(message(R"({"bad_words_ids": [[]]})").find("bad_words_ids"), std::string::npos);
}

TEST(GenerationConfig, PassesOverWhatSaysHowAndNotWhat) {
  GenerationConfig config;
  config.update(R"({"cache_implementation": "static", "num_beam_groups": 1, "low_memory": false,
                    "penalty_alpha": null})");
  EXPECT_EQ(config.num_beams, 1);
}

TEST(GenerationConfig, TakesWordsOfACommandLine) {
  GenerationConfig config;
  set_generation_field(config, "do_sample", "True");
  set_generation_field(config, "eos_token_id", "5,6");
  set_generation_field(config, "suppress_tokens", "[1, 2]");
  set_generation_field(config, "early_stopping", "never");
  set_generation_field(config, "stop_strings", "42");
  set_generation_field(config, "temperature", "0.5");
  set_generation_field(config, "max_new_tokens", "None");
  EXPECT_TRUE(config.do_sample);
  EXPECT_EQ(config.eos_token_id, (TokenIds{5, 6}));
  EXPECT_EQ(config.suppress_tokens, (TokenIds{1, 2}));
  EXPECT_EQ(config.early_stopping, GenerationConfig::EarlyStopping::kNever);
  EXPECT_EQ(config.stop_strings, std::vector<std::string>{"42"});
  EXPECT_EQ(config.temperature, 0.5);
  EXPECT_FALSE(config.max_new_tokens);
  EXPECT_THROW(set_generation_field(config, "num_beams", "x"), Error);
}

TEST(GenerationConfig, KnowsWhatChangesNothing) {
  GenerationConfig config{.num_beams = 1, .length_penalty = 2, .temperature = 0.5, .top_p = 0.9};
  EXPECT_EQ(why_without_effect(config, "temperature"), "has no effect without do_sample");
  EXPECT_EQ(why_without_effect(config, "top_p"), "has no effect without do_sample");
  EXPECT_EQ(why_without_effect(config, "length_penalty"), "has no effect without num_beams above 1");
  EXPECT_EQ(why_without_effect(config, "min_p"), "");
  EXPECT_EQ(why_without_effect(config, "seed"), "");
  config.do_sample = true;
  config.num_beams = 2;
  for (const char* name : {"temperature", "top_p", "length_penalty"}) EXPECT_EQ(why_without_effect(config, name), "");
  config.do_sample = false;
  config.temperature = 0;  // as servers have it for the likeliest token
  EXPECT_EQ(why_without_effect(config, "temperature"), "");
}

TEST(GenerationConfig, ComesFromItsOwnFileOrTheModels) {
  const test::TemporaryFolder folder;
  write_file(folder / "config.json",
             R"({"model_type": "gpt2", "eos_token_id": 3, "num_beams": 2, "vocab_size": 9, "max_length": 30})");
  EXPECT_EQ(GenerationConfig::from_pretrained(folder.string()).num_beams, 2);
  EXPECT_EQ(GenerationConfig::from_pretrained(folder.string()).max_length, 30);
  write_file(folder / "generation_config.json", R"({"eos_token_id": [4, 5], "alignment_heads": [[1, 2]]})");
  const GenerationConfig config = GenerationConfig::from_pretrained(folder.string());
  EXPECT_EQ(config.num_beams, 1);
  EXPECT_EQ(config.eos_token_id, (TokenIds{4, 5}));
  write_file(folder / "generation_config.json", R"({"top_p": "high"})");
  const std::string message = test::message_of([&] { GenerationConfig::from_pretrained(folder.string()); });
  EXPECT_NE(message.find("generation_config.json"), std::string::npos) << message;
  EXPECT_NE(message.find("top_p"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
