// SPDX-License-Identifier: Apache-2.0
// The decoder of SpeechT5 that makes spectra: its prenet and postnet, and what it learns from. Letters as in
// speecht5_config.h.
#pragma once

#include <memory>
#include <vector>

#include "base/numbers/mt19937.h"
#include "models/families/speecht5/speecht5_layers.h"

namespace transom {

// What the prenet leaves of its layers: its dropout is never off (Shen et al., 2018), and the same in all rows. In
// training it is drawn as any other; else by torch's generator in the order in which Transformers draws it.
class SpeechT5Masks {
 public:
  explicit SpeechT5Masks(uint64_t seed) : generator_(seed) {}
  // Of the places first .. T: [T - first, U], 0 or what scales the values that stay. The places before are drawn as
  // well.
  Tensor next(const SpeechT5Config& c, int64_t first, int64_t T, ForwardContext& context);

 private:
  Mt19937 generator_;
};

class SpeechT5SpeechPrenet {
 public:
  SpeechT5SpeechPrenet(const Scope& scope, const SpeechT5Config& c);
  // frames [B, T, M], of which the first has the place `first`; speaker [B or 1, E] or empty -> [B, T, D]
  Tensor operator()(const Tensor& frames, const Tensor& speaker, int64_t first, SpeechT5Masks& masks,
                    ForwardContext& context) const;

 private:
  SpeechT5Config c_;
  std::vector<Linear> layers_;
  Linear final_layer_;
  SpeechT5Positions encode_positions_;
  Linear speaker_embeds_layer_;
};

struct SpeechT5Spectra {
  Tensor before;  // [B, T r, M]: without the convolutions
  Tensor stop;    // [B, T r]: logits of being the last frame
};

class SpeechT5PostnetLayer;
class SpeechT5Postnet {
 public:
  SpeechT5Postnet(const Scope& scope, const SpeechT5Config& c);
  // [B, T, D]
  SpeechT5Spectra spectra(const Tensor& hidden, ForwardContext& context) const;
  // [B, F, M] -> [B, F, M]
  Tensor finished(const Tensor& before, ForwardContext& context) const;

 private:
  int64_t bands_;
  Linear feat_out_, prob_out_;
  std::vector<std::shared_ptr<const SpeechT5PostnetLayer>> layers_;
};

// What the decoder reads of labels [B, F, M]: each r-th frame, one place later. A frame of -100 is read as nought.
Tensor speecht5_shifted(const Tensor& labels, int64_t reduction_factor);

// The loss of labels [B, F, M]; frames of -100 are none. `after`: finished; `seen`: what each layer of the decoder sees
// of the text [B, H, T, S]; text_mask [B, S] or empty.
Tensor speecht5_loss(const SpeechT5Config& c, const SpeechT5Spectra& made, const Tensor& after, const Tensor& labels,
                     const std::vector<Tensor>& seen, const Tensor& text_mask, const ForwardContext& context);

}  // namespace transom
