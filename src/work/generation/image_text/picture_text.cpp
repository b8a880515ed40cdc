// SPDX-License-Identifier: Apache-2.0
#include "work/generation/image_text/picture_text.h"

#include <algorithm>

#include "base/error.h"
#include "files/config/picture_grid.h"

namespace transom {
namespace {

using Pixels = ImageProcessor::Pixels;

std::string repeated(const std::string& token, int64_t count) {
  std::string text;
  for (; count > 0; --count) text += token;
  return text;
}

// LLaVA: one place for each patch, with num_additional_image_tokens more, and without the class token where
// vision_feature_select_strategy is "default".
class PatchText : public PictureText {
 public:
  PatchText(const Config& own, const Config& model) {
    // Processors that Transformers wrote before 4.46 say nothing of it: the model does.
    const bool says = own.has("patch_size");
    patch_size_ = says ? own.get_int("patch_size") : model.get_object("vision_config").get_int("patch_size", 14);
    if (patch_size_ < 1) fail("{}: patch_size: expected a number above 0, found {}", own.where(), patch_size_);
    const std::string strategy = says ? own.get_string("vision_feature_select_strategy", "")
                                      : model.get_string("vision_feature_select_strategy", "default");
    more_ = (says ? own.get_int("num_additional_image_tokens", 0) : 1) - (strategy == "default" ? 1 : 0);
  }
  int64_t places(const Pixels& pixels) const override {
    const int64_t places = (pixels.height / patch_size_) * (pixels.width / patch_size_) + more_;
    if (places < 1)
      fail("a picture of {}x{} pixels has no patches of {}: it makes no tokens", pixels.height, pixels.width,
           patch_size_);
    return places;
  }
  std::string text(const Pixels& pixels, const std::string& token) const override {
    return repeated(token, places(pixels));
  }

 protected:
  int64_t patch_size() const { return patch_size_; }

 private:
  int64_t patch_size_ = 0, more_ = 0;
};

// LLaVA-NeXT: of the whole picture as LLaVA has them, then of the grid of its parts those that lie on it, with one more
// at each line's end.
class GridText : public PatchText {
 public:
  using PatchText::PatchText;
  int64_t places(const Pixels& pixels) const override {
    const auto size = std::find_if(pixels.beside.begin(), pixels.beside.end(),
                                   [](const auto& each) { return each.first == "image_sizes"; });
    if (size == pixels.beside.end() || size->second.size() != 2)
      fail(ErrorKind::kInternal, "the processor of pictures does not say how large they are");
    const PictureSize grid{pixels.height / patch_size() * pixels.rows, pixels.width / patch_size() * pixels.columns};
    const GridInside inside = inside_of_grid({size->second[0], size->second[1]}, grid);
    return PatchText::places(pixels) + inside.height * (inside.width + 1);
  }
};

// Idefics3 and SmolVLM: rows and columns of tiles, each named, then the whole picture.
class TileText : public PictureText {
 public:
  explicit TileText(const Config& own) : each_(own.get_int("image_seq_len", 169)) {
    constexpr int64_t kMost = 1 << 20;
    if (each_ < 1 || each_ > kMost)
      fail("{}: image_seq_len: expected a number from 1 to {}, found {}", own.where(), kMost, each_);
  }
  int64_t places(const Pixels& pixels) const override { return (pixels.rows * pixels.columns + 1) * each_; }
  std::string text(const Pixels& pixels, const std::string& token) const override {
    const std::string around = "<fake_token_around_image>", tile = repeated(token, each_);
    std::string text;
    for (int64_t row = 1; row <= pixels.rows; ++row) {
      for (int64_t column = 1; column <= pixels.columns; ++column)
        text += fmt::format("{}<row_{}_col_{}>{}", around, row, column, tile);
      text += "\n";
    }
    if (pixels.rows > 0) text += "\n";
    return text + around + "<global-img>" + tile + around;
  }

 private:
  int64_t each_;
};

// Qwen2-VL: one place for each block of patches; what stands around them is the template's.
class BlockText : public PictureText {
 public:
  int64_t places(const Pixels& pixels) const override { return pixels.rows * pixels.columns; }
  std::string text(const Pixels& pixels, const std::string& token) const override {
    return repeated(token, places(pixels));
  }
};

}  // namespace

std::shared_ptr<const PictureText> make_picture_text(const ImageTokens& tokens, const Config& own,
                                                     const Config& model) {
  if (tokens.processor == "Llava") return std::make_shared<PatchText>(own, model);
  if (tokens.processor == "LlavaNext") return std::make_shared<GridText>(own, model);
  if (tokens.processor == "Idefics3") return std::make_shared<TileText>(own);
  if (tokens.processor == "Qwen2VL") return std::make_shared<BlockText>();
  fail(ErrorKind::kInternal, "no processor of texts with pictures is called {}", tokens.processor);
}

}  // namespace transom
