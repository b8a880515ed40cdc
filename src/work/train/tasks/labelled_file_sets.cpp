// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/labelled_file_sets.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "work/train/tasks/model_classes.h"
#include "work/train/tasks/read_report.h"

namespace transom {
namespace {

using Files = std::vector<LabelledFiles::File>;

// Takes a part of the training files for validation, at random but the same for a seed.
Files split_off(Files& files, double part, int64_t seed) {
  const std::vector<int64_t> order = Mt19937(static_cast<uint64_t>(seed)).randperm(static_cast<int64_t>(files.size()));
  const auto count = static_cast<size_t>(std::ceil(part * static_cast<double>(files.size())));
  Files taken, kept;
  for (size_t i = 0; i < order.size(); ++i) (i < count ? taken : kept).push_back(files[static_cast<size_t>(order[i])]);
  if (taken.empty() || kept.empty())
    fail("train_val_split {} of {} files leaves none for one of the two", part, files.size());
  files = std::move(kept);
  return taken;
}

void limit(Files& files, std::optional<int64_t> count, int64_t seed) {
  if (!count || *count >= static_cast<int64_t>(files.size())) return;
  // The first ones would be of one class.
  Files kept;
  const auto order = Mt19937(static_cast<uint64_t>(seed)).randperm(static_cast<int64_t>(files.size()));
  for (int64_t i = 0; i < *count; ++i) kept.push_back(files[static_cast<size_t>(order[static_cast<size_t>(i)])]);
  files = std::move(kept);
}

// Gives the files of `set` the numbers that `labels` have.
void renumber(LabelledFiles& set, const Labels& labels, const std::string& source) {
  for (LabelledFiles::File& file : set.files)
    file.label = labels.id(set.classes[static_cast<size_t>(file.label)], source);
  set.classes = labels.names();
}

}  // namespace

LabelledFileSets labelled_file_sets(const TrainArguments& arguments, const TaskFiles& files,
                                    const LabelledFileKind& kind) {
  const ScriptArguments& script = arguments.script;
  const int64_t seed = arguments.training.seed;
  const auto read = [&](const std::optional<std::string>& directory,
                        const std::optional<Dataset>& rows) -> std::optional<LabelledFiles> {
    if (directory) return LabelledFiles::open_folder(*directory, kind.is_wanted, kind.what, kind.list);
    if (rows) return LabelledFiles::read_rows(*rows, kind.column, script.label_column_name.value_or("label"));
    return std::nullopt;
  };
  LabelledFileSets sets{read(script.train_dir, files.train), read(script.validation_dir, files.validation), {}};
  if (!sets.train && !sets.validation) fail(ErrorKind::kUsage, "--train_dir or --train_file is missing");
  if (sets.train && !sets.validation && arguments.training.do_eval)
    sets.validation = LabelledFiles{sets.train->classes, split_off(sets.train->files, script.train_val_split, seed)};
  const std::vector<std::string> classes = (sets.train ? *sets.train : *sets.validation).classes;

  Labels labels(LabelKind::kClasses, classes);
  LoadOptions options;
  const std::string source = sets.train ? script.train_dir.value_or(script.train_file.value_or(""))
                                        : script.validation_dir.value_or(script.validation_file.value_or(""));
  match_to_model(labels, arguments, sets.train.has_value(), source, options);
  sets.new_labels = options.labels;
  std::vector<std::pair<int64_t, std::string>> counts;
  if (sets.train) {
    renumber(*sets.train, labels, source);
    limit(sets.train->files, script.max_train_samples, seed);
    counts.emplace_back(sets.train->files.size(), "to train on");
  }
  if (sets.validation) {
    renumber(*sets.validation, labels, script.validation_dir.value_or(script.validation_file.value_or("")));
    limit(sets.validation->files, script.max_eval_samples, seed);
    counts.emplace_back(sets.validation->files.size(), "to evaluate");
  }
  const bool folders = sets.train ? script.train_dir.has_value() : script.validation_dir.has_value();
  sets.reads = what_is_read({folders ? fmt::format("{}: files of {}", kind.what, source)
                                     : fmt::format("{}: column {}", kind.what, kind.column),
                             folders ? fmt::format("label: {}, a folder each", counted(classes.size(), "class"))
                                     : fmt::format("label: {}", counted(classes.size(), "class"))},
                            counts);
  return sets;
}

}  // namespace transom
