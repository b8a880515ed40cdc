// SPDX-License-Identifier: Apache-2.0
// Whether what is sampled is what is trained: random prompts are answered by the engine, many at once over a small
// cache, and the log probabilities that it gives are compared with those of the forward pass of a training step, to the
// bit. Weights move by updates between them, and it is done in f32 and under autocast to bf16, plain and with LoRA.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/error.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "models/generative.h"
#include "models/loading/adapters/adaptation.h"
#include "tools/certify/certify.h"
#include "tools/certify/on_policy_trace.h"
#include "transom/engine.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/generation/engine/paged/paged_program.h"
#include "work/train/step/train_step.h"
#include "work/train/tasks/preferences/objectives/log_probabilities.h"

namespace transom::certify {
namespace {

constexpr int64_t kMostTokens = 96, kRounds = 2, kRowsOfBatch = 8;
constexpr double kRateOfMoves = 5e-3;

struct Policy {
  std::string name, config, directory;  // a configuration, or the directory of a checkpoint
};

struct Setting {
  const char* name;
  bool bf16, lora, codes = false;
};
constexpr Setting kSettings[] = {{"f32", false, false},
                                 {"bf16", true, false},
                                 {"f32, LoRA", false, true},
                                 {"bf16, LoRA", true, true},
                                 {"codes, LoRA", false, true, true},
                                 {"codes, bf16, LoRA", true, true, true}};

// Two layers each, and sizes that are no multiples of registers.
std::vector<Policy> own_policies() {
  return {{"llama", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61,
            "max_position_embeddings": 128, "hidden_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 52, "initializer_range": 0.4})",
           ""},
          {"gpt2", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 61, "n_positions": 128,
            "n_embd": 36, "n_layer": 2, "n_head": 3, "initializer_range": 0.4})",
           ""}};
}

struct Sampled {
  TokenIds tokens;  // with the prompt
  size_t prompt = 0;
  std::vector<float> logprobs;  // of those behind the prompt
};

int64_t vocabulary_of_policy(const Model& model) { return text_config_of(model.config()).get_int("vocab_size", 2); }

// Of several lengths, many of which begin alike.
std::vector<EngineRequest> random_rollouts(int64_t count, int64_t vocabulary, int64_t longest,
                                           std::mt19937_64& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::vector<TokenIds> beginnings(5);
  for (TokenIds& beginning : beginnings)
    for (int64_t i = 0; i < longest / 2; ++i) beginning.push_back(below(vocabulary));
  std::vector<EngineRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    EngineRequest request;
    const TokenIds& beginning = beginnings[static_cast<size_t>(below(5))];
    request.prompt.tokens.assign(beginning.begin(), beginning.begin() + below(longest / 2 + 1));
    for (int64_t n = 1 + below(4); n > 0; --n) request.prompt.tokens.push_back(below(vocabulary));
    GenerationConfig& config = request.config;
    config.do_sample = true, config.seed = random();
    config.top_k = 0;
    config.max_new_tokens = 1 + below(below(4) ? std::max<int64_t>(longest / 8, 1) : longest / 4);
    config.num_return_sequences = 1 + below(3) / 2;
    if (below(2)) config.eos_token_id = {below(vocabulary)};
    if (below(4) == 0) request.prompt_lookup_num_tokens = 3;
    request.logprobs = 0;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<Sampled> answers_of(Engine& engine, const std::vector<EngineRequest>& requests) {
  std::map<std::pair<uint64_t, int64_t>, Sampled> answers;
  std::map<uint64_t, const EngineRequest*> numbers;
  const auto collect = [&] {
    for (const EngineEvent& event : engine.take()) {
      if (!event.error.empty()) fail(ErrorKind::kDevice, "{}", event.error);
      Sampled& answer = answers[{event.request, event.index}];
      if (answer.tokens.empty()) {
        answer.tokens = numbers.at(event.request)->prompt.tokens;
        answer.prompt = answer.tokens.size();
      }
      answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenLogprobs& each : event.logprobs) answer.logprobs.push_back(each.logprob);
      if (!event.end_token) continue;
      answer.tokens.push_back(*event.end_token);
      answer.logprobs.push_back(event.end_logprobs.value().logprob);
    }
  };
  for (const EngineRequest& request : requests) numbers[engine.add(request)] = &request;
  while (engine.step()) collect();
  collect();
  std::vector<Sampled> found;
  for (auto& [key, answer] : answers) {
    if (answer.tokens.size() != answer.prompt + answer.logprobs.size())
      fail(ErrorKind::kInternal, "{} tokens were sampled, and {} log probabilities given",
           answer.tokens.size() - answer.prompt, answer.logprobs.size());
    found.push_back(std::move(answer));
  }
  return found;
}

