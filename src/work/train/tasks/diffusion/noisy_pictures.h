// SPDX-License-Identifier: Apache-2.0
// Rows of training of diffusion: pictures, or what an autoencoder makes of them, with noise that is drawn for each, and
// their texts. Pictures whose part is the same each time are encoded before the first update, and texts, up to a limit
// of what is kept.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/diffusion/latent_scale.h"
#include "models/diffusion/prompt_encoders.h"
#include "transom/trainer.h"
#include "work/train/tasks/diffusion/drawn_noise.h"
#include "work/train/tasks/diffusion/picture_part.h"

namespace transom {

// What the encoders say of texts, each once as long as there is room.
class TextStates {
 public:
  static constexpr size_t kMostKept = size_t{1} << 30;  // bytes
  // How T5 reads a text, and what the network calls the text as a whole.
  struct Form {
    int64_t t5_tokens = 0, t5_width = 0;
    const char* pooled = "text_embeds";
  };
  explicit TextStates(std::shared_ptr<const PromptEncoders> encoders, size_t most_kept = kMostKept)
      : encoders_(std::move(encoders)), most_kept_(most_kept) {}
  TextStates(std::shared_ptr<const PromptEncoders> encoders, const Form& form)
      : encoders_(std::move(encoders)), most_kept_(kMostKept), form_(form) {}
  size_t place_of(const std::string& text);  // encodes it where it is new and there is room for what that gives
  // After the last text: the encoders are let go where all is kept.
  void close();
  // encoder_hidden_states [B, T, D], and the texts as a whole [B, E] where the encoders give them. What is not kept is
  // encoded again, to the same numbers.
  void add(Batch& batch, const std::vector<size_t>& places) const;

 private:
  struct States {
    std::vector<float> whole, pooled;
    int64_t width = 0;
  };
  States encoded(const std::string& text) const;

  std::shared_ptr<const PromptEncoders> encoders_;
  size_t most_kept_;
  Form form_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<const std::string*> texts_;  // the keys of places_
  std::vector<States> kept_;               // of the first texts, of one at least; all have one size
  int64_t tokens_ = 0, width_ = 0, pooled_width_ = 0;
};

struct NoisyPictures {
  struct Row {
    std::filesystem::path file;
    std::vector<size_t> texts = {};  // places in `states`, of which one is drawn
    RowCount count = {};
    std::filesystem::path control = {};  // a second picture, which a ControlNet sees
    bool mirrors = true;                 // where `parts` do
  };
  NoisyPictures(const PictureParts& its_parts, std::shared_ptr<const DrawnNoise> its_noise)
      : parts(its_parts), noise(std::move(its_noise)) {}

  PictureParts parts;
  std::shared_ptr<const DrawnNoise> noise;
  int64_t seed = 0;
  std::vector<Row> rows = {};
  // Of each batch the rows of these numbers, from those that are asked for; empty: those themselves.
  std::function<std::vector<int64_t>(const std::vector<int64_t>&)> chosen = {};
  int64_t count = 0;  // that may be asked for

  // Of latent diffusion; null: pictures themselves are noised.
  std::shared_ptr<const Model> autoencoder = {};
  LatentScale scale = {};
  int64_t enlargement = 1;
  std::shared_ptr<TextStates> states = {};
  std::vector<std::vector<float>> tokens = {};  // of texts, in place of `states`: their ids
  std::optional<size_t> empty_text = {};
  double empty_texts = 0;      // the part of texts that are left out
  bool tells_extents = false;  // time_ids of XL

  // Encodes what can be encoded ahead.
  void encode_ahead();
  void fill(Batch& batch, const std::vector<int64_t>& asked, uint64_t draw) const;

 private:
  struct Extents {
    int64_t height = 0, width = 0, resized_height = 0, resized_width = 0;
  };
  struct Moments {
    std::vector<float> mean, deviation;
  };
  struct Drawn;
  Moments encoded(const Image& resized, const PicturePart& part) const;
  void draw_row(size_t place, const Row& row, size_t number, Mt19937& random, Drawn& drawn) const;

  bool ahead_ = false;
  std::vector<Extents> extents_;
  std::vector<Moments> plain_, mirrored_;
};

// The tokens of texts [B, T], which the text encoder reads in training.
constexpr const char* kTextIds = "text_ids";
// What a ControlNet sees beside the sample: [B, 3, H, W] from 0 to 1.
constexpr const char* kControlPicture = "controlnet_cond";

// A batch is its rows' numbers until the draw is known; evaluations have the same draw each time.
TrainingData noisy_data(std::shared_ptr<const NoisyPictures> pictures, bool trains);

// Pictures below a directory, in order; refuses one without any.
std::vector<std::filesystem::path> images_below(const std::string& directory);

}  // namespace transom
