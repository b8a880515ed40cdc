// SPDX-License-Identifier: Apache-2.0
// A text that is spoken sentence by sentence: the sound of each is sent as an event once it is made.
#pragma once

#include <memory>
#include <string>

#include "apps/serve/api/call.h"
#include "apps/serve/models/served_model.h"
#include "transom/media.h"

namespace transom::serve {

// 16-bit numbers, the smaller byte first, of one channel: at 24 kHz.
std::string pcm_of(const Waveform& wave);

// Events speech.audio.delta, whose `audio` are bytes in base64, and speech.audio.done, as OpenAI has them. The bytes of
// all of them are a sound: `pcm`, or a WAV file whose header leaves its length open. What fails before the first is an
// answer of its own, later an event.
void stream_speech(const std::shared_ptr<Call>& call, ServedModel& model, const std::string& task,
                   const std::string& text, Json parameters, bool as_wav);

}  // namespace transom::serve
