// SPDX-License-Identifier: Apache-2.0
// From the frames of a CTC model to text: the vocabulary of characters that Wav2Vec2's tokenizer has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace transom {

// A piece of text and the frames [begin, end) that it comes from.
struct SpokenPiece {
  std::string text;
  int64_t begin = 0, end = 0;
};

class CtcVocabulary {
 public:
  // Of a directory with vocab.json and tokenizer_config.json.
  static CtcVocabulary read(const std::filesystem::path& directory);

  // The characters of the best class of each frame: repetitions joined, blanks left out, word delimiters as spaces.
  std::vector<SpokenPiece> characters(std::span<const int64_t> ids) const;
  // The words between spaces.
  std::vector<SpokenPiece> words(const std::vector<SpokenPiece>& characters) const;
  // The characters as one text, without spaces at its ends.
  std::string text(const std::vector<SpokenPiece>& characters) const;

 private:
  std::vector<std::string> tokens_;  // by id; empty strings where the vocabulary has a gap
  std::string pad_ = "<pad>", unknown_ = "<unk>", delimiter_ = "|", space_ = " ";
  bool lower_case_ = false;
};

}  // namespace transom
