// SPDX-License-Identifier: Apache-2.0
// Any bytes as a SentencePiece model, which must cut and decode a text, and become the components of several classes.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/json/json.h"
#include "inputs/text/components/components.h"
#include "inputs/text/sentencepiece/sentencepiece.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_files.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  using namespace transom::text;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const SentencePieceModel model = read_sentencepiece_model(bytes, "model");
    for (const char* family : {"", "T5", "XLMRoberta", "Llama"}) {
      try {
        const Json config = {{"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},
                             {"pad_token", "<pad>"}, {"mask_token", "<m>"}, {"extra_ids", 3}};
        const TokenizerFile file = read_sentencepiece_file(family, model, config, "model");
        const auto cutter = make_token_model(file, "model");
        std::vector<ModelToken> tokens;
        cutter->tokenize("▁Hello▁wörld", tokens);
      } catch (const Error&) {
      }
    }
    const SentencePiece pieces(model, "model");
    const AlignedText text(" Hello,  wörld! ﬁ½ ");
    AlignedText normal;
    pieces.normalize(text, 0, text.size(), normal);
    std::vector<std::string> found;
    for (const auto& part : pieces.split(normal.bytes)) found.emplace_back(normal.view(part.begin, part.end));
    for (const auto& piece : model.pieces) found.push_back(piece.text);
    pieces.decode(found);
  } catch (const Error&) {
  }
  return 0;
}
