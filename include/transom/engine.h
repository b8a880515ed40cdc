// SPDX-License-Identifier: Apache-2.0
// The generation engine: many requests share one model, and each gets the tokens that it gets alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transom/generation.h"

namespace transom {

// Which tokens may follow: the state of a grammar, a JSON schema or a list of choices for one row. Not for several
// threads at once.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Sets bit (t % 32) of word (t / 32) for each token t that may come next, and clears the others. Tokens that end the
  // text are allowed only where the text may end.
  virtual void allowed(std::span<uint32_t> mask) = 0;
  // The row goes on with `token`, which was allowed.
  virtual void accept(int64_t token) = 0;
  // The state before any token; each row of a request begins with a copy of its own.
  virtual std::unique_ptr<TokenConstraint> clone() const = 0;
  // Works for about so many seconds towards the next call of allowed(); true if that call will not take long. Until
  // then the engine leaves the row out of its steps and asks again, a few milliseconds a step for all rows together, so
  // that a constraint that is slow holds nobody else.
  virtual bool prepare(double /*seconds*/) { return true; }
};

// What one client asks for. Sequences of a request: GenerationConfig::num_return_sequences. With num_beams above 1 they
// are the best of a beam search, whose events come when it has ended; constraints and drafts are refused then.
struct EngineRequest {
  // At least one token, with the inputs that fill some of its places. Of a model with an encoder the tokens are the
  // first ones of the decoder (the start token), and one input without places is what the encoder reads.
  ModelInputs prompt;
  // With max_new_tokens = 0 nothing is written: prompt_logprobs are the answer.
  GenerationConfig config;  // lengths, sampling and its seed, penalties, ends; stop_strings need a tokenizer
  double presence_penalty = 0, frequency_penalty = 0;  // as OpenAI defines them: over the generated tokens
  std::vector<std::pair<int64_t, double>> logit_bias;  // added to the score of a token
  std::optional<int64_t> logprobs;                     // so many likeliest tokens beside the chosen one
  std::optional<int64_t> prompt_logprobs;              // the same for each token of the prompt but the first
  std::shared_ptr<const TokenConstraint> constraint;   // none: any token
  std::string adapter;                                 // name of a LoRA adapter that the engine holds; "": none
  // Draft tokens of a step: what followed the last tokens where they stood before (prompt lookup of Transformers). They
  // are verified together with the next token; what is written does not change. 0: none.
  int64_t prompt_lookup_num_tokens = 0;
  int64_t max_matching_ngram_size = 2;  // so many last tokens are looked for, then fewer
  int priority = 0;                     // smaller numbers go first; equal ones in order of arrival
  // Who asks. Of several tenants each has its turn, however many requests of one wait or run, and none finds what
  // another's prompts have left in the prefix cache: `cached_tokens` and the time would tell what they said.
  std::string tenant;
  std::string cache_salt;  // prefixes are shared only among requests of the same salt
  // Of the text: what is shown of special tokens, in which stop strings are found also where it is nothing, and the
  // first tokens, which complete no stop string that ends it (min_new_tokens is of eos_token_id alone).
  bool skip_special_tokens = true;
  int64_t stop_strings_after = 0;
};

// A part of a text as it is decoded: characters, or one special token.
struct TextPiece {
  std::string text;
  std::optional<int64_t> special;  // the token; none: characters
};

// Log probabilities after the logits processors, before temperature and the logits warpers. Where nothing changes the
// scores before these, they are the device's log_softmax: to the bit what a training pass under
// Computing::batch_invariant says of the token (`transom certify --level on-policy`). Of beams: what the search adds
// up.
struct TokenLogprobs {
  int64_t token = 0;
  float logprob = 0;
  std::vector<std::pair<int64_t, float>> top;  // the likeliest first
};

enum class FinishReason { kStop, kLength, kCancelled, kError };

