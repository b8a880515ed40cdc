// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/speech_stream.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/openai/spoken_sentences.h"
#include "base/text/base64.h"
#include "inputs/audio/sound.h"

namespace transom::serve {
namespace {

constexpr int64_t kPcmRate = 24000;  // of the form without a header

std::string little_endian(uint32_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

std::string samples_of(const std::vector<float>& samples) {
  std::string bytes;
  bytes.reserve(2 * samples.size());
  for (const float sample : samples) {
    const auto value = static_cast<int16_t>(std::lrint(std::clamp(sample, -1.0f, 1.0f) * 32767));
    bytes += little_endian(static_cast<uint16_t>(value), 2);
  }
  return bytes;
}

// Of a file whose end is not known yet: the greatest lengths stand for "until the end".
std::string open_wav_header(int64_t sampling_rate) {
  constexpr uint32_t kUntilTheEnd = 0xffffffff;
  const auto rate = static_cast<uint32_t>(sampling_rate);
  return "RIFF" + little_endian(kUntilTheEnd, 4) + "WAVEfmt " + little_endian(16, 4) + little_endian(1, 2) +
         little_endian(1, 2) + little_endian(rate, 4) + little_endian(2 * rate, 4) + little_endian(2, 2) +
         little_endian(16, 2) + "data" + little_endian(kUntilTheEnd, 4);
}

class SpeechStream : public std::enable_shared_from_this<SpeechStream> {
 public:
  SpeechStream(std::shared_ptr<Call> call, ServedModel& model, std::string task, std::vector<std::string> sentences,
               Json parameters, bool as_wav)
      : call_(std::move(call)),
        model_(model),
        task_(std::move(task)),
        sentences_(std::move(sentences)),
        parameters_(std::move(parameters)),
        as_wav_(as_wav) {}

  // One after the other, so that other requests have their turn between them.
  void speak_next() {
    compute_task(call_, model_, task_, {TextInput(sentences_[next_])}, parameters_,
                 [self = shared_from_this()](const std::vector<TaskResult>& results) {
                   self->send(std::get<Waveform>(results.at(0)));
                 });
  }

 private:
  void send(const Waveform& wave) {
    std::string bytes = as_wav_ ? samples_of(wave.samples) : pcm_of(wave);
    if (next_ == 0) {
      call_->begin_stream();
      if (as_wav_) bytes = open_wav_header(wave.sampling_rate) + bytes;
    }
    if (!call_->event({{"type", "speech.audio.delta"}, {"audio", to_base64(bytes)}})) return;  // the client has left
    if (++next_ < sentences_.size()) return speak_next();
    call_->event({{"type", "speech.audio.done"}});
    call_->finish_stream();
  }

  std::shared_ptr<Call> call_;
  ServedModel& model_;  // which the call keeps
  std::string task_;
  std::vector<std::string> sentences_;
  Json parameters_;
  bool as_wav_;
  size_t next_ = 0;
};

}  // namespace

std::string pcm_of(const Waveform& wave) {
  if (wave.sampling_rate == kPcmRate) return samples_of(wave.samples);
  return samples_of(resampled({.samples = wave.samples, .sampling_rate = wave.sampling_rate}, kPcmRate).samples);
}

void stream_speech(const std::shared_ptr<Call>& call, ServedModel& model, const std::string& task,
                   const std::string& text, Json parameters, bool as_wav) {
  std::make_shared<SpeechStream>(call, model, task, spoken_sentences(text), std::move(parameters), as_wav)
      ->speak_next();
}

}  // namespace transom::serve
