// SPDX-License-Identifier: Apache-2.0
// Which tokens see a picture that stands among them and is read beside them (Llama 3.2 Vision): those from its own on
// until the next picture begins; pictures side by side are seen until the one behind them begins.
#pragma once

#include <span>
#include <vector>

#include "transom/model_inputs.h"

namespace transom {

// Of each of the pictures at these places, in order, in a text of so many tokens.
std::vector<FilledPlaces> spans_of_pictures(std::span<const int64_t> places, int64_t length);

// The same of a text whose pictures are the places of a token.
std::vector<FilledPlaces> spans_of_token(std::span<const int64_t> text, int64_t token);

}  // namespace transom
