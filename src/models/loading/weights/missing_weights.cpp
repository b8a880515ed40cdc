// SPDX-License-Identifier: Apache-2.0
#include "models/loading/weights/missing_weights.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/terminal/log.h"
#include "base/text/counted.h"
#include "models/loading/catalogue.h"
#include "models/loading/family_names.h"

namespace transom {
namespace {

constexpr size_t kShown = 4;

std::vector<std::string> first_of(const std::vector<std::string>& names) {
  return {names.begin(), names.begin() + std::min(kShown, names.size())};
}

// Counters count steps of training, masks stand for what training hides, and final_logits_bias is no parameter: zero
// unless somebody sets it. Vectors of texts and pictures are states of their own, which the pooler only reads.
bool answers_depend_on(const std::string& name, bool of_states) {
  for (const std::string_view end : {"final_logits_bias", "num_batches_tracked", "masked_spec_embed", "mask_token"})
    if (name.ends_with(end)) return false;
  return !(of_states && name.find("pooler.") != name.npos);
}

// Whether the model gives vectors, which those of a task or of a class without a head are.
bool gives_states(const Model& model, const std::string& task) {
  if (!task.empty())
    return task == "feature-extraction" || task == "sentence-similarity" || task == "image-feature-extraction";
  for (const CatalogueRow& row : catalogue())
    if (row.architecture == model.architecture())
      return std::any_of(row.tasks.begin(), row.tasks.end(),
                         [](const std::string& each) { return each.ends_with("feature-extraction"); });
  return false;
}

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}{}", fmt::join(first_of(names), ", "), names.size() > kShown ? " ..." : "");
}

// A tensor of the checkpoint that nothing reads, perhaps a misspelt one.
std::string unused(const LoadReport& report, const std::vector<std::string>& missing) {
  const std::string* near = nullptr;
  for (const std::string& name : first_of(missing))
    if (!near && report.unexpected.size() < 1000) near = nearest(name, report.unexpected);
  return near ? fmt::format("; the checkpoint holds {}, which is not used", quoted(*near)) : "";
}

// The number of the layer of a decoder that a tensor is of: "model.layers.61.eh_proj.weight" -> 61; -1: of none.
int64_t layer_of(const std::string& name) {
  for (const std::string_view stack : {"model.layers.", "layers."}) {
    if (!name.starts_with(stack)) continue;
    int64_t layer = -1;
    const char* const end = name.data() + name.size();
    const auto [after, error] = std::from_chars(name.data() + stack.size(), end, layer);
    return error == std::errc() && after != end && *after == '.' ? layer : -1;
  }
  return -1;
}

void say_further_token_heads(const Model& model, const LoadReport& report, const std::string& where) {
  if (report.unexpected.empty()) return;
  const Config& config = model.config();
  const std::vector<std::string> heads =
      further_token_heads(report.unexpected, config.has("num_hidden_layers") ? config.get_int("num_hidden_layers") : 0);
  if (heads.empty()) return;
  log(LogLevel::kInfo, fmt::format("{}: {} of heads that predict further tokens (MTP) {} left out: {}", where,
                                   counted(heads.size(), "weight"), heads.size() == 1 ? "is" : "are", listed(heads)));
}

}  // namespace

std::vector<std::string> further_token_heads(const std::vector<std::string>& unexpected, int64_t layers) {
  std::vector<std::string> heads;
  for (const std::string& name : unexpected)
    if (name.starts_with("mtp.") || name.find(".mtp.") != name.npos || (layers > 0 && layer_of(name) >= layers))
      heads.push_back(name);
  return heads;
}

void warn_of_missing(const LoadReport& report, const std::string& where) {
  if (report.missing.empty()) return;
  log(LogLevel::kWarning,
      fmt::format("{}: {} missing from the checkpoint and {} newly initialised: {}{}", where,
                  counted(report.missing.size(), "weight") + (report.missing.size() == 1 ? " is" : " are"),
                  report.missing.size() == 1 ? "was" : "were", listed(report.missing), unused(report, report.missing)));
}

void expect_trained(const Model& model, const LoadReport& report, const std::string& where, const std::string& task) {
  std::vector<std::string> needed;
  const bool of_states = gives_states(model, task);
  for (const std::string& name : report.missing)
    if (answers_depend_on(name, of_states)) needed.push_back(name);
  if (!needed.empty())
    fail(
        "{}: expected the trained weights of {}, found none of {} ({}){}: {} would be random; choose a checkpoint "
        "that holds them, or train it",
        where, model.architecture(), needed.size() == 1 ? "one" : std::to_string(needed.size()), listed(needed),
        unused(report, needed), task.empty() ? "answers" : "answers to " + task);
  warn_of_missing(report, where);
  say_further_token_heads(model, report, where);
}

void expect_trained_body(const Model& model, const LoadReport& report, const std::string& where) {
  std::vector<std::string> body;
  for (const std::string& name : parameters_of_body(model, report.missing))
    if (answers_depend_on(name, false)) body.push_back(name);
  if (!body.empty())
    fail(
        "{}: expected the trained weights of the body of {}, found none of {} ({}){}: training makes new heads, no "
        "other layers; choose a checkpoint that holds them, or train a new model with --config_name",
        where, model.architecture(), body.size() == 1 ? "one" : std::to_string(body.size()), listed(body),
        unused(report, body));
  say_further_token_heads(model, report, where);
  if (report.missing.empty()) return;
  log(LogLevel::kInfo,
      fmt::format("{}: {} of the new head {} initialised (expected: training makes the head): {}{}", where,
                  counted(report.missing.size(), "weight"), report.missing.size() == 1 ? "is" : "are",
                  listed(report.missing), unused(report, report.missing)));
}

std::unique_ptr<Model> load_trained(const std::string& name_or_path, const LoadOptions& options) {
  LoadReport report;
  std::unique_ptr<Model> model = Model::from_pretrained(name_or_path, options, &report);
  expect_trained(*model, report, name_or_path, options.task);
  return model;
}

}  // namespace transom