// Over a cache that a few of the texts fill, so that some are given up and computed again.
std::vector<Sampled> sample(const GenerativeModel& model, int64_t count, std::mt19937_64& random) {
  int64_t token_bytes = 0;
  for (const KeyValueShape& shape : key_value_shapes(model)) token_bytes += shape.bytes(1);
  EngineOptions options{
      .block_size = 4, .max_batched_tokens = 33, .max_sequences = 24, .max_model_length = kMostTokens};
  options.max_waiting = count + 1;
  options.cache_bytes = 3 * kMostTokens * token_bytes;
  Engine engine(model, options);
  const int64_t longest = engine.max_model_length();
  if (longest < 16)
    fail(ErrorKind::kUnsupported, "{} takes texts of {} tokens: expected at least 16", model.architecture(), longest);
  return answers_of(engine, random_rollouts(count, vocabulary_of_policy(model), longest, random));
}

// ---- the pass of training

// How samples become rows of a batch.
enum class Layout {
  kRight,   // padding behind them
  kBoth,    // prompts padded in front, answers behind, as TRL's trainers do
  kPacked,  // all in one row, each a text of its own
};

struct TrainedBatch {
  NamedTensors inputs;
  Tensor ids, answers;  // i64 [rows, length]; the second 1 where a token was sampled
  int64_t rows = 0, length = 0;
  std::vector<std::pair<int64_t, int64_t>> places;  // of each sample: its row, and where it begins
};

int64_t in_sixteens(int64_t n) { return (n + 15) / 16 * 16; }

TrainedBatch batch_of_samples(const std::vector<const Sampled*>& samples, Layout layout) {
  TrainedBatch batch;
  int64_t prompt = 0, answer = 0, longest = 0, all = 0;
  for (const Sampled* each : samples) {
    const auto size = static_cast<int64_t>(each->tokens.size()), front = static_cast<int64_t>(each->prompt);
    prompt = std::max(prompt, front), answer = std::max(answer, size - front);
    longest = std::max(longest, size), all += size;
  }
  batch.rows = layout == Layout::kPacked ? 1 : static_cast<int64_t>(samples.size());
  batch.length = layout == Layout::kPacked ? all : in_sixteens(layout == Layout::kBoth ? prompt + answer : longest);
  const auto count = static_cast<size_t>(batch.rows * batch.length);
  std::vector<int64_t> ids(count, 0), mask(count, 0), sampled(count, 0), positions(count, 0), texts(count, 0);
  int64_t row = 0, next = 0, number = 0;
  for (const Sampled* each : samples) {
    const auto size = static_cast<int64_t>(each->tokens.size());
    const int64_t begin = layout == Layout::kBoth     ? prompt - static_cast<int64_t>(each->prompt)
                          : layout == Layout::kPacked ? next
                                                      : 0;
    batch.places.emplace_back(row, begin);
    for (int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<size_t>(row * batch.length + begin + i);
      ids[at] = each->tokens[static_cast<size_t>(i)];
      mask[at] = 1, positions[at] = i, texts[at] = number;
      sampled[at] = i >= static_cast<int64_t>(each->prompt) ? 1 : 0;
    }
    if (layout == Layout::kPacked) next += size, ++number;
    else ++row;
  }
  const Shape shape{batch.rows, batch.length};
  batch.ids = Tensor::from(ids, shape), batch.answers = Tensor::from(sampled, shape);
  batch.inputs.set("input_ids", batch.ids);
  if (layout == Layout::kPacked) batch.inputs.set("seq_idx", Tensor::from(texts, shape));
  else batch.inputs.set("attention_mask", Tensor::from(mask, shape));
  if (layout == Layout::kBoth) batch.inputs.set("position_ids", Tensor::from(positions, shape));
  return batch;
}

