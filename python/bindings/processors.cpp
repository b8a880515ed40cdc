// SPDX-License-Identifier: Apache-2.0
// Image processors and feature extractors.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "base/threads/threads.h"
#include "bindings.h"
#include "inputs/audio/feature_extractor.h"
#include "inputs/images/image_processor.h"
#include "interrupts.h"

namespace transom::python {
namespace {

// Rows of RGB pixels, 8 bits each, [height, width, 3].
using Picture = nb::ndarray<const uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;

Image image_of(const Picture& picture) {
  Image image(static_cast<int64_t>(picture.shape(1)), static_cast<int64_t>(picture.shape(0)));
  std::memcpy(image.pixels.data(), picture.data(), image.pixels.size());
  return image;
}

// The picture as the bytes of a BMP file of 24 bits: rows from the bottom, blue first, filled up to four bytes.
nb::bytes bitmap(const Image& image) {
  const auto width = static_cast<size_t>(image.width), height = static_cast<size_t>(image.height);
  const size_t stride = (3 * width + 3) / 4 * 4, header = 54;
  std::string bytes(header + stride * height, '\0');
  const auto put = [&](size_t at, size_t value) {
    for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
  };
  bytes[0] = 'B', bytes[1] = 'M';
  put(2, bytes.size()), put(10, header), put(14, 40), put(18, width), put(22, height);
  bytes[26] = 1, bytes[28] = 24;
  for (size_t y = 0; y < height; ++y) {
    const uint8_t* from = image.row(static_cast<int64_t>(height - 1 - y));
    char* to = bytes.data() + header + y * stride;
    for (size_t x = 0; x < width; ++x)
      for (size_t c = 0; c < 3; ++c) to[3 * x + c] = static_cast<char>(from[3 * x + 2 - c]);
  }
  return nb::bytes(bytes.data(), bytes.size());
}

// Each image as its pixel values, f32 [3, H, W].
std::vector<Tensor> processed(const ImageProcessor& processor, const std::vector<Image>& images) {
  return compute([&] {
    std::vector<ImageProcessor::Pixels> pixels(images.size());
    parallel_for(images.size(), [&](size_t i) { pixels[i] = processor(images[i]); });
    std::vector<Tensor> tensors;
    for (const auto& each : pixels) tensors.push_back(Tensor::from(each.values, {3, each.height, each.width}));
    return tensors;
  });
}

// Images of one size, f32 [B, 3, H, W]; otherwise an exception names both sizes.
Tensor batch_of(const ImageProcessor& processor, const std::vector<Image>& images) {
  if (images.empty()) throw Error(ErrorKind::kInput, "images: expected at least one, found none");
  return compute([&] {
    std::vector<ImageProcessor::Pixels> pixels(images.size());
    parallel_for(images.size(), [&](size_t i) { pixels[i] = processor(images[i]); });
    std::vector<float> values;
    for (const auto& each : pixels) {
      if (each.height != pixels[0].height || each.width != pixels[0].width)
        throw Error(ErrorKind::kInput, "images of one batch: expected one size, found " +
                                           to_string(Shape{pixels[0].height, pixels[0].width}) + " and " +
                                           to_string(Shape{each.height, each.width}) + "; give them one by one");
      values.insert(values.end(), each.values.begin(), each.values.end());
    }
    return Tensor::from(values, {static_cast<int64_t>(images.size()), 3, pixels[0].height, pixels[0].width});
  });
}

std::pair<nb::dict, std::string> extracted(const FeatureExtractor& extractor, const std::vector<Sound>& sounds) {
  const AudioFeatures features = compute([&] {
    std::vector<Sound> at_rate;
    for (const Sound& sound : sounds) at_rate.push_back(resampled(sound, extractor.sampling_rate()));
    return extractor(at_rate);
  });
  nb::dict tensors;
  tensors[features.name.c_str()] = nb::cast(Tensor::from(features.values, features.shape));
  if (!features.attention_mask.empty()) {
    const int64_t rows = features.shape[0];
    tensors["attention_mask"] = nb::cast(
        Tensor::from(features.attention_mask, {rows, static_cast<int64_t>(features.attention_mask.size()) / rows}));
  }
  return {tensors, features.name};
}

}  // namespace

void bind_processors(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Image>(module, "Image")
      .def_static("read", [](const std::string& path) { return compute([&] { return read_image(path); }); })
      .def_static("decode",
                  [](const nb::bytes& bytes) {
                    const std::string copy(bytes.c_str(), bytes.size());
                    return compute([&] { return decode_image(std::as_bytes(std::span(copy)), "the image"); });
                  })
      .def_static("from_array", image_of)
      .def("bitmap", bitmap)
      .def_prop_ro("size", [](const Image& image) { return nb::make_tuple(image.width, image.height); });
  nb::class_<ImageProcessor>(module, "ImageProcessor")
      .def_static("from_pretrained",
                  [](const std::string& directory) { return ImageProcessor::from_pretrained(directory); })
      .def_static("is_in", [](const std::string& directory) { return ImageProcessor::is_in(directory); })
      .def("each", processed)
      .def("batch", batch_of);
  nb::class_<Sound>(module, "Sound")
      .def_static("read", [](const std::string& path) { return compute([&] { return read_sound(path); }); })
      .def_static("decode",
                  [](const nb::bytes& bytes) {
                    const std::string copy(bytes.c_str(), bytes.size());
                    return compute([&] { return parse_sound(std::as_bytes(std::span(copy)), "the sound"); });
                  })
      .def_static(
          "from_array",
          [](const nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>& array, int64_t sampling_rate) {
            return Sound{std::vector<float>(array.data(), array.data() + array.size()), sampling_rate};
          })
      .def_prop_ro(
          "samples",
          [](const Sound& sound) { return Tensor::from(sound.samples, {static_cast<int64_t>(sound.samples.size())}); })
      .def_ro("sampling_rate", &Sound::sampling_rate);
  nb::class_<FeatureExtractor>(module, "FeatureExtractor")
      .def_static("read", [](const std::string& directory) { return FeatureExtractor::read(directory); })
      .def_prop_ro("sampling_rate", &FeatureExtractor::sampling_rate)
      .def_prop_ro("padding_value", &FeatureExtractor::padding_value)
      .def("__call__", extracted);
}

}  // namespace transom::python
