// SPDX-License-Identifier: Apache-2.0
// Zero-shot classification of sounds (Wu et al., 2023): which of the labels' texts is most like the sound?
#include "work/pipelines/audio/audio_model.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/images/label_tokens.h"

namespace transom {
namespace {

constexpr const char* kSoundHypothesis = "This is a sound of {}.";

class ZeroShotAudioClassification : public Pipeline {
 public:
  ZeroShotAudioClassification(AudioModel model, Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}
  Model* model() const override { return model_.model.get(); }

  // By falling score.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const std::vector<std::string> labels = candidate_labels({}, options);
    const std::string hypothesis = text_option(options, "hypothesis_template", kSoundHypothesis);
    std::vector<std::string> sentences;
    for (const std::string& label : labels) sentences.push_back(hypothesis_of(hypothesis, label));
    const NamedTensors texts = label_tokens(tokenizer_, sentences);
    return answers_to_sounds(inputs, model_.extractor->sampling_rate(), batch_size_of(options),
                             [&](const std::vector<Sound>& sounds) {
                               const NoGradient inference;
                               std::vector<TaskResult> results;
                               for (const Sound& sound : sounds) results.emplace_back(labelled(sound, labels, texts));
                               return results;
                             });
  }

 private:
  std::vector<ClassScore> labelled(const Sound& sound, const std::vector<std::string>& labels,
                                   const NamedTensors& texts) const {
    const AudioFeatures features = (*model_.extractor)(std::span(&sound, 1));
    NamedTensors inputs = texts;
    inputs.set(features.name, Tensor::from(features.values, features.shape));
    const std::vector<double> scores =
        softmax_of(model_.model->forward(inputs).at("logits_per_audio").to_vector<float>());
    std::vector<ClassScore> classes;
    for (const size_t i : falling_order(scores)) classes.push_back({labels[i], scores[i]});
    return classes;
  }

  AudioModel model_;
  Tokenizer tokenizer_;
};

TaskParameters zero_shot_audio_classification_parameters() {
  return {
      {"candidate_labels", TaskParameter::Type::kTexts, "the classes to choose from", "", {}, true},
      {"hypothesis_template", TaskParameter::Type::kText, "sentence that a label is put into, in place of {}",
       kSoundHypothesis},
  };
}

std::unique_ptr<Pipeline> load_zero_shot_audio_classification(const std::string& directory, const LoadOptions& options,
                                                              const std::string& /*task*/) {
  return std::make_unique<ZeroShotAudioClassification>(AudioModel::load(directory, options),
                                                       Tokenizer::from_pretrained(directory));
}

constexpr TaskRecord kZeroShotAudioClassification{.name = "zero-shot-audio-classification",
                                                  .example = "bird.wav --candidate_labels \"a bird, a dog\"",
                                                  .input = InputKind::kAudio,
                                                  .result = ResultKind::kClasses,
                                                  .json = {.classes = JsonForm::Classes::kScoreFirst},
                                                  .parameters = zero_shot_audio_classification_parameters,
                                                  .load = load_zero_shot_audio_classification};
const RegisterTask kRegisterZeroShotAudioClassification(kZeroShotAudioClassification);

}  // namespace
}  // namespace transom
