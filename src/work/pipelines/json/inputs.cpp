// SPDX-License-Identifier: Apache-2.0
// Inputs and options: from JSON, and as JSON.
#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "work/pipelines/json/task_json.h"

namespace transom {

TaskOptions options_of_json(const TaskParameters& parameters, const Json& json) {
  if (!json.is_object()) fail("parameters: expected an object");
  TaskOptions options;
  const TaskParameter of_any_name{.name = "", .type = TaskParameter::Type::kJson, .help = ""};  // refused by its name
  for (const auto& [name, value] : json.items()) {
    const TaskParameter* known = find_parameter(parameters, name);
    options.set(name, value_of_json(known ? *known : of_any_name, value));
  }
  return options;
}

Json json_of_options(const TaskOptions& options) {
  Json json = Json::object();
  for (const auto& [name, value] : options.all()) json[name] = json_of_value(value);
  return json;
}

namespace {

std::string text_of(const Json& input, const std::string& field) {
  if (input.is_string()) return input.get<std::string>();
  if (input.is_object() && input.contains(field) && input[field].is_string()) return input[field].get<std::string>();
  fail("expected a text, or an object with the string \"{}\"; found {}", field, quoted(dump_json(input)));
}

// The bytes themselves, or those of a field.
const Json* binary_of(const Json& input, const char* field) {
  if (input.is_binary()) return &input;
  if (!input.is_object()) return nullptr;
  const auto found = input.find(field);
  return found != input.end() && found->is_binary() ? &*found : nullptr;
}

FileBytes bytes_of(const Json& binary) {
  const auto& bytes = binary.get_binary();
  return {std::string(bytes.begin(), bytes.end())};
}

std::vector<std::string> labels_in(const Json& input) {
  std::vector<std::string> labels;
  if (!input.is_object() || !input.contains("candidate_labels")) return labels;
  const Json& given = input["candidate_labels"];
  if (given.is_string()) return words_between_commas(given.get<std::string>());
  if (given.is_array())
    for (const Json& label : given)
      if (label.is_string()) labels.push_back(label.get<std::string>());
  return labels;
}

bool is_message(const Json& json) { return json.is_object() && json.contains("role") && json.contains("content"); }

// A picture by its path, data: URL or bytes: alone, or in a field that is named as Transformers' processors have it.
std::optional<PictureSource> picture_in(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_binary()) return bytes_of(json);
  if (!json.is_object()) return std::nullopt;
  for (const char* field : {"image", "url", "path"})
    if (const auto found = json.find(field); found != json.end() && (found->is_string() || found->is_binary()))
      return picture_in(*found);
  if (const auto found = json.find("base64"); found != json.end() && found->is_string())
    return FileBytes{from_base64(found->get<std::string>(), "base64")};
  // OpenAI's form.
  if (const auto found = json.find("image_url"); found != json.end()) return picture_in(*found);
  return std::nullopt;
}

// Takes the pictures out of the messages, for a model that sees them; what chat templates read of them is that they are
// there.
ChatInput chat_of(Json messages, bool takes_images) {
  std::vector<PictureSource> images;
  for (Json& message : messages) {
    if (!is_message(message) || !message["role"].is_string())
      fail("a chat: expected messages {{\"role\", \"content\"}}, found {}", quoted(dump_json(message)));
    if (!takes_images || !message["content"].is_array()) continue;
    for (Json& part : message["content"]) {
      const Json type = part.is_object() ? part.value("type", Json()) : Json();
      if (type != "image" && type != "image_url") continue;
      std::optional<PictureSource> picture = picture_in(part);
      if (!picture)
        fail("a chat: a part of type image: expected \"image\", \"url\", \"path\" or \"base64\" beside, found {}",
             quoted(dump_json(part)));
      // The path or URL of a picture stays, as Transformers' results tell it; templates do not look at it.
      const auto* name = std::get_if<std::string>(&*picture);
      if (type == "image_url" || !name) part = Json{{"type", "image"}};
      if (type == "image_url" && name) part["url"] = *name;
      images.push_back(std::move(*picture));
    }
  }
  return ChatInput(dump_json(messages), std::move(images));
}

TaskInput text_of_json(const TaskRecord& task, const Json& json) {
  if (json.is_array() && task.takes_chats) {
    if (json.empty()) fail("a chat: expected at least one message");
    return chat_of(json, task.takes_images);
  }
  TextInput input(text_of(json, std::string(task.text_name)));
  if (json.is_object() && json.contains("text_pair")) input.text_pair = text_of(json, "text_pair");
  input.candidate_labels = labels_in(json);
  for (const char* field : {"images", "image"}) {
    if (!task.takes_images || !json.is_object() || !json.contains(field)) continue;
    const Json& given = json[field];
    for (const Json& each : given.is_array() ? given : Json::array({given})) {
      std::optional<PictureSource> picture = picture_in(each);
      if (!picture) fail("{}: expected paths of pictures, found {}", field, quoted(dump_json(each)));
      input.images.push_back(std::move(*picture));
    }
  }
  if (asks_about_pictures(task) && input.images.empty())
    fail("{}: expected an object with \"image\" and \"{}\", found {}", task.name, task.text_name,
         quoted(dump_json(json)));
  return input;
}

TaskInput question_of(const Json& json) {
  if (!json.is_object())
    fail("question-answering: expected an object with question and context, found {}", quoted(dump_json(json)));
  return QuestionInput(text_of(json, "question"), text_of(json, "context"));
}

TaskInput sentences_of(const TaskRecord& task, const Json& json) {
  const std::string one(task.one_name), others(task.others_name);
  if (!json.is_object() || !json.contains(others) || !json[others].is_array())
    fail("expected an object with \"{}\" and the list \"{}\"; found {}", one, others, quoted(dump_json(json)));
  SentencesInput input(text_of(json, one), {});
  for (const Json& sentence : json[others]) {
    if (!sentence.is_string()) fail("{}: expected texts, found {}", others, quoted(dump_json(sentence)));
    input.sentences.push_back(sentence.get<std::string>());
  }
  return input;
}

TaskInput image_of(const Json& json) {
  const Json* binary = binary_of(json, "image");
  ImageInput input(binary ? PictureSource(bytes_of(*binary)) : PictureSource(text_of(json, "image")));
  input.candidate_labels = labels_in(json);
  return input;
}

TaskInput sound_of(const Json& json) {
  if (const Json* binary = binary_of(json, "raw")) return SoundInput(bytes_of(*binary));
  if (json.is_string()) return SoundInput(json.get<std::string>());
  const char* field = json.is_object() && json.contains("raw") ? "raw" : "array";
  if (!json.is_object() || !json.contains(field) || !json[field].is_array() || !json.contains("sampling_rate") ||
      !json["sampling_rate"].is_number_integer())
    fail("expected the path of a sound, or an object with \"array\" and \"sampling_rate\"; found {}",
         quoted(dump_json(json).substr(0, 80)));
  Waveform sound{.sampling_rate = json["sampling_rate"].get<int64_t>(), .channels = 1, .samples = {}};
  for (const Json& sample : json[field]) {
    if (!sample.is_number()) fail("{}: expected numbers, one a sample of one channel", field);
    sound.samples.push_back(sample.get<float>());
  }
  if (sound.samples.empty()) fail("{}: the sound is empty", field);
  return SoundInput(std::move(sound));
}

// A path, bytes, or frames one by one: alone, or in the field "video".
TaskInput video_of(const Json& json) {
  const Json& video = json.is_object() && json.contains("video") ? json["video"] : json;
  if (video.is_string()) return VideoInput(video.get<std::string>());
  if (video.is_binary()) return VideoInput(bytes_of(video));
  if (!video.is_array() || video.empty())
    fail("expected the path of a video, or a list of its frames; found {}", quoted(dump_json(video).substr(0, 80)));
  std::vector<PictureSource> frames;
  for (const Json& frame : video) {
    std::optional<PictureSource> picture = picture_in(frame);
    if (!picture) fail("video: expected paths of pictures, found {}", quoted(dump_json(frame).substr(0, 80)));
    frames.push_back(std::move(*picture));
  }
  return VideoInput(std::move(frames));
}

// is_split_into_words: the list is one text.
TaskInput words_of(const Json& json) {
  const auto is_text = [](const Json& word) { return word.is_string(); };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_text))
    fail("is_split_into_words: expected a list of words, found {}", quoted(dump_json(json)));
  return WordsInput{json.get<std::vector<std::string>>()};
}

}  // namespace

