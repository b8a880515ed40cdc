// SPDX-License-Identifier: Apache-2.0
// Every field of the interfaces' official clients, path by path: it changes the answer, is refused by its name, or is
// said to have no effect (tests/wild/serve: 09-fields-read-and-dropped).
#include "apps/serve/api/known_fields.h"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <set>

#include "apps/serve/golden_server.h"
#include "base/files/files.h"
#include "support/temporary_folder.h"
#include "support/word_models.h"
#include "transom/log.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

constexpr const char* kTemplate =
    R"({"chat_template": "{% if enable_thinking is defined %}w9 {% endif %}{% if reasoning_effort %}w8 {% endif %}{% if tools %}w7 {% endif %}{% if documents %}w6 {% endif %}{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"})";

class KnownFields : public testing::Test {
 protected:
  KnownFields() {
    test::save_word_model(writer_, test::kWordGpt2, "", kTemplate);
    test::save_word_model(encoder_, test::kWordBert, "BertModel");
    test::save_word_model(classifier_, test::kWordBert, "BertForSequenceClassification");
    set_log_sink([this](LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex_);
      log_ += std::string(text) + "\n";
    });
    server_ = test::start_server(
        {.models = {{"words", writer_.string()}, {"vectors", encoder_.string()}, {"classes", classifier_.string()}}});
  }
  ~KnownFields() override {
    server_.reset();
    set_log_sink({});
  }

  struct Field {
    const char* name;  // a/b: b within the object a
    Json value;
  };

  static Json with(Json body, const std::string& name, const Json& value) {
    const size_t slash = name.find('/');
    if (slash == name.npos) body[name] = value;
    else body[name.substr(0, slash)][name.substr(slash + 1)] = value;
    return body;
  }

  // What the answer says, without times and names that are new each time.
  static std::string said(const Answer& answer) {
    std::string text;
    const Json json = Json::parse(answer.body, nullptr, false);
    const std::function<void(const Json&)> add = [&](const Json& part) {
      if (!part.is_structured()) text += part.dump() + " ";
      for (const auto& [name, value] : part.items()) {
        static const std::set<std::string> kNew{
            "id",   "created",      "created_at", "total_duration", "eval_duration", "prompt_eval_duration",
            "seed", "cached_tokens"};
        if (!part.is_structured() || kNew.contains(name)) continue;
        text += name + ":";
        add(value);
      }
    };
    if (json.is_discarded()) return answer.body.find("usage") != std::string::npos ? "stream with usage" : "stream";
    add(json);
    return text;
  }

  void expect_no_field_is_dropped(const std::string& path, const Json& base, const std::vector<Field>& fields) {
    const auto ask = [&](const Json& body) { return Client(server_->port()).post(path, dump_json(body)); };
    const Answer plain = ask(base);
    ASSERT_EQ(plain.status, 200) << path << plain.body;
    for (const Field& field : fields) {
      const std::string name = field.name;
      const std::string last = name.substr(name.find('/') == name.npos ? 0 : name.find('/') + 1);
      const Answer answer = ask(with(base, name, field.value));
      if (answer.status == 400) {
        EXPECT_NE(answer.body.find(last), std::string::npos) << path << " " << name << answer.body;
        continue;
      }
      // The model has no end and few words: a form that it cannot write ends the text so.
      if (answer.status == 500 && answer.body.find("constraint: ") != std::string::npos) continue;
      ASSERT_EQ(answer.status, 200) << path << " " << name << answer.body;
      if (said(answer) != said(plain)) continue;
      const std::lock_guard lock(mutex_);
      std::string dotted = name;
      std::replace(dotted.begin(), dotted.end(), '/', '.');
      bool known = log_.find(last) != std::string::npos;
      for (const serve::KnownField& each : serve::known_fields())
        known = known || (each.name == dotted && each.what != serve::KnownField::kRefused);
      EXPECT_TRUE(known) << path << ": " << name << " is read and dropped: " << answer.body;
    }
  }

  test::TemporaryFolder writer_, encoder_, classifier_;
  std::mutex mutex_;
  std::string log_;  // since the begin: each field is named once
  std::unique_ptr<serve::Server> server_;
};

