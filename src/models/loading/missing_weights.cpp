// SPDX-License-Identifier: Apache-2.0
#include "models/loading/missing_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/terminal/log.h"

namespace transom {
namespace {

constexpr size_t kShown = 4;

std::vector<std::string> first_of(const std::vector<std::string>& names) {
  return {names.begin(), names.begin() + std::min(kShown, names.size())};
}

// Biases begin at zero, counters count steps of training, masks stand for what training hides. Vectors of texts and
// pictures are states of their own, which the pooler only reads.
bool answers_depend_on(const std::string& name, const std::string& task) {
  for (const std::string_view end : {"bias", "num_batches_tracked", "masked_spec_embed", "mask_token"})
    if (name.ends_with(end)) return false;
  const bool of_states =
      task == "feature-extraction" || task == "sentence-similarity" || task == "image-feature-extraction";
  return !(of_states && name.find("pooler.") != name.npos);
}

}  // namespace

void warn_of_missing(const LoadReport& report, const std::string& where) {
  if (report.missing.empty()) return;
  const std::vector<std::string> shown = first_of(report.missing);
  const std::string* near = nullptr;
  for (const std::string& name : shown)
    if (!near && report.unexpected.size() < 1000) near = nearest(name, report.unexpected);
  log(LogLevel::kWarning,
      fmt::format("{}: {} newly initialised: {}{}{}", where,
                  report.missing.size() == 1
                      ? "1 weight is missing from the checkpoint and was"
                      : fmt::format("{} weights are missing from the checkpoint and were", report.missing.size()),
                  fmt::join(shown, ", "), report.missing.size() > kShown ? " ..." : "",
                  near ? fmt::format("; the checkpoint holds '{}', which is not used", *near) : ""));
}

std::unique_ptr<Model> load_trained(const std::string& name_or_path, const LoadOptions& options) {
  LoadReport report;
  std::unique_ptr<Model> model = Model::from_pretrained(name_or_path, options, &report);
  std::vector<std::string> needed;
  for (const std::string& name : report.missing)
    if (answers_depend_on(name, options.task)) needed.push_back(name);
  if (!needed.empty())
    fail(
        "{}: expected the trained weights of {}, found none of {} ({}{}): {} would be random; choose a checkpoint "
        "that holds them, or train it",
        name_or_path, model->architecture(), needed.size() == 1 ? "one" : std::to_string(needed.size()),
        fmt::join(first_of(needed), ", "), needed.size() > kShown ? " ..." : "",
        options.task.empty() ? "answers" : "answers to " + options.task);
  warn_of_missing(report, name_or_path);
  return model;
}

}  // namespace transom
