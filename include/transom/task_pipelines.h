// SPDX-License-Identifier: Apache-2.0
// Pipelines with options and results as structs, one for each task:
//
//   const TextClassificationPipeline classify("distilbert-base-uncased-finetuned-sst-2-english", {.dtype = "auto"});
//   for (const ClassScore& each : classify("What a film!", {.top_k = 2})) std::cout << each.label << ' ' << each.score;
//
// The fields have the names, defaults and meaning of Transformers' pipeline(), which `transom run TASK --help` tells
// too; what is empty is as the model's configuration says. pipeline.h has every task, these and others, by its name,
// with all parameters, as values of tasks.h and as JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transom/pipeline.h"

namespace transom {

// ---- options that are one of a few; a name in quotes does as well

// "none": tokens, each with its label; else groups of tokens, whose label is that of all ("simple"), of the first of a
// word's ("first"), of the surest ("max"), or of the mean of the scores ("average").
enum class AggregationStrategy { kNone, kSimple, kFirst, kMax, kAverage };
// "none": no pooling; "auto": as sentence-transformers' files in the directory say; "cls", "max", "mean",
// "mean_sqrt_len_tokens", "weightedmean", "lasttoken".
enum class Pooling { kNone, kAuto, kCls, kMax, kMean, kMeanSqrtLength, kWeightedMean, kLastToken };
// "softmax", "sigmoid", "none": how logits become scores.
enum class ScoreFunction { kSoftmax, kSigmoid, kNone };
// "semantic", "instance", "panoptic".
enum class SegmentationSubtask { kSemantic, kInstance, kPanoptic };
// "char" or "word" of CTC models, "segment" or "word" of Whisper.
enum class Timestamps { kCharacter, kWord, kSegment };
// "transcribe", "translate" (into English).
enum class SpeechTask { kTranscribe, kTranslate };

const OptionNames<AggregationStrategy>& option_names(AggregationStrategy);
const OptionNames<Pooling>& option_names(Pooling);
const OptionNames<ScoreFunction>& option_names(ScoreFunction);
const OptionNames<SegmentationSubtask>& option_names(SegmentationSubtask);
const OptionNames<Timestamps>& option_names(Timestamps);
const OptionNames<SpeechTask>& option_names(SpeechTask);

// ---- tasks: what a pipeline reads (Input), how (Options), and what it returns (Result)

struct TextClassificationTask {
  static constexpr const char* kName = "text-classification";
  using Input = std::string;
  struct Options {
    std::optional<int64_t> top_k = 1;  // how many classes; nothing: all
    std::optional<OneOf<ScoreFunction>> function_to_apply;
  };
  using Result = std::vector<ClassScore>;  // by falling score
};

struct TokenClassificationTask {
  static constexpr const char* kName = "token-classification";
  using Input = std::string;
  struct Options {
    OneOf<AggregationStrategy> aggregation_strategy = AggregationStrategy::kNone;
    std::vector<std::string> ignore_labels = {"O"};
    std::optional<int64_t> stride;  // tokens that two windows of a long text share
  };
  using Result = std::vector<NamedEntity>;
};

struct QuestionAnsweringTask {
  static constexpr const char* kName = "question-answering";
  using Input = QuestionInput;
  struct Options {
    int64_t top_k = 1;
    int64_t max_answer_len = 15, max_seq_len = 384;  // tokens
    std::optional<int64_t> doc_stride;               // tokens; nothing: min(max_seq_len / 2, 128)
    bool align_to_words = true, handle_impossible_answer = false;
  };
  using Result = std::vector<AnswerSpan>;  // by falling score
};

struct FillMaskTask {
  static constexpr const char* kName = "fill-mask";
  using Input = std::string;
  struct Options {
    int64_t top_k = 5;
    std::vector<std::string> targets;  // only these words are scored; empty: all
  };
  using Result = std::vector<std::vector<FilledMask>>;  // of each mask of the text, by falling score
};

struct FeatureExtractionTask {
  static constexpr const char* kName = "feature-extraction";
  using Input = std::string;
  struct Options {
    std::optional<OneOf<Pooling>> pooling;  // empty: kNone, or kAuto of a model that gives weights of tokens
    // Of vectors of texts: what texts begin with, by its name in config_sentence_transformers.json or as it is; empty:
    // the model's default.
    std::string prompt_name;
    std::optional<std::string> prompt;
    bool normalize_embeddings = false;    // to length 1, also where the model does not
    std::optional<int64_t> truncate_dim;  // the first numbers of each vector; nothing: as the model says
  };
  using Result = FeatureArray;  // [1, T, D] without pooling, [D] with it
};

struct SentenceSimilarityTask {
  static constexpr const char* kName = "sentence-similarity";
  using Input = SentencesInput;
  struct Options {
    std::optional<OneOf<Pooling>> pooling;  // empty: kAuto
    std::string prompt_name;                // as of feature extraction
    std::optional<std::string> prompt;
  };
  using Result = std::vector<double>;  // of each sentence, in their order
};

struct ZeroShotClassificationTask {
  static constexpr const char* kName = "zero-shot-classification";
  using Input = std::string;
  struct Options {
    std::vector<std::string> candidate_labels;
    std::string hypothesis_template = "This example is {}.";
    bool multi_label = false;
  };
  using Result = std::vector<ClassScore>;  // by falling score
};

// Inputs are paths of image files, and of sound files below; pipeline.h also takes pictures and sounds in memory.
struct ImageClassificationTask {
  static constexpr const char* kName = "image-classification";
  using Input = std::string;
  struct Options {
    std::optional<int64_t> top_k = 5;  // nothing: all
    std::optional<OneOf<ScoreFunction>> function_to_apply;
  };
  using Result = std::vector<ClassScore>;
};

// The path of an animation (GIF, APNG), or of a folder of frames.
struct VideoClassificationTask {
  static constexpr const char* kName = "video-classification";
  using Input = std::string;
  struct Options {
    std::optional<int64_t> top_k = 5;   // nothing: all
    std::optional<int64_t> num_frames;  // that the model sees; nothing: as many as it learned with
    int64_t frame_sampling_rate = 1;    // they are taken from this many times as many
    std::optional<OneOf<ScoreFunction>> function_to_apply;
  };
  using Result = std::vector<ClassScore>;  // by falling score
};

struct ObjectDetectionTask {
  static constexpr const char* kName = "object-detection";
  using Input = std::string;
  struct Options {
    double threshold = 0.5;  // the score that an object needs
  };
  using Result = std::vector<DetectedObject>;
};

struct ImageSegmentationTask {
  static constexpr const char* kName = "image-segmentation";
  using Input = std::string;
  struct Options {
    std::optional<OneOf<SegmentationSubtask>> subtask;  // empty: what the model does
    // Of objects: the score that one needs, the chance that one of its pixels needs, and the part of it that those
    // above leave. Nothing: 0.9, 0.5 and 0.5.
    std::optional<double> threshold, mask_threshold, overlap_mask_area_threshold;
  };
  using Result = std::vector<Segment>;
};

struct ZeroShotImageClassificationTask {
  static constexpr const char* kName = "zero-shot-image-classification";
  using Input = std::string;
  struct Options {
    std::vector<std::string> candidate_labels;
    std::string hypothesis_template = "This is a photo of {}.";
  };
  using Result = std::vector<ClassScore>;
};

struct AudioClassificationTask {
  static constexpr const char* kName = "audio-classification";
  using Input = std::string;
  struct Options {
    std::optional<int64_t> top_k;  // nothing: all
    std::optional<OneOf<ScoreFunction>> function_to_apply;
  };
  using Result = std::vector<ClassScore>;
};

struct SpeechRecognitionTask {
  static constexpr const char* kName = "automatic-speech-recognition";
  using Input = std::string;
  struct Options {
    std::optional<double> chunk_length_s;
    std::optional<OneOf<Timestamps>> return_timestamps;  // empty: none
    bool return_language = false;                        // of Whisper, as what follows
    std::string language;                                // "english"
    std::optional<OneOf<SpeechTask>> task;
  };
  using Result = Transcription;
};

// What the tasks that write text share. A field that is empty is as the model's generation_config.json says, else as
// the pipeline's default.
struct TextOptions {
  std::optional<int64_t> max_new_tokens, num_beams, num_return_sequences, top_k;
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p;
  std::optional<uint64_t> seed;
  // Any other parameters, as the JSON object that pipeline() takes: {"repetition_penalty": 1.2}.
  std::string parameters = "{}";
};

struct TextGenerationTask {
  static constexpr const char* kName = "text-generation";
  using Input = std::string;
  struct Options : TextOptions {
    bool return_full_text = true;  // the results begin with the prompt
  };
  using Result = std::vector<std::string>;  // num_return_sequences texts
};

// A text with the pictures that stand in it, "<image> A cat that", as Transformers' LlavaProcessor reads it; pipeline.h
// also answers chats.
struct ImageTextToTextTask {
  static constexpr const char* kName = "image-text-to-text";
  using Input = TextInput;
  struct Options : TextOptions {
    bool return_full_text = true;  // the results begin with the prompt
  };
  using Result = std::vector<std::string>;  // num_return_sequences texts
};

struct Text2TextGenerationTask {
  static constexpr const char* kName = "text2text-generation";
  using Input = std::string;
  using Options = TextOptions;
  using Result = std::vector<std::string>;
};
struct SummarizationTask : Text2TextGenerationTask {
  static constexpr const char* kName = "summarization";
};
struct TranslationTask : Text2TextGenerationTask {
  static constexpr const char* kName = "translation";
};

// ---- pipelines

// A cheap handle to a model that is ready to answer. Any number of threads may call it, or copies of it, at once.
template <typename Task>
class TaskPipeline {
 public:
  using Input = typename Task::Input;
  using Options = typename Task::Options;
  using Result = typename Task::Result;

