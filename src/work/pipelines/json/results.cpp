// SPDX-License-Identifier: Apache-2.0
// Results as JSON. The order of the keys is that of Transformers' pipelines.
#include "base/error.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "inputs/audio/write_wav.h"
#include "inputs/images/write_png.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

Json nested(const FeatureArray& array, size_t axis, size_t& place) {
  if (axis == array.shape.size()) return array.values[place++];
  Json list = Json::array();
  for (int64_t i = 0; i < array.shape[axis]; ++i) list.push_back(nested(array, axis + 1, place));
  return list;
}

Json number_or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

struct ResultWriter {
  const TaskRecord& task;
  const TaskInput& input;
  const TaskOptions& options;
  const MediaForm& media;

  Json operator()(const std::vector<ClassScore>& classes) const {
    using Classes = JsonForm::Classes;
    Json list = Json::array();
    if (task.json.classes == Classes::kLists) {
      Json labels = Json::array(), scores = Json::array();
      for (const auto& [label, score] : classes) labels.push_back(label), scores.push_back(score);
      return {{"sequence", text_input(input).text}, {"labels", labels}, {"scores", scores}};
    }
    for (const auto& [label, score] : classes)
      list.push_back(task.json.classes == Classes::kScoreFirst ? Json{{"score", score}, {"label", label}}
                                                               : Json{{"label", label}, {"score", score}});
    return list;
  }

  Json operator()(const std::vector<NamedEntity>& entities) const {
    Json list = Json::array();
    for (const NamedEntity& each : entities) {
      const bool token = each.index >= 0;
      Json item{{token ? "entity" : "entity_group", each.label}, {"score", each.score}};
      if (token) item["index"] = each.index;
      item.update({{"word", each.word}, {"start", each.start}, {"end", each.end}});
      list.push_back(std::move(item));
    }
    return list;
  }

  Json operator()(const std::vector<AnswerSpan>& answers) const {
    Json list = Json::array();
    for (const AnswerSpan& each : answers) {
      Json item = Json::object();
      if (each.score) item["score"] = *each.score;
      if (each.start >= 0) item.update({{"start", each.start}, {"end", each.end}});
      item["answer"] = each.is_there ? Json(each.answer) : Json();
      list.push_back(std::move(item));
    }
    return list;
  }

  Json operator()(const std::vector<std::vector<FilledMask>>& masks) const {
    Json lists = Json::array();
    for (const std::vector<FilledMask>& mask : masks) {
      Json list = Json::array();
      for (const FilledMask& each : mask)
        list.push_back(
            {{"score", each.score}, {"token", each.token}, {"token_str", each.token_str}, {"sequence", each.sequence}});
      lists.push_back(std::move(list));
    }
    return lists;
  }

  Json operator()(const FeatureArray& array) const { return media.numbers(array); }
  Json operator()(const std::vector<double>& scores) const { return scores; }

  Json operator()(const std::vector<SentenceMatch>& matches) const {
    Json list = Json::array();
    const bool with_texts = flag_or_default(options, "return_documents", false);
    for (const SentenceMatch& each : matches) {
      list.push_back({{"corpus_id", each.corpus_id}, {"score", each.score}});
      if (with_texts)
        list.back()["text"] = std::get<SentencesInput>(input).sentences.at(static_cast<size_t>(each.corpus_id));
    }
    return list;
  }

  // Words and characters come with their text before the times, segments behind.
  Json operator()(const Transcription& result) const {
    Json json{{"text", result.text}};
    for (const TranscribedSegment& each : result.segments)
      json["segments"].push_back({{"start", number_or_null(each.begin)},
                                  {"end", number_or_null(each.end)},
                                  {"text", each.text},
                                  {"seek", each.seek},
                                  {"tokens", each.tokens},
                                  {"temperature", each.temperature},
                                  {"avg_logprob", each.avg_logprob},
                                  {"compression_ratio", each.compression_ratio},
                                  {"no_speech_prob", each.no_speech_prob}});
    if (!result.has_times && !result.has_languages) return json;
    const TaskOptions::Value* unit = options.find("return_timestamps");
    const bool segments = !unit || !std::holds_alternative<std::string>(*unit);
    json["chunks"] = Json::array();
    for (const TranscribedChunk& each : result.chunks) {
      Json chunk = Json::object();
      if (!segments) chunk["text"] = each.text;
      if (result.has_languages) chunk["language"] = each.language.empty() ? Json() : Json(each.language);
      if (result.has_times) chunk["timestamp"] = {number_or_null(each.begin), number_or_null(each.end)};
      if (segments) chunk["text"] = each.text;
      json["chunks"].push_back(std::move(chunk));
    }
    return json;
  }

