// SPDX-License-Identifier: Apache-2.0
// What graphs that go on from keys and values have in common, and how they are tried out.
#pragma once

#include "transom/model.h"
#include "transom/tensor.h"

namespace transom::onnx {

// Tokens are read in blocks of so many, where each length of a past would be a program of its own.
constexpr int64_t kPastBlock = 8;
constexpr int64_t kMostPastLayers = 1000;

// [B, heads, length, size] of graphs, [B, length, heads, size] of caches.
Tensor with_heads_swapped(const Tensor& x);
// Of outputs "logits" [B, T, V]: those at place t, [B, V], in f32.
Tensor logits_at(const NamedTensors& outputs, int64_t t);
// Numbers of no pattern, to try a graph with.
Tensor waves(const Shape& shape);
// Whether no element is further apart than `bound` times the largest of a.
bool are_near(const Tensor& a, const Tensor& b, double bound = 1e-3);

}  // namespace transom::onnx
