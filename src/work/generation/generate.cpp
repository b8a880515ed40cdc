// SPDX-License-Identifier: Apache-2.0
// generate(): from the inputs of a model to the texts that it writes.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "models/records.h"
#include "transom/ops.h"
#include "work/generation/processes/follow.h"
#include "work/generation/search/lengths.h"
#include "work/generation/search/search.h"

namespace transom {
namespace {

std::vector<TokenIds> rows_of(const Tensor& tensor, const char* name) {
  if (tensor.rank() != 2 || is_floating(tensor.dtype()))
    fail("{}: expected whole numbers of [batch, length], found {}", name, to_string(tensor.type()));
  const std::vector<int64_t> values = tensor.to_vector<int64_t>();
  std::vector<TokenIds> rows;
  for (int64_t row = 0; row < tensor.dim(0); ++row)
    rows.emplace_back(values.begin() + row * tensor.dim(1), values.begin() + (row + 1) * tensor.dim(1));
  return rows;
}

Tensor tensor_of(const std::vector<TokenIds>& rows) {
  std::vector<int64_t> values;
  for (const TokenIds& row : rows) values.insert(values.end(), row.begin(), row.end());
  return Tensor::from(values, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())});
}

std::vector<TokenIds> ones_like(const std::vector<TokenIds>& rows) {
  std::vector<TokenIds> mask;
  for (const TokenIds& row : rows) mask.emplace_back(row.size(), 1);
  return mask;
}

