// SPDX-License-Identifier: Apache-2.0
// From pictures to what models of images take: the image processors of Transformers (ViT, DeiT, CLIP, SigLIP, LLaVA,
// BiT, BLIP, ConvNeXt, EfficientNet, DPT, DETR, RT-DETR, Mask2Former, YOLOS, Donut, OWL-ViT, OWLv2, SAM, SegFormer,
// MobileNetV2, BEiT, DINOv3, and timm's), by their preprocessor_config.json, with the arithmetic of their PIL versions;
// DINOv3 has none.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/config/config.h"
#include "inputs/images/image.h"
#include "inputs/images/page_fit.h"

namespace transom {

class PictureCutter;

class ImageProcessor {
 public:
  // Reads preprocessor_config.json, or what a processor_config.json or timm's config.json say; a directory with none of
  // them is refused.
  static ImageProcessor from_pretrained(const std::filesystem::path& directory);
  static bool is_in(const std::filesystem::path& directory);
  ImageProcessor(const Config& config, const std::string& type);

  struct Pixels {
    int64_t height = 0, width = 0;
    std::vector<float> values;  // [3, height, width], or of every part
    // pixel_mask [height, width] of processors that pad, or of every part: 0 where there is no picture. Empty of
    // others.
    std::vector<int64_t> mask = {};
    // Of processors that cut a picture (picture_cutter.h): how many parts there are, how they lie, and what else the
    // model is told of the picture, by the names of its arguments.
    int64_t parts = 0, rows = 0, columns = 0;
    int64_t together = 1;  // pictures of the text
    bool grouped = false;  // models read those of a text on an axis of their own: [1, pictures, parts, ...]
    int64_t patches = 0;   // of processors that lay patches out as rows of numbers, which are all of `values`
    std::vector<std::pair<std::string, std::vector<int64_t>>> beside = {};
    // The same picture, or parts, with zeros at the right and below, which `mask` tells: for each part.
    void fill_up(int64_t to_height, int64_t to_width);
    // Of pixel_values, for this picture alone: [1, 3, height, width], [1, parts, 3, height, width] (`grouped`: with one
    // more axis before the parts), [patches, numbers], or, where a mask tells which patches there are, [1, patches,
    // numbers].
    std::vector<int64_t> shape() const {
      if (patches > 0 && !mask.empty()) return {1, patches, static_cast<int64_t>(values.size()) / patches};
      if (patches > 0) return {patches, static_cast<int64_t>(values.size()) / patches};
      if (parts == 0) return {1, 3, height, width};
      if (grouped) return {1, 1, parts, 3, height, width};
      return {1, parts, 3, height, width};
    }
    // Of what is told beside, in numbers, for this picture alone.
    std::vector<int64_t> shape_beside(const std::vector<int64_t>& numbers) const {
      const auto count = static_cast<int64_t>(numbers.size());
      return grouped && count > 1 ? std::vector<int64_t>{1, 1, count} : std::vector<int64_t>{1, count};
    }
    // What models call the mask, and its shape for this picture alone.
    std::string mask_name() const { return parts > 0 || patches > 0 ? "pixel_attention_mask" : "pixel_mask"; }
    std::vector<int64_t> mask_shape() const {
      if (patches > 0) return {1, patches};
      if (parts == 0) return {1, height, width};
      return {1, parts, height, width};
    }
  };
  // `together`: how many pictures a text or a chat has, of which this is one.
  Pixels operator()(const Image& image, int64_t together = 1) const;

  // For training: a picture that is cropped and resized already, turned into numbers.
  Pixels normalized(const Image& image) const;
  // The extents (height, width) that pictures of a training batch are given.
  std::array<int64_t, 2> training_size() const;
  // Of maps of classes: level 0 is no class, and class c is level c + 1 (do_reduce_labels).
  bool reduces_labels() const { return reduces_labels_; }
  // Whether pictures lie at the top left of a square, of which boxes are parts (OWLv2).
  bool frames_in_square() const { return smooth_ && squares_; }
  bool fits_shortest_edge() const { return size_.shortest_edge > 0; }  // or both edges, whatever the picture's form

 private:
  // How large a picture becomes: both extents, or the shortest edge, perhaps with a limit of the longest.
  struct Size {
    int64_t height = 0, width = 0, shortest_edge = 0, longest_edge = 0;
    int64_t whole = 1;   // with a longest edge: extents are cut to multiples, as those of YOLOS are
    int64_t raised = 1;  // extents are raised to multiples, as those of Mask2Former are
    int64_t whole_part(int64_t extent) const;
    std::array<int64_t, 2> before_raising(const Image& image) const;
    std::array<int64_t, 2> of(const Image& image) const;  // height, width
  };
  static Size read_size(const Config& config, std::string_view field, const Size& otherwise, bool square);
  void read_timm(const Config& config);
  void read_detr(const Config& config, std::string_view family);
  void read_sam(const Config& config);
  void pad(Pixels& pixels) const;
  void frame(Pixels& pixels) const;
  Pixels cut(const Image& image, int64_t together) const;
  Pixels smoothed(const Image& image) const;
  Pixels resized_last(const Image& image) const;
  std::array<int64_t, 2> size_near(const Image& image) const;
  Image resized(const Image& image) const;
  Image sized(const Image& image) const;  // resized and cropped, as far as that is asked for
  Image center_cropped(const Image& image, int64_t height, int64_t width) const;

  bool do_resize_ = true, do_center_crop_ = false, do_rescale_ = true, do_normalize_ = true, do_convert_rgb_ = false;
  bool squares_ = false, convnext_ = false, include_top_ = false, rescale_offset_ = false, timm_ = false;
  bool reduces_labels_ = false;
  bool masks_ = false;           // of DETR: whether a pixel_mask stands beside the pixels
  bool smooth_ = false;          // of OWLv2: resized in floating point, with a black frame where squares_ is set
  bool rescales_first_ = false;  // of DINOv3: resized in floating point
  bool fills_ = false;           // of SAM: with zeros to pad_size, and the extents before are told
  Size size_, crop_size_, pad_size_;
  std::optional<PageFit> page_;  // of Donut: pictures are brought onto a page of size_
  bool keep_aspect_ratio_ = false;
  int64_t ensure_multiple_of_ = 0;  // of DPT; 0: pictures get the extents that size_ says
  int64_t framed_to_ = 1;           // of DPT: with a frame of zeros, to multiples of this
  double rescale_factor_ = 1 / 255.0, crop_pct_ = 0.875;
  std::array<float, 3> mean_{0.5f, 0.5f, 0.5f}, deviation_{0.5f, 0.5f, 0.5f};
  Resampling resampling_ = Resampling::kBilinear;
  std::shared_ptr<const PictureCutter> cutter_;  // null: a picture stays whole
};

}  // namespace transom
