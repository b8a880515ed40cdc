// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/request_files.h"

namespace transom {

void RequestFiles::use(const PictureRequest& request, PromptEncoders& encoders, const LoraWeights::Parts& parts) {
  if (request.words != known_) {
    lora_.use({}, parts);  // which may change the vectors of tokens, too
    known_.clear();
    encoders.learn({});
    std::vector<LearnedWord> words;
    for (const WordFile& file : request.words)
      for (LearnedWord& word : read_learned_words(file.path, file.token)) words.push_back(std::move(word));
    encoders.learn(words);
    known_ = request.words;
  }
  lora_.use(request.loras, parts);
}

}  // namespace transom