  // `task` chooses a variant of the task that the configuration of the model knows: "translation_en_to_de".
  explicit TaskPipeline(const std::string& model, const PipelineOptions& options = {},
                        const std::string& task = Task::kName);

  Result operator()(const Input& input, const Options& options = {}) const;
  // One result for each input, in batches where the task can.
  std::vector<Result> run_all(const std::vector<Input>& inputs, const Options& options = {}) const;

 private:
  std::shared_ptr<const Pipeline> task_;
  int64_t batch_size_;
};

using TextClassificationPipeline = TaskPipeline<TextClassificationTask>;
using TokenClassificationPipeline = TaskPipeline<TokenClassificationTask>;
using QuestionAnsweringPipeline = TaskPipeline<QuestionAnsweringTask>;
using FillMaskPipeline = TaskPipeline<FillMaskTask>;
using FeatureExtractionPipeline = TaskPipeline<FeatureExtractionTask>;
using SentenceSimilarityPipeline = TaskPipeline<SentenceSimilarityTask>;
using ZeroShotClassificationPipeline = TaskPipeline<ZeroShotClassificationTask>;
using ImageClassificationPipeline = TaskPipeline<ImageClassificationTask>;
using VideoClassificationPipeline = TaskPipeline<VideoClassificationTask>;
using ObjectDetectionPipeline = TaskPipeline<ObjectDetectionTask>;
using ImageSegmentationPipeline = TaskPipeline<ImageSegmentationTask>;
using ZeroShotImageClassificationPipeline = TaskPipeline<ZeroShotImageClassificationTask>;
using AudioClassificationPipeline = TaskPipeline<AudioClassificationTask>;
using SpeechRecognitionPipeline = TaskPipeline<SpeechRecognitionTask>;
using TextGenerationPipeline = TaskPipeline<TextGenerationTask>;
using ImageTextToTextPipeline = TaskPipeline<ImageTextToTextTask>;
using Text2TextGenerationPipeline = TaskPipeline<Text2TextGenerationTask>;
using SummarizationPipeline = TaskPipeline<SummarizationTask>;
using TranslationPipeline = TaskPipeline<TranslationTask>;

}  // namespace transom
