// SPDX-License-Identifier: Apache-2.0
#include "models/shared/decoder.h"

#include <algorithm>

#include "base/error.h"
#include "models/nn/attention/texts_in_rows.h"
#include "models/shared/blocks/sees_together.h"

namespace transom {
namespace {

// The place of each token among those that the mask counts, from 0; -1 for padding.
Tensor places_by_mask(const Tensor& mask) {
  const Tensor counted = cast(mask, DType::kInt64);
  return cumulative_sum(counted, 1) * counted - 1.0;
}

}  // namespace

Tensor next_labels(const Tensor& labels) {
  if (labels.rank() != 2) fail("labels: expected [batch, length], found {}", to_string(labels.shape()));
  return pad(slice(labels, 1, 1, labels.dim(1)), {0, 0}, {0, 1}, -100);
}

DecoderInputs decoder_inputs(const NamedTensors& inputs, const ForwardContext& context, Positions positions,
                             int64_t max_positions) {
  DecoderInputs result{.input_ids = inputs.find("input_ids"),
                       .inputs_embeds = inputs.find("inputs_embeds"),
                       .position_ids = inputs.find("position_ids"),
                       .attention_mask = inputs.find("attention_mask")};
  const bool by_id = result.input_ids.defined();
  if (by_id == result.inputs_embeds.defined()) fail("expected either input_ids or inputs_embeds");
  const Tensor& given = by_id ? result.input_ids : result.inputs_embeds;
  if (given.rank() != (by_id ? 2 : 3))
    fail("{}: expected {}, found {}", by_id ? "input_ids" : "inputs_embeds",
         by_id ? "[batch, length]" : "[batch, length, width]", to_string(given.shape()));
  result.batch = given.dim(0), result.length = given.dim(1);
  const int64_t before = context.cache ? context.cache->length() : 0;
  if (context.texts) {
    const Tensor& mask = result.attention_mask;
    if (mask.defined() && mask.rank() > 2)
      fail("attention_mask: expected [batch, length] with seq_idx, found {}", to_string(mask.shape()));
    if (max_positions > 0) expect_longest(*context.texts, max_positions);
    result.attention_mask = {};  // padding is a text of its own
    if (!result.position_ids.defined() && positions != Positions::kNone) result.position_ids = context.texts->positions;
    return result;
  }
  if (max_positions > 0 && before + result.length > max_positions)
    fail("the text has {} tokens; this model takes at most {} (max_position_embeddings); truncate it",
         before + result.length, max_positions);

  if (context.cache) {
    if (result.attention_mask.defined()) fail("with a cache, the mask of the prompt belongs to the cache");
    result.attention_mask = context.cache->places();
  } else {
    const Tensor& mask = result.attention_mask;
    if (mask.defined() && mask.rank() == 2 && mask.shape() != Shape{result.batch, result.length})
      fail("attention_mask: expected {}, found {}", to_string({result.batch, result.length}), to_string(mask.shape()));
    result.bias = additive_mask(mask);
    result.causal = !mask.defined() || mask.rank() < 4;
  }
  if (result.position_ids.defined() || positions == Positions::kNone) return result;
  if (context.cache && before > 0) fail("with a cache, position_ids are needed");
  if (positions == Positions::kByMask && !context.cache && result.attention_mask.defined())
    result.position_ids = places_by_mask(result.attention_mask);
  else result.position_ids = iota({1, result.length}, 1);
  return result;
}

void GenerativeModel::encode(const NamedTensors& inputs, ForwardContext& context) const {
  prepare(context);
  run_encoder(inputs, context);
}

Tensor GenerativeModel::next_logits(const PassInputs& pass, ForwardContext& context) const {
  prepare(context);
  return run_step(pass, context);
}

void GenerativeModel::run_encoder(const NamedTensors&, ForwardContext&) const {
  fail(ErrorKind::kInternal, "{} has no encoder", architecture());
}

Tensor GenerativeModel::last_logits(const PassInputs& pass, int64_t count, ForwardContext& context) const {
  prepare(context);
  context.logits_to_keep = count;
  NamedTensors inputs;
  if (pass.embeddings.defined()) {
    const Tensor own = embeddings_of(pass.input_ids, context), given = unsqueeze(pass.is_given, 2);
    const Tensor none = zeros(given.shape(), given.dtype());
    inputs.set("inputs_embeds", select(not_equal(given, none), cast(pass.embeddings, own.dtype()), own));
  } else {
    inputs.set("input_ids", pass.input_ids);
  }
  const std::vector<std::string> names = input_names();
  const auto takes = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (takes("position_ids")) inputs.set("position_ids", pass.position_ids);
  if (pass.is_given.defined() && takes(kGivenRows)) inputs.set(kGivenRows, pass.is_given);
  return cast(forward(inputs, context).at("logits"), DType::kFloat32);
}

Tensor GenerativeModel::run_step(const PassInputs& pass, ForwardContext& context) const {
  return squeeze(last_logits(pass, 1, context), 1);
}

// ---- inputs among the tokens

std::vector<std::vector<AttachedInput>> GenerativeModel::attached_inputs(const NamedTensors& inputs) const {
  for (const auto& [name, tensor] : inputs.items()) {
    if (name == "input_ids" || name == "attention_mask" || name == "token_type_ids") continue;
    if (embedding_width() == 0 || name != "inputs_embeds")
      fail("generate: unknown input {}; this model takes input_ids and attention_mask{}", quoted(name),
           embedding_width() > 0 ? ", or inputs_embeds in place of the first" : "");
  }
  const Tensor& embeddings = inputs.at("inputs_embeds");
  if (embeddings.rank() != 3 || !is_floating(embeddings.dtype()) || embeddings.dim(1) < 1 ||
      embeddings.dim(2) != embedding_width())
    fail("inputs_embeds: expected [batch, length, {}] of float32, found {}", embedding_width(),
         to_string(embeddings.type()));
  std::vector<std::vector<AttachedInput>> rows;
  for (int64_t row = 0; row < embeddings.dim(0); ++row)
    rows.push_back({{.tensors = {{"inputs_embeds", squeeze(slice(embeddings, 0, row, row + 1), 0)}},
                     .places = {{.begin = 0, .count = embeddings.dim(1)}}}});
  return rows;
}

Tensor GenerativeModel::embed(const AttachedInput& input, ForwardContext& context) const {
  if (embedding_width() == 0)
    fail(ErrorKind::kUnsupported, "{} reads tokens alone: nothing can stand in their place", architecture());
  prepare(context);
  const Tensor rows = run_embedding(input.tensors, context);
  int64_t count = 0;
  for (const FilledPlaces& places : input.places) count += places.count;
  if (rows.rank() != 2 || !is_floating(rows.dtype()) || rows.dim(0) != count || rows.dim(1) != embedding_width())
    fail("{} of an input among the tokens: expected {}, a row for each of its places, found {}",
         input.tensors.items().front().first, to_string({count, embedding_width()}), to_string(rows.type()));
  return cast(rows, DType::kFloat32);
}

AttendedPicture GenerativeModel::source_of(const AttachedInput& input, ForwardContext& context) const {
  if (input.places.size() != 1 || input.places[0].count != 1)
    fail("prompt: {} reads a picture beside the tokens: expected one place where it stands", architecture());
  prepare(context);
  return run_source(input.tensors, context);
}

AttendedPicture GenerativeModel::run_source(const NamedTensors&, ForwardContext&) const {
  fail(ErrorKind::kInternal, "{} reads no pictures beside its tokens", architecture());
}

TextPositions GenerativeModel::positions_of(const ModelInputs&) const {
  fail(ErrorKind::kInternal, "{} does not say where its tokens stand", architecture());
}

Tensor GenerativeModel::run_embedding(const NamedTensors& tensors, ForwardContext&) const {
  for (const auto& [name, tensor] : tensors.items())
    if (name != "inputs_embeds")
      fail(ErrorKind::kUnsupported, "{} makes nothing of {} among the tokens; it takes inputs_embeds", architecture(),
           quoted(name));
  return tensors.at("inputs_embeds");
}

Tensor GenerativeModel::embeddings_of(const Tensor&, ForwardContext&) const {
  fail(ErrorKind::kInternal, "{} does not give the embeddings of its tokens", architecture());
}

}  // namespace transom
