// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/model_classes.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "files/family/family.h"
#include "files/hub/adapters.h"
#include "inputs/data/class_names.h"
#include "models/records.h"
#include "work/train/tasks/read_report.h"

namespace transom {
namespace {

// "0 is NEGATIVE, 1 is POSITIVE", of the labels that the files have.
std::string pairs_of(const Labels& labels, const std::vector<int64_t>& ids, const std::vector<std::string>& classes) {
  std::vector<std::string> pairs;
  for (size_t i = 0; i < ids.size(); ++i)
    pairs.push_back(fmt::format("{} is {}", labels.names()[i], classes[static_cast<size_t>(ids[i])]));
  return listed_names(pairs);
}

// The names that the model does not have.
std::vector<std::string> unknown_names(const std::vector<std::string>& names, const std::vector<std::string>& classes) {
  std::vector<std::string> unknown;
  for (const std::string& name : names)
    if (match_classes({name}, classes).how == ClassMatch::How::kNone) unknown.push_back(name);
  return unknown.empty() ? names : unknown;
}

}  // namespace

const Architecture* class_for(const ScriptArguments& script, std::string_view pipeline) {
  std::filesystem::path config =
      script.model_name_or_path.empty() ? script.config_name.value_or("") : script.model_name_or_path;
  if (directory_exists(config)) config /= "config.json";
  const Family* family = file_exists(config) ? find_family(Config::read(config)) : nullptr;
  return family ? find_architecture(*family, pipeline) : nullptr;
}

ModelClasses classes_of_model(const std::string& directory) {
  const Config config = Config::read(base_of_adapters(directory) / "config.json");
  ModelClasses classes{.names = known_classes(directory)};
  for (const std::string& name : config.get_strings("architectures"))
    if (const Architecture* known = find_architecture(name))
      classes.has_head = classes.has_head || has_named_classes(known->head);
  classes.has_head = classes.has_head || !classes_of_adapters(directory).empty();
  const std::string problem = config.get_string("problem_type", "");
  classes.several_at_once = problem == "multi_label_classification";
  classes.one_at_once = problem == "single_label_classification";
  if (classes.names.empty() && classes.has_head)
    for (int64_t i = 0; i < config.get_int("num_labels", 2); ++i) classes.names.push_back(fmt::format("LABEL_{}", i));
  return classes;
}

void warn_of_one_class(const std::vector<std::string>& classes) {
  if (classes.size() == 1)
    log(LogLevel::kWarning, fmt::format("all rows to train on have the label {}: from one class a model learns nothing",
                                        quoted(classes[0])));
}

void match_to_model(Labels& labels, const TrainArguments& arguments, bool training, const std::string& source,
                    LoadOptions& options) {
  using enum ClassMatch::How;
  const ModelClasses model = classes_of_model(arguments.script.model_name_or_path);
  const auto& classes = model.names;
  const bool has_head = model.has_head;
  const std::vector<std::string> names = labels.names();
  if (training && labels.kind() == LabelKind::kClasses) warn_of_one_class(names);
  if (labels.kind() == LabelKind::kIndicators) {
    // Columns have no names: those of the model's classes are theirs.
    if (has_head && !classes.empty() && classes.size() != names.size() && !arguments.script.ignore_mismatched_sizes)
      fail("{}: its labels are lists of {} numbers, one a class, and the model has {} ({}){}", source, names.size(),
           counted(classes.size(), "class"), listed_names(classes),
           training ? "; --ignore_mismatched_sizes gives it a new head" : "");
    options.num_labels = static_cast<int64_t>(names.size());
    if (classes.size() == names.size()) options.labels = classes;
    return;
  }
  if (classes.empty()) {
    options.labels = names;
    return;
  }
  const ClassMatch match = match_classes(names, classes);
  const bool named = !are_unnamed(classes), as_many = names.size() == classes.size();
  if (match.how == kSame || match.how == kWithoutCase) {
    labels = labels.as_classes(classes, match.ids);
    return;
  }
  if (match.how == kNumbers && (!training || (has_head && !as_many && !arguments.script.ignore_mismatched_sizes))) {
    if (named)
      log(LogLevel::kWarning, fmt::format("{}: its labels are numbers, taken as those of the model's classes: {}",
                                          source, pairs_of(labels, match.ids, classes)));
    labels = labels.as_classes(classes, match.ids);
    return;
  }
  if (training) {
    if (has_head && !as_many && !arguments.script.ignore_mismatched_sizes)
      fail("{}: has {} ({}), and the head of {} has {} ({}); --ignore_mismatched_sizes gives it a new head", source,
           counted(names.size(), "label"), listed_names(names), arguments.script.model_name_or_path,
           counted(classes.size(), "class"), listed_names(classes));
    if (has_head && named && as_many)
      log(LogLevel::kWarning,
          fmt::format("{}: its labels ({}) are not the names of the model's classes ({}): they take the places of "
                      "these in alphabetical order",
                      source, listed_names(names), listed_names(classes)));
    options.labels = names;
    return;
  }
  if (match.how == kInOrder) {
    log(LogLevel::kWarning, fmt::format("{}: the model's classes have no names; labels are taken in their order: {}",
                                        source, pairs_of(labels, match.ids, classes)));
    labels = labels.as_classes(classes, match.ids);
    return;
  }
  if (!has_head) {
    options.labels = names;
    return;
  }
  fail("{}: its labels {} are not classes of the model, which are {}; rename them, or use the model of these labels",
       source, listed_names(unknown_names(names, classes)), listed_names(classes));
}

}  // namespace transom
