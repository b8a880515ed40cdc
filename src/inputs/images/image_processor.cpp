// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/image_processor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/known_keys.h"
#include "files/config/model_type.h"
#include "files/family/family.h"
#include "inputs/images/picture_cutter.h"

namespace transom {
namespace {

// Of which the extents of a picture are multiples; 0 is as good as 1.
int64_t read_divisor(const Config& config) {
  const int64_t divisor = config.get_int("size_divisor", 32);
  if (divisor < 0 || divisor > 1 << 16)
    fail("{}: size_divisor: expected a number from 0 to {}, found {}", config.where(), 1 << 16, divisor);
  return std::max<int64_t>(divisor, 1);
}

// Where a file does not say crop_size; 0: it must.
int64_t usual_crop(std::string_view family, int64_t of_defaults) {
  return family == "EfficientNet" ? 289 : family == "OwlViT" ? 768 : family == "Beit" ? 224 : of_defaults;
}

void check_size(int64_t extent, const std::string& where, std::string_view field) {
  if (extent < 1 || extent > 1 << 20)
    fail("{}: {}: expected extents from 1 to {}, found {}", where, field, 1 << 20, extent);
}

std::array<float, 3> read_channels(const Config& config, std::string_view field, std::array<float, 3> otherwise) {
  if (!config.has(field)) return otherwise;
  const Json& value = json_of(config)[std::string(field)];
  if (value.is_number()) return {value.get<float>(), value.get<float>(), value.get<float>()};
  std::array<float, 3> result{};
  const bool fits = value.is_array() && value.size() == 3 &&
                    std::all_of(value.begin(), value.end(), [](const Json& x) { return x.is_number(); });
  if (!fits) fail("{}: {}: expected three numbers, found {}", config.where(), field, quoted(dump_json(value)));
  for (size_t c = 0; c < 3; ++c) result[c] = value[c].get<float>();
  return result;
}

Resampling read_resampling(const Config& config, Resampling otherwise) {
  const int64_t number = config.get_int("resample", static_cast<int64_t>(otherwise));
  if (number < 0 || number > 5)
    fail("{}: resample: expected one of Pillow's filters, 0 to 5, found {}", config.where(), number);
  return static_cast<Resampling>(number);
}

// "CLIPImageProcessorFast", "CLIPFeatureExtractor" -> "CLIP"
std::string family_of(std::string type) {
  for (const std::string_view end : {"Fast", "Pil", "ImageProcessor", "FeatureExtractor"})
    if (type.ends_with(end)) type.resize(type.size() - end.size());
  return type;
}

struct Defaults {
  std::string_view family;
  int64_t height, width, shortest_edge;  // of `size`
  int64_t crop;                          // 0: none
  Resampling resampling;
  bool clip_colors;  // which the processors have that convert colours
  bool square;       // whether one number as `size` means both extents
  bool imagenet_colors = false;
  bool converts = false;  // colours, where nobody says
  bool normalizes = true;
};
constexpr Defaults kDefaults[] = {
    {"ViT", 224, 224, 0, 0, Resampling::kBilinear, false, true},
    {"VideoMAE", 0, 0, 224, 224, Resampling::kBilinear, false, false},
    {"DeiT", 256, 256, 0, 224, Resampling::kBicubic, false, true},
    {"CLIP", 0, 0, 224, 224, Resampling::kBicubic, true, false},
    {"Siglip", 224, 224, 0, 0, Resampling::kBicubic, false, false, false, true},
    {"Siglip2", 0, 0, 16, 0, Resampling::kBilinear, false, false},
    {"LlavaNext", 0, 0, 224, 224, Resampling::kBicubic, true, false},
    {"LlavaOnevision", 384, 384, 0, 0, Resampling::kBicubic, true, false},
    {"Gemma3", 224, 224, 0, 0, Resampling::kBilinear, false, true, false, true},
    {"Idefics2", 0, 0, 378, 0, Resampling::kBilinear, false, false, false, true},
    {"Idefics3", 0, 0, 4 * 364, 0, Resampling::kLanczos, false, false, false, true},
    {"SmolVLM", 0, 0, 4 * 364, 0, Resampling::kLanczos, false, false, false, true},
    {"Mllama", 224, 224, 0, 0, Resampling::kBilinear, false, false, false, true},
    {"Qwen2VL", 0, 0, 56 * 56, 0, Resampling::kBicubic, true, false},
    {"Llava", 0, 0, 224, 224, Resampling::kBicubic, true, false},
    {"Blip", 384, 384, 0, 0, Resampling::kBicubic, true, true},
    {"Donut", 2560, 1920, 0, 0, Resampling::kBilinear, false, true},
    {"LayoutLMv3", 224, 224, 0, 0, Resampling::kBilinear, false, true},
    {"Bit", 0, 0, 224, 224, Resampling::kBicubic, true, false},
    {"ConvNext", 0, 0, 384, 0, Resampling::kBicubic, false, false},
    {"EfficientNet", 346, 346, 0, 0, Resampling::kBicubic, false, true},
    {"MobileNetV2", 0, 0, 256, 224, Resampling::kBilinear, false, false},
    {"Beit", 224, 224, 0, 0, Resampling::kBicubic, false, true},
    {"DINOv3ViT", 224, 224, 0, 0, Resampling::kBilinear, false, true, true},
    {"DPT", 384, 384, 0, 0, Resampling::kBicubic, false, true},
    {"Detr", 0, 0, 800, 0, Resampling::kBilinear, false, false, true},
    {"Mask2Former", 0, 0, 800, 0, Resampling::kBilinear, false, false, true},
    {"RTDetr", 640, 640, 0, 0, Resampling::kBilinear, false, true, true, false, false},
    {"OwlViT", 768, 768, 0, 0, Resampling::kBicubic, true, true},
    {"Owlv2", 960, 960, 0, 0, Resampling::kBilinear, true, true},
    {"Yolos", 0, 0, 800, 0, Resampling::kBilinear, false, false, true},
    {"Sam", 0, 0, 0, 0, Resampling::kBilinear, false, false, true, true},
    {"Segformer", 512, 512, 0, 0, Resampling::kBilinear, false, true, true},
};

// The processor that AutoImageProcessor takes for a model that names none.
std::string family_of_model(const std::string& model_type) {
  const Family* known = find_family(model_type);
  return known ? *known->processors.image_processor : "";
}

// Where Transformers 5 writes a processor of pictures that is a part of one of texts with pictures; it overrules
// preprocessor_config.json.
std::optional<Config> nested_config(const fs::path& directory) {
  const fs::path file = directory / "processor_config.json";
  if (!path_exists(file)) return std::nullopt;
  const Config config = Config::read(file);
  return config.has("image_processor") ? std::optional(config.get_object("image_processor")) : std::nullopt;
}

// Read by the processors, or without effect here.
constexpr KnownKey kImageKeys[] = {{"image_processor_type"},
                                   {"feature_extractor_type"},
                                   {"processor_class"},
                                   {"auto_map"},
                                   {"default_to_square"},
                                   {"input_data_format"},
                                   {"data_format"},
                                   {"return_tensors"},
                                   {"device"},
                                   {"disable_grouping"},
                                   {"num_channels"},
                                   {"do_reduce_labels"},
                                   {"reduce_labels"},
                                   {"crop_pct"},
                                   {"crop_size"},
                                   {"size"},
                                   {"resample"},
                                   {"image_mean"},
                                   {"image_std"},
                                   {"rescale_factor"},
                                   {"image_size"},
                                   {"patch_size"},
                                   {"image_seq_length"},
                                   {"use_fast"},
                                   {"transformers_version"},
                                   {"antialias"},
                                   {"do_center_crop"},
                                   {"do_thumbnail", "false"},
                                   {"do_align_long_axis", "false"},
                                   {"do_flip_channel_order", "false"},
                                   {"do_split_image", "false"},
                                   {"do_color_quantize", "false"},
                                   {"do_color_quantization", "false"},
                                   {"do_crop_margin", "false"},
                                   {"do_pan_and_scan", "false"},
                                   {"do_image_splitting", "false"},
                                   {"do_grayscale", "false"},
                                   {"size_divisor", "1"},
                                   {"ignore_index"},  // of labels, as num_labels is
                                   {"num_labels"},
                                   {"apply_ocr"},  // words and boxes are given
                                   {"ocr_lang"},
                                   {"tesseract_config"},
                                   {"include_top", "true", true},
                                   {"rescale_offset", "false", true},
                                   {"pad_size", "null"}};

const Defaults& defaults_of(const std::string& family, const Config& config, const std::string& type) {
  std::vector<std::string> names;
  for (const Defaults& known : kDefaults) {
    if (known.family == family) return known;
    names.emplace_back(known.family);
  }
  fail("{}: unknown image_processor_type {}{} Known are those of {}", config.where(), quoted(type),
       did_you_mean(family, names), fmt::join(names, ", "));
}

}  // namespace

bool ImageProcessor::is_in(const std::filesystem::path& directory) {
  if (path_exists(directory / "preprocessor_config.json") || nested_config(directory)) return true;
  const fs::path config = directory / "config.json";
  return path_exists(config) && Config::read(config).has("pretrained_cfg");
}

ImageProcessor ImageProcessor::from_pretrained(const std::filesystem::path& directory) {
  const fs::path file = directory / "preprocessor_config.json", model = directory / "config.json";
  const std::optional<Config> nested = nested_config(directory);
  if (nested || path_exists(file)) {
    const Config config = nested ? *nested : Config::read(file);
    std::string type = config.get_string("image_processor_type", config.get_string("feature_extractor_type", ""));
    if (type.empty() && path_exists(model))
      type = family_of_model(model_type_of(Config::read(model))) + "ImageProcessor";
    return {config, type};
  }
  if (path_exists(model)) {
    const Config config = Config::read(model);
    if (config.has("pretrained_cfg")) return {config, "TimmWrapperImageProcessor"};
  }
  fail("{}: expected preprocessor_config.json, which says how images are prepared", directory.string());
}

ImageProcessor::ImageProcessor(const Config& config, const std::string& type) {
  const std::string family = family_of(type);
  if (family == "TimmWrapper") {
    read_timm(config);
    return;
  }
  const Defaults& defaults = defaults_of(family, config, type);
  convnext_ = family == "ConvNext";
  do_resize_ = config.get_bool("do_resize", true);
  do_center_crop_ = config.get_bool("do_center_crop", defaults.crop > 0);
  do_rescale_ = config.get_bool("do_rescale", true);
  smooth_ = family == "Owlv2";
  if (family == "OwlViT" || smooth_)
    do_rescale_ = config.get_bool("rescale", do_rescale_);  // as its first files have it
  do_normalize_ = config.get_bool("do_normalize", defaults.normalizes);
  do_convert_rgb_ = config.get_bool("do_convert_rgb", defaults.clip_colors || defaults.converts);
  const bool is_detector = family == "Detr" || family == "RTDetr" || family == "Yolos" || family == "Mask2Former";
  cutter_ = make_picture_cutter(family, config, read_resampling(config, defaults.resampling));
  const bool is_sam = family == "Sam";
  const bool is_page = family == "Donut";
  if (!is_detector && !is_sam && !is_page && !cutter_ && family != "DPT") squares_ = config.get_bool("do_pad", smooth_);
  if (squares_ && family != "Llava" && !smooth_)
    fail(ErrorKind::kUnsupported, "{}: do_pad is not carried out for {}", config.where(), type);
  size_ = {defaults.height, defaults.width, defaults.shortest_edge, 0};
  if (is_sam) read_sam(config);
  else if (!cutter_ || cutter_->has_usual_steps()) size_ = read_size(config, "size", size_, defaults.square);
  if (is_page) {  // whose lists of extents have the width first
    page_.emplace(config);
    if (config.has("size") && json_of(config)["size"].is_array()) std::swap(size_.height, size_.width);
    if (size_.height == 0) fail("{}: size: expected height and width", config.where());
  }
  // Of these a file may say it, as of any processor; they do not crop.
  if (is_detector || is_sam || family == "Segformer") do_center_crop_ = false;
  const int64_t crop = usual_crop(family, defaults.crop);
  if (do_center_crop_ && crop == 0 && !config.has("crop_size"))
    fail("{}: do_center_crop: expected crop_size beside it, found none", config.where());
  crop_size_ = read_size(config, "crop_size", {crop, crop, 0, 0}, true);
  if (do_center_crop_ && crop_size_.height == 0) fail("{}: crop_size: expected height and width", config.where());
  if (convnext_ && do_resize_ && size_.shortest_edge == 0)
    fail("{}: size: expected shortest_edge for {}", config.where(), type);
  rescale_factor_ = config.get_float("rescale_factor", 1 / 255.0);
  crop_pct_ = config.get_float("crop_pct", 224 / 256.0);
  if (!(crop_pct_ > 0)) fail("{}: crop_pct: expected a number above 0, found {}", config.where(), crop_pct_);
  if (smooth_ && (size_.height == 0 || !do_rescale_))
    fail("{}: expected do_rescale, and height and width in size, for {}", config.where(), type);
  if (family == "EfficientNet") {
    include_top_ = config.get_bool("include_top", true);
    rescale_offset_ = config.get_bool("rescale_offset", false);
  }
  if (family == "DPT") {
    keep_aspect_ratio_ = config.get_bool("keep_aspect_ratio", false);
    ensure_multiple_of_ = config.get_int("ensure_multiple_of", 1);
    check_size(ensure_multiple_of_, config.where(), "ensure_multiple_of");
    const int64_t divisor = config.get_int("size_divisor", 0);
    if (config.get_bool("do_pad", false)) check_size(framed_to_ = divisor, config.where(), "size_divisor");
    if (size_.height == 0) fail("{}: size: expected height and width for {}", config.where(), type);
  }
  rescales_first_ = family == "DINOv3ViT" && do_resize_;
  if (rescales_first_ && (do_center_crop_ || !do_rescale_))
    fail(ErrorKind::kUnsupported, "{}: expected do_rescale, and no do_center_crop, for {}", config.where(), type);
  reduces_labels_ = config.get_bool("do_reduce_labels", config.get_bool("reduce_labels", false));
  if (is_detector) read_detr(config, family);
  if (defaults.imagenet_colors) {
    mean_ = {0.485f, 0.456f, 0.406f};
    deviation_ = {0.229f, 0.224f, 0.225f};
  }
  if (defaults.clip_colors) {
    mean_ = {0.48145466f, 0.4578275f, 0.40821073f};
    deviation_ = {0.26862954f, 0.26130258f, 0.27577711f};
  }
  mean_ = read_channels(config, "image_mean", mean_);
  deviation_ = read_channels(config, "image_std", deviation_);
  resampling_ = read_resampling(config, defaults.resampling);
  if (rescales_first_ && resampling_ != Resampling::kBilinear && resampling_ != Resampling::kBicubic)
    fail(ErrorKind::kUnsupported, "{}: resample: expected 2 or 3 (bilinear, bicubic) for {}, found {}", config.where(),
         type, static_cast<int>(resampling_));
  check_known_keys(json_of(config), config.where(), kImageKeys,
                   [&](const std::string& key) { return was_read(config, key); });
}

// The shortest edge with a limit of the longest, which older files write as size and max_size; or both extents. Padding
// is for batches, and for pictures that are all brought to pad_size.
void ImageProcessor::read_detr(const Config& config, std::string_view family) {
  constexpr int64_t kLongest = 1333;
  if (!config.has("size") || !json_of(config)["size"].is_object())
    size_.longest_edge = config.has("size") ? config.get_int("max_size", kLongest) : kLongest;
  if (size_.height == 0 && size_.longest_edge == 0)
    fail("{}: size: expected shortest_edge and longest_edge, or height and width", config.where());
  check_size(size_.height == 0 ? size_.longest_edge : size_.height, config.where(), "size");
  masks_ = config.get_bool("do_pad", config.get_bool("pad_and_return_pixel_mask", family != "RTDetr"));
  if (family == "Yolos") size_.whole = 16;
  if (family == "Mask2Former") size_.raised = read_divisor(config);
  if (config.has("pad_size")) pad_size_ = read_size(config, "pad_size", {}, true);
  for (const char* of_labels : {"format", "do_convert_annotations"}) config.get_json(of_labels);
}

// The longest edge alone, and zeros at the right and below up to pad_size.
void ImageProcessor::read_sam(const Config& config) {
  constexpr int64_t kEdge = 1024;
  const Config size = config.has("size") ? config.get_object("size") : config;
  size_.longest_edge = config.has("size") ? size.get_int("longest_edge", 0) : kEdge;
  check_size(size_.longest_edge, size.where(), "longest_edge");
  fills_ = config.get_bool("do_pad", true);
  pad_size_ = read_size(config, "pad_size", {kEdge, kEdge, 0, 0}, true);
  if (fills_ && pad_size_.height == 0) fail("{}: pad_size: expected height and width", config.where());
  for (const char* of_labels : {"mask_size", "mask_pad_size"}) config.get_json(of_labels);
}

// timm's transforms for evaluation: the shortest edge resized, or with crop_mode squash both edges, so that the crop
// takes crop_pct of it.
void ImageProcessor::read_timm(const Config& outer) {
  const Config config = outer.get_object("pretrained_cfg");
  timm_ = do_center_crop_ = true;
  const std::vector<int64_t> input = config.get_ints("input_size", {3, 224, 224});
  if (input.size() != 3 || input[1] != input[2])
    fail("{}: input_size: expected [channels, side, side]", config.where());
  const std::string mode = config.get_string("crop_mode", "center");
  const bool squashes = mode == "squash";
  if (mode != "center" && !squashes && !mode.empty())
    fail(ErrorKind::kUnsupported, "{}: crop_mode {} is not carried out", config.where(), quoted(mode));
  crop_pct_ = config.get_float("crop_pct", 0.875);
  if (!(crop_pct_ > 0)) fail("{}: crop_pct: expected a number above 0, found {}", config.where(), crop_pct_);
  crop_size_ = {input[1], input[2], 0, 0};
  const auto edge = static_cast<int64_t>(std::floor(static_cast<double>(input[1]) / crop_pct_));
  check_size(edge, config.where(), "input_size over crop_pct");
  size_ = squashes ? Size{edge, edge, 0, 0} : Size{0, 0, edge, 0};
  mean_ = read_channels(config, "mean", {0.485f, 0.456f, 0.406f});
  deviation_ = read_channels(config, "std", {0.229f, 0.224f, 0.225f});
  const std::string name = config.get_string("interpolation", "bicubic");
  static const std::pair<std::string_view, Resampling> known[] = {
      {"nearest", Resampling::kNearest}, {"bilinear", Resampling::kBilinear}, {"bicubic", Resampling::kBicubic},
      {"box", Resampling::kBox},         {"hamming", Resampling::kHamming},   {"lanczos", Resampling::kLanczos}};
  const auto found = std::find_if(std::begin(known), std::end(known), [&](const auto& k) { return k.first == name; });
  if (found == std::end(known)) fail("{}: interpolation: unknown {}", config.where(), quoted(name));
  resampling_ = found->second;
}

ImageProcessor::Size ImageProcessor::read_size(const Config& config, std::string_view field, const Size& otherwise,
                                               bool square) {
  if (!config.has(field)) return otherwise;
  Size size;
  if (json_of(config)[std::string(field)].is_object()) {
    const Config extents = config.get_object(field);
    size = {extents.get_int("height", 0), extents.get_int("width", 0), extents.get_int("shortest_edge", 0),
            extents.get_int("longest_edge", 0)};
    if ((size.height == 0 || size.width == 0) && size.shortest_edge == 0)
      fail("{}: expected height and width, or shortest_edge", extents.where());
  } else if (json_of(config)[std::string(field)].is_array()) {
    const auto [height, width] = config.get_pair(field, 0);
    size = {height, width, 0, 0};
  } else if (square) {
    size.height = size.width = config.get_int(field);
  } else {
    size.shortest_edge = config.get_int(field);
  }
  for (const int64_t extent : {size.height, size.width, size.shortest_edge, size.longest_edge})
    if (extent != 0) check_size(extent, config.where(), field);
  return size;
}

Image ImageProcessor::center_cropped(const Image& image, int64_t height, int64_t width) const {
  const auto begin = [&](int64_t extent, int64_t part) {
    const int64_t spare = extent - part;
    if (timm_) {  // torchvision pads first, then crops from the rounded middle
      if (spare < 0) return -((part - extent) / 2);
      return static_cast<int64_t>(std::nearbyint(static_cast<double>(spare) / 2));
    }
    return spare >= 0 ? spare / 2 : -((-spare + 1) / 2);
  };
  return crop(image, begin(image.width, width), begin(image.height, height), width, height);
}

// The extents nearest to those of size_ which are multiples, and have the picture's form where that is asked for: it is
// then scaled as little as possible.
std::array<int64_t, 2> ImageProcessor::size_near(const Image& image) const {
  double scale_height = static_cast<double>(size_.height) / static_cast<double>(image.height),
         scale_width = static_cast<double>(size_.width) / static_cast<double>(image.width);
  if (keep_aspect_ratio_) {
    if (std::abs(1 - scale_width) < std::abs(1 - scale_height)) scale_height = scale_width;
    else scale_width = scale_height;
  }
  const auto multiple = [&](double extent) {
    const double near = std::nearbyint(extent / static_cast<double>(ensure_multiple_of_));  // as Python's round()
    if (!(near >= 1) || near > 1e6)
      fail("a picture of {} x {} becomes {} times {} pixels wide or high", image.width, image.height, near,
           ensure_multiple_of_);
    return static_cast<int64_t>(near) * ensure_multiple_of_;
  };
  return {multiple(scale_height * static_cast<double>(image.height)),
          multiple(scale_width * static_cast<double>(image.width))};
}

Image ImageProcessor::resized(const Image& image) const {
  if (!convnext_) {
    const auto [height, width] = ensure_multiple_of_ > 0 ? size_near(image) : size_.of(image);
    return resize(image, width, height, resampling_);
  }
  // Below 384 the edge is made longer, so that a crop takes crop_pct of it; from 384 on the picture is warped.
  const int64_t edge = size_.shortest_edge;
  if (edge >= 384) return resize(image, edge, edge, resampling_);
  Size larger;
  larger.shortest_edge = static_cast<int64_t>(static_cast<double>(edge) / crop_pct_);
  const auto [height, width] = larger.of(image);
  return center_cropped(resize(image, width, height, resampling_), edge, edge);
}

ImageProcessor::Pixels ImageProcessor::operator()(const Image& image, int64_t together) const {
  const Image whole = do_convert_rgb_ ? on_white(image) : image;
  if (cutter_) return cut(whole, together);
  if (smooth_) return smoothed(whole);
  if (rescales_first_) return resized_last(whole);
  Pixels pixels = normalized(sized(squares_ ? in_square(whole, mean_) : whole));
  if (fills_)
    pixels.beside = {{"original_sizes", {image.height, image.width}},
                     {"reshaped_input_sizes", {pixels.height, pixels.width}}};
  if (masks_ || fills_) pad(pixels);
  if (framed_to_ > 1) frame(pixels);
  if (!masks_) pixels.mask.clear();
  return pixels;
}

// The picture in the middle; of an odd number of zeros the second side has one more.
void ImageProcessor::frame(Pixels& pixels) const {
  const auto up = [&](int64_t extent) { return (extent + framed_to_ - 1) / framed_to_ * framed_to_; };
  const int64_t height = up(pixels.height), width = up(pixels.width), top = (height - pixels.height) / 2,
                left = (width - pixels.width) / 2;
  std::vector<float> values(static_cast<size_t>(3 * height * width), 0.0f);
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < pixels.height; ++y)
      std::copy_n(pixels.values.begin() + (c * pixels.height + y) * pixels.width, pixels.width,
                  values.begin() + (c * height + y + top) * width + left);
  pixels.values = std::move(values);
  pixels.height = height, pixels.width = width;
}

