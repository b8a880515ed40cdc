// SPDX-License-Identifier: Apache-2.0
// The fields of requests that write text, as OpenAI and vLLM name them, and what they are to the engine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve/api/call.h"
#include "apps/serve/api/request_json.h"
#include "apps/serve/generation/token_details.h"
#include "apps/serve/models/served_model.h"
#include "apps/serve/workers/generation_worker.h"
#include "work/generation/constraint/token_lists.h"

namespace transom::serve {

// What an interface calls the fields that errors name.
struct FieldNames {
  std::string prompt = "prompt", tokens = "max_tokens", samples = "n", beams = "best_of";
};

// What the fields that all interfaces share ask for.
struct SamplingFields {
  EngineRequest request;  // without a prompt
  std::optional<int64_t> max_tokens, min_tokens;
  int64_t n = 1;
  bool by_priority = false;                               // the server orders by the field `priority`
  bool include_stop = false, include_stop_token = false;  // the stop string; all of the tokens that ended the text
  TokenDetails details;
  std::shared_ptr<const constraint::TokenLists> lists;  // allowed_token_ids, bad_words; null: neither
  FieldNames names;
};

// The defaults of a model: its generation_config.json, or those of OpenAI.
SamplingFields default_sampling(const ServedModel& model, const ServeOptions& options);
// The name of an adapter of the model in place of its own chooses the adapter. Returns the name that the answer has.
std::string read_adapter(const std::optional<std::string>& name, const ServedModel& model, SamplingFields& sampling);
// `seed`; -1 asks for a new one each time, as vLLM, llama.cpp and Ollama have it.
void read_seed(RequestFields& fields, GenerationConfig& config);
// Reads temperature, top_p, top_k, n, stop, seed, penalties, logit_bias, and vLLM's further ones. Refuses by 400.
void read_sampling(RequestFields& fields, const ServedModel& model, SamplingFields& sampling);
// `stream_options`: whether the stream ends with the usage, and whether each chunk has it so far.
struct StreamUsage {
  bool at_end = false, in_chunks = false;
};
StreamUsage read_stream_usage(RequestFields& fields, bool streams, const std::string& path);
// 400 for fields of read_sampling that a path has no place for in its answers.
void expect_one_plain_answer(const SamplingFields& sampling);
// What an answer shows of the end of its text.
std::string shown_end(const EngineEvent& event, bool include_stop, bool include_stop_token);
// Checks lengths and sets the prompt and the number of tokens; `otherwise` is the limit without max_tokens (0: the rest
// of the context). With max_tokens = 0 the prompt may fill the context. Throws 400 context_length_exceeded.
EngineRequest request_for(const SamplingFields& sampling, ModelInputs prompt, const ServedModel& model,
                          int64_t otherwise);
bool can_generate(const ModelFacts& model);
// What one token is as text and as bytes: {"token", "bytes"} of OpenAI's log probabilities.
Json token_json(const Tokenizer& tokenizer, int64_t token);
// Bytes before UTF-8 is valid are replaced.
std::string token_text(const Tokenizer& tokenizer, int64_t token);

// ---- running it

// Receives what is written for one call. All functions are called by one thread at a time.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  // News of a choice: `choice` is prompt * n + sample.
  virtual void on_event(int64_t choice, EngineEvent& event) = 0;
  // Every choice has ended.
  virtual void on_done() = 0;
  // About once a second until then: a stream that has not begun begins.
  virtual void on_wait() {}
};

// Adds the requests, one for each prompt, cancels them when the client leaves, keeps metrics and the log, sends a
// comment when a stream has nothing to say, ends what takes too long. Errors of the engine become the answer.
void start_generation(const std::shared_ptr<Call>& call, ServedModel& model, std::vector<EngineRequest> requests,
                      std::shared_ptr<GenerationSink> sink, const FieldNames& names = {});
// What the engine refuses of a request, by the names that the client has for its fields.
ApiError refused_by_engine(const Error& error, const FieldNames& names);

}  // namespace transom::serve