bool holds(const TokenIds& ids, int64_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

// The mask that the padding token gives away, if it cannot be the end of a text too.
std::vector<TokenIds> inferred_mask(const std::vector<TokenIds>& rows, const GenerationConfig& config) {
  std::vector<TokenIds> mask = ones_like(rows);
  if (!config.pad_token_id || holds(config.eos_token_id, *config.pad_token_id)) return mask;
  for (size_t row = 0; row < rows.size(); ++row)
    for (size_t t = 0; t < rows[row].size(); ++t) mask[row][t] = rows[row][t] != *config.pad_token_id;
  return mask;
}

struct Prompts {
  std::vector<TokenIds> rows, mask;   // of the decoder
  std::vector<TokenIds> encoder_ids;  // that the encoder reads, or else the prompts; empty if it reads no tokens
  NamedTensors encoder_inputs = {};
  std::vector<std::vector<AttachedInput>> attached = {};  // of each row
  int64_t untold = 0;                                     // places of a prompt before the tokens of its row
};

void check_rows(const Prompts& prompts) {
  const size_t length = prompts.rows.empty() ? 0 : static_cast<size_t>(prompts.untold) + prompts.rows[0].size();
  if (length == 0) fail("input_ids: expected at least one token in each row");
  if (prompts.mask.size() != prompts.rows.size() || prompts.mask[0].size() != length)
    fail("attention_mask: expected [{}, {}] as input_ids, found [{}, {}]", prompts.rows.size(), length,
         prompts.mask.size(), prompts.mask.empty() ? 0 : prompts.mask[0].size());
  for (const std::vector<AttachedInput>& row : prompts.attached) check_places(row, static_cast<int64_t>(length));
  if (!prompts.attached.empty() && prompts.attached.size() != prompts.rows.size())
    fail("generate: {} rows of tokens, and inputs among them for {}", prompts.rows.size(), prompts.attached.size());
}

// Rows without tokens: what is written is all that they will have, as Transformers' generate() returns them.
void take_embeddings_alone(Prompts& prompts, const GenerationConfig& config) {
  prompts.untold = end_of_places(prompts.attached.at(0));
  prompts.rows.assign(prompts.attached.size(), {});
  if (config.encoder_repetition_penalty != 1 || config.encoder_no_repeat_ngram_size > 0)
    fail("encoder_repetition_penalty, encoder_no_repeat_ngram_size: the prompt has no tokens; give input_ids too");
}

Prompts decoder_prompts(const GenerativeModel& model, const NamedTensors& inputs, const GenerationConfig& config) {
  Prompts prompts;
  NamedTensors others;
  for (const auto& [name, tensor] : inputs.items())
    if (name != "input_ids" && name != "attention_mask" && name != "token_type_ids") others.set(name, tensor);
  if (!others.empty()) prompts.attached = model.attached_inputs(inputs);
  if (!inputs.find("input_ids").defined() && others.find("inputs_embeds").defined())
    take_embeddings_alone(prompts, config);
  else prompts.rows = rows_of(inputs.at("input_ids"), "input_ids");
  if (!prompts.rows.empty() && prompts.rows[0].empty() && prompts.untold == 0 && config.bos_token_id)
    for (TokenIds& row : prompts.rows) row = {*config.bos_token_id};
  const Tensor mask = inputs.find("attention_mask");
  if (mask.defined() && mask.size() > 0) prompts.mask = rows_of(mask, "attention_mask");
  else if (prompts.untold > 0)
    prompts.mask.assign(prompts.rows.size(), TokenIds(static_cast<size_t>(prompts.untold), 1));
  else prompts.mask = inferred_mask(prompts.rows, config);
  check_rows(prompts);
  prompts.encoder_ids = prompts.rows;  // what penalties for the encoder's tokens mean without one
  for (const TokenIds& row : prompts.mask)
    if (row.back() == 0)
      log(LogLevel::kWarning,
          "attention_mask: a row ends with padding; texts are continued at their right end, so pad on the left");
  return prompts;
}

// `begins_as_given`: what is given of the decoder's text need not begin with its first token.
Prompts encoder_prompts(const NamedTensors& inputs, const GenerationConfig& config, bool begins_as_given) {
  Prompts prompts;
  int64_t batch = 0;
  Tensor given_ids, given_mask;
  for (const auto& [name, tensor] : inputs.items()) {
    if (name == "decoder_input_ids") given_ids = tensor;
    else if (name == "decoder_attention_mask") given_mask = tensor;
    else {
      prompts.encoder_inputs.set(name, tensor);
      batch = tensor.dim(0);
    }
  }
  if (batch == 0) fail("generate: this model reads inputs with its encoder, and none are given");
  if (const Tensor ids = prompts.encoder_inputs.find("input_ids"); ids.defined()) {
    prompts.encoder_ids = rows_of(ids, "input_ids");
    if (prompts.encoder_ids[0].empty()) fail("input_ids: expected at least one token in each row");
    // Only decoder-only models find out by themselves what is padding.
    if (!prompts.encoder_inputs.find("attention_mask").defined())
      prompts.encoder_inputs.set("attention_mask", tensor_of(ones_like(prompts.encoder_ids)));
  }
  const std::optional<int64_t> start =
      config.decoder_start_token_id ? config.decoder_start_token_id : config.bos_token_id;
  if (!start) fail("generate: decoder_start_token_id is missing; the generation's configuration or config.json has it");
  if (given_ids.defined()) {
    prompts.rows = rows_of(given_ids, "decoder_input_ids");
    prompts.mask = given_mask.defined() ? rows_of(given_mask, "decoder_attention_mask") : ones_like(prompts.rows);
    check_rows(prompts);
    const bool none_starts = std::none_of(prompts.rows.begin(), prompts.rows.end(),
                                          [&](const TokenIds& row) { return row.front() == *start; });
    if (none_starts && !begins_as_given)
      for (size_t row = 0; row < prompts.rows.size(); ++row) {
        prompts.rows[row].insert(prompts.rows[row].begin(), *start);
        prompts.mask[row].insert(prompts.mask[row].begin(), 1);
      }
  } else {
    prompts.rows.assign(static_cast<size_t>(batch), {*start});
    prompts.mask = ones_like(prompts.rows);
  }
  if (static_cast<int64_t>(prompts.rows.size()) != batch)
    fail("decoder_input_ids: expected {} rows, as the encoder's inputs have, found {}", batch, prompts.rows.size());
  return prompts;
}

void check_counts(const GenerationConfig& config, size_t rows, const Streamer* streamer) {
  if (config.num_beams < 1) fail("num_beams: expected a number above 0, found {}", config.num_beams);
  if (config.num_return_sequences < 1)
    fail("num_return_sequences: expected a number above 0, found {}", config.num_return_sequences);
  if (config.num_beams > 1 && config.num_return_sequences > config.num_beams)
    fail("num_return_sequences = {} is more than num_beams = {}", config.num_return_sequences, config.num_beams);
  if (config.num_beams == 1 && !config.do_sample && config.num_return_sequences > 1)
    fail("num_return_sequences = {}: greedy search gives one; set do_sample or num_beams", config.num_return_sequences);
  if (streamer && (config.num_beams > 1 || config.num_return_sequences > 1 || rows > 1))
    fail("a streamer takes one row, without beams");
}

std::vector<int64_t> padding_of(const std::vector<TokenIds>& mask) {
  std::vector<int64_t> padding;
  for (const TokenIds& row : mask)
    padding.push_back(std::find_if(row.begin(), row.end(), [](int64_t m) { return m != 0; }) - row.begin());
  for (size_t i = 0; i < mask.size(); ++i)
    if (padding[i] == static_cast<int64_t>(mask[i].size())) padding[i] = 0;  // as argmax has it
  return padding;
}

const GenerativeModel& writer_with_head(const Model& model) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (!writer || !writer->can_generate() ||
      model.config().get_bool("is_encoder_decoder", writer->has_encoder()) != writer->has_encoder())
    fail("{} does not generate text: expected a model with a head that predicts the next token", model.architecture());
  return *writer;
}

