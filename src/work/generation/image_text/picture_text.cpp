// SPDX-License-Identifier: Apache-2.0
#include "work/generation/image_text/picture_text.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "files/config/picture_grid.h"
#include "inputs/text/unicode/unicode.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

using Pixels = ImageProcessor::Pixels;

constexpr int64_t kMostPlaces = 1 << 20;  // that a file may say of a picture

std::string repeated(const std::string& token, int64_t count) {
  std::string text;
  for (; count > 0; --count) text += token;
  return text;
}

// How many places a picture has, where a file says it.
int64_t places_said(const Config& config, const char* field, int64_t otherwise) {
  return positive(config, field, otherwise, kMostPlaces);
}

// How large a picture was, as its processor tells.
PictureSize told_size(const Pixels& pixels) {
  for (const auto& [name, numbers] : pixels.beside)
    if (name == "image_sizes" && numbers.size() == 2) return {numbers[0], numbers[1]};
  fail(ErrorKind::kInternal, "the processor of pictures does not say how large they are");
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
    const int64_t more = says ? own.get_int("num_additional_image_tokens", 0) : 1;
    if (more < 0 || more > kMostPlaces)
      fail("{}: num_additional_image_tokens: expected a number from 0 to {}, found {}", own.where(), kMostPlaces, more);
    more_ = more - (strategy == "default" ? 1 : 0);
  }
  int64_t places(const Pixels& pixels) const override {
    const int64_t places = (pixels.height / patch_size_) * (pixels.width / patch_size_) + more_;
    if (places < 1)
      fail("a picture of {}x{} pixels has no patches of {}: it makes no tokens", pixels.height, pixels.width,
           patch_size_);
    return places;
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
    const PictureSize grid{pixels.height / patch_size() * pixels.rows, pixels.width / patch_size() * pixels.columns};
    const GridInside inside = inside_of_grid(told_size(pixels), grid);
    return PatchText::places(pixels) + inside.height * (inside.width + 1);
  }
};

// LLaVA-OneVision: of a picture that is alone in its text as LLaVA-NeXT has them, in a grid that may be resampled; of
// one of several those of a part. A line of places ends with one more.
class OnevisionText : public PictureText {
 public:
  OnevisionText(const Config& own, const Config& model) : most_(most_of_aspect_ratio(own)) {
    const bool says = own.has("num_image_tokens");
    const Config vision = model.get_object("vision_config");
    const int64_t side = std::clamp<int64_t>(
        vision.get_int("image_size", 384) / std::max<int64_t>(vision.get_int("patch_size", 14), 1), 0, kMostPlaces);
    each_ = places_said(own, "num_image_tokens", side * side);
    side_ = static_cast<int64_t>(std::sqrt(static_cast<double>(each_)));
    const std::string strategy = says ? own.get_string("vision_feature_select_strategy", "")
                                      : model.get_string("vision_feature_select_strategy", "full");
    if (strategy == "default") less_ = 1;
  }
  int64_t places(const Pixels& pixels) const override {
    if (pixels.together > 1) return each_ + 1 - less_;
    const PictureSize size = told_size(pixels);
    const PictureSize kept =
        fewer_places(inside_of_grid(size, {side_ * pixels.rows, side_ * pixels.columns}), side_, most_);
    return each_ + kept.height * (kept.width + 1) - less_;
  }

 private:
  int64_t most_, each_ = 0, side_ = 0, less_ = 0;
};

// Idefics3 and SmolVLM: rows and columns of tiles, each named, then the whole picture.
class TileText : public PictureText {
 public:
  explicit TileText(const Config& own) : each_(places_said(own, "image_seq_len", 169)) {}
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

struct TextEdit {
  size_t at = 0, length = 0;  // of the text before
  std::string by;
};

// With edits in order, none within another.
std::string with_edits(const std::string& text, const std::vector<TextEdit>& edits, std::span<size_t> bytes) {
  std::string result;
  size_t end = 0, next = 0;  // of the text, of `bytes`
  const auto keep_until = [&](size_t begin) {
    for (; next < bytes.size() && bytes[next] < begin; ++next) bytes[next] = result.size() + bytes[next] - end;
    result += text.substr(end, begin - end);
  };
  for (const TextEdit& edit : edits) {
    keep_until(edit.at);
    result += edit.by;
    end = edit.at + edit.length;
    for (; next < bytes.size() && bytes[next] < end; ++next) bytes[next] = result.size();
  }
  keep_until(text.size());
  for (; next < bytes.size(); ++next) bytes[next] = result.size();
  return result;
}

// Idefics2: each part of a picture between two marks, of which two side by side become one; a word behind a mark gets a
// space before it.
class MarkedText : public PictureText {
 public:
  explicit MarkedText(const Config& own) : each_(places_said(own, "image_seq_len", 64)) {}
  int64_t places(const Pixels& pixels) const override { return pixels.parts * each_; }
  std::string text(const Pixels& pixels, const std::string& token) const override {
    return repeated(kMark + repeated(token, each_) + kMark, pixels.parts);
  }
  std::string tidied(std::string text, std::span<size_t> bytes) const override {
    std::vector<TextEdit> edits;
    for (size_t at = text.find(kMark + kMark); at != text.npos; at = text.find(kMark + kMark, at + 2 * kMark.size()))
      edits.push_back({.at = at + kMark.size(), .length = kMark.size()});
    text = with_edits(text, edits, bytes);
    edits.clear();
    for (size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at + kMark.size())) {
      const size_t behind = at + kMark.size();
      size_t next = behind;
      if (behind == text.size()) break;
      const char32_t c = text::next_character(text, next);
      const bool is_space = text::is_space(c) || (c >= 0x1c && c <= 0x1f);  // as Python has it
      if (c != U'<' && !is_space) edits.push_back({.at = behind, .length = 0, .by = " "});
    }
    return with_edits(text, edits, bytes);
  }

