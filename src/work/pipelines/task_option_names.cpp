// SPDX-License-Identifier: Apache-2.0
// The names of the options of tasks.
#include "transom/task_pipelines.h"

namespace transom {

const OptionNames<AggregationStrategy>& option_names(AggregationStrategy) {
  using Name = OptionNames<AggregationStrategy>::Name;
  static constexpr Name names[] = {{"none", AggregationStrategy::kNone},
                                   {"simple", AggregationStrategy::kSimple},
                                   {"first", AggregationStrategy::kFirst},
                                   {"max", AggregationStrategy::kMax},
                                   {"average", AggregationStrategy::kAverage}};
  static constexpr OptionNames<AggregationStrategy> all{"aggregation_strategy", names};
  return all;
}

const OptionNames<Pooling>& option_names(Pooling) {
  using Name = OptionNames<Pooling>::Name;
  static constexpr Name names[] = {{"none", Pooling::kNone},
                                   {"auto", Pooling::kAuto},
                                   {"cls", Pooling::kCls},
                                   {"max", Pooling::kMax},
                                   {"mean", Pooling::kMean},
                                   {"mean_sqrt_len_tokens", Pooling::kMeanSqrtLength},
                                   {"weightedmean", Pooling::kWeightedMean},
                                   {"lasttoken", Pooling::kLastToken}};
  static constexpr OptionNames<Pooling> all{"pooling", names};
  return all;
}

const OptionNames<ScoreFunction>& option_names(ScoreFunction) {
  using Name = OptionNames<ScoreFunction>::Name;
  static constexpr Name names[] = {
      {"softmax", ScoreFunction::kSoftmax}, {"sigmoid", ScoreFunction::kSigmoid}, {"none", ScoreFunction::kNone}};
  static constexpr OptionNames<ScoreFunction> all{"function_to_apply", names};
  return all;
}

const OptionNames<SegmentationSubtask>& option_names(SegmentationSubtask) {
  using Name = OptionNames<SegmentationSubtask>::Name;
  static constexpr Name names[] = {{"semantic", SegmentationSubtask::kSemantic},
                                   {"instance", SegmentationSubtask::kInstance},
                                   {"panoptic", SegmentationSubtask::kPanoptic}};
  static constexpr OptionNames<SegmentationSubtask> all{"subtask", names};
  return all;
}

const OptionNames<Timestamps>& option_names(Timestamps) {
  using Name = OptionNames<Timestamps>::Name;
  static constexpr Name names[] = {
      {"char", Timestamps::kCharacter}, {"word", Timestamps::kWord}, {"segment", Timestamps::kSegment}};
  static constexpr OptionNames<Timestamps> all{"return_timestamps", names};
  return all;
}

const OptionNames<SpeechTask>& option_names(SpeechTask) {
  using Name = OptionNames<SpeechTask>::Name;
  static constexpr Name names[] = {{"transcribe", SpeechTask::kTranscribe}, {"translate", SpeechTask::kTranslate}};
  static constexpr OptionNames<SpeechTask> all{"task", names};
  return all;
}

}  // namespace transom
