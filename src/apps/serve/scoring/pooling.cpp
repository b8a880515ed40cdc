// SPDX-License-Identifier: Apache-2.0
// POST /pooling of vLLM: what a model makes of a text as numbers, a vector or the scores of its classes.
#include <ctime>
#include <map>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/written_numbers.h"
#include "apps/serve/encoders/encode_inputs.h"
#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/openai/identifiers.h"
#include "apps/serve/scoring/pair_scores.h"
#include "apps/serve/scoring/routes.h"
#include "base/error.h"

namespace transom::serve {
namespace {

Json answer_of(const std::string& model, const std::vector<std::vector<float>>& rows, int64_t tokens) {
  Json data = Json::array();
  for (size_t i = 0; i < rows.size(); ++i)
    data.push_back({{"index", i}, {"object", "pooling"}, {"data", written(rows[i])}});
  return {{"id", new_identifier("pool-")}, {"object", "list"},
          {"created", std::time(nullptr)}, {"model", model},
          {"data", std::move(data)},       {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

// The scores of one text in the order of the labels.
std::vector<float> scores_of(const Classes& classes, const std::vector<std::string>& labels) {
  std::map<std::string, float> by_label;
  for (const auto& [label, score] : classes) by_label[label] = static_cast<float>(score);
  std::vector<float> scores;
  for (size_t i = 0; i < classes.size(); ++i) {
    const std::string label = i < labels.size() ? labels[i] : "LABEL_" + std::to_string(i);
    const auto found = by_label.find(label);
    if (found == by_label.end() || by_label.size() != classes.size())
      fail("pooling: expected classes with names of their own, found {} names of {} classes, {} among them: {}",
           by_label.size(), classes.size(), quoted(label), found != by_label.end());
    scores.push_back(found->second);
  }
  return scores;
}

}  // namespace

void pooling(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  const auto usable = [](const ModelFacts& facts) { return facts.embeds || facts.runs("text-classification"); };
  ServedModel& model = call->use_model(name ? &*name : nullptr, usable, "pooling");
  if (const auto form = fields.choice("encoding_format", {"float", "base64"}); form && *form != "float")
    refuse_field("encoding_format", "encoding_format: expected float on this path");
  VectorSettings settings = read_pooling_settings(fields);
  if (const auto task = fields.text("task");
      task && *task != (model.embeds ? "embed" : "classify") && *task != "encode")
    refuse_field("task", "task: expected {} for this model, found {}", model.embeds ? "embed" : "classify",
                 quoted(*task));
  const Json* input = fields.any("input");
  if (!input) refuse_field("input", "input: missing; expected a string or a list");
  const int64_t most = call->services().options.max_client_batch_size;
  if (model.embeds) {
    for (const char* of_classes : {"activation", "softmax"})
      if (fields.boolean(of_classes) == false)
        refuse_field(of_classes, "{}: expected nothing, since this model has no classes", of_classes);
    if (const auto given = fields.boolean("use_activation")) settings.normalize = given;  // vLLM's later name
    const int64_t dimensions = fields.integer("dimensions", 1, 1 << 20).value_or(0);
    const bool special_tokens = fields.boolean("add_special_tokens").value_or(true);
    expect_known_fields(fields, "/pooling");
    EncodedInputs inputs = encode_inputs(*input, "input", model, most, settings, special_tokens);
    const int64_t tokens = inputs.tokens;
    const std::optional<bool> normalize = normalizes(settings, model);
    return compute_vectors(call, model, std::move(inputs), normalize,
                           [call, tokens, dimensions, normalize, &model](Vectors vectors) {
                             for (std::vector<float>& vector : vectors)
                               cut_vector(vector, dimensions, normalize, model);
                             call->reply(answer_of(model.name, vectors, tokens));
                           });
  }
  refuse_prompt(settings);
  const bool raw = wants_raw_scores(fields);
  const auto texts = fields.texts("input", static_cast<size_t>(most));
  if (!texts || texts->empty()) refuse_field("input", "input: expected at least one text, found an empty list");
  expect_known_fields(fields, "/pooling");
  compute_task(
      call, model, "text-classification", {texts->begin(), texts->end()}, class_parameters(raw),
      [call, shown = model.name, labels = model.labels](const std::vector<TaskResult>& results) {
        std::vector<std::vector<float>> rows;
        for (const TaskResult& result : results) rows.push_back(scores_of(std::get<Classes>(result), labels));
        call->reply(answer_of(shown, rows, call->prompt_tokens));
      },
      &settings.too_long, "input");
}

}  // namespace transom::serve