// News of one sequence of a request. Tokens and texts of all its events, one behind the other, are the result.
struct EngineEvent {
  uint64_t request = 0;
  int64_t index = 0;                    // of the sequence in its request
  TokenIds tokens;                      // generated since the last event, without the token that ended the text
  std::string text;                     // what they add: whole characters that no later token changes, never a part of
                                        // a stop string; empty without a tokenizer
  std::vector<TextPiece> pieces;        // the same with the special tokens, shown or not
  std::vector<TokenLogprobs> logprobs;  // of `tokens`
  std::vector<TokenLogprobs> prompt;    // with the first event, if asked for
  std::optional<FinishReason> finish;   // the last event of a sequence has it
  std::optional<std::string> stop;      // the stop string that ended it
  std::optional<int64_t> end_token;     // the token of eos_token_id that ended it, which is not among `tokens`
  std::optional<TokenLogprobs> end_logprobs;  // of end_token, if asked for
  std::string stop_text;                // what its last tokens say from there on: the stop string and the rest of its
                                        // token, or the end token where that is no special one
  std::string error;                    // of kError, one line
  int64_t cached_tokens = 0;            // of the prompt, found in the prefix cache; with the first event
  std::optional<double> queue_seconds;  // from add() to the step that began to read it; with the first event
  std::optional<double> score;          // of beam search, as GenerationOutput::scores
};

class DraftHead;  // models/drafts/draft_head.h

// What the engine drafts with by itself, behind texts whose requests ask for no prompt lookup and search without beams.
// Drafts are verified as prompt lookup's are: what is written does not change, only how fast.
struct DraftOptions {
  enum class Method {
    kNone,    // the assistant, where there is one
    kLookup,  // what followed the last tokens where they stood before in the text
    kSuffix,  // the likeliest of what followed them there, and in answers to earlier requests of the same tenant and
              // salt (Oliaro et al., "SuffixDecoding: extreme speculative decoding for emerging AI applications", 2024)
    kHead     // `head`
  } method = Method::kNone;
  int64_t tokens = 5;                         // of a draft, at most
  int64_t lookup_least = 1, lookup_most = 5;  // of kLookup: so many last tokens are looked for, the most first
  // Of kSuffix: the longest match; a draft is at most so many times as long as its match, and its last token at least
  // so likely by what was counted; the memory for answers, of which the oldest go first (0: only the text itself
  // counts).
  int64_t suffix_depth = 24;
  double suffix_factor = 1, suffix_least = 0.1;
  int64_t suffix_bytes = int64_t{64} << 20;
  // Of kHead: layers that read hidden states of the model. It outlives the engine.
  const DraftHead* head = nullptr;
  // How many tokens are drafted follows from how many were accepted and what steps took, so that texts are not slower
  // than without: where drafts lose there are none for a while. False: as many as there may be.
  bool measured = false;
};

struct EngineOptions {
  const Tokenizer* tokenizer = nullptr;  // for texts and stop strings; outlives the engine
  int64_t block_size = 16;               // tokens of a block of the KV cache
  int64_t cache_bytes = 0;               // of the KV cache; 0: a share of the free memory, at least one full context
  // Of keys and values in the cache: kAuto, as the model computes, but float16 where its products round inputs to 8
  // bits, which loses more; kFloat16 and kBFloat16 take half of what kFloat32 does, and half of the time to read, for
  // some of the last digits. Not where texts are computed row by row.
  OneOf<ModelDType> cache_dtype = ModelDType::kAuto;
  int64_t max_batched_tokens = 512;  // of a step, prompts and single tokens together
  // Seconds that a step should take in which texts are written beside prompts that are read: prompts come by parts, as
  // large as the time of the steps before allows, so that the texts go on evenly. 0: parts up to max_batched_tokens.
  double step_seconds = 0;
  int64_t max_sequences = 256;   // that run at once
  int64_t max_waiting = 1024;    // requests; more are refused
  int64_t max_model_length = 0;  // tokens; 0: what the model's positions allow
  bool prefix_caching = true;
  // Where blocks of the prefix cache are kept in files too: texts that begin alike find them when memory has forgotten
  // them, or in another process of the same weights and options. "": nowhere. The engine makes the directory, and
  // writes beside the steps. Only texts without a LoRA adapter; kUnsupported for a model that is computed row by row or
  // over several processes.
  std::string prefix_cache_directory;
  int64_t prefix_cache_disk_bytes = int64_t{4} << 30;         // of these files; those used longest ago go
  std::vector<std::pair<std::string, std::string>> adapters;  // (name, directory) of LoRA adapters
  // A smaller model of the same tokens, whose greedy continuations are verified as prompt lookup's are: what is written
  // does not change, only how fast. Null: none. It outlives the engine. For requests without prompt lookup; models that
  // are computed row by row take none (kUnsupported). Its cache has room for as many tokens as the model's.
  const Model* assistant = nullptr;
  int64_t num_assistant_tokens = 5;  // of a draft
  // Any other method than kNone needs a model whose cache is paged (kUnsupported), and no assistant.
  DraftOptions drafts = {};
};

