// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/prompt_encoders.h"

#include <algorithm>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "runtime/tensor/evaluate.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {

namespace {

Encoding padded(const Tokenizer& tokenizer, const LearnedTokens& words, const std::string& text, int64_t length) {
  Encoding tokens;
  bool is_cut = false;
  if (!words.empty()) {
    tokens = words.encode(tokenizer, text, length, is_cut);
  } else {
    tokens = tokenizer.encode(
        text, std::nullopt,
        {.truncation = Truncation::kLongestFirst, .padding = Padding::kMaxLength, .max_length = length});
    is_cut = tokenizer.encode(text).size() > tokens.size();
  }
  if (is_cut)
    log(LogLevel::kWarning, fmt::format("the prompt is longer than {} tokens: the rest of it is not read", length));
  return tokens;
}

}  // namespace

void PromptEncoders::add(const PipelineDirectory& directory, const LoadOptions& options, const std::string& number,
                         const std::string& kind) {
  const std::string part = "text_encoder" + number;
  Encoder made{part, directory.load(part, kind, options),
               Tokenizer::from_pretrained(directory.folder("tokenizer" + number, "").string()),
               kind == "CLIPTextModelWithProjection"};
  if (kind == "T5EncoderModel") t5_.emplace(std::move(made));
  else encoders_.push_back(std::move(made));
}

PromptEncoders::PromptEncoders(const PipelineDirectory& directory, const LoadOptions& options, Kind kind)
    : kind_(kind) {
  const char* const plain = "CLIPTextModel";
  const char* const projecting = "CLIPTextModelWithProjection";
  if (kind == Kind::kFlux) {
    add(directory, options, "", plain);
    add(directory, options, "_2", "T5EncoderModel");
    return;
  }
  if (kind == Kind::kThree) {
    add(directory, options, "", projecting);
    add(directory, options, "_2", projecting);
    if (directory.has("text_encoder_3")) add(directory, options, "_3", "T5EncoderModel");
    else log(LogLevel::kInfo, fmt::format("{}: no text_encoder_3: two read the text", directory.where()));
    return;
  }
  for (const std::string number : {"", "_2"})
    if (directory.has("text_encoder" + number)) add(directory, options, number, number.empty() ? plain : projecting);
  const bool xl = kind == Kind::kXl;
  if (encoders_.empty() || encoders_.back().projects != xl)
    fail("{}: expected the text encoder{} of {}, found {}", directory.where(), xl ? "s" : "", directory.class_name(),
         encoders_.empty() ? "none" : encoders_.back().part);
}

Model* PromptEncoders::find(const std::string& part) const {
  for (const Encoder& encoder : encoders_)
    if (encoder.part == part) return encoder.model.get();
  return t5_ && t5_->part == part ? t5_->model.get() : nullptr;
}

Parameter& PromptEncoders::vectors_of(const Encoder& encoder) {
  for (const auto* list : {&encoder.model->parameters(), &encoder.model->frozen()})
    for (const auto& parameter : *list)
      if (parameter->name.ends_with("embeddings.token_embedding.weight")) return *parameter;
  fail("{}: has no vectors of tokens", encoder.part);
}

void PromptEncoders::forget() {
  for (Encoder& encoder : encoders_) {
    if (encoder.vectors.defined()) vectors_of(encoder).value = encoder.vectors;
    encoder.vectors = Tensor();
    encoder.words = LearnedTokens();
  }
}

void PromptEncoders::learn(const std::vector<LearnedWord>& words) {
  forget();
  const NoGradient fixed;
  try {
    for (const LearnedWord& word : words) learn_one(word);
  } catch (...) {
    forget();
    throw;
  }
}

void PromptEncoders::learn_one(const LearnedWord& word) {
  const int64_t width = word.rows.shape.back();
  std::string widths;
  for (Encoder& encoder : encoders_) {
    if (!word.part.empty() && word.part != encoder.part) continue;
    Parameter& vectors = vectors_of(encoder);
    if (vectors.packed || !vectors.value.defined())
      fail(ErrorKind::kUnsupported, "{}: the vectors of {} are packed; load without quantization", word.where,
           encoder.part);
    widths += fmt::format("{}{} of {}", widths.empty() ? "" : ", ", vectors.value.dim(1), encoder.part);
    if (vectors.value.dim(1) != width) continue;
    if (encoder.tokenizer.token_to_id(word.token) || encoder.words.holds(word.token))
      fail(ErrorKind::kUsage, "{}: {}: the tokenizer has this token already; give another one", word.where,
           quoted(word.token, 80));
    if (!encoder.vectors.defined()) encoder.vectors = vectors.value;
    const int64_t first = vectors.value.dim(0), count = elements(word.rows.shape) / width;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < count; ++i) ids.push_back(first + i);
    const Tensor rows =
        reshape(Tensor::from_bytes(word.rows.bytes, {word.rows.dtype, word.rows.shape}), {count, width});
    vectors.value = concatenate({vectors.value, cast(rows, vectors.value.dtype())}, 0);
    eval({vectors.value});
    encoder.words.add(encoder.tokenizer, word.token, ids);
    return;
  }
  if (widths.empty())
    fail("{}: has vectors of {}, which the pipeline does not have", word.where,
         word.part.empty() ? "an encoder" : word.part);
  fail("{}: {}: the vectors are {} wide, and those of the encoders {}", word.where, quoted(word.token, 80), width,
       widths);
}

