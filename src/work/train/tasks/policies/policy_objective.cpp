// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/policy_objective.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "inputs/data/text/padding.h"
#include "runtime/tensor/evaluate.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/tasks/chats/token_measures.h"
#include "work/train/tasks/policies/pair_loss.h"
#include "work/train/tasks/policies/rollouts/of_processes.h"

namespace transom {
namespace {

constexpr const char* kRolloutsFile = "rollouts.json";

double mean_of_list(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// What a pass says of the tokens of completions: logits as they are drawn from.
Tensor logits_at(const Tensor& logits, double temperature) {
  return temperature == 1 ? logits : cast(logits, DType::kFloat32) / temperature;
}

}  // namespace

PolicyObjective::PolicyObjective(PolicyRun run, std::shared_ptr<ReferencePolicy> reference,
                                 std::optional<ReferenceMoves> moves)
    : ReferredObjective(std::move(reference), moves, run.loss.drops_out),
      run_(std::move(run)),
      measures_(run_.loss.of_pairs ? pair_measures() : policy_measures(run_.loss)) {}

bool PolicyObjective::asks_whole_weights(int64_t first, int64_t count) const {
  if (count == 0) return true;
  const int64_t of_one = run_.plan.batches_of_generation();
  return first / of_one != rollouts_.number || (first + count - 1) / of_one != rollouts_.number;
}

// ---- writing and scoring

// Of processes that have the same completions one asks, since a program may say something else when it is asked again.
std::vector<float> PolicyObjective::asked(const Reward& reward, const RewardRequest& request) const {
  const size_t count = request.completions.size();
  std::vector<float> values;
  if (run_.plan.writer == 0) {
    const std::vector<std::optional<double>> given = reward.function(request);
    require(given.size() == count, "--reward_funcs: {}: expected {} rewards, one for each completion, found {}",
            reward.name, count, given.size());
    for (const std::optional<double>& value : given)
      values.push_back(value ? static_cast<float>(*value) : std::numeric_limits<float>::quiet_NaN());
  }
  if (run_.plan.writers == 1) return values;
  const std::string bytes = shared().of_first({reinterpret_cast<const char*>(values.data()), values.size() * 4});
  if (bytes.size() != count * 4)
    fail(ErrorKind::kDevice, "rewards: the first process sent {} bytes, expected {}", bytes.size(), count * 4);
  values.resize(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

RewardTable PolicyObjective::rewards_of(const PolicyPrompts& prompts, const std::vector<int64_t>& rows,
                                        const std::vector<TokenIds>& completions, LoggedCompletions& logged) const {
  RewardRequest request;
  request.is_chat = prompts.is_chat;
  request.completion_ids = completions;
  for (size_t i = 0; i < rows.size(); ++i) {
    const PolicyPrompt& row = prompts.rows.at(static_cast<size_t>(rows[i]));
    request.prompts.push_back(row.prompt);
    request.completions.push_back(run_.tokenizer.decode(completions[i], true));
    for (const auto& [name, value] : row.columns) request.columns[name].push_back(value);
  }
  RewardTable table;
  for (const Reward& reward : run_.rewards) {
    table.names.push_back(reward.name);
    table.of_rewards.push_back(gathered(asked(reward, request)));
  }
  logged.prompts = std::move(request.prompts), logged.completions = std::move(request.completions);
  logged.completion_ids = completions;
  return table;
}

void PolicyObjective::note(bool training, const std::string& name, double value) {
  auto& [sum, count] = numbers_[training ? 0 : 1][name];
  if (std::isfinite(value)) sum += value, ++count;
}

void PolicyObjective::note_lengths(const std::vector<float>& prompts, const std::vector<float>& completions,
                                   const std::vector<float>& ended, bool training) {
  for (const auto* lengths : {&prompts, &completions})
    for (const float length : *lengths) tokens_seen_ += training ? length : 0;
  numbers_[training ? 0 : 1]["num_tokens"] = {tokens_seen_, 1};  // the last, not a mean
  std::vector<float> whole;
  for (size_t i = 0; i < completions.size(); ++i)
    if (ended[i] > 0) whole.push_back(completions[i]);
  note(training, "completions/clipped_ratio", 1 - mean_of_list(ended));
  if (run_.loss.of_pairs) note(training, "val/contain_eos_token", mean_of_list(ended));
  if (whole.empty()) whole.push_back(0);
  for (const auto& [name, lengths] :
       {std::pair("", &completions), std::pair("terminated_", static_cast<const std::vector<float>*>(&whole))}) {
    note(training, fmt::format("completions/mean_{}length", name), mean_of_list(*lengths));
    note(training, fmt::format("completions/min_{}length", name), *std::min_element(lengths->begin(), lengths->end()));
    note(training, fmt::format("completions/max_{}length", name), *std::max_element(lengths->begin(), lengths->end()));
  }
}

std::vector<WrittenCompletion> PolicyObjective::completions_of(Model& model, const std::vector<TokenIds>& texts,
                                                               uint64_t seed, int64_t first, bool training) {
  CompletionWriter& writer = training ? *run_.writer : *run_.evaluation_writer;
  if (run_.rollout_weights) run_.rollout_weights->renew(model);
  std::vector<WrittenCompletion> completed;
  {
    const RolloutWeights::InPlace writing(run_.rollout_weights.get());
    const auto [begin, end] = shared().range(texts.size());
    const std::vector<TokenIds> own(texts.begin() + static_cast<std::ptrdiff_t>(begin),
                                    texts.begin() + static_cast<std::ptrdiff_t>(end));
    if (!own.empty()) completed = writer.write(model, own, seed, first + static_cast<int64_t>(begin));
  }
  if (run_.plan.writers > 1) completed = read_completions(shared().all(text_of_completions(completed)));
  if (completed.size() != texts.size())
    fail(ErrorKind::kDevice, "completions: expected {}, found {}", texts.size(), completed.size());
  return completed;
}

PolicyObjective::Written PolicyObjective::write(Model& model, const PolicyPrompts& prompts,
                                                const std::vector<int64_t>& rows, int64_t generations, uint64_t seed,
                                                int64_t first, bool training, int64_t number) {
  std::vector<TokenIds> texts;
  for (const int64_t row : rows) texts.push_back(prompts.rows.at(static_cast<size_t>(row)).tokens);
  std::vector<WrittenCompletion> completed = completions_of(model, texts, seed, first, training);
  std::vector<TokenIds> completions;
  for (const WrittenCompletion& each : completed) completions.push_back(each.tokens);
  Written written;
  std::vector<float> prompt_lengths, lengths, ended;
  float tokens = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    require(!completions[i].empty(), "a completion has no token");
    const bool ends = std::find(run_.ends.begin(), run_.ends.end(), completions[i].back()) != run_.ends.end();
    Rollout rollout{.tokens = texts[i], .prompt = static_cast<int64_t>(texts[i].size())};
    rollout.tokens.insert(rollout.tokens.end(), completions[i].begin(), completions[i].end());
    if (run_.correction.on) rollout.sampled = std::move(completed[i].logprobs);
    rollout.counts = ends || !run_.plan.masks_truncated;
    if (rollout.counts) tokens += static_cast<float>(completions[i].size());
    prompt_lengths.push_back(static_cast<float>(texts[i].size()));
    lengths.push_back(static_cast<float>(completions[i].size()));
    ended.push_back(ends ? 1.0f : 0.0f);
    written.rows.push_back(std::move(rollout));
  }
  for (const float part : gathered({tokens})) written.tokens += part;
  note_lengths(gathered(prompt_lengths), gathered(lengths), gathered(ended), training);

  LoggedCompletions logged;
  logged.rewards = rewards_of(prompts, rows, completions, logged);
  std::vector<float> divergence;
  if (run_.loss.leave_one_out) {
    int64_t longest = 0;
    for (const Rollout& row : written.rows) longest = std::max(longest, static_cast<int64_t>(row.tokens.size()));
    add_log_probabilities(model, written.rows, training ? run_.plan.batch_rows : run_.plan.evaluated_rows,
                          padded_length(longest, run_.padding));
    correct(written.rows, training);
    float away = 0, counted = 0;
    for (const Rollout& row : written.rows) {
      float of_row = 0;
      for (size_t i = 0; row.counts && i < row.reference.size(); ++i) of_row += row.old[i] - row.reference[i];
      divergence.push_back(of_row);
      away += of_row,
          counted += row.counts ? static_cast<float>(row.tokens.size()) - static_cast<float>(row.prompt) : 0;
    }
    divergence = gathered(divergence);
    if (run_.loss.beta != 0) {
      const std::vector<float> all = gathered({away, counted});
      double sum = 0, count = 0;
      for (size_t i = 0; i < all.size(); i += 2) sum += all[i], count += all[i + 1];
      note(training, "kl", sum / std::max(count, 1.0));
    }
  }
  PairPreferences preferences;
  if (run_.loss.of_pairs) preferences = preferences_of(logged.rewards, run_.advantages.weights);
  const Advantages advantages = run_.loss.of_pairs
                                    ? std::move(preferences.sides)
                                    : advantages_of(logged.rewards, divergence, generations, run_.advantages);
  for (const auto& [name, value] : advantages.measured) note(training, name, value);
  const size_t begin = static_cast<size_t>(run_.plan.process) * rows.size();
  logged.advantages.assign(advantages.values.begin() + static_cast<std::ptrdiff_t>(begin),
                           advantages.values.begin() + static_cast<std::ptrdiff_t>(begin + rows.size()));
  for (std::vector<float>& values : logged.rewards.of_rewards)
    values = std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                values.begin() + static_cast<std::ptrdiff_t>(begin + rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    written.rows[i].advantage = logged.advantages[i];
    if (run_.loss.of_pairs) written.rows[i].score = preferences.scores.at(begin + i);
  }
  if (run_.log && training && run_.plan.process == 0 && run_.plan.writer == 0) run_.log->add(logged, number);
  return written;
}

void PolicyObjective::generate(Model& model, int64_t number) {
  const GenerationPlan& plan = run_.plan;
  const int64_t of_epoch = run_.order->generations_of_epoch();
  std::vector<int64_t> all, mine;
  for (const int64_t prompt : run_.order->prompts_of(number / of_epoch, number % of_epoch))
    all.insert(all.end(), static_cast<size_t>(plan.generations), prompt);
  const auto begin = all.begin() + plan.process * plan.rows_of_process();
  mine.assign(begin, begin + plan.rows_of_process());
  const int64_t first = number * plan.rows_of_generation() + plan.process * plan.rows_of_process();
  Written written =
      write(model, *run_.train, mine, plan.generations, static_cast<uint64_t>(plan.seed), first, true, number);
  rollouts_ = {.number = number, .length = 0, .tokens = written.tokens, .rows = {}};
  int64_t longest = 0;
  for (const Rollout& row : written.rows) longest = std::max(longest, static_cast<int64_t>(row.tokens.size()));
  rollouts_.length = padded_length(longest, run_.padding);
  // Batches have completions of many prompts.
  Mt19937 generator(static_cast<uint64_t>(plan.seed + number));
  if (plan.keeps_order) rollouts_.rows = std::move(written.rows);
  else
    for (const int64_t place : generator.randperm(static_cast<int64_t>(written.rows.size())))
      rollouts_.rows.push_back(std::move(written.rows[static_cast<size_t>(place)]));
  if (run_.loss.leave_one_out) return;
  add_log_probabilities(model, rollouts_.rows, plan.batch_rows, rollouts_.length);
  correct(rollouts_.rows, true);
}

void PolicyObjective::correct(std::vector<Rollout>& rows, bool training) {
  if (!run_.correction.on) return;
  for (Rollout& row : rows) row.weights = weights_of_rollout(row, run_.correction);
  for (const auto& [name, value] : measured_correction(rows, run_.correction, run_.plan.writers == 1))
    note(training, name, value);
}

void PolicyObjective::add_log_probabilities(const Model& model, std::vector<Rollout>& rows, int64_t at_once,
                                            int64_t length) const {
  const auto [begin, end] = shared().range(rows.size());
  add_own_log_probabilities(model, std::span(rows).subspan(begin, end - begin), at_once, length);
  if (run_.plan.writers == 1) return;
  Rollouts own{.number = 0, .length = length, .rows = {}};
  own.rows.assign(rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.begin() + static_cast<std::ptrdiff_t>(end));
  size_t next = 0;
  for (const std::string& text : shared().all(own.text()))
    for (Rollout& row : Rollouts::read(text, "completions of another process").rows) {
      if (next == rows.size() || row.tokens != rows[next].tokens)
        fail(ErrorKind::kDevice, "completions: another process has others");
      row.score = rows[next].score;
      rows[next++] = std::move(row);
    }
}

void PolicyObjective::add_own_log_probabilities(const Model& model, std::span<Rollout> rows, int64_t at_once,
                                                int64_t length) const {
  const bool old = run_.keeps_old, referred = reference() && run_.loss.beta != 0;
  if (!old && !referred) return;
  const NoGradient only_numbers;
  const auto values = [&](const Tensor& logits, const AnswerMask& mask) {
    return log_probabilities(logits_at(logits, run_.loss.temperature), mask).to_vector<float>();
  };
  for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(at_once)) {
    const std::span<Rollout> some = rows.subspan(begin, std::min(rows.size() - begin, static_cast<size_t>(at_once)));
    const NamedTensors inputs = inputs_of(model, some, length, 1, 1), given = policy_inputs(inputs);
    const AnswerMask mask = answer_mask(inputs.at("input_ids"), inputs.at("completion_mask"));
    const auto keep = [&](std::vector<float> Rollout::*field, const std::vector<float>& all) {
      const int64_t width = length - 1;
      for (size_t i = 0; i < some.size(); ++i) {
        const auto row = all.begin() + static_cast<std::ptrdiff_t>(i) * width;
        (some[i].*field).assign(row + some[i].prompt - 1, row + static_cast<std::ptrdiff_t>(some[i].tokens.size()) - 1);
      }
    };
    const ForwardContext context{.computing = run_.computing};
    if (old) keep(&Rollout::old, values(model.forward(given, context).at("logits"), mask));
    if (referred) keep(&Rollout::reference, values(reference()->logits(model, given, context), mask));
    if (!run_.correction.on || std::ranges::none_of(some, [](const Rollout& row) { return row.sampled.empty(); }))
      continue;
    const RolloutWeights::InPlace writing(run_.rollout_weights.get());
    keep(&Rollout::sampled, values(model.forward(given, context).at("logits"), mask));
  }
}

// ---- batches

NamedTensors PolicyObjective::inputs_of(const Model& model, std::span<const Rollout> rows, int64_t length,
                                        double normaliser, double parts) const {
  std::vector<Features> features;
  FloatRows advantages, scores, old, reference, sampled, weights;
  const auto count = static_cast<int64_t>(rows.size());
  for (const Rollout& row : rows) {
    Features each;
    each.sequences["input_ids"] = row.tokens;
    std::vector<int64_t>& mask = each.sequences["completion_mask"];
    mask.assign(row.tokens.size(), row.counts ? 1 : 0);
    std::fill_n(mask.begin(), row.prompt, 0);
    features.push_back(std::move(each));
    advantages.values.push_back(row.advantage);
    scores.values.push_back(row.score);
    const std::vector<float> of_tokens =
        row.weights.size() == 1
            ? std::vector<float>(row.tokens.size() - static_cast<size_t>(row.prompt), row.weights[0])
            : row.weights;
    for (const auto& [list, values] : {std::pair(&old, &row.old), std::pair(&reference, &row.reference),
                                       std::pair(&sampled, &row.sampled), std::pair(&weights, &of_tokens)}) {
      if (values->empty()) continue;
      std::vector<float> places(static_cast<size_t>(length - 1), 0);
      std::copy(values->begin(), values->end(), places.begin() + row.prompt - 1);
      list->values.insert(list->values.end(), places.begin(), places.end());
    }
  }
  PaddingOptions padding = run_.padding;
  padding.max_length = length;
  Batch batch = collate(features, padding);
  advantages.shape = scores.shape = {count};
  batch.arrays["advantages"] = std::move(advantages);
  if (run_.loss.of_pairs) batch.arrays["scores"] = std::move(scores);
  for (const auto& [name, list] : {std::pair("old_logps", &old), std::pair("ref_logps", &reference),
                                   std::pair("sampled_logps", &sampled), std::pair("sampling_weights", &weights)})
    if (list->values.size() == static_cast<size_t>(count * (length - 1))) {
      list->shape = {count, length - 1};
      batch.arrays[name] = std::move(*list);
    }
  NamedTensors inputs = to_inputs(batch, model);
  // Scalars, since lists have an entry for each row.
  inputs.set("normaliser", Tensor::from(std::vector<float>{static_cast<float>(normaliser)}, {}));
  inputs.set("parts", Tensor::from(std::vector<float>{static_cast<float>(parts)}, {}));
  return inputs;
}

void PolicyObjective::complete_batches(Model& model, std::vector<NamedTensors>& micro_batches, int64_t first) {
  const GenerationPlan& plan = run_.plan;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const int64_t batch = first + static_cast<int64_t>(i), number = batch / plan.batches_of_generation();
    if (rollouts_.number != number) generate(model, number);
    const int64_t part = batch % plan.steps;
    const double normaliser = std::max(rollouts_.tokens, 1.0) / static_cast<double>(plan.processes * plan.steps);
    micro_batches[i] =
        inputs_of(model,
                  std::span(rollouts_.rows)
                      .subspan(static_cast<size_t>(part * plan.batch_rows), static_cast<size_t>(plan.batch_rows)),
                  rollouts_.length, normaliser, static_cast<double>(micro_batches.size()));
  }
}

void PolicyObjective::complete_evaluation(Model& model, NamedTensors& inputs, int64_t number) {
  std::vector<int64_t> rows;
  for (const float row : inputs.at("prompt_rows").to_vector<float>()) rows.push_back(static_cast<int64_t>(row));
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t first = (number * run_.plan.processes + run_.plan.process) * run_.plan.evaluated_rows;
  // Draws of their own, which are the same in each evaluation.
  Written written = write(model, *run_.validation, rows, run_.plan.evaluated_generations,
                          static_cast<uint64_t>(run_.plan.seed) ^ (uint64_t{1} << 63), first, false, number);
  int64_t longest = 0;
  for (const Rollout& row : written.rows) longest = std::max(longest, static_cast<int64_t>(row.tokens.size()));
  const int64_t length = padded_length(longest, run_.padding);
  if (!run_.loss.leave_one_out) {
    add_log_probabilities(model, written.rows, count, length);
    correct(written.rows, false);
  }
  inputs = inputs_of(model, written.rows, length,
                     std::max(written.tokens, 1.0) / static_cast<double>(run_.plan.processes), 1);
}

Tensor PolicyObjective::loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const {
  ReferredObjective::prepare(pass.context);
  const AnswerMask mask = answer_mask(inputs.at("input_ids"), inputs.at("completion_mask"));
  const Tensor logits =
      logits_at(pass.model.forward(policy_inputs(inputs), pass.context).at("logits"), run_.loss.temperature);
  PolicyScores scores{.logps = log_probabilities(logits, mask),
                      .old = inputs.find("old_logps"),
                      .reference = inputs.find("ref_logps"),
                      .entropies = {},
                      .counted = mask.counted,
                      .advantages = inputs.at("advantages"),
                      .normaliser = inputs.at("normaliser"),
                      .parts = inputs.at("parts"),
                      .rewards = inputs.find("scores"),
                      .sampled = inputs.find("sampled_logps"),
                      .weights = inputs.find("sampling_weights")};
  if (run_.loss.of_pairs) {
    const PolicyLoss made = pair_loss(scores, run_.loss);
    if (outputs) outputs->set("policy_sums", made.sums);
    return made.loss;
  }
  scores.entropies = run_.loss.entropy_coefficient != 0 ? entropies(slice(logits, 1, 0, logits.dim(1) - 1))
                                                        : entropies_of_next(logits);
  const PolicyLoss made = policy_loss(scores, run_.loss, pass.rank, pass.ranks);
  if (outputs) outputs->set("policy_sums", made.sums);
  return made.loss;
}

// ---- logs and checkpoints

std::vector<std::pair<std::string, double>> PolicyObjective::take_numbers(bool training) {
  std::vector<std::pair<std::string, double>> taken;
  for (const auto& [name, value] : std::exchange(numbers_[training ? 0 : 1], {}))
    if (value.second > 0) taken.emplace_back(name, value.first / static_cast<double>(value.second));
  if (training && run_.loss.of_pairs) taken.emplace_back("beta", run_.loss.beta);
  if (training && run_.loss.entropy_coefficient != 0 && !run_.loss.leave_one_out)
    taken.emplace_back("entropy_coef", run_.loss.entropy_coefficient);
  return taken;
}

std::vector<std::string> PolicyObjective::number_names() const {
  std::vector<std::string> names = {"completions/clipped_ratio"};
  const bool pairs = run_.loss.of_pairs;
  for (const char* name : {"objective/scores", "objective/scores_margin", "val/contain_eos_token"})
    if (pairs) names.emplace_back(name);
  for (const char* name : {"reward", "reward_std", "frac_reward_zero_std"})
    if (!pairs) names.emplace_back(name);
  for (const Reward& reward : pairs ? std::vector<Reward>() : run_.rewards)
    for (const char* what : {"/mean", "/std"}) names.push_back("rewards/" + reward.name + what);
  for (const char* what : {"mean", "min", "max"})
    for (const char* of : {"_length", "_terminated_length"}) names.push_back(fmt::format("completions/{}{}", what, of));
  for (const std::string& name : run_.correction.on ? names_of_correction() : std::vector<std::string>())
    names.push_back(name);
  return names;
}

void PolicyObjective::save(const std::filesystem::path& directory) const {
  ReferredObjective::save(directory);
  if (rollouts_.number < 0) return;
  write_file(directory / kRolloutsFile, dump_json({{"num_tokens", tokens_seen_},
                                                   {"process", run_.plan.process},
                                                   {"processes", run_.plan.processes},
                                                   {"rollouts", rollouts_.text()}}));
}

void PolicyObjective::load(const std::filesystem::path& directory) {
  ReferredObjective::load(directory);
  const fs::path file = directory / kRolloutsFile;
  if (!file_exists(file)) return;
  const Json saved = read_json(file);
  require(saved.is_object() && saved.contains("rollouts") && saved["rollouts"].is_string() &&
              saved.contains("num_tokens") && saved["num_tokens"].is_number(),
          "{}: expected the completions of a run", file.string());
  tokens_seen_ = saved["num_tokens"].get<double>();
  Rollouts rollouts = Rollouts::read(saved["rollouts"].get<std::string>(), file.string());
  const bool same_rows = static_cast<int64_t>(rollouts.rows.size()) == run_.plan.rows_of_process();
  // Of several processes each wrote its own, of which the checkpoint has the first one's: all are written again.
  if (run_.plan.processes == 1 && saved.value("processes", 1) == 1 && same_rows) rollouts_ = std::move(rollouts);
}

}  // namespace transom