 private:
  const std::string kMark = "<fake_token_around_image>";
  int64_t each_;
};

// Qwen2-VL: one place for each block of patches; what stands around them is the template's.
class BlockText : public PictureText {
 public:
  int64_t places(const Pixels& pixels) const override { return pixels.rows * pixels.columns; }
};

// PaliGemma: all pictures, the token that begins a text, the text, and a line's end. A text that does not say where its
// pictures are has them before it.
class PromptText : public PictureText {
 public:
  explicit PromptText(const PictureTextFiles& files) : begin_(files.tokenizer.special_token("bos").value_or("")) {
    const Config vision = files.model.get_object("vision_config");
    const int64_t side = vision.get_int("image_size", 224) / std::max<int64_t>(vision.get_int("patch_size", 14), 1);
    each_ = places_said(files.images, "image_seq_length", side * side);
  }
  int64_t places(const Pixels&) const override { return each_; }
  std::string framed(const std::string& text, int64_t pictures, const std::string& token) const override {
    const size_t last = text.rfind(token);
    if (last == std::string::npos && pictures == 0)
      fail("this model reads texts with pictures, and no picture is given");
    if (last == std::string::npos) return repeated(token, pictures) + begin_ + text + "\n";
    const size_t behind = last + token.size();
    return text.substr(0, behind) + begin_ + text.substr(behind) + "\n";
  }
  bool takes_special_tokens() const override { return false; }
  bool reads_all_at_once() const override { return true; }

 private:
  std::string begin_;
  int64_t each_ = 0;
};

// Llama 3.2 Vision: one place, whatever the picture. A text without the token that begins texts gets it, behind the
// pictures with which it begins.
class PlainText : public PictureText {
 public:
  explicit PlainText(const PictureTextFiles& files) : begin_(files.tokenizer.special_token("bos").value_or("")) {}
  int64_t places(const Pixels&) const override { return 1; }
  std::string framed(const std::string& text, int64_t, const std::string& token) const override {
    if (begin_.empty() || text.find(begin_) != text.npos) return text;
    size_t behind = 0;
    while (text.compare(behind, token.size(), token) == 0) behind += token.size();
    return text.substr(0, behind) + begin_ + text.substr(behind);
  }
  bool groups_pictures() const override { return true; }

 private:
  std::string begin_;
};

// Gemma 3: a picture between two marks and empty lines; one that is cut is followed by its crops.
class CropsText : public PictureText {
 public:
  explicit CropsText(const PictureTextFiles& files)
      : each_(places_said(files.own, "image_seq_length", 256)),
        place_(token_of(files, "image_token_index", 262144)),
        end_(token_of(files, "eoi_token_index", 256000)) {}
  int64_t places(const Pixels& pixels) const override { return (pixels.rows * pixels.columns + 1) * each_; }
  std::string text(const Pixels& pixels, const std::string& token) const override {
    const std::string picture = "\n\n" + token + repeated(place_, each_) + end_ + "\n\n";
    const int64_t crops = pixels.rows * pixels.columns;
    if (crops == 0) return picture;
    std::string text = "Here is the original image " + picture + " and here are some crops to help you see better ";
    for (int64_t i = 0; i < crops; ++i) text += (i > 0 ? " " : "") + picture;
    return text;
  }
  std::string at_a_place(const std::string&) const override { return place_; }
  bool tells_places() const override { return true; }

 private:
  static std::string token_of(const PictureTextFiles& files, const char* field, int64_t otherwise) {
    const int64_t id = files.model.get_int(field, otherwise);
    const std::optional<std::string> token = files.tokenizer.id_to_token(id);
    if (!token) fail("{}: {}: the tokenizer has no token {}", files.model.where(), field, id);
    return *token;
  }
  int64_t each_;
  std::string place_, end_;
};

}  // namespace

std::string PictureText::text(const Pixels& pixels, const std::string& token) const {
  return repeated(token, places(pixels));
}

std::shared_ptr<const PictureText> make_picture_text(const ImageTokens& tokens, const PictureTextFiles& files) {
  const Config &own = files.own, &model = files.model;
  if (tokens.processor == "Llava") return std::make_shared<PatchText>(own, model);
  if (tokens.processor == "LlavaNext") return std::make_shared<GridText>(own, model);
  if (tokens.processor == "LlavaOnevision") return std::make_shared<OnevisionText>(own, model);
  if (tokens.processor == "Idefics3") return std::make_shared<TileText>(own);
  if (tokens.processor == "Idefics2") return std::make_shared<MarkedText>(own);
  if (tokens.processor == "Qwen2VL") return std::make_shared<BlockText>();
  if (tokens.processor == "PaliGemma") return std::make_shared<PromptText>(files);
  if (tokens.processor == "Mllama") return std::make_shared<PlainText>(files);
  if (tokens.processor == "Gemma3") return std::make_shared<CropsText>(files);
  fail(ErrorKind::kInternal, "no processor of texts with pictures is called {}", tokens.processor);
}

}  // namespace transom
