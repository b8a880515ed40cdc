// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/audio/audio_model.h"
#include "pipelines/classification.h"

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
                                 results.push_back(answer(row.values, parameters));
                               return results;
                             });
  }

 private:
  Json answer(const std::vector<float>& logits, const Json& parameters) const {
    const std::string type = model_.model->config().get_string("problem_type", "");
    const std::string function = type == "regression"                   ? "none"
                                 : type == "multi_label_classification" ? "sigmoid"
                                                                        : "softmax";
    auto classes = classes_of(logits, string_parameter(parameters, "function_to_apply", function), labels_);
    classes.resize(classes_wanted(parameters, classes.size(), std::nullopt));
    Json result = Json::array();
    for (const auto& [label, score] : classes) result.push_back({{"score", score}, {"label", label}});
    return result;
  }

  AudioModel model_;
  std::vector<std::string> labels_;
};

}  // namespace

TaskParameters audio_classification_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of classes to return", "all"},
      function_to_apply_parameter(),
  };
}

std::unique_ptr<Pipeline> make_audio_classification(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<AudioClassification>(AudioModel::load(directory, options));
}

}  // namespace transom
