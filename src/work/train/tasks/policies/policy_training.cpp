// SPDX-License-Identifier: Apache-2.0
// --task grpo and rloo: prompts, rewards, and a model that writes completions.
#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "inputs/data/columns.h"
#include "models/loading/maximum_tokens.h"
#include "runtime/device/static_shapes.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/step/train_step.h"
#include "work/train/tasks/chats/chat_template_path.h"
#include "work/train/tasks/policies/policy_objective.h"
#include "work/train/tasks/policies/policy_tasks.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/language_model.h"
#include "work/train/tasks/text/special_tokens.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

void defaults_of_both(TrainArguments& arguments, double beta) {
  const TrainingArguments usual;
  const ScriptArguments usual_script;
  TrainingArguments& training = arguments.training;
  ScriptArguments& script = arguments.script;
  set_default(arguments, "learning_rate", training.learning_rate, usual.learning_rate, 1e-6);
  set_default(arguments, "logging_steps", training.logging_steps, usual.logging_steps, 10.0);
  set_default(arguments, "beta", script.beta, usual_script.beta, beta);
  set_default(arguments, "disable_dropout", script.disable_dropout, usual_script.disable_dropout, false);
  // shuffle_dataset is about the order of the prompts in each epoch.
  if (is_given(arguments, "shuffle_train_dataset") && !script.shuffle_train_dataset)
    training.train_sampling_strategy = "sequential";
  script.shuffle_train_dataset = false;
}

Tokenizer tokenizer_of_policy(const ScriptArguments& script) {
  return Tokenizer::from_pretrained(script.tokenizer_name.value_or(script.model_name_or_path));
}

// How completions are drawn: TRL's fields, and those of generation_kwargs.
GenerationConfig generation_of(const ScriptArguments& script, const Tokenizer& tokenizer, const Model& model,
                               int64_t padding) {
  GenerationConfig config;
  config.do_sample = true;
  config.max_new_tokens = script.max_completion_length;
  config.temperature = script.temperature.value_or(1);
  config.top_k = script.top_k;
  config.top_p = script.top_p;
  config.min_p = script.min_p;
  config.repetition_penalty = script.repetition_penalty;
  config.pad_token_id = padding;
  config.bos_token_id = tokenizer.bos_token_id();
  // Every token that the model declares to end a text ends a completion, not the tokenizer's alone.
  if (tokenizer.eos_token_id()) config.eos_token_id.push_back(*tokenizer.eos_token_id());
  const Json of_model =
      parse_json(text_config_of(model.config()).get_json("eos_token_id"), "config.json: eos_token_id");
  TokenIds declared;
  if (path_exists(script.model_name_or_path) && directory_exists(script.model_name_or_path) &&
      file_exists(fs::path(script.model_name_or_path) / "generation_config.json"))
    declared = GenerationConfig::from_pretrained(script.model_name_or_path).eos_token_id;
  else if (of_model.is_number_integer()) declared = {of_model.get<int64_t>()};
  else if (of_model.is_array()) declared = of_model.get<TokenIds>();
  for (const int64_t token : declared)
    if (std::find(config.eos_token_id.begin(), config.eos_token_id.end(), token) == config.eos_token_id.end())
      config.eos_token_id.push_back(token);
  if (!script.generation_kwargs.text.empty()) config.update(script.generation_kwargs.text);
  for (const auto& [name, count] :
       {std::pair("num_beams", config.num_beams), std::pair("num_return_sequences", config.num_return_sequences)})
    if (count > 1)
      fail(ErrorKind::kUsage, "--generation_kwargs: {}: each completion is one draw; see --num_generations", name);
  if (!config.stop_strings.empty())
    fail(ErrorKind::kUnsupported, "--generation_kwargs: stop_strings: completions end with tokens; leave it out");
  return config;
}

// Batches that say nothing but how many there are: what they are about is written when their turn comes.
TrainingData turns_of(const PolicyRun& run) {
  TrainingData data;
  const GenerationPlan plan = run.plan;
  data.rows = static_cast<int64_t>(run.train->rows.size());
  const auto batch_of_rows = [](const std::vector<int64_t>& rows) {
    Batch batch;
    FloatRows numbers{.shape = {static_cast<int64_t>(rows.size())}, .values = {}};
    for (const int64_t row : rows) numbers.values.push_back(static_cast<float>(row));
    batch.arrays["prompt_rows"] = std::move(numbers);
    return batch;
  };
  data.batch = batch_of_rows;
  data.epoch_batches = [plan, generations = run.order->generations_of_epoch()](int64_t, int64_t batch_size) {
    const int64_t count = generations * plan.batches_of_generation() * plan.processes;
    return std::vector<std::vector<int64_t>>(static_cast<size_t>(count),
                                             std::vector<int64_t>(static_cast<size_t>(batch_size), 0));
  };
  return data;
}

