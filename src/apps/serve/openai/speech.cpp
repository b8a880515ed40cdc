// SPDX-License-Identifier: Apache-2.0
// POST /v1/audio/speech: a text as a sound.
#include "apps/serve/api/known_fields.h"
#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/openai/routes.h"
#include "apps/serve/openai/speech_stream.h"
#include "inputs/audio/write_wav.h"

namespace transom::serve {
namespace {

// One task by its two names.
constexpr const char *kSpeechTask = "text-to-speech", *kSoundTask = "text-to-audio";
constexpr size_t kLongestSpeech = 64 << 10;  // bytes

bool can_speak(const ModelFacts& model) { return model.runs(kSpeechTask) || model.runs(kSoundTask); }

}  // namespace

void speech(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = call->use_model(name ? &*name : nullptr, can_speak, "speech");
  const auto input = fields.text("input", kLongestSpeech);
  if (!input || input->empty()) refuse_field("input", "input: missing; expected the text that is to be spoken");
  // Others need programs that are not here; clients that name no form take the one that they get by its type.
  const std::string form = fields.choice("response_format", {"wav", "pcm"}).value_or("wav");
  const bool streams = fields.choice("stream_format", {"audio", "sse"}).value_or("audio") == "sse";
  // Bytes alone have no place for an error, and would end like a whole sound.
  if (fields.boolean("stream").value_or(false) && !streams)
    refuse_field("stream", "stream: sounds are streamed as events; ask for them by stream_format sse");
  const std::string task = model.runs(kSpeechTask) ? kSpeechTask : kSoundTask;
  const TaskParameters known = model.runner->find(task)->parameters();
  Json parameters = Json::object();
  if (const auto voice = fields.text("voice", 256)) {
    if (find_parameter(known, "voice")) parameters["voice"] = *voice;
    else report_once("/v1/audio/speech", "voice", "this model has one voice");  // OpenAI's clients have to send one
  }
  if (const auto speed = fields.number("speed", 0.25, 4)) {
    if (find_parameter(known, "speed")) parameters["speed"] = *speed;
    else if (*speed != 1) refuse_field("speed", "speed: this model speaks at one speed");
  }
  if (const auto language = fields.text("language", 64)) {
    if (!find_parameter(known, "language")) refuse_field("language", "language: this model speaks one language");
    parameters["language"] = *language;
  }
  if (const auto phonemes = fields.boolean("phonemes")) {
    if (find_parameter(known, "phonemes")) parameters["phonemes"] = *phonemes;
    else if (*phonemes) refuse_field("phonemes", "phonemes: this model reads texts alone");
  }
  expect_known_fields(fields, "/v1/audio/speech");
  if (streams) return stream_speech(call, model, task, *input, parameters, form == "wav");
  compute_task(call, model, task, {TextInput(*input)}, parameters,
               [call, form](const std::vector<TaskResult>& results) {
                 const auto& sound = std::get<Waveform>(results.at(0));
                 if (form == "pcm")
                   return call->respond({.status = 200, .body = pcm_of(sound), .content_type = "audio/pcm"});
                 call->respond({.status = 200, .body = encode_wav(sound), .content_type = "audio/wav"});
               });
}

}  // namespace transom::serve
