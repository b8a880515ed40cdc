// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/json/json_errors.h"

namespace transom {
namespace {

Json to_object(const LogRecord& record) {
  Json object = Json::object();
  for (const auto& [name, value] : record)
    object[name] = std::visit([](const auto& each) { return Json(each); }, value);
  return object;
}

LogRecord to_record(const Json& object, std::string_view where) {
  require(object.is_object(), "{}: expected an object of numbers, found {}", where, object.dump());
  LogRecord record;
  for (const auto& [name, value] : object.items()) {
    if (value.is_number_integer()) record.emplace_back(name, value.get<int64_t>());
    else if (value.is_number()) record.emplace_back(name, value.get<double>());
    else if (value.is_null())
      record.emplace_back(name, std::numeric_limits<double>::quiet_NaN());  // NaN is read as null
    else if (value.is_string()) record.emplace_back(name, value.get<std::string>());
    else fail("{}: {}: expected a number, found {}", where, name, value.dump());
  }
  return record;
}

// With keys in order, as json.dumps(sort_keys=True) writes them.
Json sorted(const Json& json) {
  if (json.is_array()) {
    Json result = Json::array();
    for (const Json& each : json) result.push_back(sorted(each));
    return result;
  }
  if (!json.is_object()) return json;
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  std::sort(names.begin(), names.end());
  Json result = Json::object();
  for (const std::string& name : names) result[name] = sorted(json[name]);
  return result;
}

// A count of updates is a whole number in JSON; a ratio that was not yet computed is not.
Json steps_json(double steps) { return steps == std::floor(steps) ? Json(static_cast<int64_t>(steps)) : Json(steps); }

template <typename Type>
Json optional_json(const std::optional<Type>& value) {
  return value ? Json(*value) : Json();
}

Json text_json(const JsonText& text, const Json& standard) {
  return text.text.empty() ? standard : parse_json(text.text, "trainer state");
}

template <typename Type>
void read(const Json& object, const char* name, Type& field) {
  const auto found = object.find(name);
  if (found != object.end() && !found->is_null()) field = found->get<Type>();
}

template <typename Type>
void read(const Json& object, const char* name, std::optional<Type>& field) {
  const auto found = object.find(name);
  field = found != object.end() && !found->is_null() ? std::optional<Type>(found->get<Type>()) : std::nullopt;
}

void read(const Json& object, const char* name, JsonText& field) {
  const auto found = object.find(name);
  field.text = found != object.end() && found->is_object() && !found->empty() ? dump_json(*found) : std::string();
}

double rounded(double value, double digits) { return std::nearbyint(value * digits) / digits; }

}  // namespace

std::optional<double> find_number(const LogRecord& record, std::string_view name) {
  for (const auto& [each, value] : record) {
    if (each != name) continue;
    if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    if (const auto* number = std::get_if<double>(&value)) return *number;
  }
  return std::nullopt;
}

std::string to_json(const LogRecord& record) { return dump_json(to_object(record)); }

void TrainerState::compute_steps(const TrainingArguments& arguments, int64_t total_steps) {
  const auto absolute = [&](double steps) {
    return steps < 1 ? std::ceil(static_cast<double>(total_steps) * steps) : steps;
  };
  logging_steps = absolute(arguments.logging_steps);
  if (arguments.eval_steps) eval_steps = absolute(*arguments.eval_steps);
  save_steps = absolute(arguments.save_steps);
}

const LogRecord& TrainerState::log(LogRecord record) {
  record.emplace_back("epoch", epoch);
  record.emplace_back("step", global_step);
  return log_history.emplace_back(std::move(record));
}

std::string best_metric_name(const TrainingArguments& arguments) {
  const std::string name = arguments.metric_for_best_model.value_or("loss");
  return name.starts_with("eval_") ? name : "eval_" + name;
}

bool TrainerState::update_best(const LogRecord& metrics, const TrainingArguments& arguments) {
  if (!arguments.metric_for_best_model) return false;
  const std::string name = best_metric_name(arguments);
  const auto value = find_number(metrics, name);
  if (!value) {
    std::vector<std::string> names;
    for (const auto& [each, number] : metrics) names.push_back(each);
    fail("metric_for_best_model: expected one of {}, found {}{}", fmt::join(names, ", "), name,
         did_you_mean(name, names));
  }
  const bool greater = arguments.greater_is_better.value_or(false);
  if (best_metric ? !(greater ? *value > *best_metric : *value < *best_metric) : std::isnan(*value)) return false;
  best_metric = *value;
  if (arguments.save_strategy != "no") best_global_step = global_step;
  return true;
}

std::string TrainerState::to_json() const {
  Json history = Json::array();
  for (const LogRecord& record : log_history) history.push_back(to_object(record));
  const Json object = {{"epoch", epoch},
                       {"global_step", global_step},
                       {"max_steps", max_steps},
                       {"logging_steps", steps_json(logging_steps)},
                       {"eval_steps", steps_json(eval_steps)},
                       {"save_steps", steps_json(save_steps)},
                       {"train_batch_size", optional_json(train_batch_size)},
                       {"num_train_epochs", num_train_epochs},
                       {"num_input_tokens_seen", num_input_tokens_seen},
                       {"total_flos", total_flos},
                       {"log_history", history},
                       {"best_metric", optional_json(best_metric)},
                       {"best_global_step", optional_json(best_global_step)},
                       {"best_model_checkpoint", optional_json(best_model_checkpoint)},
                       {"is_local_process_zero", is_local_process_zero},
                       {"is_world_process_zero", is_world_process_zero},
                       {"is_hyper_param_search", is_hyper_param_search},
                       {"trial_name", optional_json(trial_name)},
                       {"trial_params", text_json(trial_params, Json())},
                       {"stateful_callbacks", text_json(stateful_callbacks, Json::object())}};
  return dump_json(sorted(object), 2, true) + "\n";
}

TrainerState TrainerState::from_json(std::string_view text, std::string_view where) {
  const Json object = parse_json(text, where);
  require(object.is_object(), "{}: expected an object, found something else", where);
  TrainerState state;
  try {
    read(object, "epoch", state.epoch);
    read(object, "global_step", state.global_step);
    read(object, "max_steps", state.max_steps);
    read(object, "logging_steps", state.logging_steps);
    read(object, "eval_steps", state.eval_steps);
    read(object, "save_steps", state.save_steps);
    read(object, "train_batch_size", state.train_batch_size);
    read(object, "num_train_epochs", state.num_train_epochs);
    read(object, "num_input_tokens_seen", state.num_input_tokens_seen);
    read(object, "total_flos", state.total_flos);
    read(object, "best_metric", state.best_metric);
    read(object, "best_global_step", state.best_global_step);
    read(object, "best_model_checkpoint", state.best_model_checkpoint);
    read(object, "is_local_process_zero", state.is_local_process_zero);
    read(object, "is_world_process_zero", state.is_world_process_zero);
    read(object, "is_hyper_param_search", state.is_hyper_param_search);
    read(object, "trial_name", state.trial_name);
    read(object, "trial_params", state.trial_params);
    read(object, "stateful_callbacks", state.stateful_callbacks);
    if (const auto history = object.find("log_history"); history != object.end() && !history->is_null())
      for (const Json& record : *history)
        state.log_history.push_back(to_record(record, fmt::format("{}: log_history", where)));
  } catch (const Json::exception& error) {
    fail("{}: is not the state of a Trainer: {}", where, json_reason(error));
  }
  return state;
}

void TrainerState::save(const std::filesystem::path& path) const { write_file(path, to_json()); }

TrainerState TrainerState::load(const std::filesystem::path& path) { return from_json(read_file(path), path.string()); }

void save_metrics(const std::filesystem::path& folder, std::string_view split, const LogRecord& metrics,
                  bool combined) {
  const Json object = to_object(metrics);
  write_file(folder / fmt::format("{}_results.json", split), dump_json(sorted(object), 4, true));
  if (!combined) return;
  const fs::path path = folder / "all_results.json";
  Json all = path_exists(path) ? read_json(path) : Json::object();
  require(all.is_object(), "{}: expected an object", path.string());
  all.update(object);
  write_file(path, dump_json(sorted(all), 4, true));
}

LogRecord speed_metrics(std::string_view split, double seconds, std::optional<int64_t> samples,
                        std::optional<int64_t> steps) {
  LogRecord record = {{fmt::format("{}_runtime", split), rounded(seconds, 1e4)}};
  if (seconds <= 0) return record;
  if (samples)
    record.emplace_back(fmt::format("{}_samples_per_second", split),
                        rounded(static_cast<double>(*samples) / seconds, 1e3));
  if (steps)
    record.emplace_back(fmt::format("{}_steps_per_second", split), rounded(static_cast<double>(*steps) / seconds, 1e3));
  return record;
}

}  // namespace transom
