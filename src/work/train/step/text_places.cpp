// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/text_places.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "graph/ir/node.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/input_names.h"
#include "models/records.h"
#include "runtime/device/device.h"
#include "runtime/device/static_shapes.h"
#include "runtime/programs/node_support.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr std::string_view kMask = "attention_mask";

// Why the padding cannot be taken out; empty: it can.
std::string why_padding_stays(const Model& model, bool shares_rows, bool reads_padding) {
  if (!model.takes_texts_in_rows()) return fmt::format("{} needs rows of one length", model.architecture());
  if (const Architecture* known = find_architecture(model)) {
    if (*known->head.labels == HeadLabels::kSpan)
      return "an answer is looked for in all places of a row, padding among them";
    if (*known->head.labels == HeadLabels::kChoice) return "a row is several choices";
  }
  if (reads_padding) return "the task logs what the model makes of all places of a row, padding among them";
  if (model.adaptation() && model.adaptation()->virtual_tokens()) return "virtual tokens stand before each row";
  if (shares_rows)
    return "processes that share the rows of a batch (zero_stage, fsdp, tp_size ...) need rows of one length";
  return {};
}

// Whether all attention of the model over several texts in a row is such as the device computes whole, forward and
// back. What is computed in parts (sinks, capped scores) has a score for each pair of tokens of a batch.
bool attends_in_ranges(const Model& model) {
  const ModeScope only_traced(Mode::kLazy);
  const NoGradient only_values;
  const Shape batch{2, 2};
  const NamedTensors outputs = model.forward({{"input_ids", full(batch, 0, DType::kInt64)},
                                              {"attention_mask", full(batch, 1, DType::kInt64)},
                                              {"token_places", Tensor::from(std::vector<int64_t>{0, 1, 2, 3}, {4})},
                                              {"seq_idx", Tensor::from(std::vector<int64_t>{0, 0, 1, 1}, {1, 4})}});
  const std::shared_ptr<Device> device = default_device();
  NodeSupport& support = NodeSupport::of(*device);
  const Operation& gradient = find_operation("ranged_attention_gradient");
  bool any = false;
  std::unordered_set<const Node*> seen;
  std::vector<Tensor> open;
  for (const auto& [name, output] : outputs.items()) open.push_back(output);
  while (!open.empty()) {
    const Tensor tensor = open.back();
    open.pop_back();
    const std::shared_ptr<Node>& node = tensor.node();
    if (!node || !node->operation || !seen.insert(node.get()).second) continue;
    if (node->operation->name == "sink_attention") return false;
    if (node->operation->name == "ranged_attention") {
      std::vector<Tensor> inputs = node->inputs;
      inputs.push_back(tensor);  // a cotangent has its type
      const Tensor back = make_tensors(gradient, std::move(inputs), node->attributes)[0];
      if (!support.supports(*device, *node) || !support.supports(*device, *back.node())) return false;
      any = true;
    }
    open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  return any;
}

bool takes_input(const Model& model, std::string_view input) {
  const std::vector<std::string> names = input_names_of(model);
  return std::find(names.begin(), names.end(), input) != names.end();
}

// Up by one in 32 at most.
int64_t rounded_count(int64_t count) {
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count / 32))));
  return (count + step - 1) / step * step;
}

// Two lengths for each doubling.
int64_t rounded_length(int64_t length) {
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length))) / 4);
  return (length + step - 1) / step * step;
}

// The masks of a batch by what stands before their names: of one that is its own, of a further text, of a column.
std::vector<std::pair<std::string, const PaddedRows*>> masks_of(const Batch& batch) {
  std::vector<std::pair<std::string, const PaddedRows*>> masks;
  for (const auto& [name, rows] : batch.sequences)
    if (name.ends_with(kMask)) masks.emplace_back(name.substr(0, name.size() - kMask.size()), &rows);
  return masks;
}

// The mask that a sequence goes with: that of the longest prefix.
const PaddedRows* mask_of(const std::vector<std::pair<std::string, const PaddedRows*>>& masks, std::string_view name) {
  const std::pair<std::string, const PaddedRows*>* own = nullptr;
  for (const auto& mask : masks)
    if (name.starts_with(mask.first) && (!own || mask.first.size() > own->first.size())) own = &mask;
  return own ? own->second : nullptr;
}

bool has_padding(const PaddedRows& mask) { return std::count(mask.values.begin(), mask.values.end(), 0) > 0; }

// Whether no token stands behind a place of padding.
bool ends_in_padding(const PaddedRows& mask) {
  for (size_t place = 1; place < mask.values.size(); ++place) {
    const bool begins = place % static_cast<size_t>(mask.length) == 0;
    if (mask.values[place] != 0 && mask.values[place - 1] == 0 && !begins) return false;
  }
  for (int64_t row = 0; row < mask.rows; ++row)
    if (mask.values[static_cast<size_t>(row * mask.length)] == 0) return false;
  return true;
}

PaddedRows widened(const PaddedRows& rows, int64_t length, int64_t fill) {
  PaddedRows wide{.rows = rows.rows, .length = length, .values = {}};
  wide.values.reserve(static_cast<size_t>(rows.rows * length));
  for (int64_t row = 0; row < rows.rows; ++row) {
    const auto begin = rows.values.begin() + row * rows.length;
    wide.values.insert(wide.values.end(), begin, begin + rows.length);
    wide.values.insert(wide.values.end(), static_cast<size_t>(length - rows.length), fill);
  }
  return wide;
}

