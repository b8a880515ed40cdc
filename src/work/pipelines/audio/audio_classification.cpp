// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "work/pipelines/audio/audio_model.h"
#include "work/pipelines/classification.h"

namespace transom {
namespace {

class AudioClassification : public Pipeline {
 public:
  explicit AudioClassification(AudioModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  Model* model() const override { return model_.model.get(); }

  // By falling score: all classes, unless top_k says how many.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const int64_t batch_size = batch_size_of(options);
    return answers_to_sounds(inputs, model_.extractor->sampling_rate(), batch_size,
                             [&](const std::vector<Sound>& sounds) {
                               std::vector<TaskResult> results;
                               for (const AudioModel::Row& row : model_.rows(sounds, "logits", batch_size))
                                 results.emplace_back(classes(row.values, options));
                               return results;
                             });
  }

 private:
  std::vector<ClassScore> classes(const std::vector<float>& logits, const TaskOptions& options) const {
    const std::string type = model_.model->config().get_string("problem_type", "");
    const std::string function = type == "regression"                   ? "none"
                                 : type == "multi_label_classification" ? "sigmoid"
                                                                        : "softmax";
    auto classes = classes_of(logits, text_option(options, "function_to_apply", function), labels_);
    classes.resize(classes_wanted(options, classes.size(), std::nullopt));
    return classes;
  }

  AudioModel model_;
  std::vector<std::string> labels_;
};

TaskParameters audio_classification_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of classes to return", "all"},
      function_to_apply_parameter(),
  };
}

std::unique_ptr<Pipeline> load_audio_classification(const std::string& directory, const LoadOptions& options,
                                                    const std::string& /*task*/) {
  return std::make_unique<AudioClassification>(AudioModel::load(directory, options));
}

constexpr TaskRecord kAudioClassification{.name = "audio-classification",
                                          .example = "bird.wav --top_k 3",
                                          .input = InputKind::kAudio,
                                          .result = ResultKind::kClasses,
                                          .json = {.classes = JsonForm::Classes::kScoreFirst},
                                          .parameters = audio_classification_parameters,
                                          .load = load_audio_classification};
const RegisterTask kRegisterAudioClassification(kAudioClassification);

}  // namespace
}  // namespace transom
