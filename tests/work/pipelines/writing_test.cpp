// SPDX-License-Identifier: Apache-2.0
// The tasks that write, on models made from a configuration with a tokenizer of a few words.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 12,
  "n_positions": 40, "n_embd": 16, "n_layer": 1, "n_head": 2, "initializer_range": 0.6})";
constexpr const char* kT5 = R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 12,
  "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "is_encoder_decoder": true,
  "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1, "initializer_factor": 3,
  "task_specific_params": {"summarization": {"prefix": "w2 ", "max_length": 6, "num_beams": 2},
                           "translation_en_to_fr": {"prefix": "w3 w4 "}}})";

class Writing : public testing::Test {
 protected:
  std::unique_ptr<Pipeline> pipeline(const char* task, const char* config) {
    Model::from_config(config, {.seed = 5})->save_pretrained(folder_.string());
    Json vocabulary = Json::object();
    for (int i = 0; i < 12; ++i) vocabulary["w" + std::to_string(i)] = i;
    const Json tokenizer{{"version", "1.0"},
                         {"added_tokens", Json::array()},
                         {"normalizer", nullptr},
                         {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                         {"post_processor", nullptr},
                         {"decoder", nullptr},
                         {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "w11"}}}};
    write_file(folder_ / "tokenizer.json", dump_json(tokenizer));
    return make_pipeline(task, folder_.string());
  }

  test::TemporaryFolder folder_;
};

TEST_F(Writing, TextGenerationGoesOnWithThePrompt) {
  const auto task = pipeline("text-generation", kGpt2);
  const Json greedy{{"max_new_tokens", 5}, {"do_sample", false}};
  const Json whole = run_pipeline(*task, Json("w3 w4"), greedy);
  ASSERT_EQ(whole.size(), 1U);
  const std::string text = whole[0]["generated_text"];
  EXPECT_TRUE(text.starts_with("w3 w4")) << text;
  Json part = greedy;
  part["return_full_text"] = false;
  EXPECT_EQ("w3 w4" + run_pipeline(*task, Json("w3 w4"), part)[0]["generated_text"].get<std::string>(), text);
  Json ids = greedy;
  ids["return_tensors"] = true;
  EXPECT_EQ(run_pipeline(*task, Json("w3 w4"), ids)[0]["generated_token_ids"].size(), 7U);
  // The options of generate() may stand in an object of their own.
  EXPECT_EQ(run_pipeline(*task, Json("w3 w4"), Json{{"generate_kwargs", greedy}}), whole);
  // Several prompts: a list of results each; several texts: so many in the list.
  const Json beams{{"max_new_tokens", 4}, {"do_sample", false}, {"num_beams", 3}, {"num_return_sequences", 2}};
  const std::vector<Json> both = run_pipeline(*task, std::vector<Json>{"w3", "w5 w6"}, beams);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[1].size(), 2U);
}

TEST_F(Writing, TextGenerationSamplesUnlessToldNotTo) {
  const auto task = pipeline("text-generation", kGpt2);
  const Json other = run_pipeline(*task, Json("w3 w4"), Json{{"max_new_tokens", 30}, {"seed", 1}});
  EXPECT_NE(other, run_pipeline(*task, Json("w3 w4"), Json{{"max_new_tokens", 30}, {"seed", 2}}));
  EXPECT_EQ(other, run_pipeline(*task, Json("w3 w4"), Json{{"max_new_tokens", 30}, {"seed", 1}}));
}

TEST_F(Writing, TextGenerationEndsAtAStopString) {
  const auto task = pipeline("text-generation", kGpt2);
  Json parameters{{"max_new_tokens", 30}, {"do_sample", false}, {"return_full_text", false}};
  const std::string free = run_pipeline(*task, Json("w3 w4"), parameters)[0]["generated_text"];
  const std::string word = free.substr(free.rfind('w'));
  parameters["stop"] = {word};
  const std::string stopped = run_pipeline(*task, Json("w3 w4"), parameters)[0]["generated_text"];
  EXPECT_TRUE(free.starts_with(stopped));
  EXPECT_EQ(stopped.find(word) + word.size(), stopped.size()) << stopped << " of " << free;
}

