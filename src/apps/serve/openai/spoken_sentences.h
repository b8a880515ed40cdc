// SPDX-License-Identifier: Apache-2.0
// The sentences of a text, each of which is spoken by itself where a sound is streamed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace transom::serve {

// In order, without the space around them; at least one. What is too short for a sentence, or has nothing to say, stays
// with a neighbour; so does what stands behind an abbreviation, a number of a list or an initial.
std::vector<std::string> spoken_sentences(std::string_view text);

}  // namespace transom::serve