const Json kFunction{{"name", "f"}, {"parameters", {{"type", "object"}}}};
const Json kTool{{"type", "function"}, {"function", kFunction}};

TEST_F(KnownFields, OfOpenAiAndVllmForCompletions) {
  const Json base{{"model", "words"}, {"prompt", "w1 w2"}, {"max_tokens", 4}, {"temperature", 0}, {"seed", 3}};
  const Json all = json_of(Client(server_->port()).post("/v1/completions", dump_json(base)));
  const std::string text = all["choices"][0]["text"];
  const std::string second = text.substr(text.size() / 2);
  expect_no_field_is_dropped("/v1/completions", base,
                             {{"best_of", 2},
                              {"echo", true},
                              {"frequency_penalty", 2},
                              {"logit_bias", {{"3", 100}}},
                              {"logprobs", 2},
                              {"max_tokens", 2},
                              {"n", 2},
                              {"presence_penalty", 2},
                              {"prompt", "w5"},
                              {"stop", second},
                              {"stream", true},
                              {"suffix", "w1"},
                              {"temperature", 1.9},
                              {"user", "u"},
                              // vLLM
                              {"length_penalty", 3},
                              {"early_stopping", true},
                              {"repetition_penalty", 50},
                              {"stop_token_ids", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
                              {"min_tokens", 5},
                              {"spaces_between_special_tokens", false},
                              {"truncate_prompt_tokens", 1},
                              {"allowed_token_ids", {1}},
                              {"prompt_logprobs", 1},
                              {"response_format", {{"type", "json_object"}}},
                              {"guided_choice", {"w1 w1", "w2"}},
                              {"structured_outputs", {{"choice", {"w3"}}}},
                              {"structured_outputs/structural_tag", "x"},
                              {"priority", 1},
                              {"request_id", "r"},
                              {"logits_processors", {"x"}},
                              {"return_tokens_as_token_ids", true},
                              {"return_token_ids", true},
                              {"kv_transfer_params", {{"a", 1}}},
                              {"vllm_xargs", {{"a", 1}}},
                              {"bad_words", {text}},
                              {"guided_decoding_backend", "x"},
                              {"unheard_of", 1}});
  const Json stream = with(base, "stream", true);
  expect_no_field_is_dropped("/v1/completions", stream,
                             {{"stream_options/include_usage", true},
                              {"stream_options/continuous_usage_stats", true},
                              {"stream_options/include_obfuscation", true},
                              {"prompt_logprobs", 1}});
  expect_no_field_is_dropped("/v1/completions", base, {{"stream_options/include_usage", true}});
}

TEST_F(KnownFields, OfOpenAiAndVllmForChats) {
  const Json base{{"model", "words"},
                  {"messages", {{{"role", "user"}, {"content", "w1 w2"}}}},
                  {"max_tokens", 4},
                  {"temperature", 0},
                  {"seed", 3}};
  const Json all = json_of(Client(server_->port()).post("/v1/chat/completions", dump_json(base)));
  const std::string text = all["choices"][0]["message"]["content"];
  Json with_logprobs = base;
  with_logprobs["logprobs"] = true;
  Json with_tools = base;
  with_tools["tools"] = {kTool};
  expect_no_field_is_dropped("/v1/chat/completions", base,
                             {{"audio", {{"voice", "x"}}},
                              {"frequency_penalty", 2},
                              {"functions", {kFunction}},
                              {"logit_bias", {{"3", 100}}},
                              {"logprobs", true},
                              {"max_completion_tokens", 2},
                              {"max_tokens", 2},
                              {"metadata", {{"a", "b"}}},
                              {"modalities", {"text", "audio"}},
                              {"moderation", {{"a", 1}}},
                              {"n", 2},
                              {"prediction", {{"type", "content"}}},
                              {"presence_penalty", 2},
                              {"prompt_cache_key", "k"},
                              {"prompt_cache_options", {{"a", 1}}},
                              {"prompt_cache_retention", "24h"},
                              {"reasoning_effort", "high"},
                              {"response_format", {{"type", "json_object"}}},
                              {"safety_identifier", "s"},
                              {"service_tier", "flex"},
                              {"stop", text.substr(text.size() / 2)},
                              {"store", true},
                              {"stream", true},
                              {"temperature", 1.9},
                              {"tool_choice", "required"},
                              {"tools", {kTool}},
                              {"top_logprobs", 2},
                              {"user", "u"},
                              {"verbosity", "high"},
                              {"web_search_options", {{"a", 1}}},
                              // vLLM
                              {"best_of", 2},
                              {"documents", {{{"text", "w3"}}}},
                              {"chat_template", "w5"},
                              {"chat_template_kwargs", {{"enable_thinking", true}}},
                              {"mm_processor_kwargs", {{"a", 1}}},
                              {"echo", true},
                              {"truncate_prompt_tokens", 1},
                              {"prompt_logprobs", 1},
                              {"allowed_token_ids", {1}},
                              {"include_reasoning", true},
                              {"thinking_token_budget", 5},
                              {"return_token_ids", true},
                              {"return_tokens_as_token_ids", true},
                              {"structured_outputs", {{"choice", {"w3"}}}},
                              {"tool_prompt", "x"}});
  expect_no_field_is_dropped("/v1/chat/completions", with_logprobs, {{"top_logprobs", 2}});
  expect_no_field_is_dropped("/v1/chat/completions", with_tools,
                             {{"tool_choice", "none"}, {"tool_choice", "required"}});
  expect_no_field_is_dropped("/v1/chat/completions", with(base, "stream", true),
                             {{"stream_options/include_usage", true}, {"stream_options/include_obfuscation", true}});
}

// What they would change of an answer is carried out or refused, and never read in silence or with a line alone.
TEST_F(KnownFields, OfLlamaCppAndSglang) {
  const Json base{{"model", "words"},
                  {"messages", {{{"role", "user"}, {"content", "w1 w2"}}}},
                  {"max_tokens", 4},
                  {"temperature", 0},
                  {"seed", 3}};
  const auto ask = [&](const Json& body) {
    return Client(server_->port()).post("/v1/chat/completions", dump_json(body));
  };
  const std::vector<Field> refused{{"n_predict", 2},
                                   {"n_probs", 2},
                                   {"repeat_penalty", 1.5},
                                   {"mirostat", 2},
                                   {"tfs_z", 0.5},
                                   {"dynatemp_range", 0.5},
                                   {"top_n_sigma", 2},
                                   {"xtc_probability", 0.5},
                                   {"dry_multiplier", 0.8},
                                   {"samplers", {"top_k"}},
                                   {"min_keep", 2},
                                   {"t_max_predict_ms", 5},
                                   {"lora", {{{"id", 0}}}},
                                   {"lora_path", "x"},
                                   {"stop_regex", "w."},
                                   {"grammar", {{"a", 1}}},
                                   {"json_schema", "{"},
                                   {"regex", 1},
                                   {"custom_logit_processor", "x"}};
  for (const Field& field : refused) {
    const Answer answer = ask(with(base, field.name, field.value));
    EXPECT_EQ(answer.status, 400) << field.name << answer.body;
    EXPECT_NE(answer.body.find(field.name), std::string::npos) << answer.body;
  }
  for (const Field& field : std::vector<Field>{{"repeat_penalty", 1.0},
                                               {"mirostat", 0},
                                               {"dry_multiplier", 0.0},
                                               {"grammar", ""},
                                               {"cache_prompt", true},
                                               {"top_n_sigma", -1}})
    EXPECT_EQ(said(ask(with(base, field.name, field.value))), said(ask(base))) << field.name;
  for (const Field& field : std::vector<Field>{{"grammar", R"(root ::= "w3")"},
                                               {"ebnf", R"(root ::= "w3")"},
                                               {"regex", "w3"},
                                               {"json_schema", {{"const", "w3"}}}}) {
    const Answer answer = ask(with(base, field.name, field.value));
    if (answer.status == 500 && answer.body.find("constraint: ") != std::string::npos) continue;  // few words
    ASSERT_EQ(answer.status, 200) << field.name << answer.body;
    EXPECT_EQ(json_of(answer)["choices"][0]["message"]["content"], "w3") << field.name;
  }
}

TEST_F(KnownFields, OfOpenAiForResponses) {
  const Json base{{"model", "words"}, {"input", "w1 w2"}, {"max_output_tokens", 4}, {"temperature", 0}, {"seed", 3}};
  expect_no_field_is_dropped("/v1/responses", base,
                             {{"access_programs", {"x"}},
                              {"background", true},
                              {"background_options", {{"a", 1}}},
                              {"context_management", {{{"type", "compaction"}}}},
                              {"conversation", "c"},
                              {"image", {{"a", 1}}},
                              {"include", {"message.output_text.logprobs"}},
                              {"include", {"reasoning.encrypted_content", "other"}},
                              {"instructions", "w5"},
                              {"max_output_tokens", 2},
                              {"max_tool_calls", 1},
                              {"metadata", {{"a", "b"}}},
                              {"moderation", {{"a", 1}}},
                              {"previous_response_id", "r"},
                              {"prompt", {{"id", "p"}}},
                              {"prompt_cache_key", "k"},
                              {"prompt_cache_options", {{"a", 1}}},
                              {"reasoning/effort", "high"},
                              {"reasoning/summary", "auto"},
                              {"safety_identifier", "s"},
                              {"service_tier", "flex"},
                              {"store", true},
                              {"stream", true},
                              {"stream_options/include_obfuscation", true},
                              {"temperature", 1.9},
                              {"text/verbosity", "high"},
                              {"text/format", {{"type", "json_object"}}},
                              {"tool_choice", "required"},
                              {"tools", {{{"type", "function"}, {"name", "f"}}}},
                              {"top_logprobs", 2},
                              {"truncation", "auto"},
                              {"user", "u"},
                              // of the others
                              {"n", 2},
                              {"best_of", 2},
                              {"prompt_logprobs", 1},
                              {"return_token_ids", true}});
}

TEST_F(KnownFields, OfOllama) {
  const Json greedy{{"temperature", 0}, {"num_predict", 4}, {"top_k", 5}, {"seed", 1}};
  const Json generate{{"model", "words"}, {"prompt", "w1 w2"}, {"stream", false}, {"options", greedy}};
  const Json chat{{"model", "words"},
                  {"messages", {{{"role", "user"}, {"content", "w1 w2"}}}},
                  {"stream", false},
                  {"options", greedy}};
  const std::vector<Field> both{{"format", "json"},
                                {"keep_alive", "5m"},
                                {"logprobs", true},
                                {"top_logprobs", 2},
                                {"think", true},
                                {"stream", true},
                                {"truncate", true},
                                {"shift", true},
                                {"options/num_ctx", 8},
                                {"options/num_keep", 2},
                                {"options/repeat_last_n", 3},
                                {"options/mirostat", 2},
                                {"options/mirostat_eta", 0.1},
                                {"options/mirostat_tau", 5},
                                {"options/penalize_newline", true},
                                {"options/tfs_z", 0.5},
                                {"options/num_gpu", 1},
                                {"options/num_thread", 2},
                                {"options/num_batch", 8},
                                {"options/main_gpu", 1},
                                {"options/use_mmap", true},
                                {"options/use_mlock", true},
                                {"options/low_vram", true},
                                {"options/vocab_only", true},
                                {"options/f16_kv", true},
                                {"options/logits_all", true},
                                {"options/embedding_only", true},
                                {"options/numa", true},
                                {"options/num_predict", 2},
                                {"options/repeat_penalty", 90},
                                {"options/presence_penalty", 2},
                                {"options/frequency_penalty", 2},
                                {"options/other", 1},
                                {"options/temperature", 90}};
  expect_no_field_is_dropped("/api/generate", generate, both);
  expect_no_field_is_dropped("/api/generate", generate,
                             {{"context", {3, 4}},
                              {"images", {"eA=="}},
                              {"suffix", "w1"},
                              {"system", "w5"},
                              {"template", "x"},
                              {"width", 8},
                              {"height", 8},
                              {"steps", 2}});
  expect_no_field_is_dropped("/api/chat", chat, both);
  expect_no_field_is_dropped("/api/chat", chat, {{"tools", {kTool}}});
  const Json embed{{"model", "vectors"}, {"input", "w1 w2"}};
  expect_no_field_is_dropped("/api/embed", embed,
                             {{"dimensions", 3}, {"keep_alive", "5m"}, {"options/num_ctx", 8}, {"other", 1}});
  expect_no_field_is_dropped("/api/embeddings", {{"model", "vectors"}, {"prompt", "w1"}},
                             {{"keep_alive", 1}, {"options/num_gpu", 1}, {"truncate", true}});
}

TEST_F(KnownFields, OfTextGenerationInference) {
  const Json base{{"model", "words"}, {"inputs", "w1 w2"}, {"parameters", {{"max_new_tokens", 4}, {"seed", 3}}}};
  const std::string text = json_of(Client(server_->port()).post("/generate", dump_json(base)))["generated_text"];
  expect_no_field_is_dropped("/generate", base,
                             {{"parameters/adapter_id", "a"},
                              {"parameters/best_of", 2},
                              {"parameters/decoder_input_details", true},
                              {"parameters/details", true},
                              {"parameters/frequency_penalty", 2},
                              {"parameters/grammar", {{"type", "regex"}, {"value", "w5 w5"}}},
                              {"parameters/max_new_tokens", 2},
                              {"parameters/repetition_penalty", 90},
                              {"parameters/return_full_text", true},
                              {"parameters/stop", {text.substr(0, text.size() / 2)}},
                              {"parameters/temperature", 90},
                              {"parameters/top_n_tokens", 2},
                              {"parameters/truncate", 1},
                              {"parameters/watermark", true},
                              {"parameters/use_cache", false},
                              {"parameters/other", 1},
                              {"options/wait_for_model", true},
                              {"other", 1}});
}

TEST_F(KnownFields, OfEncoders) {
  expect_no_field_is_dropped("/v1/embeddings", {{"model", "vectors"}, {"input", "w1 w2"}},
                             {{"dimensions", 3},
                              {"encoding_format", "base64"},
                              {"user", "u"},
                              {"normalize", false},
                              {"truncate_prompt_tokens", 1},
                              {"priority", 1},
                              {"embed_dtype", "float16"},
                              {"endianness", "big"},
                              {"request_id", "r"},
                              {"other", 1}});
  const Json texts{{"inputs", "w1 w2"}, {"model", "vectors"}};
  expect_no_field_is_dropped("/embed", texts,
                             {{"dimensions", 3}, {"normalize", false}, {"prompt_name", "q"}, {"other", 1}});
  const Json ranked{{"model", "vectors"}, {"query", "w1"}, {"documents", {"w1", "w2 w3"}}};
  expect_no_field_is_dropped("/v2/rerank", ranked,
                             {{"top_n", 1},
                              {"max_tokens_per_doc", 1},
                              {"relevant_spans", true},
                              {"priority", 1},
                              {"rank_fields", {"a"}},
                              {"return_documents", false},
                              {"max_chunks_per_doc", 1},
                              {"other", 1}});
  expect_no_field_is_dropped("/rerank", {{"model", "vectors"}, {"query", "w1"}, {"texts", {"w1", "w2"}}},
                             {{"return_text", true}, {"raw_scores", true}, {"prompt_name", "q"}, {"other", 1}});
  expect_no_field_is_dropped(
      "/similarity", {{"model", "vectors"}, {"inputs", {{"source_sentence", "w1"}, {"sentences", {"w2"}}}}},
      {{"parameters/prompt_name", "q"}, {"parameters/other", 1}, {"inputs/other", 1}, {"other", 1}});
  expect_no_field_is_dropped(
      "/classify", {{"model", "classes"}, {"input", "w1 w2"}},
      {{"activation", false}, {"use_activation", false}, {"truncate_prompt_tokens", 1}, {"priority", 1}, {"other", 1}});
  expect_no_field_is_dropped("/predict", {{"model", "classes"}, {"inputs", "w1 w2"}},
                             {{"raw_scores", true}, {"prompt_name", "q"}, {"other", 1}});
  expect_no_field_is_dropped("/pooling", {{"model", "classes"}, {"input", "w1 w2"}},
                             {{"task", "embed"}, {"activation", false}, {"softmax", false}, {"other", 1}});
  expect_no_field_is_dropped("/models/vectors", {{"inputs", "w1 w2"}},
                             {{"normalize", true},
                              {"parameters/normalize", true},
                              {"parameters/other", 1},
                              {"options/use_cache", true},
                              {"other", 1}});
}

}  // namespace
}  // namespace transom