TEST_F(Writing, TextGenerationAnswersInChats) {
  const auto without = pipeline("text-generation", kGpt2);
  const Json chat = {{{"role", "user"}, {"content", "w3"}}, {{"role", "assistant"}, {"content", "w4"}}};
  const Json greedy{{"max_new_tokens", 3}, {"do_sample", false}};
  EXPECT_NE(test::message_of([&] { run_pipeline(*without, chat, greedy); }), "");  // it has no template
  write_file(folder_ / "tokenizer_config.json",
             R"({"chat_template": "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}{% if )"
             R"(add_generation_prompt %}w5 {% endif %}"})");
  const auto task = make_pipeline("text-generation", folder_.string());
  const auto text = [&](const char* prompt) {
    Json part = greedy;
    part["return_full_text"] = false;
    return run_pipeline(*task, Json(prompt), part)[0]["generated_text"].get<std::string>();
  };
  const Json asked = run_pipeline(*task, Json::array({chat[0]}), greedy);
  const Json expected = {chat[0], {{"role", "assistant"}, {"content", text("w3 w5")}}};
  EXPECT_EQ(asked[0]["generated_text"], expected) << dump_json(asked);
  // The assistant's own message goes on.
  const Json continued = run_pipeline(*task, chat, greedy);
  EXPECT_EQ(continued[0]["generated_text"][1]["content"], "w4" + text("w3 w4")) << dump_json(continued);
}

TEST_F(Writing, EncoderDecodersNameTheirResults) {
  for (const auto& [name, key] :
       {std::pair{"text2text-generation", "generated_text"}, std::pair{"summarization", "summary_text"},
        std::pair{"translation", "translation_text"}}) {
    const auto task = pipeline(name, kT5);
    const Json one = run_pipeline(*task, Json("w5 w6"), Json{{"max_new_tokens", 5}});
    ASSERT_TRUE(one.is_array() && one.size() == 1 && one[0].contains(key)) << dump_json(one);
    // Several texts with one result each: one flat list.
    const auto both = run_pipeline(*task, std::vector<Json>{"w5 w6", "w7"}, Json{{"max_new_tokens", 5}});
    EXPECT_EQ(both[0], one[0]);
  }
}

TEST_F(Writing, TasksHaveTheirPrefixesAndOptions) {
  const auto ids = [&](const char* task, const char* text, const Json& parameters) {
    Json all = parameters;
    all["return_tensors"] = true;
    const Json result = run_pipeline(*pipeline(task, kT5), Json(text), all)[0];
    return result.begin().value();
  };
  const Json five{{"max_new_tokens", 5}, {"num_beams", 1}};
  EXPECT_EQ(ids("translation_en_to_fr", "w5 w6", five), ids("translation", "w3 w4 w5 w6", five));
  EXPECT_EQ(ids("summarization", "w5 w6", five), ids("translation", "w2 w5 w6", five));
  // The configuration's max_length of this task, not the pipeline's default.
  EXPECT_LE(ids("summarization", "w5 w6", Json::object()).size(), 6U);
}

TEST_F(Writing, WrongRequestsAreNamed) {
  const auto task = pipeline("text-generation", kGpt2);
  const auto message = [&](const Json& input, const Json& parameters) {
    return test::message_of([&] { run_pipeline(*task, input, parameters); });
  };
  EXPECT_NE(message("w1", Json{{"max_new_token", 5}}).find("did you mean 'max_new_tokens'"), std::string::npos);
  EXPECT_NE(message("w1", Json{{"generate_kwargs", {{"beams", 5}}}}).find("beams"), std::string::npos);
  EXPECT_NE(message(Json{{"question", "w1"}}, Json::object()), "");
  EXPECT_TRUE(is_one_input(task->record(), Json{{{"role", "user"}, {"content", "w1"}}}));
}

}  // namespace
}  // namespace transom
