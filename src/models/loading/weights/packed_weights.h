// SPDX-License-Identifier: Apache-2.0
// From the codes of a checkpoint to packed matrices, the form in which models compute with them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/blocks/block_matrix.h"
#include "files/blocks/integer_codes.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/precision.h"
#include "transom/model.h"

namespace transom {

// In huge pages where the system has them. Nothing where groups have a size that packed matrices cannot have.
std::optional<PackedMatrix> packed_matrix(const BlockMatrix& matrix);
// `deferred`: packed by the products that read it, where the device and the format allow it; see packed_panels.h.
std::optional<PackedMatrix> packed_matrix(std::shared_ptr<const BlockMatrix> matrix, bool deferred);

// Layers that read the same inputs round them with one scale: it is one tensor then, so that they are rounded once.
using SharedInputScales = std::map<float, std::pair<Tensor, Tensor>>;  // the scale, and 1 / scale
// Weights of integers, read where the checkpoint has them.
PackedMatrix integer_matrix(const IntegerCodes& codes, SharedInputScales& scales);

// The activations of PackedMatrix for weights of this layout when inputs may be rounded to 8 bits.
std::string rounded_activations(const BlockLayout& layout);
// The same where the checkpoint's own rule need not be kept: one scale for a whole row of inputs, which loses the small
// ones beside a large one, becomes scales for 32 of them, in 16 bits.
std::string fast_activations(const BlockLayout& layout);
// Whether its codes are f8_e4m3fn, in groups of whole blocks of inputs.
bool holds_float8(const BlockLayout& layout);
// The same for a table of all tokens, which is a head too: it decides which token comes next, and is read once a token.
std::string rounded_head_activations(const std::string& activations);

// A matrix [N, K] with weights of 8 bits and a scale for each row.
PackedMatrix packed_by_row(const Tensor& weight);

// The 16 numbers that codes of nf4 (the quantiles of normal weights) or fp4 (one sign, two bits of exponent, one of
// mantissa) stand for, in the order of bitsandbytes (Dettmers et al., "QLoRA", 2023).
std::vector<float> four_bit_values(const std::string& type);
// A matrix [N, K] whose numbers, 64 of a row at a time, are the nearest of `values` times the largest magnitude.
PackedMatrix packed_in_blocks(const Tensor& weight, const std::vector<float>& values);
// The codes of a linear weight by LoadOptions::quantization; null where that has none of its own for it.
std::shared_ptr<const PackedMatrix> codes_of_weight(const Parameter& weight, OneOf<Quantization> quantization);
// Whether a parameter belongs to one of the numbered layers of a model: heads and embeddings do not.
bool is_in_block(const std::string& name);

}  // namespace transom
