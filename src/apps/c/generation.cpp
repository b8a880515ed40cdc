// SPDX-License-Identifier: Apache-2.0
// Generated text of transom_c.h.
#include <memory>
#include <span>

#include "apps/c/guard.h"
#include "base/error.h"
#include "files/hub/resolve.h"
#include "runtime/device/device_in_use.h"
#include "transom/generation.h"
#include "transom/model.h"
#include "work/generation/prompts.h"

struct transom_generator {
  std::unique_ptr<const transom::Model> model;
  transom::Tokenizer tokenizer;
  transom::GenerationConfig config;
};

namespace transom {
namespace {

const transom_generator& loaded_generator(const transom_generator* generator) {
  if (!generator) fail(ErrorKind::kUsage, "generator: expected a handle of transom_generator_load, found NULL");
  return *generator;
}

struct Receiver {
  transom_text_callback callback;
  void* user;
};

// What the model writes behind the tokens of a prompt.
std::string written(const transom_generator& generator, const TokenIds& prompt, const char* config,
                    const Receiver& receiver) {
  GenerationConfig with = generator.config;
  if (config) with.update(config);
  if (receiver.callback && (with.num_beams > 1 || with.num_return_sequences > 1))
    fail(ErrorKind::kUsage, "callback: texts of num_beams or num_return_sequences above 1 come at the end");
  const bool anew = writes_anew(*generator.model);
  TextStreamer streamer(
      generator.tokenizer,
      [&](std::string_view text) {
        if (receiver.callback(receiver.user, text.data(), text.size()) != 0)
          fail(ErrorKind::kInterrupted, "the callback stopped the generation");
      },
      !anew);
  const GenerationOutput output = generate(
      *generator.model, prompts_of(std::span(&prompt, 1), *generator.model, generator.tokenizer), with,
      {.streamer = receiver.callback ? &streamer : nullptr, .tokenizer = &generator.tokenizer, .process_logits = {}});
  const TokenIds& row = output.sequences.at(0);
  const auto begin = row.begin() + static_cast<ptrdiff_t>(anew ? 0 : std::min(prompt.size(), row.size()));
  return generator.tokenizer.decode(TokenIds(begin, row.end()), true);
}

}  // namespace
}  // namespace transom

using namespace transom;

extern "C" {

transom_code transom_generator_load(const char* model, const char* options, transom_generator** handle,
                                    transom_failure* error) {
  return guarded(error, [&] {
    if (!handle) fail(ErrorKind::kUsage, "generator: expected a place for the result, found NULL");
    *handle = nullptr;
    const PipelineOptions given = loading_options(options, false, "options");
    if (!given.device.empty()) use_device(given.device);
    const std::string directory = resolve_model(required(model, "model"), given.hub).string();
    auto loading = std::make_unique<transom_generator>(transom_generator{
        Model::from_pretrained(
            directory, {.dtype = given.dtype, .quantization = given.quantization, .activations = given.activations}),
        Tokenizer::from_pretrained(directory), GenerationConfig::from_pretrained(directory)});
    *handle = loading.release();
  });
}

transom_code transom_generate(const transom_generator* handle, const char* prompt, const char* config,
                              transom_text_callback callback, void* user, char** text, transom_failure* error) {
  return guarded(error, [&] {
    if (text) *text = nullptr;
    const transom_generator& generator = loaded_generator(handle);
    const TokenIds tokens = generator.tokenizer.encode(required(prompt, "prompt")).ids;
    give_text(text, written(generator, tokens, config, {callback, user}));
  });
}

transom_code transom_chat(const transom_generator* handle, const char* messages, const char* config,
                          transom_text_callback callback, void* user, char** text, transom_failure* error) {
  return guarded(error, [&] {
    if (text) *text = nullptr;
    const transom_generator& generator = loaded_generator(handle);
    const std::string prompt =
        generator.tokenizer.apply_chat_template(required(messages, "messages"), {.add_generation_prompt = true});
    const TokenIds tokens = generator.tokenizer.encode(prompt, std::nullopt, {.add_special_tokens = false}).ids;
    give_text(text, written(generator, tokens, config, {callback, user}));
  });
}

void transom_generator_free(transom_generator* handle) { delete handle; }
}