// The log probabilities [rows, length - 1] of a pass whose gradients are computed with them.
std::vector<float> trained_log_probabilities(const Model& model, const TrainedBatch& batch) {
  ForwardContext context{.computing = {.batch_invariant = true}};  // without dropout, as samples are drawn
  const Tensor logits = model.forward(batch.inputs, context).at("logits");
  const AnswerMask mask = answer_mask(batch.ids, batch.answers);
  const Tensor logs = log_probabilities(logits, mask);
  std::vector<Tensor> trained;
  for (const auto& parameter : model.parameters())
    if (parameter->value.requires_grad()) trained.push_back(parameter->value);
  std::vector<Tensor> results = gradients(-sum(logs), trained);
  results.push_back(logs);
  eval(results);
  return logs.to_vector<float>();
}

// An update of the weights on random texts.
void move_weights(TrainStep& step, int64_t number, std::mt19937_64& random) {
  const int64_t vocabulary = vocabulary_of_policy(step.model());
  std::vector<int64_t> ids;
  for (int i = 0; i < 4 * 12; ++i) ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(vocabulary)));
  const Tensor texts = Tensor::from(ids, {4, 12});
  const TrainStep::Result result = step({{{"input_ids", texts}, {"labels", texts}}}, kRateOfMoves, number);
  if (const double loss = result.loss.item<double>(); !std::isfinite(loss))
    fail(ErrorKind::kDevice, "an update has the loss {}", loss);
}

// ---- both

struct Compared {
  int64_t samples = 0, tokens = 0, different = 0;
  double worst = 0;
  std::string note;  // of the first difference
};

bool takes_positions(const Model& model) {
  const NoGradient traced_alone;
  const Tensor two = zeros({1, 2}, DType::kInt64);
  try {
    model.forward({{"input_ids", two}, {"position_ids", two}}, ForwardContext{});
  } catch (const Error&) {  // it takes no such input
    return false;
  }
  return true;
}

std::vector<Layout> layouts_of(const Model& model) {
  std::vector<Layout> layouts{Layout::kRight};
  if (takes_positions(model)) layouts.push_back(Layout::kBoth);
  if (model.takes_texts_in_rows()) layouts.push_back(Layout::kPacked);
  return layouts;
}

void compare_batch(const GenerativeModel& model, const std::vector<const Sampled*>& samples, const TrainedBatch& batch,
                   Compared& all) {
  const std::vector<float> logs = trained_log_probabilities(model, batch);
  for (size_t s = 0; s < samples.size(); ++s) {
    const Sampled& each = *samples[s];
    const auto [row, begin] = batch.places[s];
    ++all.samples;
    for (size_t i = 0; i < each.logprobs.size(); ++i) {
      const int64_t place = begin + static_cast<int64_t>(each.prompt + i) - 1;
      const float sampled = each.logprobs[i], trained = logs[static_cast<size_t>(row * (batch.length - 1) + place)];
      ++all.tokens;
      if (sampled == trained) continue;
      ++all.different;
      const double distance = std::abs(static_cast<double>(sampled) - trained);
      all.worst = std::max(all.worst, std::isfinite(distance) ? distance : INFINITY);
      if (!all.note.empty()) continue;
      std::string where;
      try {
        where = first_difference(model, {batch.inputs, batch.rows, batch.length, row, begin, each.tokens},
                                 samples[(s + 1) % samples.size()]->tokens);
      } catch (const Error& error) {
        where = error.what();
      }
      all.note = fmt::format("log probability {:.9g} when sampled, {:.9g} in training: {}", sampled, trained, where);
    }
  }
}

