// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/device_arguments.h"

#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "runtime/device/descriptions/descriptions.h"
#include "runtime/device/descriptions/settings.h"
#include "runtime/distributed/environment.h"
#include "transom/distributed.h"
#include "work/train/arguments/argument_tables.h"

namespace transom {
namespace {

// Rows hold views: what is not in a description is kept here for good.
std::string_view kept_text(const std::string& text) {
  static std::mutex mutex;
  static auto& kept = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return *kept.insert(text).first;
}

Argument row_of(const DescribedArgument& described) {
  using Kind = DescribedArgument::Kind;
  switch (described.kind) {
    case Kind::kAlias:
      return alias(described.name, described.text);
    case Kind::kIgnored:
      return ignored(described.name, described.text);
    case Kind::kOnly:
      return only_default(described.name, {described.accepted.begin(), described.accepted.end()}, described.text);
    default:
      break;
  }
  Argument row{.name = described.name, .doc = described.text};
  row.field = [name = described.name, is_flag = described.kind == Kind::kFlag](void* record) -> Field {
    auto& values = *static_cast<DeviceArguments*>(record);
    if (is_flag) return &values.flags[name];
    return &values.texts[name];
  };
  return row;
}

std::string device_asked_for(const TrainArguments& arguments) {
  return arguments.script.device.value_or(first_text({"TRANSOM_DEVICE"}));
}

bool is_of(const std::string& device, const DeviceDescription& description) {
  return device.substr(0, device.find(':')) == description.device;
}

// Those of the plugin that were given.
Json given_values(const DeviceArguments& given, const DeviceDescription& description) {
  Json values = Json::object();
  for (const DescribedArgument& argument : description.arguments) {
    if (const auto flag = given.flags.find(argument.name); flag != given.flags.end() && flag->second)
      values[argument.name] = *flag->second;
    if (const auto text = given.texts.find(argument.name); text != given.texts.end() && text->second)
      values[argument.name] = *text->second;
  }
  return values;
}

Json list_of(const Json& answer, const char* name, const DeviceDescription& description) {
  if (!answer.contains(name)) return Json::array();
  if (!answer[name].is_array())
    fail(ErrorKind::kDevice, "{}: settings: {}: expected a list, found {}", description.library.string(), name,
         answer[name].dump());
  return answer[name];
}

void resolve_with(const DeviceDescription& description, TrainArguments& arguments) {
  TrainingArguments& training = arguments.training;
  const Json values = given_values(training.device_arguments, description);
  const std::string device = device_asked_for(arguments);
  if (values.empty() && !is_of(device, description)) return;
  Json all = write_fields({training_table(), &training});
  all.update(write_fields({script_table(), &arguments.script}));
  Json given = Json::array();
  if (arguments.given)
    for (const std::string& name : *arguments.given) given.push_back(name);
  const Json answer = ask_settings(
      description.device,
      {{"question", "arguments"}, {"device", device}, {"arguments", values}, {"values", all}, {"given", given}},
      !values.empty());
  const BoundTable tables[] = {{training_table(), &training}, {script_table(), &arguments.script}};
  if (answer.contains("set"))
    assign_all(tables, answer["set"], description.library.string() + ": settings", arguments.notes);
  for (const Json& note : list_of(answer, "notes", description))
    arguments.notes.push_back(note.is_string() ? note.get<std::string>() : note.dump());
  if (answer.contains("avoid") && answer["avoid"] == true) arguments.device_but = description.device;
}

}  // namespace

std::vector<Argument> device_table(bool of_training) {
  std::vector<Argument> rows;
  for (const auto& description : device_descriptions()) {
    if (description->arguments.empty()) continue;
    if (!description->arguments_title.empty()) rows.push_back(section(description->arguments_title));
    for (const DescribedArgument& argument : description->arguments) {
      if (!of_training && argument.of_training) continue;
      if (description->library.empty())
        rows.push_back(unavailable(argument.name, kept_text("an argument of " + description->missing())));
      else rows.push_back(row_of(argument));
    }
  }
  return rows;
}

void resolve_device_arguments(TrainArguments& arguments) {
  for (const auto& description : device_descriptions()) resolve_with(*description, arguments);
  ScriptArguments& script = arguments.script;
  if (!arguments.training.use_cpu) return;
  if (script.device && *script.device != "cpu")
    fail(ErrorKind::kUsage, "--use_cpu and --device {}: expected cpu, or no --device", *script.device);
  script.device = "cpu";
}

int64_t processes_of_device(const TrainArguments& arguments, bool evaluates) {
  const std::string device = device_asked_for(arguments);
  const int64_t found = launch_of_environment().ranks;
  const bool launched = found > 1 || !first_text({"WORLD_SIZE"}).empty();
  const Json answer = ask_settings(device, {{"question", "processes"},
                                            {"device", device},
                                            {"evaluates", evaluates},
                                            {"processes", found},
                                            {"launched", launched}});
  if (!answer.contains("processes")) return 1;
  if (!answer["processes"].is_number_integer() || answer["processes"] < 1 || answer["processes"] > 4096)
    fail(ErrorKind::kDevice, "{}: settings: processes: expected a number from 1 to 4096, found {}", device,
         answer["processes"].dump());
  return answer["processes"].get<int64_t>();
}

}  // namespace transom
