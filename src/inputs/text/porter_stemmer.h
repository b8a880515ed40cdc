// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace transom {

// The stem of an English word in small letters (Porter, "An algorithm for suffix stripping", 1980), with the extensions
// that NLTK's stemmer has by default and that ROUGE is therefore counted with.
std::string porter_stem(std::string word);

}  // namespace transom