// Prompts in a random order, each as often as it gets completions.
TrainingData evaluated_turns(const PolicyRun& run) {
  TrainingData data;
  const auto prompts = static_cast<int64_t>(run.validation->rows.size());
  const int64_t times = run.plan.evaluated_generations;
  data.rows = prompts * times;
  const std::vector<int64_t> order = Mt19937(static_cast<uint64_t>(run.plan.seed)).randperm(prompts);
  data.batch = [order, times](const std::vector<int64_t>& rows) {
    Batch batch;
    FloatRows numbers{.shape = {static_cast<int64_t>(rows.size())}, .values = {}};
    for (const int64_t row : rows)
      numbers.values.push_back(static_cast<float>(order.at(static_cast<size_t>(row / times))));
    batch.arrays["prompt_rows"] = std::move(numbers);
    return batch;
  };
  return data;
}

void show_prompt(const PolicyPrompts& prompts, const Tokenizer& tokenizer, const std::string& where) {
  log(LogLevel::kInfo, fmt::format("{}, to be completed:\n{}»", where, tokenizer.decode(prompts.rows.at(0).tokens)));
}

void save_with_template(TaskSetup& setup, const Tokenizer& tokenizer, const std::string& chat_template) {
  setup.save_tokenizer = [tokenizer, chat_template](const std::string& directory) {
    tokenizer.save_pretrained(directory);
    if (chat_template.empty()) return;
    const fs::path folder(directory), file = folder / "tokenizer_config.json";
    write_file(folder / "chat_template.jinja", chat_template);
    Json config = path_exists(file) ? read_json(file) : Json::object();
    config.erase("chat_template");  // which would hide the file
    write_file(file, dump_json(config, 2) + "\n");
  };
}

constexpr int64_t kLongestPair = 512;  // OnlineDPOConfig's max_length, of a prompt with a completion

// The prompts of both files, and how long they may be.
void read_prompts(PolicyRun& run, const TrainArguments& arguments, const TaskFiles& files, const Model& model,
                  const std::string& chat_template) {
  const ScriptArguments& script = arguments.script;
  PromptOptions options{.chat_template = chat_template, .add_special_tokens = !run.loss.of_pairs};
  if (!script.chat_template_kwargs.text.empty())
    options.variables = parse_json(script.chat_template_kwargs.text, "chat_template_kwargs");
  if (const std::optional<int64_t> most = maximum_tokens(model.config())) {
    options.most_tokens = *most - script.max_completion_length;
    options.why_most =
        fmt::format("of the model's {} less max_completion_length {}", *most, script.max_completion_length);
    if (options.most_tokens < 1)
      fail(ErrorKind::kUsage, "--max_completion_length: expected less than the model's {} tokens, found {}", *most,
           script.max_completion_length);
  }
  if (run.loss.of_pairs) {
    const int64_t most = script.max_seq_length.value_or(kLongestPair) - script.max_completion_length;
    if (most < 1)
      fail(ErrorKind::kUsage, "--max_length: expected more than max_completion_length {}, found {}",
           script.max_completion_length, script.max_seq_length.value_or(kLongestPair));
    if (options.most_tokens == 0 || most < options.most_tokens)
      options.most_tokens = most, options.why_most = "of max_length less max_completion_length";
  }
  const auto read = [&](const std::optional<Dataset>& data) {
    return data ? std::make_shared<const PolicyPrompts>(read_policy_prompts(*data, run.tokenizer, options)) : nullptr;
  };
  run.train = read(files.train), run.validation = read(files.validation);
  if (run.train && run.validation && run.train->is_chat != run.validation->is_chat)
    fail("{}: expected prompts like those of {}: texts, or lists of messages", files.validation->name(),
         files.train->name());
}

void add_objective(PolicyRun run, const TrainArguments& arguments, TaskSetup& setup) {
  std::optional<ReferenceMoves> moves;
  if (arguments.script.sync_ref_model)
    moves =
        ReferenceMoves{.alpha = arguments.script.ref_model_mixup_alpha, .every = arguments.script.ref_model_sync_steps};
  if (moves && run.loss.beta == 0)
    fail(ErrorKind::kUsage, "--sync_ref_model: moves the reference, which --beta 0 does not ask; leave it out");
  setup.complete = [run = std::move(run), moves](TaskSetup& whole) {
    // The model as it is now, before the first update.
    const auto reference =
        run.loss.beta != 0 ? std::make_shared<ReferencePolicy>(*whole.model) : std::shared_ptr<ReferencePolicy>();
    const auto objective = std::make_shared<PolicyObjective>(run, reference, moves);
    whole.metric_names = objective->measures()->names;
    const std::vector<std::string> numbers = objective->number_names();
    whole.metric_names->insert(whole.metric_names->end(), numbers.begin(), numbers.end());
    whole.objective = objective;
  };
}

}  // namespace