GenerationConfig with_padding(const GenerativeModel& writer, GenerationConfig config) {
  if (const std::optional<TextEnds> ends = writer.own_text_ends()) {
    config.bos_token_id = config.decoder_start_token_id = ends->start;
    config.eos_token_id = {ends->end};
    config.pad_token_id = ends->padding;
  }
  if (!config.pad_token_id && !config.eos_token_id.empty()) config.pad_token_id = config.eos_token_id[0];
  return config;
}

GenerationOutput write_behind(const GenerativeModel& writer, Prompts prompts, GenerationConfig config,
                              const GenerationOptions& options) {
  const Config& description = writer.config();
  check_counts(config, prompts.rows.size(), options.streamer);

  // Of the rows: places without tokens are not among theirs.
  const auto prompt_length = static_cast<int64_t>(prompts.rows[0].size());
  const int64_t untold = prompts.untold;
  const int64_t max_length = greatest_length(config, description, untold + prompt_length) - untold;
  config.min_length = std::max<int64_t>(config.min_length - untold, 0);
  const bool beams = config.num_beams > 1;
  // As Transformers has it, beams are filled with the end of text where the padding token is 0.
  int64_t padding = config.pad_token_id.value_or(-1);
  if (beams && padding == 0 && !config.eos_token_id.empty()) padding = config.eos_token_id[0];

  const Config text = text_config_of(description);
  const int64_t vocabulary =
      text.get_int("decoder_vocab_size", text.get_int("vocab_size", std::numeric_limits<int64_t>::max()));
  const std::vector<LogitsProcessor> processors = logits_processors(
      config, {.prompt_length = prompt_length,
               .max_length = max_length,
               .vocabulary = vocabulary,
               .padding = writer.has_encoder() || untold > 0 ? std::vector<int64_t>() : padding_of(prompts.mask),
               .encoder_input_ids = std::move(prompts.encoder_ids),
               .custom = options.process_logits});
  const Stopping stopping(config, max_length, options.tokenizer);
  Decoding decoding(writer,
                    {.mask = std::move(prompts.mask),
                     .encoder_inputs = std::move(prompts.encoder_inputs),
                     .attached = std::move(prompts.attached),
                     .untold = untold},
                    untold + max_length, config.use_cache, kAsGiven);
  Search search{.decoding = decoding,
                .config = config,
                .processors = processors,
                .stopping = stopping,
                .rows = std::move(prompts.rows),
                .padding = padding,
                .max_length = max_length,
                .random = Mt19937(config.seed),
                .streamer = options.streamer};
  return search_together(decoding, search.rows, [&] {
    return beams ? beam_search(std::move(search)) : choose_token_by_token(std::move(search));
  });
}

}  // namespace

GenerationOutput generate(const Model& model, const NamedTensors& inputs, const GenerationConfig& given,
                          const GenerationOptions& options) {
  const GenerativeModel& writer = writer_with_head(model);
  const NoGradient inference;
  const GenerationConfig config = with_padding(writer, given);
  const Architecture* known = find_architecture(model);
  const NamedTensors read = writer.generation_inputs(inputs);
  const bool as_given = writer.begins_as_given() || (known && known->head.begins_as_given);
  Prompts prompts =
      writer.has_encoder() ? encoder_prompts(read, config, as_given) : decoder_prompts(writer, read, config);
  return write_behind(writer, std::move(prompts), config, options);
}

GenerationOutput generate(const Model& model, const ModelInputs& prompt, const GenerationConfig& given,
                          const GenerationOptions& options) {
  const GenerativeModel& writer = writer_with_head(model);
  if (writer.has_encoder()) {
    if (prompt.attached.size() != 1 || !prompt.attached[0].places.empty())
      fail("prompt: this model reads inputs with its encoder: expected one attached input, without places");
    NamedTensors inputs = prompt.attached[0].tensors;
    if (!prompt.tokens.empty()) inputs.set("decoder_input_ids", tensor_of({prompt.tokens}));
    return generate(model, inputs, given, options);
  }
  const NoGradient inference;
  Prompts prompts{.rows = {prompt.tokens}, .mask = ones_like({prompt.tokens}), .encoder_ids = {prompt.tokens}};
  if (!prompt.attached.empty()) prompts.attached = {prompt.attached};
  check_rows(prompts);
  return write_behind(writer, std::move(prompts), with_padding(writer, given), options);
}

}  // namespace transom