Image ImageProcessor::sized(const Image& image) const {
  const Image large = page_        ? (*page_)(image, size_.height, size_.width, resampling_)
                      : do_resize_ ? resized(image)
                                   : image;
  return do_center_crop_ ? center_cropped(large, crop_size_.height, crop_size_.width) : large;
}

ImageProcessor::Pixels ImageProcessor::cut(const Image& image, int64_t together) const {
  Pixels made;
  made.together = together;
  std::vector<Pixels> parts;
  for (const Image& part : cutter_->parts(image, made)) {
    const Image whole = cutter_->squares(made) ? in_square(part, mean_) : part;
    parts.push_back(normalized(cutter_->has_usual_steps() ? sized(whole) : whole));
    made.height = std::max(made.height, parts.back().height), made.width = std::max(made.width, parts.back().width);
  }
  for (Pixels& part : parts) {
    if (cutter_->fills_up()) part.fill_up(made.height, made.width);
    made.values.insert(made.values.end(), part.values.begin(), part.values.end());
    made.mask.insert(made.mask.end(), part.mask.begin(), part.mask.end());
    ++made.parts;
  }
  cutter_->lay_out(made);
  return made;
}

ImageProcessor::Pixels ImageProcessor::normalized(const Image& image) const {
  Pixels pixels{image.height, image.width, {}};
  pixels.values.resize(image.pixels.size());
  const size_t plane = image.pixels.size() / 3;
  for (size_t c = 0; c < 3; ++c) {
    // Each of the 256 values once, with NumPy's types: scaled in double, the rest in float.
    float table[256];
    for (int value = 0; value < 256; ++value) {
      float x = static_cast<float>(value);
      if (timm_) x /= 255;
      else if (do_rescale_) x = static_cast<float>(value * rescale_factor_);
      if (do_rescale_ && rescale_offset_) x -= 1;
      if (do_normalize_) x = (x - mean_[c]) / deviation_[c];
      if (include_top_) x /= deviation_[c];
      table[value] = x;
    }
    for (size_t i = 0; i < plane; ++i) pixels.values[c * plane + i] = table[image.pixels[3 * i + c]];
  }
  return pixels;
}

std::array<int64_t, 2> ImageProcessor::training_size() const {
  if (cutter_ && !cutter_->has_usual_steps())
    fail(ErrorKind::kUnsupported, "training on pictures of one size: this processor makes pictures of any form");
  if (do_center_crop_) return {crop_size_.height, crop_size_.width};
  if (size_.shortest_edge > 0) return {size_.shortest_edge, size_.shortest_edge};
  return {size_.height, size_.width};
}

}  // namespace transom