  Json operator()(const std::vector<WrittenText>& texts) const {
    const std::string name(task.json.written);
    Json list = Json::array();
    for (const WrittenText& each : texts) {
      Json item = Json::object();
      if (task.json.tells_input) {
        const auto* chat = std::get_if<ChatInput>(&input);
        item["input_text"] = chat ? parse_json(chat->messages, "a chat") : Json(text_input(input).text);
      }
      if (const auto* text = std::get_if<std::string>(&each)) item[name + "_text"] = *text;
      else if (const auto* ids = std::get_if<std::vector<int64_t>>(&each)) item[name + "_token_ids"] = *ids;
      else item[name + "_text"] = parse_json(std::get<ChatMessages>(each).messages, "a chat");
      list.push_back(std::move(item));
    }
    return list;
  }

  Json operator()(const std::vector<DetectedObject>& objects) const {
    Json list = Json::array();
    for (const auto& [label, score, box] : objects)
      list.push_back({{"score", score},
                      {"label", label},
                      {"box", {{"xmin", box.xmin}, {"ymin", box.ymin}, {"xmax", box.xmax}, {"ymax", box.ymax}}}});
    return list;
  }

  Json operator()(const std::vector<Segment>& segments) const {
    if (task.json.classes == JsonForm::Classes::kLists) {
      Json masks = Json::array(), scores = Json::array();
      for (const Segment& each : segments)
        masks.push_back(media.picture(each.mask)), scores.push_back(number_or_null(each.score));
      return {{"masks", masks}, {"scores", scores}};
    }
    Json list = Json::array();
    for (const Segment& each : segments)
      list.push_back(
          {{"score", number_or_null(each.score)}, {"label", each.label}, {"mask", media.picture(each.mask)}});
    return list;
  }

  Json operator()(const DepthMap& map) const {
    return {{"predicted_depth", media.numbers(map.predicted_depth)}, {"depth", media.picture(map.depth)}};
  }

  Json operator()(const std::vector<Picture>& pictures) const {
    Json list = Json::array();
    for (const Picture& each : pictures) list.push_back(media.picture(each));
    return list;
  }

  Json operator()(const Waveform& sound) const {
    return {{"audio", media.sound(sound)}, {"sampling_rate", sound.sampling_rate}};
  }

  Json operator()(const Video& video) const {
    Json frames = (*this)(video.frames);
    Json json{{"frames", std::move(frames)}, {"frame_rate", video.frames_a_second}};
    if (video.sound) json["audio"] = media.sound(*video.sound);
    return json;
  }
};

}  // namespace

const MediaForm& media_as_text() {
  static const MediaForm form{.picture = [](const Picture& picture) { return to_base64(encode_png(picture)); },
                              .sound = [](const Waveform& sound) { return to_base64(encode_wav(sound)); },
                              .numbers =
                                  [](const FeatureArray& array) {
                                    size_t place = 0;
                                    return nested(array, 0, place);
                                  }};
  return form;
}

Json json_of_result(const TaskRecord& task, const TaskInput& input, const TaskOptions& options,
                    const TaskResult& result, const CallForm& form, const MediaForm& media) {
  Json json = std::visit(ResultWriter{task, input, options, media}, result);
  if (json.is_array() && json.size() == 1 && task.json.unwraps && task.json.unwraps(options, form))
    return Json(std::move(json[0]));
  return json;
}

Json joined_results(const TaskRecord& task, std::vector<Json> results) {
  return task.json.joins_one && results.size() == 1 ? results[0] : Json(std::move(results));
}

}  // namespace transom