struct Places {
  std::vector<int64_t> places, texts;
  std::vector<int64_t> padding;  // places
  int64_t longest = 0;           // of the texts
};

// `numbers`: of the texts in each row; null: each row is one. Nothing where a row has no token.
std::optional<Places> places_of(std::span<const int64_t> mask, const int64_t* numbers, int64_t length) {
  Places found;
  int64_t text = -1, tokens = 0;
  for (int64_t row = 0; row < static_cast<int64_t>(mask.size()) / length; ++row) {
    std::optional<int64_t> before;  // the number of the last token's text in this row
    for (int64_t place = row * length; place < (row + 1) * length; ++place) {
      if (mask[static_cast<size_t>(place)] == 0) {
        found.padding.push_back(place);
        continue;
      }
      const int64_t number = numbers ? numbers[place] : 0;
      if (before != number) ++text, tokens = 0;
      before = number;
      found.longest = std::max(found.longest, ++tokens);
      found.places.push_back(place);
      found.texts.push_back(text);
    }
    if (!before) return std::nullopt;
  }
  return found;
}

void round_up(Places& found) {
  const auto count = static_cast<int64_t>(found.places.size());
  const int64_t more = std::min(rounded_count(count) - count, static_cast<int64_t>(found.padding.size()));
  const int64_t text = found.texts.back() + 1;
  for (int64_t i = 0; i < more; ++i) {
    found.places.push_back(found.padding[static_cast<size_t>(i)]);
    found.texts.push_back(text + i / found.longest);  // none is longer than a text may be
  }
}

void set_places(const Places& found, const std::string& prefix, NamedTensors& inputs) {
  const auto count = static_cast<int64_t>(found.places.size());
  inputs.set(prefix + "token_places", Tensor::from(found.places, {count}));
  inputs.set(prefix + "seq_idx", Tensor::from(found.texts, {1, count}));
}

}  // namespace

BatchPadding padding_of_batches(const TrainingArguments& arguments, const Model& model, bool shares_rows,
                                bool reads_padding) {
  if (!arguments.padding_free.value_or(true)) return BatchPadding::kStays;
  const std::string why = why_padding_stays(model, shares_rows, reads_padding);
  if (arguments.padding_free) {
    if (!why.empty())
      fail(shares_rows ? ErrorKind::kUsage : ErrorKind::kUnsupported, "--padding_free: {}; leave it out", why);
    return BatchPadding::kGoes;
  }
  // The noise of NEFTune is the less, the longer the row that the embeddings see; pictures have places among tokens.
  const bool stays = !why.empty() || wants_static_shapes() || arguments.neftune_noise_alpha.value_or(0) > 0 ||
                     takes_input(model, "pixel_values") || !attends_in_ranges(model);
  return stays ? BatchPadding::kStays : BatchPadding::kGoesBehindTexts;
}

Batch with_few_lengths(Batch batch, BatchPadding padding) {
  if (padding == BatchPadding::kStays || batch.choices > 0) return batch;
  const auto masks = masks_of(batch);
  struct Part {
    PaddedRows* rows;
    int64_t length, fill;
  };
  std::vector<Part> parts;
  for (auto& [name, rows] : batch.sequences) {
    const PaddedRows* mask = mask_of(masks, name);
    if (!mask || rows.rows != mask->rows || rows.length != mask->length) continue;
    if (!has_padding(*mask) || !ends_in_padding(*mask)) continue;
    // Filled with what it has itself where there is no token.
    const auto place = std::find(mask->values.begin(), mask->values.end(), 0) - mask->values.begin();
    parts.push_back({&rows, rounded_length(rows.length), rows.values[static_cast<size_t>(place)]});
  }
  for (const Part& part : parts)
    if (part.length > part.rows->length) *part.rows = widened(*part.rows, part.length, part.fill);
  return batch;
}

void add_places(const Batch& batch, BatchPadding padding, NamedTensors& inputs) {
  if (padding == BatchPadding::kStays || batch.choices > 0) return;
  for (const auto& [prefix, mask] : masks_of(batch)) {
    if (padding == BatchPadding::kGoesBehindTexts && !ends_in_padding(*mask)) continue;
    const auto numbers = batch.sequences.find(prefix + "seq_idx");
    const bool packed = numbers != batch.sequences.end();
    std::optional<Places> found =
        places_of(mask->values, packed ? numbers->second.values.data() : nullptr, mask->length);
    if (!found || found->places.empty() || (!packed && found->padding.empty())) continue;
    round_up(*found);
    if (packed || found->places.size() < mask->values.size()) set_places(*found, prefix, inputs);
  }
}

void add_places_of_rows(const Tensor& mask, int64_t begin, int64_t end, NamedTensors& inputs) {
  const std::vector<int64_t> all = mask.to_vector<int64_t>();
  const int64_t length = mask.dim(1);
  std::optional<Places> found = places_of(
      std::span(all).subspan(static_cast<size_t>(begin * length), static_cast<size_t>((end - begin) * length)), nullptr,
      length);
  if (!found || found->places.empty() || found->padding.empty()) return;
  round_up(*found);
  if (static_cast<int64_t>(found->places.size()) < (end - begin) * length) set_places(*found, "", inputs);
}

void copy_places(const NamedTensors& from, std::string_view prefix, NamedTensors& to) {
  for (const char* name : {"token_places", "seq_idx"})
    if (const Tensor found = from.find(std::string(prefix) + name); found.defined()) to.set(name, found);
}

}  // namespace transom
