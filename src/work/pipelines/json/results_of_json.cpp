// SPDX-License-Identifier: Apache-2.0
// Results that another server wrote down, as values again.
#include "base/error.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "inputs/images/image.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

// One result, or several, as a list.
Json as_list(const Json& result) { return result.is_array() ? result : Json::array({result}); }

int64_t int_of(const Json& result, const char* name, int64_t otherwise) {
  const auto found = result.find(name);
  return found != result.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

void read(const Json& json, ClassScore& result) {
  result = {json.at("label").get<std::string>(), json.at("score").get<double>()};
}

void read(const Json& json, NamedEntity& result) {
  result = {.label = json.at(json.contains("entity") ? "entity" : "entity_group").get<std::string>(),
            .score = json.at("score").get<double>(),
            .word = json.at("word").get<std::string>(),
            .index = int_of(json, "index", -1),
            .start = int_of(json, "start", 0),
            .end = int_of(json, "end", 0)};
}

void read(const Json& json, AnswerSpan& result) {
  const Json& answer = json.at("answer");
  result = {.answer = answer.is_null() ? "" : answer.get<std::string>(),
            .score = std::nullopt,
            .start = int_of(json, "start", -1),
            .end = int_of(json, "end", -1),
            .is_there = !answer.is_null()};
  if (const auto score = json.find("score"); score != json.end()) result.score = score->get<double>();
}

void read(const Json& json, FilledMask& result) {
  result = {json.at("token_str").get<std::string>(), json.at("token").get<int64_t>(), json.at("score").get<double>(),
            json.at("sequence").get<std::string>()};
}

void read(const Json& json, SentenceMatch& result) {
  result = {json.at("corpus_id").get<int64_t>(), json.at("score").get<double>()};
}

void read(const Json& json, double& result) { result = json.get<double>(); }

// {"generated_text": "..."}, {"summary_text": "..."}, {"generated_token_ids": [...]} ...
void read(const Json& json, WrittenText& result) {
  for (const auto& [name, value] : json.items()) {
    if (name.ends_with("_token_ids")) result = value.get<std::vector<int64_t>>();
    else if (!name.ends_with("_text") || name == "input_text") continue;
    else if (value.is_string()) result = value.get<std::string>();
    else result = ChatMessages{dump_json(value)};
    return;
  }
  fail("expected a field that ends in _text, found {}", quoted(dump_json(json)));
}

void read(const Json& json, BoundingBox& box) {
  box = {int_of(json, "xmin", 0), int_of(json, "ymin", 0), int_of(json, "xmax", 0), int_of(json, "ymax", 0)};
}

void read(const Json& json, DetectedObject& result) {
  result = {.label = json.at("label").get<std::string>(), .score = json.at("score").get<double>(), .box = {}};
  read(json.at("box"), result.box);
}

Image image_in(const Json& json) {
  const std::string bytes = from_base64(json.get<std::string>(), "a picture");
  return decode_image(std::as_bytes(std::span(bytes)), "a picture");
}

void read(const Json& json, Picture& picture) {
  Image image = image_in(json);
  picture = {image.width, image.height, 3, std::move(image.pixels)};
}

// Masks and depths are gray, so that one of the three equal channels is the picture.
Picture gray_picture(const Json& json) {
  const Image image = image_in(json);
  std::vector<uint8_t> values;
  for (size_t i = 0; i < image.pixels.size(); i += 3) values.push_back(image.pixels[i]);
  return {image.width, image.height, 1, std::move(values)};
}

void read(const Json& json, Segment& result) {
  result.label = json.at("label").get<std::string>();
  if (const auto score = json.find("score"); score != json.end() && score->is_number())
    result.score = score->get<double>();
  result.mask = gray_picture(json.at("mask"));
}

template <typename T>
void read(const Json& json, std::vector<T>& result) {
  for (const Json& each : as_list(json)) read(each, result.emplace_back());
}

// Of a task that has no names for them, masks and scores are lists of their own.
std::vector<Segment> unnamed_segments(const Json& json) {
  std::vector<Segment> segments;
  const Json& masks = json.at("masks");
  for (size_t i = 0; i < masks.size(); ++i)
    segments.push_back({"", json.at("scores").at(i).get<double>(), gray_picture(masks[i])});
  return segments;
}

// Of a text with one mask the list of its tokens, of one with several a list for each.
void read(const Json& json, std::vector<std::vector<FilledMask>>& result) {
  const bool several = !json.empty() && json.front().is_array();
  for (const Json& each : several ? json : Json::array({json})) read(each, result.emplace_back());
}

void read_numbers(const Json& json, size_t axis, FeatureArray& result) {
  if (json.is_number()) {
    result.values.push_back(json.get<float>());
    return;
  }
  if (!json.is_array()) fail("expected numbers, found {}", quoted(dump_json(json)));
  if (axis == result.shape.size()) result.shape.push_back(static_cast<int64_t>(json.size()));
  for (const Json& each : json) read_numbers(each, axis + 1, result);
}
void read(const Json& json, FeatureArray& result) {
  read_numbers(json, 0, result);
  if (elements(result.shape) != static_cast<int64_t>(result.values.size()))
    fail("expected lists of one length, found {} numbers in the shape [{}]", result.values.size(),
         fmt::join(result.shape, ", "));
}

void read(const Json& json, DepthMap& result) {
  read(json.at("predicted_depth"), result.predicted_depth);
  result.depth = gray_picture(json.at("depth"));
}

void read(const Json& json, Transcription& result) {
  result.text = json.at("text").get<std::string>();
  for (const Json& each : json.value("segments", Json::array())) {
    TranscribedSegment& segment = result.segments.emplace_back();
    segment.text = each.at("text").get<std::string>();
    if (each.at("start").is_number()) segment.begin = each["start"].get<double>();
    if (each.at("end").is_number()) segment.end = each["end"].get<double>();
    segment.tokens = each.at("tokens").get<std::vector<int64_t>>();
    segment.seek = each.at("seek").get<double>();
    segment.temperature = each.at("temperature").get<double>();
    segment.avg_logprob = each.at("avg_logprob").get<double>();
    segment.compression_ratio = each.at("compression_ratio").get<double>();
    segment.no_speech_prob = each.at("no_speech_prob").get<double>();
  }
  for (const Json& each : json.value("chunks", Json::array())) {
    TranscribedChunk& chunk = result.chunks.emplace_back();
    chunk.text = each.at("text").get<std::string>();
    if (const auto times = each.find("timestamp"); times != each.end() && times->is_array() && times->size() == 2) {
      result.has_times = true;
      if ((*times)[0].is_number()) chunk.begin = (*times)[0].get<double>();
      if ((*times)[1].is_number()) chunk.end = (*times)[1].get<double>();
    }
    if (const auto language = each.find("language"); language != each.end()) {
      result.has_languages = true;
      if (language->is_string()) chunk.language = language->get<std::string>();
    }
  }
}

// {"sequence", "labels", "scores"}
void read_lists(const Json& json, std::vector<ClassScore>& result) {
  for (size_t i = 0; i < json.at("labels").size(); ++i)
    result.push_back({json["labels"][i].get<std::string>(), json.at("scores").at(i).get<double>()});
}

template <typename T>
TaskResult made(const Json& json) {
  T result{};
  read(json, result);
  return result;
}

TaskResult result_of(const TaskRecord& task, const Json& json) {
  switch (task.result) {
    case ResultKind::kClasses: {
      std::vector<ClassScore> classes;
      if (task.json.classes == JsonForm::Classes::kLists) read_lists(json, classes);
      else read(json, classes);
      return classes;
    }
    case ResultKind::kEntities:
      return made<std::vector<NamedEntity>>(json);
    case ResultKind::kAnswers:
      return made<std::vector<AnswerSpan>>(json);
    case ResultKind::kFilledMasks:
      return made<std::vector<std::vector<FilledMask>>>(json);
    case ResultKind::kVectors:
      return made<FeatureArray>(json);
    case ResultKind::kSimilarities:
    case ResultKind::kMatches:
      if (json.is_array() && !json.empty() && json[0].is_object()) return made<std::vector<SentenceMatch>>(json);
      return made<std::vector<double>>(json);
    case ResultKind::kTranscription:
      return made<Transcription>(json);
    case ResultKind::kTexts:
      return made<std::vector<WrittenText>>(json);
    case ResultKind::kObjects:
      return made<std::vector<DetectedObject>>(json);
    case ResultKind::kSegments:
      if (json.is_object() && json.contains("masks")) return unnamed_segments(json);
      return made<std::vector<Segment>>(json);
    case ResultKind::kDepth:
      return made<DepthMap>(json);
    case ResultKind::kPictures:
      return made<std::vector<Picture>>(json);
    case ResultKind::kSound:
    case ResultKind::kVideo:
      break;
  }
  fail(ErrorKind::kUnsupported, "results of {} are not read from a server yet", task.name);
}

}  // namespace

TaskResult result_of_json(const TaskRecord& task, const Json& json) {
  try {
    return result_of(task, json);
  } catch (const Json::exception& error) {
    fail("expected a result of {}, found {} ({})", task.name, quoted(dump_json(json)), error.what());
  }
}

}  // namespace transom
