// SPDX-License-Identifier: Apache-2.0
// From the frames of a CTC model to text and back: the vocabulary of characters that Wav2Vec2CTCTokenizer has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
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

  // The special tokens of a vocabulary that is made new; an empty one is left out.
  struct SpecialTokens {
    std::string unknown = "[UNK]", pad = "[PAD]", delimiter = "|";
  };
  // All characters of the texts, sorted, then the special tokens, as run_speech_recognition_ctc makes it; the delimiter
  // stands in the place of the space.
  static CtcVocabulary of_texts(std::span<const std::string> texts, const SpecialTokens& special);
  // vocab.json and tokenizer_config.json.
  void save(const std::filesystem::path& directory) const;

  // One id a character; those that are not in the vocabulary are unknown, or left out if it has no such token.
  std::vector<int64_t> ids(std::string_view text) const;
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t pad_id() const;  // an error where there is none

  // The characters of the best class of each frame: repetitions joined (not with `joined` false, for labels), blanks
  // left out, word delimiters as spaces.
  std::vector<SpokenPiece> characters(std::span<const int64_t> ids, bool joined = true) const;
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
