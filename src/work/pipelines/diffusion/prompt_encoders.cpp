// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/prompt_encoders.h"

#include <algorithm>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "transom/ops.h"

namespace transom {

PromptEncoders::PromptEncoders(const PipelineDirectory& directory, const LoadOptions& options, bool xl) : xl_(xl) {
  for (const std::string number : {"", "_2"}) {
    const std::string part = "text_encoder" + number;
    if (!directory.has(part)) continue;
    const std::string kind = number.empty() ? "CLIPTextModel" : "CLIPTextModelWithProjection";
    encoders_.push_back({part, directory.load(part, kind, options),
                         Tokenizer::from_pretrained(directory.folder("tokenizer" + number, "").string()),
                         !number.empty()});
  }
  if (encoders_.empty() || encoders_.back().projects != xl)
    fail("{}: expected the text encoder{} of {}, found {}", directory.where(), xl ? "s" : "", directory.class_name(),
         encoders_.empty() ? "none" : encoders_.back().part);
}

Model* PromptEncoders::find(const std::string& part) const {
  for (const Encoder& encoder : encoders_)
    if (encoder.part == part) return encoder.model.get();
  return nullptr;
}

Tensor PromptEncoders::states_of(const Encoder& encoder, const std::string& text, int64_t clip_skip,
                                 Tensor& pooled) const {
  const Config& config = encoder.model->config();
  const int64_t places = config.get_int("max_position_embeddings", 77);
  const int64_t length = std::min(encoder.tokenizer.model_max_length().value_or(places), places);
  const Encoding tokens = encoder.tokenizer.encode(
      text, std::nullopt,
      {.truncation = Truncation::kLongestFirst, .padding = Padding::kMaxLength, .max_length = length});
  if (encoder.tokenizer.encode(text).size() > tokens.size())
    log(LogLevel::kWarning, fmt::format("the prompt is longer than {} tokens: the rest of it is not read", length));
  ForwardContext context;
  context.output_hidden_states = xl_ || clip_skip > 0;
  const auto T = static_cast<int64_t>(tokens.size());
  NamedTensors inputs{{"input_ids", Tensor::from(tokens.ids, {1, T})}};
  if (config.get_bool("use_attention_mask", false))
    inputs.set("attention_mask", Tensor::from(tokens.attention_mask, {1, T}));
  const NamedTensors outputs = encoder.model->forward(inputs, context);
  if (encoder.projects) pooled = outputs.at("text_embeds");
  if (!context.output_hidden_states) return outputs.at("last_hidden_state");
  const int64_t layers = config.get_int("num_hidden_layers", 12);
  const int64_t place = layers - clip_skip - (xl_ ? 1 : 0);
  if (place < 0) fail(ErrorKind::kUsage, "clip_skip: the text encoder has {} layers, found {}", layers, clip_skip);
  const Tensor states = outputs.at("hidden_states." + std::to_string(place));
  if (xl_) return states;
  // What an earlier layer gives goes through the last norm all the same.
  Tensor weight, bias;
  for (const auto& parameter : encoder.model->parameters()) {
    if (parameter->name.ends_with("final_layer_norm.weight")) weight = parameter->value;
    if (parameter->name.ends_with("final_layer_norm.bias")) bias = parameter->value;
  }
  return layer_norm(states, weight, bias, config.get_float("layer_norm_eps", 1e-5), encoder.model->computing());
}

PromptEncoders::Prompt PromptEncoders::operator()(const std::string& text, int64_t clip_skip) const {
  Prompt prompt;
  std::vector<Tensor> states;
  for (const Encoder& encoder : encoders_) states.push_back(states_of(encoder, text, clip_skip, prompt.pooled));
  prompt.states = states.size() == 1 ? states[0] : concatenate(states, 2);
  return prompt;
}

}  // namespace transom
