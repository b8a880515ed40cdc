// SPDX-License-Identifier: Apache-2.0
// POST /v1/audio/transcriptions and /v1/audio/translations: a sound as multipart/form-data to text.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/http/multipart.h"
#include "apps/serve/openai/routes.h"
#include "inputs/audio/sound.h"
#include "models/records.h"
#include "work/pipelines/audio/whisper/whisper_attempts.h"
#include "work/pipelines/output/subtitles.h"

namespace transom::serve {
namespace {

bool can_transcribe(const ModelFacts& model) { return model.runs("automatic-speech-recognition"); }

struct Settings {
  std::string format = "json", task = "transcribe", language, prompt;
  bool words = false, segments = false, stream = false;
  double seconds = 0, temperature = 0;
  std::optional<int64_t> seed;
};

constexpr size_t kLongestPrompt = 64 << 10;  // bytes; its last 223 tokens count

double number_of_field(const std::string& name, const std::string& value, double least, double most) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !(number >= least && number <= most))
    refuse_field(name, "{}: expected a number from {} to {}, found {}", name, least, most, quoted(value));
  return number;
}

// By its name, as OpenAI writes it, where the model says it.
std::string language_of(const Transcription& result, const Settings& settings) {
  for (const TranscribedChunk& chunk : result.chunks)
    if (!chunk.language.empty()) return chunk.language;
  return settings.language;
}

Json segments_of(const Transcription& result, const Settings& settings) {
  Json list = Json::array();
  const auto add = [&](const TranscribedChunk& chunk, const TranscribedSegment& facts) {
    list.push_back({{"id", list.size()},
                    {"seek", static_cast<int64_t>(std::llround(facts.seek * 100))},  // in frames of 10 ms
                    // A model may name times behind the end, where its window has silence.
                    {"start", std::min(chunk.begin.value_or(0), settings.seconds)},
                    {"end", std::min(chunk.end.value_or(settings.seconds), settings.seconds)},
                    {"text", chunk.text},
                    {"tokens", facts.tokens},
                    {"temperature", facts.temperature},
                    {"avg_logprob", facts.avg_logprob},
                    // of the text, not of its tokens, as OpenAI's programs measure it
                    {"compression_ratio", chunk.text.empty() ? 0 : compression_ratio(chunk.text)},
                    {"no_speech_prob", facts.no_speech_prob}});
  };
  for (const TranscribedSegment& segment : result.segments) add(segment, segment);
  if (result.segments.empty())  // of models that hear letter by letter
    for (const TranscribedChunk& chunk : result.chunks) add(chunk, {});
  return list;
}

Json words_of(const Transcription& result, const Settings& settings) {
  Json list = Json::array();
  for (const TranscribedChunk& chunk : result.chunks)
    list.push_back({{"word", trimmed(chunk.text)},
                    {"start", chunk.begin.value_or(0)},
                    {"end", chunk.end.value_or(settings.seconds)}});
  return list;
}

void answer(const std::shared_ptr<Call>& call, const Settings& settings, const Transcription& result) {
  const std::string_view shown = trimmed(result.text);
  if (settings.stream) {
    call->begin_stream();
    call->event({{"type", "transcript.text.delta"}, {"delta", shown}});
    call->event({{"type", "transcript.text.done"}, {"text", shown}});
    return call->finish_stream();
  }
  if (settings.format == "text")
    return call->respond(
        {.status = 200, .body = std::string(shown) + "\n", .content_type = "text/plain; charset=utf-8"});
  if (settings.format == "json") return call->reply({{"text", shown}});
  if (settings.format == "verbose_json") {
    Json reply{{"task", settings.task},
               {"language", language_of(result, settings)},
               {"duration", settings.seconds},
               {"text", shown}};
    if (settings.words) reply["words"] = words_of(result, settings);
    if (settings.segments || !settings.words) reply["segments"] = segments_of(result, settings);
    return call->reply(reply);
  }
  const bool srt = settings.format == "srt";
  call->respond({.status = 200,
                 .body = subtitles(result, srt ? SubtitleForm::kSubRip : SubtitleForm::kWebVtt, settings.seconds),
                 .content_type = srt ? "application/x-subrip; charset=utf-8" : "text/vtt; charset=utf-8"});
}

// Forms hold texts: Python's True is one of the ways in which clients say it.
bool truth_of_field(const std::string& name, const std::string& value) {
  for (const char* yes : {"true", "True", "1"})
    if (value == yes) return true;
  for (const char* no : {"false", "False", "0", ""})
    if (value == no) return false;
  refuse_field(name, "{}: expected true or false, found {}", name, quoted(value));
}