Compared compare_policy(Model& model, int64_t prompts, uint64_t seed, int64_t batches_begin) {
  const auto& writer = dynamic_cast<const GenerativeModel&>(model);
  TrainingArguments arguments;
  arguments.learning_rate = kRateOfMoves;
  arguments.bf16 = model.computing().dtype == DType::kBFloat16;
  TrainStep step(model, arguments);
  std::mt19937_64 random(seed);
  const std::vector<Layout> layouts = layouts_of(model);
  Compared all;
  size_t turn = static_cast<size_t>(batches_begin);
  for (int64_t round = 0; round < kRounds; ++round) {
    move_weights(step, round, random);
    const int64_t count = prompts * (round + 1) / kRounds - prompts * round / kRounds;
    if (count == 0) continue;
    std::vector<Sampled> samples = sample(writer, count, random);
    std::shuffle(samples.begin(), samples.end(), random);
    for (size_t begin = 0; begin < samples.size(); begin += kRowsOfBatch) {
      std::vector<const Sampled*> some;
      for (size_t i = begin; i < std::min(begin + kRowsOfBatch, samples.size()); ++i) some.push_back(&samples[i]);
      compare_batch(writer, some, batch_of_samples(some, layouts[turn++ % layouts.size()]), all);
    }
  }
  return all;
}

std::unique_ptr<Model> policy_of(const Policy& policy, const Setting& setting, uint64_t seed) {
  // Codes are those of the checkpoint, or where it has none, nf4.
  const std::string quantization = setting.codes ? "nf4" : "decompressed";
  std::unique_ptr<Model> model =
      policy.directory.empty()
          ? Model::from_config(policy.config, {.seed = seed, .quantization = setting.codes ? "nf4" : "none"})
          : Model::from_pretrained(policy.directory, {.seed = seed, .quantization = quantization});
  const auto* writer = dynamic_cast<const GenerativeModel*>(model.get());
  if (!writer || !writer->can_generate() || writer->has_encoder())
    fail(ErrorKind::kUsage, "--level on-policy: {} is no decoder that writes: expected a causal language model",
         model->architecture());
  if (setting.bf16) model->set_computing({.dtype = DType::kBFloat16});
  if (setting.lora)
    Adaptation::add(*model, AdapterConfig::with(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8})"), seed);
  return model;
}

}  // namespace

void certify_on_policy(Recorder& recorder) {
  const Options& options = recorder.options();
  std::vector<Policy> policies;
  for (const std::string& directory : options.models)
    policies.push_back({fs::path(directory).filename().string(), "", directory});
  if (policies.empty()) policies = own_policies();
  for (const Policy& policy : policies)
    for (const Setting& setting : kSettings) {
      if (recorder.stopped()) return;
      Row row{.level = "on-policy", .subject = policy.name, .variant = setting.name};
      try {
        const std::unique_ptr<Model> model = policy_of(policy, setting, options.seed);
        const Compared found = compare_policy(*model, options.prompts, options.seed, 0);
        row.cases = found.samples, row.worst = found.worst;
        row.note = found.note;
        if (found.different > 0) {
          row.verdict = Verdict::kFail, row.ratio = INFINITY;
          row.note = fmt::format("{} of {} tokens differ; {}", found.different, found.tokens, found.note);
        }
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kUsage) throw;
        // An operation that the device does not have, or a model that no paged engine computes.
        const bool refused = error.kind() == ErrorKind::kUnsupported ||
                             std::string_view(error.what()).find(": not supported: ") != std::string_view::npos;
        row.verdict = refused ? Verdict::kNotSupported : Verdict::kFail;
        row.ratio = refused ? 0 : INFINITY;
        row.note = error.what();
      }
      recorder.add(std::move(row));
    }
}

}  // namespace transom::certify