void group_policy_defaults(TrainArguments& arguments) { defaults_of_both(arguments, 0); }
void leave_one_out_defaults(TrainArguments& arguments) { defaults_of_both(arguments, 0.05); }
void online_preference_defaults(TrainArguments& arguments) {
  const TrainingArguments usual;
  const ScriptArguments usual_script;
  ScriptArguments& script = arguments.script;
  set_default(arguments, "learning_rate", arguments.training.learning_rate, usual.learning_rate, 5e-7);
  set_default(arguments, "disable_dropout", script.disable_dropout, usual_script.disable_dropout, true);
  set_default(arguments, "max_completion_length", script.max_completion_length, usual_script.max_completion_length,
              int64_t{64});
  if (!script.temperature) script.temperature = 0.9;
  defaults_of_both(arguments, 0.1);
}

void prepare_policy_training(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const Dataset& any = files.any();
  PolicyRun run{.loss = policy_loss_options(arguments), .tokenizer = tokenizer_of_policy(script)};
  run.plan = generation_plan(arguments);
  run.correction = rollout_correction(arguments);
  if (script.rollout_quantization != "none")
    run.rollout_weights = std::make_shared<RolloutWeights>(script.rollout_quantization);
  run.keeps_old = keeps_old_probabilities(arguments, run.plan, run.correction);
  run.computing = computing_of(arguments.training, false);
  run.computing.batch_invariant = true;  // as PolicyObjective::keeps_rows_apart has it
  if (arguments.training.label_smoothing_factor > 0)
    fail(ErrorKind::kUsage, "--label_smoothing_factor: is for labels that are classes; leave it out");
  const Tokenizer& tokenizer = run.tokenizer;
  const std::string chat_template =
      script.chat_template_path ? read_chat_template(*script.chat_template_path, tokenizer) : "";
  const auto pad = tokenizer.pad_token_id() ? tokenizer.pad_token_id() : tokenizer.eos_token_id();
  require(pad.has_value(), "{}: expected a tokenizer with a padding token or an end token, found neither",
          script.tokenizer_name.value_or(script.model_name_or_path));
  run.padding = {.pad_token_id = *pad};
  run.padding.multiple_of = script.pad_to_multiple_of;
  run.padding.bucket = length_buckets(script.length_buckets, std::nullopt);

  std::vector<std::string> columns = column_names(any);
  std::erase(columns, "prompt");
  RewardContext context{.columns = columns, .data = any.name()};
  run.rewards = make_rewards(script.reward_funcs, script.reward_model_name_or_path, context);
  run.advantages = advantage_options(arguments, run.rewards.size());
  if (run.loss.of_pairs && run.loss.beta <= 0)
    fail(ErrorKind::kUsage, "--beta: expected a number above 0, found {}", run.loss.beta);
  for (const auto* data : {&files.train, &files.validation})
    if (*data && column_names(**data) != column_names(any))
      fail("{}: expected the columns of {}, found {}", (*data)->name(), any.name(),
           fmt::join(column_names(**data), ", "));

  load_language_model(arguments, "the loss of policies", setup);
  read_prompts(run, arguments, files, *setup.model, chat_template);
  const GenerationConfig config = generation_of(script, tokenizer, *setup.model, *pad);
  run.ends = config.eos_token_id;
  run.ends.push_back(*pad);
  run.evaluation_writer = engine_writer(config, run.computing.dtype, run.correction.on);
  run.writer = run.evaluation_writer;
  if (script.completions_file)
    run.writer = file_writer(*script.completions_file, script.max_completion_length,
                             text_config_of(setup.model->config()).get_int("vocab_size"), run.correction.on);
  if (script.log_completions)
    run.log.emplace(arguments.training.output_dir,
                    script.json ? std::optional<int64_t>(0) : script.num_completions_to_print,
                    script.log_unique_prompts);
  std::vector<std::string> names;
  for (const Reward& reward : run.rewards) names.push_back(reward.name);
  setup.reads = what_is_read({fmt::format("prompts: column prompt; rewards: {}", fmt::join(names, ", "))}, files);
  if (run.train) {
    run.order = std::make_shared<const PromptOrder>(static_cast<int64_t>(run.train->rows.size()),
                                                    run.plan.prompts_of_generation(), run.plan.shuffles, run.plan.seed,
                                                    run.loss.of_pairs);
    setup.train = turns_of(run);
  }
  if (run.validation) setup.validation = evaluated_turns(run);
  if (!script.json) show_prompt(run.train ? *run.train : *run.validation, tokenizer, any.where(0));
  score_loss_only(setup);
  align_special_tokens(*setup.model, tokenizer);
  save_with_template(setup, tokenizer, chat_template);
  add_objective(std::move(run), arguments, setup);
}

}  // namespace transom