bool is_one_input(const TaskRecord& task, const Json& list) {
  return task.takes_chats && !list.empty() && is_message(list[0]);
}

CallForm form_of_input(const Json& json, bool alone) { return {.alone = alone, .plain = json.is_string()}; }

TaskInput input_of_json(const TaskRecord& task, const Json& json, const TaskOptions& options) {
  switch (task.input) {
    case InputKind::kText:
      return flag_or_default(options, "is_split_into_words", false) ? words_of(json) : text_of_json(task, json);
    case InputKind::kQuestion:
      return question_of(json);
    case InputKind::kSentences:
      return sentences_of(task, json);
    case InputKind::kImage:
      return image_of(json);
    case InputKind::kAudio:
      return sound_of(json);
    case InputKind::kVideo:
      return video_of(json);
  }
  fail(ErrorKind::kInternal, "a kind of input without JSON");
}

// ---- as JSON

namespace {

// The bytes of a file in base64, as Hugging Face's inference form takes them.
template <typename Source>
Json bytes_as_text(const Source& source) {
  if (const auto* path = std::get_if<std::string>(&source)) return to_base64(read_file(*path, 128 << 20));
  if (const auto* bytes = std::get_if<FileBytes>(&source)) return to_base64(bytes->bytes);
  fail("expected a file, found what was read of one");
}

struct InputWriter {
  const TaskRecord& task;
  Json operator()(const TextInput& input) const {
    if (!input.text_pair && input.candidate_labels.empty() && input.images.empty()) return input.text;
    Json json{{std::string(task.text_name), input.text}};
    for (const PictureSource& image : input.images) {
      const auto* name = std::get_if<std::string>(&image);
      json["images"].push_back(name && name->starts_with("data:") ? Json(*name)
                                                                  : Json{{"base64", bytes_as_text(image)}});
    }
    if (input.text_pair) json["text_pair"] = *input.text_pair;
    if (!input.candidate_labels.empty()) json["candidate_labels"] = input.candidate_labels;
    return json;
  }
  Json operator()(const WordsInput& input) const { return input.words; }
  Json operator()(const QuestionInput& input) const {
    return {{"question", input.question}, {"context", input.context}};
  }
  Json operator()(const SentencesInput& input) const {
    return {{std::string(task.one_name), input.source_sentence}, {std::string(task.others_name), input.sentences}};
  }
  Json operator()(const ImageInput& input) const { return bytes_as_text(input.source); }
  Json operator()(const SoundInput& input) const { return bytes_as_text(input.source); }
  Json operator()(const VideoInput& input) const {
    const auto* frames = std::get_if<std::vector<PictureSource>>(&input.source);
    if (!frames) return bytes_as_text(input.source);
    Json list = Json::array();
    for (const PictureSource& frame : *frames) list.push_back(bytes_as_text(frame));
    return list;
  }
  Json operator()(const ChatInput& input) const {
    if (!input.images.empty()) fail("pictures of a chat have no form here");
    return parse_json(input.messages, "a chat");
  }
};

}  // namespace

Json json_of_input(const TaskRecord& task, const TaskInput& input) { return std::visit(InputWriter{task}, input); }

}  // namespace transom
