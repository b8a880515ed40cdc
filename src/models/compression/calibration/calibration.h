// SPDX-License-Identifier: Apache-2.0
// What calibration of quantised weights needs: rows of tokens from a text, the inputs of the linear layers on them, and
// how well a language model predicts others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "transom/model.h"
#include "transom/tokenizer.h"

namespace transom {

// Rows of `length` tokens of a text file, evenly spread over it, `count` at most. An error where the text has not one.
std::vector<std::vector<int64_t>> token_rows(const Tokenizer& tokenizer, const std::string& file, int64_t count,
                                             int64_t length);

// Refuses models of pictures, sound and tables.
void expect_model_of_texts(const Model& model);

// The rows as input_ids [rows, length].
Tensor input_ids_of(const std::vector<std::vector<int64_t>>& rows);

// e to the mean loss of the tokens behind the first of each row.
double perplexity(const Model& model, const std::vector<std::vector<int64_t>>& rows);

// What one linear layer reads on all rows.
struct LayerInputs {
  Tensor x;                       // [rows, length, K]
  std::vector<float> products;    // [K, K]: sums of x' x over the mean number of tokens
  std::vector<float> magnitudes;  // [K]: mean |x|
  std::vector<float> largest;     // [K]: largest |x|
};

// The sum over the rows w of a weight (or of its errors) [rows, K] of w products w': squares of outputs.
double output_squares(const std::vector<float>& rows, const Tensor& products);

// Passes the rows through the model once, layer by layer, and calls on_layer before each linear layer of `weights` is
// multiplied. A value that it gives the parameter is used for that product and all behind it: what follows is
// calibrated on what quantised layers give. Only one layer's inputs are kept at a time. The pass ends with the last of
// the weights, before the head.
void calibrate(const Model& model, const std::vector<std::vector<int64_t>>& rows,
               const std::vector<std::shared_ptr<Parameter>>& weights,
               const std::function<void(const LayerInputs& inputs, Parameter& weight)>& on_layer);

}  // namespace transom