Tensor PromptEncoders::states_of(const Encoder& encoder, const std::string& text, int64_t clip_skip,
                                 Tensor& pooled) const {
  const Config& config = encoder.model->config();
  const int64_t places = config.get_int("max_position_embeddings", 77);
  const int64_t length = std::min(encoder.tokenizer.model_max_length().value_or(places), places);
  const Encoding tokens = padded(encoder.tokenizer, encoder.words, text, length);
  ForwardContext context;
  context.output_hidden_states = reads_last_but_one() || clip_skip > 0;
  const auto T = static_cast<int64_t>(tokens.ids.size());
  NamedTensors inputs{{"input_ids", Tensor::from(tokens.ids, {1, T})}};
  if (config.get_bool("use_attention_mask", false))
    inputs.set("attention_mask", Tensor::from(tokens.attention_mask, {1, T}));
  const NamedTensors outputs = encoder.model->forward(inputs, context);
  if (encoder.projects) pooled = outputs.at("text_embeds");
  if (kind_ == Kind::kFlux) pooled = outputs.at("pooler_output");
  if (!context.output_hidden_states) return outputs.at("last_hidden_state");
  const int64_t layers = config.get_int("num_hidden_layers", 12);
  const int64_t place = layers - clip_skip - (reads_last_but_one() ? 1 : 0);
  if (place < 0) fail(ErrorKind::kUsage, "clip_skip: the text encoder has {} layers, found {}", layers, clip_skip);
  const Tensor states = outputs.at("hidden_states." + std::to_string(place));
  if (reads_last_but_one()) return states;
  // What an earlier layer gives goes through the last norm all the same.
  Tensor weight, bias;
  for (const auto& parameter : encoder.model->parameters()) {
    if (parameter->name.ends_with("final_layer_norm.weight")) weight = parameter->value;
    if (parameter->name.ends_with("final_layer_norm.bias")) bias = parameter->value;
  }
  return layer_norm(states, weight, bias, config.get_float("layer_norm_eps", 1e-5), encoder.model->computing());
}

Tensor PromptEncoders::t5_states(const std::string& text, int64_t tokens, int64_t width) const {
  if (!t5_) return full({1, tokens, width}, 0, encoders_.front().model->dtype());
  const Encoding read = padded(t5_->tokenizer, t5_->words, text, tokens);
  const Tensor ids = Tensor::from(read.ids, {1, static_cast<int64_t>(read.ids.size())});
  return t5_->model->forward({{"input_ids", ids}}).at("last_hidden_state");
}

PromptEncoders::Prompt PromptEncoders::operator()(const std::string& text, int64_t clip_skip, int64_t t5_tokens,
                                                  int64_t t5_width) const {
  Prompt prompt;
  std::vector<Tensor> states, pooled;
  for (const Encoder& encoder : encoders_) {
    Tensor whole;
    states.push_back(states_of(encoder, text, clip_skip, whole));
    if (whole.defined()) pooled.push_back(whole);
  }
  if (!pooled.empty()) prompt.pooled = concatenate(pooled, 1);
  prompt.states = states.size() == 1 ? states[0] : concatenate(states, 2);
  if (kind_ == Kind::kOne || kind_ == Kind::kXl) return prompt;
  const Tensor of_t5 = t5_states(text, t5_tokens, t5_width);
  if (kind_ == Kind::kFlux) return {of_t5, prompt.pooled};
  const int64_t missing = of_t5.dim(2) - prompt.states.dim(2);
  if (missing < 0)
    fail("the text encoders: expected T5 to be at least as wide as the other two, {}, found {}", prompt.states.dim(2),
         of_t5.dim(2));
  prompt.states = concatenate({pad(prompt.states, {0, 0, 0}, {0, 0, missing}), of_t5}, 1);
  return prompt;
}

}  // namespace transom
