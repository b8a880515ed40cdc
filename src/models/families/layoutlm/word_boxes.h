// SPDX-License-Identifier: Apache-2.0
// The boxes in which the words of a page stand: corners (x0, y0) and (x1, y1), which count from 0 to 1000 over the
// page, whatever its size. B batch, T time.
#pragma once

#include <vector>

#include "files/family/family.h"
#include "models/shared/encoder_body.h"
#include "transom/layers.h"

namespace transom {

constexpr const char* kWordBoxes = "bbox";  // the argument's name

// i64 [B, T, 4]; without the argument those of nought.
Tensor word_boxes(const NamedTensors& inputs, const EncoderInputs& in);

// Of a box: its left, upper, right and lower edge, its height and its width, each with a row of a table.
class BoxEmbeddings {
 public:
  struct Options {
    int64_t count;  // rows of each table
    int64_t corner_width, extent_width;
    double deviation;
    int64_t largest_extent = -1;  // heights and widths are clipped to 0 .. this; -1: they are taken as they are
  };
  BoxEmbeddings(const Scope& scope, const Options& options);
  // i64 [B, T, 4] -> six of [B, T, width]
  std::vector<Tensor> operator()(const Tensor& boxes, ForwardContext& context) const;

 private:
  int64_t largest_extent_;
  Embedding x_position_embeddings_, y_position_embeddings_, h_position_embeddings_, w_position_embeddings_;
};

// The inputs of a text with the boxes of its words behind the ids.
FamilyInputs boxed_text_inputs(FamilyInputs text);
// Where an answer begins and ends among the words of a page.
FamilyHead document_question_answering_head(std::vector<std::string> modules);

}  // namespace transom
