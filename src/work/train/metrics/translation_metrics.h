// SPDX-License-Identifier: Apache-2.0
// Scores of written texts against what they should be: BLEU as sacrebleu counts it, ROUGE as rouge_score does.
#pragma once

#include <span>
#include <string>

namespace transom {

// BLEU of a corpus (Papineni et al., 2002), 0 to 100: words up to runs of four, the tokenizer 13a of WMT, exponential
// smoothing; one reference a text.
double bleu(std::span<const std::string> references, std::span<const std::string> texts);

struct Rouge {
  double rouge1 = 0, rouge2 = 0, rougeL = 0, rougeLsum = 0;
};
// ROUGE (Lin, 2004), means over the texts of the F measures, 0 to 1, of stemmed words. For rougeLsum each line is a
// sentence.
Rouge rouge(std::span<const std::string> references, std::span<const std::string> texts);

// The part of the texts that are their references to the letter.
double exact_match(std::span<const std::string> references, std::span<const std::string> texts);

// Each sentence on a line of its own, as rougeLsum wants it.
std::string sentences_as_lines(const std::string& text);

}  // namespace transom