struct EngineStatistics {
  int64_t running = 0, waiting = 0;     // sequences, requests
  int64_t blocks = 0, blocks_used = 0;  // of the KV cache
  int64_t preemptions = 0, steps = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0;            // read and written since the start
  int64_t prefix_queries = 0, prefix_hits = 0;                // tokens
  int64_t prefix_disk_hits = 0;                               // of the hits: read from files
  int64_t drafts = 0, draft_tokens = 0, accepted_tokens = 0;  // of all methods
  std::vector<int64_t> accepted_at;  // drafts of which the first token was accepted, the second ...
  int64_t steps_without_drafts = 0;  // of a text, where there was a draft or could be, and none was worth its time
  std::string failure;               // why no request can be computed any more; empty: they can
};

// All sequences are computed together, their keys and values in blocks of one pool (Kwon et al., "PagedAttention",
// 2023; Yu et al., "Orca", 2022). Encoder-decoders, BLOOM, whose attention has a bias by distance, models that keep no
// keys, and Phi-3 beyond the length at which its rotary factors change are computed row by row, each with a cache of
// its own.
//
// add, cancel, take, statistics and those of adapters may be called by any thread; step by one at a time. The model
// outlives the engine. A request's tokens and log probabilities do not depend on the others, on the order of arrival,
// on preemption or on the prefix cache: on the device cpu they have the same bits. The prefix cache finds a beginning
// again where tokens and the bytes of the inputs among them are the same.
//
// If a step fails on the device, the sequences that it computed end with kError, and the others are computed again.
// Over several processes nothing can be computed after that, since the others may be anywhere in the step:
// EngineStatistics::failure says so.
class Engine {
 public:
  explicit Engine(const Model& model, EngineOptions options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // Takes a request and returns its number. Throws for one that can never run, naming the limit (kInput: too long, a
  // field out of its range; kUnsupported: a field that is not carried out), and if too many wait (kOutOfMemory). The
  // lengths of the request's configuration are those of generate(): without any, 20 new tokens.
  uint64_t add(EngineRequest request);
  // Computes one iteration: parts of prompts and one token of each running sequence. False if there was nothing to do.
  bool step();
  // What has happened since the last call, in order.
  std::vector<EngineEvent> take();
  // Ends a request at the next step with kCancelled; unknown numbers are ignored.
  void cancel(uint64_t request);
  EngineStatistics statistics() const;
  int64_t max_model_length() const;
  // LoRA adapters come and go while requests run; those of EngineOptions are there from the start. A request keeps the
  // adapter that it was added with. Any thread; load_adapter() reads the directory on the one that calls. Throws Error
  // for a name that is known (unless it `replaces` that one), or is not, and for an adapter that does not fit the
  // model.
  void load_adapter(const std::string& name, const std::string& directory, bool replaces = false);
  void unload_adapter(const std::string& name);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace transom
