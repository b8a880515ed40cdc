// SPDX-License-Identifier: Apache-2.0
// A PEFT directory with LoRA adapters of the attention of a GPT-2 of 16 numbers a token.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "transom/tensor.h"

namespace transom::test {

inline void save_gpt2_adapter(const fs::path& folder, const std::string& base, float size, int layers) {
  fs::create_directories(folder);
  NamedViews views;
  const auto add = [&](const std::string& name, Shape shape) {
    std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]));
    for (size_t i = 0; i < values.size(); ++i) values[i] = size * std::sin(static_cast<float>(i * i + name.size()));
    const Tensor tensor = Tensor::from(values, shape);
    const auto bytes = std::make_shared<const std::vector<std::byte>>(tensor.to_bytes());
    views.emplace_back(name, TensorView{tensor.dtype(), shape, *bytes, bytes});
  };
  for (int layer = 0; layer < layers; ++layer) {
    const std::string module = "base_model.model.transformer.h." + std::to_string(layer) + ".attn.c_attn";
    add(module + ".lora_A.weight", {2, 16});
    add(module + ".lora_B.weight", {48, 2});
  }
  write_safetensors(folder / "adapter_model.safetensors", views);
  write_file(folder / "adapter_config.json", dump_json(Json{{"peft_type", "LORA"},
                                                            {"task_type", "CAUSAL_LM"},
                                                            {"r", 2},
                                                            {"lora_alpha", 4},
                                                            {"target_modules", {"c_attn"}},
                                                            {"fan_in_fan_out", true},
                                                            {"base_model_name_or_path", base}}));
}

}  // namespace transom::test
