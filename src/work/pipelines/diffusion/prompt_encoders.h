// SPDX-License-Identifier: Apache-2.0
// The text encoders of a pipeline with their tokenizers: one of Stable Diffusion 1 and 2, two of XL, of its refiner the
// second alone. T tokens, D width of all encoders, E width of the pooled text.
#pragma once

#include <string>
#include <vector>

#include "transom/tokenizer.h"
#include "work/pipelines/diffusion/pipeline_directory.h"

namespace transom {

class PromptEncoders {
 public:
  PromptEncoders(const PipelineDirectory& directory, const LoadOptions& options, bool xl);

  struct Prompt {
    Tensor states, pooled;  // [1, T, D]; of XL [1, E]
  };
  // Texts that are longer than an encoder reads are cut, and a line of the log says so.
  Prompt operator()(const std::string& text, int64_t clip_skip) const;
  // By the name of its folder; null: there is none.
  Model* find(const std::string& part) const;

 private:
  struct Encoder {
    std::string part;
    std::unique_ptr<Model> model;
    Tokenizer tokenizer;
    bool projects;  // gives text_embeds
  };
  Tensor states_of(const Encoder& encoder, const std::string& text, int64_t clip_skip, Tensor& pooled) const;

  std::vector<Encoder> encoders_;
  bool xl_;
};

}  // namespace transom
