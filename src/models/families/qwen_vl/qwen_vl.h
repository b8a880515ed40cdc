// SPDX-License-Identifier: Apache-2.0
// What Qwen2-VL, Qwen2.5-VL and Qwen3-VL share around their towers and decoders.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/families/qwen_vl/qwen_vl_tower.h"
#include "models/shared/decoder.h"

namespace transom {

struct QwenVlParts {
  const char* text_defaults;  // JSON
  MakeDecoder make_text;
  std::unique_ptr<QwenTower> (*make_tower)(const Config& vision, const Scope& scope);
};
std::unique_ptr<Decoder> make_qwen_vl(const Config& config, const Scope& scope, const QwenVlParts& parts);

// The sections of a head's pairs, `sections` where the configuration says nothing; they are taken out of it, so that
// what is left is known to any decoder. "mrope" is what older files call the usual turning.
std::vector<int64_t> read_mrope(Config& text, std::vector<int64_t> sections);

Family qwen_vl_like(const std::string& type, const std::string& name, MakeDecoder make);

}  // namespace transom
