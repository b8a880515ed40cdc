// SPDX-License-Identifier: Apache-2.0
#include "train/tasks/labelled_file_sets.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "hub/adapters.h"
#include "train/tasks/text_features.h"

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

// Gives the files of `set` the numbers of the same classes in another order of them.
void renumber(LabelledFiles& set, const std::vector<std::string>& classes, const std::string& source) {
  for (LabelledFiles::File& file : set.files) {
    const std::string& name = set.classes[static_cast<size_t>(file.label)];
    const auto place = std::find(classes.begin(), classes.end(), name);
    if (place == classes.end())
      fail("{}: its class {} is not one of those that are trained: {}", source, quoted(name), fmt::join(classes, ", "));
    file.label = place - classes.begin();
  }
  set.classes = classes;
}

}  // namespace

LabelledFileSets labelled_file_sets(const TrainArguments& arguments, const TaskFiles& files,
                                    const LabelledFileKind& kind) {
  const ScriptArguments& script = arguments.script;
  const int64_t seed = arguments.training.seed;
  const auto read = [&](const std::optional<std::string>& directory,
                        const std::optional<Dataset>& rows) -> std::optional<LabelledFiles> {
    if (directory) return LabelledFiles::open_folder(*directory, kind.is_wanted, kind.what);
    if (rows) return LabelledFiles::read_rows(*rows, kind.column, script.label_column_name.value_or("label"));
    return std::nullopt;
  };
  LabelledFileSets sets{read(script.train_dir, files.train), read(script.validation_dir, files.validation), {}};
  if (!sets.train && !sets.validation) fail(ErrorKind::kUsage, "--train_dir or --train_file is missing");
  if (sets.train && !sets.validation && arguments.training.do_eval)
    sets.validation = LabelledFiles{sets.train->classes, split_off(sets.train->files, script.train_val_split, seed)};
  if (sets.train) warn_of_one_class(sets.train->classes);
  const std::vector<std::string> classes = (sets.train ? *sets.train : *sets.validation).classes;

  // A checkpoint that was trained on the same classes keeps its order of them.
  const std::vector<std::string> known = known_classes(script.model_name_or_path);
  std::vector<std::string> sorted = known, sorted_classes = classes;
  std::sort(sorted.begin(), sorted.end());
  std::sort(sorted_classes.begin(), sorted_classes.end());
  // Files to evaluate on alone need not have all classes.
  const bool same = sets.train
                        ? sorted == sorted_classes
                        : std::includes(sorted.begin(), sorted.end(), sorted_classes.begin(), sorted_classes.end());
  if (!same) sets.new_labels = classes;
  const std::vector<std::string>& order = same ? known : classes;
  if (sets.train) {
    renumber(*sets.train, order, script.train_dir.value_or(script.train_file.value_or("")));
    limit(sets.train->files, script.max_train_samples, seed);
  }
  if (sets.validation) {
    renumber(*sets.validation, order, script.validation_dir.value_or(script.validation_file.value_or("")));
    limit(sets.validation->files, script.max_eval_samples, seed);
  }
  return sets;
}

}  // namespace transom
