// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rollouts/completion_writer.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "runtime/device/descriptions/descriptions.h"
#include "transom/engine.h"
#include "transom/gradients.h"

namespace transom {
namespace {

// Neighbouring numbers give seeds that have nothing in common (SplitMix64).
uint64_t seed_of_completion(uint64_t seed, int64_t number) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(number) + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Whether tokens are drawn from other scores than the model's, before temperature and what cuts unlikely ones.
bool changes_scores(const GenerationConfig& c) {
  return c.repetition_penalty != 1 || c.no_repeat_ngram_size != 0 || !c.bad_words_ids.empty() ||
         !c.sequence_bias.empty() || c.forced_bos_token_id || !c.forced_eos_token_id.empty() ||
         !c.suppress_tokens.empty() || !c.begin_suppress_tokens.empty() || !c.forced_decoder_ids.empty() ||
         c.min_new_tokens || c.min_length != 0;
}

// While it lives, the model computes as a step of training does.
class ComputesAsStep {
 public:
  ComputesAsStep(Model& model, DType dtype) : model_(model), before_(model.computing()) {
    Computing now = before_;
    now.dtype = dtype;
    model.set_computing(now);
  }
  ~ComputesAsStep() { model_.set_computing(before_); }
  ComputesAsStep(const ComputesAsStep&) = delete;
  ComputesAsStep& operator=(const ComputesAsStep&) = delete;

 private:
  Model& model_;
  Computing before_;
};

class EngineWriter final : public CompletionWriter {
 public:
  EngineWriter(GenerationConfig config, DType dtype, bool logprobs)
      : config_(std::move(config)),
        dtype_(dtype),
        logprobs_(logprobs && config_.temperature == 1 && !changes_scores(config_)) {}

  std::vector<WrittenCompletion> write(Model& model, const std::vector<TokenIds>& prompts, uint64_t seed,
                                       int64_t first) override {
    const NoGradient inference;
    const ComputesAsStep same(model, dtype_);
    std::vector<WrittenCompletion> texts(prompts.size());
    const auto config_of = [&](size_t i) {
      GenerationConfig config = config_;
      config.seed = seed_of_completion(seed, first + static_cast<int64_t>(i));
      return config;
    };
    if (!has_trait("several_texts")) {  // devices that compute one text at a time
      for (size_t i = 0; i < prompts.size(); ++i) {
        const TokenIds text = generate(model, ModelInputs(prompts[i]), config_of(i)).sequences.at(0);
        texts[i].tokens.assign(text.begin() + static_cast<std::ptrdiff_t>(prompts[i].size()), text.end());
      }
      return texts;
    }
    const auto count = static_cast<int64_t>(prompts.size());
    // Made anew each time: what an engine holds of a prompt is that of weights which have moved since.
    Engine engine(model, EngineOptions{.max_sequences = std::max<int64_t>(1, count), .max_waiting = count});
    std::map<uint64_t, size_t> places;
    for (size_t i = 0; i < prompts.size(); ++i)
      places[engine.add({.prompt = ModelInputs(prompts[i]),
                         .config = config_of(i),
                         .logprobs = logprobs_ ? std::optional<int64_t>(0) : std::nullopt,
                         .skip_special_tokens = false})] = i;
    for (size_t ended = 0; ended < places.size();) {
      if (!engine.step())
        fail(ErrorKind::kInternal, "the engine makes no step and has {} completions left", places.size() - ended);
      for (EngineEvent& event : engine.take()) {
        if (event.finish == FinishReason::kError) fail("{}", event.error);
        if (event.end_token) event.tokens.push_back(*event.end_token);
        if (event.end_logprobs) event.logprobs.push_back(*event.end_logprobs);
        WrittenCompletion& text = texts[places.at(event.request)];
        text.tokens.insert(text.tokens.end(), event.tokens.begin(), event.tokens.end());
        for (const TokenLogprobs& each : event.logprobs) text.logprobs.push_back(each.logprob);
        ended += event.finish.has_value();
      }
    }
    return texts;
  }

