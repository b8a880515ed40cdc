// SPDX-License-Identifier: Apache-2.0
#include "models/families/layoutlm/word_boxes.h"

#include <utility>

#include "base/error.h"
#include "models/shared/record_parts.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kCorners = 4;

Tensor corner(const Tensor& boxes, int64_t place) { return squeeze(slice(boxes, 2, place, place + 1), 2); }  // [B, T]

}  // namespace

Tensor word_boxes(const NamedTensors& inputs, const EncoderInputs& in) {
  const int64_t rows = (in.input_ids.defined() ? in.input_ids : in.inputs_embeds).dim(0);
  const Shape expected{rows, in.length, kCorners};
  const Tensor boxes = inputs.find(kWordBoxes);
  if (!boxes.defined()) return zeros(expected, DType::kInt64);
  if (boxes.shape() != expected || !is_integer(boxes.dtype()))
    fail("{}: expected whole numbers {}, left, upper, right and lower edge of each word's box, found {}", kWordBoxes,
         to_string(expected), to_string(boxes.type()));
  return boxes;
}

BoxEmbeddings::BoxEmbeddings(const Scope& scope, const Options& o)
    : largest_extent_(o.largest_extent),
      x_position_embeddings_(scope / "x_position_embeddings", o.count, o.corner_width, o.deviation),
      y_position_embeddings_(scope / "y_position_embeddings", o.count, o.corner_width, o.deviation),
      h_position_embeddings_(scope / "h_position_embeddings", o.count, o.extent_width, o.deviation),
      w_position_embeddings_(scope / "w_position_embeddings", o.count, o.extent_width, o.deviation) {}

std::vector<Tensor> BoxEmbeddings::operator()(const Tensor& boxes, ForwardContext& context) const {
  const Tensor x0 = corner(boxes, 0), y0 = corner(boxes, 1), x1 = corner(boxes, 2), y1 = corner(boxes, 3);
  const auto extent = [&](const Tensor& from, const Tensor& to) {
    const Tensor length = to - from;
    if (largest_extent_ < 0) return length;
    const auto number = [&](int64_t value) { return full(length.shape(), static_cast<double>(value), length.dtype()); };
    return minimum(maximum(length, number(0)), number(largest_extent_));
  };
  return {x_position_embeddings_(x0, context),
          y_position_embeddings_(y0, context),
          x_position_embeddings_(x1, context),
          y_position_embeddings_(y1, context),
          h_position_embeddings_(extent(y0, y1), context),
          w_position_embeddings_(extent(x0, x1), context)};
}

FamilyInputs boxed_text_inputs(FamilyInputs text) {
  text.insert(text.begin() + 1,
              {.name = kWordBoxes,
               .kind = FamilyInput::Kind::kPositions,
               .axes = {{.name = "sequence_length"},
                        {.name = "corners", .fields = {"coordinates_of_a_box"}, .otherwise = kCorners}},
               .needed = false});
  return text;
}

FamilyHead document_question_answering_head(std::vector<std::string> modules) {
  FamilyHead head = question_answering_head(std::move(modules));
  head.pipelines = {"document-question-answering"};
  return head;
}

}  // namespace transom