// Times are in some forms of an answer alone.
void expect_place_for_times(const Settings& settings) {
  const bool times = settings.format == "verbose_json" || settings.format == "srt" || settings.format == "vtt";
  if (settings.stream && times)
    refuse_field("response_format", "response_format: a stream has no times: expected json or text, found {}",
                 quoted(settings.format));
  if ((settings.words || settings.segments) && !times)
    report_once("/v1/audio/transcriptions", "timestamp_granularities",
                "/v1/audio/transcriptions: timestamp_granularities has no effect: response_format is not verbose_json");
}

void transcribe(const std::shared_ptr<Call>& call, const char* task) {
  const std::string* type = call->request().header("content-type");
  std::string model_name;
  Settings settings{.task = task};
  std::optional<std::string_view> file;
  Json others = Json::object();
  for (const FormPart& part : parse_multipart(call->request().body, type ? *type : "")) {
    const std::string value(part.content.substr(0, 4096));
    if (part.name == "file") file = part.content;
    else if (part.name == "model") model_name = value;
    else if (part.name == "language") settings.language = value;
    else if (part.name == "stream") settings.stream = truth_of_field(part.name, value);
    else if (part.name == "timestamp_granularities[]" || part.name == "timestamp_granularities") {
      if (value != "word" && value != "segment")
        refuse_field("timestamp_granularities", "timestamp_granularities: expected word or segment, found {}",
                     quoted(value));
      (value == "word" ? settings.words : settings.segments) = true;
    } else if (part.name == "temperature") settings.temperature = number_of_field(part.name, value, 0, 1);
    else if (part.name == "seed") settings.seed = static_cast<int64_t>(number_of_field(part.name, value, 0, 1e15));
    else if (part.name == "prompt") {
      if (part.content.size() > kLongestPrompt)
        refuse_field("prompt", "prompt: expected at most {} bytes, found {}", kLongestPrompt, part.content.size());
      settings.prompt = part.content;
    } else if (part.name == "response_format") {
      settings.format = value;
      if (value != "json" && value != "text" && value != "srt" && value != "verbose_json" && value != "vtt")
        refuse_field("response_format", "response_format: expected json, text, srt, verbose_json or vtt, found {}",
                     quoted(value));
    } else {
      others[part.name] = value;
    }
  }
  expect_known_fields(RequestFields(others), "/v1/audio/transcriptions");
  expect_place_for_times(settings);
  ServedModel& model = call->use_model(&model_name, can_transcribe, "transcriptions");
  if (!file || file->empty()) refuse_field("file", "file: missing; expected the bytes of a sound");
  // Decoded once here, so that what is no sound, or too long, is refused before the queue.
  const int64_t most = call->services().options.most_seconds_of_sound;
  settings.seconds = parse_sound(std::as_bytes(std::span(*file)), "file", most * 48'000).seconds();
  if (settings.seconds > static_cast<double>(most))
    refuse_field("file", "file: expected at most {} seconds of sound, found {:.0f}", most, settings.seconds);
  Json parameters = Json::object();
  const bool times = settings.format == "verbose_json" || settings.format == "srt" || settings.format == "vtt";
  const Family* family = find_family(model.model_type);
  const bool writes = family && recognises_by_writing(*family);
  if (times) parameters["return_timestamps"] = writes && !settings.words ? Json(true) : Json("word");
  // The text begins with up to four tokens that say the language, the task and whether times are written.
  constexpr int64_t kUsual = 256, kBegin = 4;
  if (writes && model.max_length && *model.max_length < kUsual + kBegin)
    parameters["max_new_tokens"] = std::max<int64_t>(1, *model.max_length - kBegin);
  if (writes && !settings.language.empty()) parameters["language"] = settings.language;
  if (writes && !settings.prompt.empty()) parameters["prompt"] = settings.prompt;
  if (writes && times) parameters["return_segments"] = true;
  if (writes && settings.format == "verbose_json") parameters["return_language"] = true;
  if (writes && settings.temperature > 0) {
    parameters.update({{"top_k", 0}, {"temperature", settings.temperature}});
    if (settings.seed) parameters["seed"] = *settings.seed;
  }
  if (writes && settings.task == "translate") parameters["task"] = "translate";
  if (!writes && settings.task == "translate") throw ApiError(400, "this model does not translate", "model");
  compute_task(call, model, "automatic-speech-recognition", {SoundInput(FileBytes{std::string(*file)})}, parameters,
               [call, settings](const std::vector<TaskResult>& results) {
                 answer(call, settings, std::get<Transcription>(results.at(0)));
               });
}

}  // namespace

void transcriptions(const std::shared_ptr<Call>& call) { transcribe(call, "transcribe"); }
void translations(const std::shared_ptr<Call>& call) { transcribe(call, "translate"); }

}  // namespace transom::serve
