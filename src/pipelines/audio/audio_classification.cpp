// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "pipelines/audio/audio_model.h"
#include "pipelines/text/classification.h"

namespace transom {
namespace {

class AudioClassification : public Pipeline {
 public:
  explicit AudioClassification(AudioModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  TaskParameters parameters() const override { return audio_classification_parameters(); }
  Model* model() const override { return model_.model.get(); }
  bool takes_audio() const override { return true; }

  // A list of {"score", "label"} by falling score: of all classes, unless top_k says how many.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const int64_t batch_size = batch_size_of(parameters);
    return answers_to_sounds(inputs, model_.extractor->sampling_rate(), batch_size,
                             [&](const std::vector<Sound>& sounds) {
                               std::vector<Json> results;
                               for (const AudioModel::Row& row : model_.rows(sounds, "logits", batch_size))
                                 results.push_back(classes_of(row.values, parameters));
                               return results;
                             });
  }

 private:
  Json classes_of(const std::vector<float>& logits, const Json& parameters) const {
    const std::string type = model_.model->config().get_string("problem_type", "");
    const std::string function = type == "regression"                   ? "none"
                                 : type == "multi_label_classification" ? "sigmoid"
                                                                        : "softmax";
    const std::vector<double> scores = scores_of(logits, string_parameter(parameters, "function_to_apply", function));
    const bool all = !parameters.contains("top_k") || parameters["top_k"].is_null();
    const int64_t count = all ? static_cast<int64_t>(scores.size()) : int_parameter(parameters, "top_k", 5);
    if (count < 1) fail("top_k: expected a number above 0, found {}", count);
    Json result = Json::array();
    for (const size_t i : falling_order(scores)) {
      if (static_cast<int64_t>(result.size()) == count) break;
      result.push_back(
          {{"score", scores[i]}, {"label", i < labels_.size() ? labels_[i] : "LABEL_" + std::to_string(i)}});
    }
    return result;
  }

  AudioModel model_;
  std::vector<std::string> labels_;
};

}  // namespace

TaskParameters audio_classification_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of classes to return", "all"},
      {"function_to_apply",
       TaskParameter::Type::kText,
       "what turns logits into scores (default: as the configuration says)",
       "",
       {"softmax", "sigmoid", "none"}},
  };
}

std::unique_ptr<Pipeline> make_audio_classification(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<AudioClassification>(AudioModel::load(directory, options));
}

}  // namespace transom
