// SPDX-License-Identifier: Apache-2.0
// What tasks read, how, and what they return, as values. pipeline.h runs them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "transom/media.h"
#include "transom/tensor.h"

namespace transom {

// ---- inputs

// The bytes of an image or sound file, in memory.
struct FileBytes {
  std::string bytes;
};
// A file by its path or by its bytes, or what was read already. Of pictures the path may be a "data:" URL.
using PictureSource = std::variant<std::string, FileBytes, Picture>;
using SoundSource = std::variant<std::string, FileBytes, Waveform>;
// An animation (GIF, APNG) or a folder of pictures by its path, the bytes of an animation, or frames one by one.
using VideoSource = std::variant<std::string, FileBytes, std::vector<PictureSource>>;

// A text, with what stands beside it where the task takes that.
struct TextInput {
  TextInput(std::string text, std::optional<std::string> text_pair = std::nullopt)
      : text(std::move(text)), text_pair(std::move(text_pair)) {}
  TextInput(const char* text) : text(text) {}
  std::string text;
  std::optional<std::string> text_pair;
  std::vector<std::string> candidate_labels;  // in place of the option
  std::vector<PictureSource> images;          // in the order of their places in the text
};
// One text that is cut into words already.
struct WordsInput {
  std::vector<std::string> words;
};
struct QuestionInput {
  QuestionInput(std::string question, std::string context)
      : question(std::move(question)), context(std::move(context)) {}
  std::string question, context;
};
struct SentencesInput {
  SentencesInput(std::string source_sentence, std::vector<std::string> sentences)
      : source_sentence(std::move(source_sentence)), sentences(std::move(sentences)) {}
  std::string source_sentence;
  std::vector<std::string> sentences;
};
struct ImageInput {
  explicit ImageInput(PictureSource source) : source(std::move(source)) {}
  PictureSource source;
  std::vector<std::string> candidate_labels;  // in place of the option
};
struct SoundInput {
  explicit SoundInput(SoundSource source) : source(std::move(source)) {}
  SoundSource source;
};
struct VideoInput {
  explicit VideoInput(VideoSource source) : source(std::move(source)) {}
  VideoSource source;
};
// The messages of a chat as chat templates read them: a JSON list of {"role", "content"}. Where a content has parts
// {"type": "image"}, their pictures are in `images`, in the order of the parts.
struct ChatInput {
  explicit ChatInput(std::string messages, std::vector<PictureSource> images = {})
      : messages(std::move(messages)), images(std::move(images)) {}
  std::string messages;
  std::vector<PictureSource> images;
};

using TaskInput =
    std::variant<TextInput, WordsInput, QuestionInput, SentencesInput, ImageInput, SoundInput, ChatInput, VideoInput>;

// ---- options

// The keyword arguments of a task by their names: {{"top_k", 3}, {"function_to_apply", "none"}}. What a task takes,
// `transom run TASK --help` tells. std::monostate is Python's None: "no limit" where a task says so.
class TaskOptions {
 public:
  // A list, an object, or any option of generate(), as JSON.
  struct JsonText {
    std::string text;
  };
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>,
                             std::vector<double>, JsonText>;

  TaskOptions() = default;
  TaskOptions(std::initializer_list<std::pair<const char*, Value>> values);
  TaskOptions& set(const std::string& name, Value value);
  // Nothing where there is no value, so that the task's own default holds.
  template <typename T>
  TaskOptions& set(const std::string& name, const std::optional<T>& value) {
    return value ? set(name, Value(*value)) : *this;
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const Value* find(std::string_view name) const;  // null where the option is not given
  void erase(std::string_view name);
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, Value, std::less<>> values_;
};

// ---- results

struct ClassScore {
  std::string label;
  double score = 0;
};

// A token with a label, or with an aggregation_strategy a group of tokens.
struct NamedEntity {
  std::string label;  // "B-PER" of a token, "PER" of a group
  double score = 0;
  std::string word;
  int64_t index = -1;          // of a token, in the model's input; -1 of a group
  int64_t start = 0, end = 0;  // characters of the text
};

// An answer that was found in a text, or one that a model wrote about a picture.
struct AnswerSpan {
  std::string answer;
  std::optional<double> score = 0;  // nothing: the answer is written, and nobody says how sure the model is
  int64_t start = 0, end = 0;       // characters of the context; -1: there is none
  bool is_there = true;             // false: a model that was to write an answer wrote none
};

struct FilledMask {
  std::string token_str;
  int64_t token = 0;
  double score = 0;
  std::string sequence;  // the text with the token in it
};

// Numbers of any shape, row-major.
struct FeatureArray {
  Shape shape;
  std::vector<float> values;
};

// A sentence among those that were compared.
struct SentenceMatch {
  int64_t corpus_id = 0;  // its place in the list
  double score = 0;
};

struct TranscribedChunk {
  std::string text;
  std::optional<double> begin, end;  // seconds
  std::string language;              // "english"; empty where the model does not say
};
// What a model that writes what it hears said in one go, and how sure it was.
struct TranscribedSegment : TranscribedChunk {
  std::vector<int64_t> tokens;
  double seek = 0;  // seconds: where the window begins that it was heard in
  double temperature = 0, avg_logprob = 0, compression_ratio = 0, no_speech_prob = 0;
};
struct Transcription {
  std::string text;
  std::vector<TranscribedChunk> chunks;           // with return_timestamps or return_language
  bool has_times = false, has_languages = false;  // what the chunks tell
  std::vector<TranscribedSegment> segments = {};  // with return_segments
};

// The messages of a chat with the answer, as JSON.
struct ChatMessages {
  std::string messages;
};
// What a model wrote: a text, token ids where they are asked for, or of a chat all its messages.
using WrittenText = std::variant<std::string, std::vector<int64_t>, ChatMessages>;

// Pixels of a picture, from its top left.
struct BoundingBox {
  int64_t xmin = 0, ymin = 0, xmax = 0, ymax = 0;
};
struct DetectedObject {
  std::string label;
  double score = 0;
  BoundingBox box;
};
struct Segment {
  std::string label;
  std::optional<double> score;
  Picture mask;  // gray, of the extents of the picture: 255 where the segment is
};
struct DepthMap {
  FeatureArray predicted_depth;  // [H, W], of the extents of the picture
  Picture depth;                 // the same from black, the least, to white
};

// The alternatives are as many as kinds of results; a task returns always the same one, but for sentence similarity,
// whose matches are chosen by top_k. FilledMask: of each mask of the text a list.
using TaskResult =
    std::variant<std::vector<ClassScore>, std::vector<NamedEntity>, std::vector<AnswerSpan>,
                 std::vector<std::vector<FilledMask>>, FeatureArray, std::vector<double>, std::vector<SentenceMatch>,
                 Transcription, std::vector<WrittenText>, std::vector<DetectedObject>, std::vector<Segment>, DepthMap,
                 std::vector<Picture>, Waveform, Video>;

}  // namespace transom