 private:
  GenerationConfig config_;
  DType dtype_;
  bool logprobs_;
};

class FileWriter final : public CompletionWriter {
 public:
  FileWriter(const std::string& path, int64_t most_tokens, int64_t vocabulary, bool logprobs) : path_(path) {
    std::istringstream lines(read_file(path));
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      const std::string where = fmt::format("{}: line {}", path, ++number);
      if (line.empty()) continue;
      const Json row = parse_json(line, where);
      const bool has = row.is_object() && row.contains("completion_ids") && row["completion_ids"].is_array();
      require(has, "{}: expected an object with completion_ids, a list of tokens", where);
      const Json& ids = row["completion_ids"];
      require(!ids.empty() && static_cast<int64_t>(ids.size()) <= most_tokens,
              "{}: completion_ids: expected 1 to max_completion_length {} tokens, found {}", where, most_tokens,
              ids.size());
      TokenIds tokens;
      for (const Json& id : ids) {
        const int64_t token = id.is_number_integer() ? id.get<int64_t>() : -1;
        require(token >= 0 && token < vocabulary, "{}: completion_ids: expected tokens of the model, 0 to {}, found {}",
                where, vocabulary - 1, dump_json(id));
        tokens.push_back(token);
      }
      require(!logprobs || row.contains("logprobs"),
              "{}: expected logprobs, those of the tokens as they were written, which "
              "--vllm_importance_sampling_correction "
              "reads; found none",
              where);
      completions_.push_back({std::move(tokens), logprobs_of(row, ids.size(), where)});
    }
  }

  std::vector<WrittenCompletion> write(Model&, const std::vector<TokenIds>& prompts, uint64_t, int64_t first) override {
    const size_t end = static_cast<size_t>(first) + prompts.size();
    require(end <= completions_.size(), "{}: expected at least {} lines, a completion each, found {}", path_, end,
            completions_.size());
    return {completions_.begin() + first, completions_.begin() + static_cast<std::ptrdiff_t>(end)};
  }

 private:
  static std::vector<float> logprobs_of(const Json& row, size_t count, const std::string& where) {
    std::vector<float> numbers;
    if (!row.contains("logprobs")) return numbers;
    const Json& given = row["logprobs"];
    require(given.is_array() && given.size() == count,
            "{}: logprobs: expected a list of {} numbers, one for each token", where, count);
    for (const Json& each : given) {
      require(each.is_number() && each.get<double>() <= 0, "{}: logprobs: expected numbers of at most 0, found {}",
              where, dump_json(each));
      numbers.push_back(each.get<float>());
    }
    return numbers;
  }

  std::string path_;
  std::vector<WrittenCompletion> completions_;
};

}  // namespace

std::string text_of_completions(const std::vector<WrittenCompletion>& completions) {
  Json all = Json::array();
  for (const WrittenCompletion& each : completions)
    all.push_back({{"tokens", each.tokens}, {"logprobs", each.logprobs}});
  return dump_json(all);
}

std::vector<WrittenCompletion> read_completions(const std::vector<std::string>& texts) {
  std::vector<WrittenCompletion> completions;
  for (const std::string& text : texts) {
    const Json all = parse_json(text, "completions of another process");
    for (const Json& each : all)
      completions.push_back({each.at("tokens").get<TokenIds>(), each.at("logprobs").get<std::vector<float>>()});
  }
  return completions;
}

std::unique_ptr<CompletionWriter> engine_writer(GenerationConfig config, DType dtype, bool logprobs) {
  return std::make_unique<EngineWriter>(std::move(config), dtype, logprobs);
}

std::unique_ptr<CompletionWriter> file_writer(const std::string& path, int64_t most_tokens, int64_t vocabulary,
                                              bool logprobs) {
  return std::make_unique<FileWriter>(path, most_tokens, vocabulary, logprobs);
}

}  // namespace transom
