// SPDX-License-Identifier: Apache-2.0
// The text of a picture, line by line with its places, by PaddleOCR's graphs: one finds lines, one says which stand
// upside down, one reads them. What is around the graphs is RapidOCR's.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/files/directories.h"
#include "work/pipelines/images/bilinear.h"
#include "work/pipelines/images/image_model.h"
#include "work/pipelines/onnx/graph_model.h"
#include "work/pipelines/reading/text_crop.h"
#include "work/pipelines/reading/text_regions.h"

namespace transom {
namespace {

constexpr int64_t kLongestSide = 2000, kShortestSide = 30, kSideToSearch = 736, kMostWidthOfHeight = 8;
constexpr int64_t kLineHeight = 48, kLineWidth = 320, kAngleWidth = 192;
constexpr size_t kTogether = 6;              // lines that are read at once
constexpr int64_t kMostPixels = 24'000'000;  // of the picture in which lines are looked for
constexpr double kSureOfAngle = 0.9;

int64_t multiple_of_32(int64_t extent) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(extent) / 32)) * 32;
}

// A picture as the graphs see it: blue, green, red from -1 to 1, [3, height, width], with zeros behind its right side.
void put_pixels(const Image& image, int64_t width, float* to) {
  const auto plane = static_cast<size_t>(width * image.height);
  std::fill_n(to, 3 * plane, 0.0f);
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x)
      for (size_t c = 0; c < 3; ++c) {
        const auto value = static_cast<float>(image.row(y)[3 * x + static_cast<int64_t>(2 - c)]);
        to[c * plane + static_cast<size_t>(y * width + x)] = (value / 255.0f - 0.5f) / 0.5f;
      }
}

// A line at the height of the graphs, at most so wide.
Image line_of(const Image& crop, int64_t most_width) {
  const double ratio = static_cast<double>(crop.width) / static_cast<double>(crop.height);
  const auto width = static_cast<int64_t>(std::ceil(static_cast<double>(kLineHeight) * ratio));
  return resize_linear(crop, std::clamp<int64_t>(width, 1, most_width), kLineHeight);
}

// The picture in which lines are looked for, and how its places are those of the given one.
struct Searched {
  Image image;
  double ratio_x = 1, ratio_y = 1;
  int64_t top = 0;  // black lines above
};

Searched searched_of(const Image& picture) {
  Searched result{picture, 1, 1, 0};
  const auto scale = [&](double ratio) {
    const auto extent = [&](int64_t x) {
      return std::max<int64_t>(multiple_of_32(static_cast<int64_t>(static_cast<double>(x) * ratio)), 32);
    };
    const int64_t width = extent(result.image.width), height = extent(result.image.height);
    result.ratio_x = static_cast<double>(result.image.width) / static_cast<double>(width);
    result.ratio_y = static_cast<double>(result.image.height) / static_cast<double>(height);
    result.image = resize_linear(result.image, width, height);
  };
  const auto number = [](int64_t x) { return static_cast<double>(x); };
  if (const int64_t longest = std::max(picture.width, picture.height); longest > kLongestSide)
    scale(number(kLongestSide) / number(longest));
  if (const int64_t shortest = std::min(result.image.width, result.image.height); shortest < kShortestSide) {
    const double x = result.ratio_x, y = result.ratio_y;
    scale(number(kShortestSide) / number(shortest));
    result.ratio_x *= x, result.ratio_y *= y;
  }
  const int64_t width = result.image.width, height = result.image.height;
  if (height > kShortestSide && width <= kMostWidthOfHeight * height) return result;
  const int64_t wanted = 2 * std::max(width / kMostWidthOfHeight, kShortestSide);
  result.top = std::abs(wanted - height) / 2;
  Image padded(width, height + 2 * result.top);
  std::copy(result.image.pixels.begin(), result.image.pixels.end(), padded.row(result.top));
  result.image = std::move(padded);
  return result;
}

struct ReadLine {
  std::string text;
  double score = 0;
};

// What a graph of lines reads: the best character of each place, without repetitions and blanks.
class Alphabet {
 public:
  explicit Alphabet(const GraphModel& model) {
    const auto found = model.file().metadata.find("character");
    if (found == model.file().metadata.end())
      fail("{}: expected the characters that it reads in its metadata, \"character\"", model.where());
    characters_.emplace_back();  // the blank
    std::string_view rest = found->second;
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      std::string_view line = rest.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      characters_.emplace_back(line);
      rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
    }
    characters_.emplace_back(" ");
  }

  size_t size() const { return characters_.size(); }

  ReadLine read(std::span<const float> scores, size_t places) const {
    ReadLine line;
    size_t before = 0;
    double total = 0, count = 0;
    for (size_t place = 0; place < places; ++place) {
      const std::span<const float> row = scores.subspan(place * size(), size());
      const auto best = static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      if (best != 0 && (place == 0 || best != before)) {
        line.text += characters_[best];
        total += std::round(static_cast<double>(row[best]) * 1e5) / 1e5;
        ++count;
      }
      before = best;
    }
    line.score = count > 0 ? std::round(total / count * 1e5) / 1e5 : 0;
    return line;
  }

 private:
  std::vector<std::string> characters_;
};

class OpticalCharacterRecognition : public Pipeline {
 public:
  OpticalCharacterRecognition(GraphModel finds, std::optional<GraphModel> turns, GraphModel reads)
      : finds_(std::move(finds)), turns_(std::move(turns)), reads_(std::move(reads)), alphabet_(reads_) {}

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const auto chance = [&](const char* name, double otherwise) {
      const double value = number_option(options, name).value_or(otherwise);
      if (!(value >= 0 && value <= 1))
        fail(ErrorKind::kUsage, "{}: expected a number from 0 to 1, found {}", name, value);
      return value;
    };
    RegionRule rule;
    rule.threshold = chance("thresh", 0.3), rule.box_threshold = chance("box_thresh", 0.5);
    rule.unclip_ratio = number_option(options, "unclip_ratio").value_or(1.6);
    if (!(rule.unclip_ratio >= 0 && rule.unclip_ratio <= 10))
      fail(ErrorKind::kUsage, "unclip_ratio: expected a number from 0 to 10, found {}", rule.unclip_ratio);
    const double least = chance("text_score", 0.5);
    const bool angles = flag_option(options, "use_cls", true);
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs)
      results.emplace_back(lines_of(image_of(image_input(input).source), rule, least, angles));
    return results;
  }

 private:
  std::vector<DetectedObject> lines_of(const Image& picture, const RegionRule& rule, double least, bool angles) const {
    const Searched searched = searched_of(picture);
    const std::vector<Quadrilateral> regions = regions_of(searched.image, rule);
    std::vector<Image> crops;
    for (const Quadrilateral& region : regions) crops.push_back(upright_crop(searched.image, region));
    if (angles && turns_) turn_upright(crops);
    const std::vector<ReadLine> lines = read(crops);
    std::vector<DetectedObject> found;
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool blank = lines[i].text.find_first_not_of(" \t\n\r") == std::string::npos;
      if (!blank && lines[i].score >= least)
        found.push_back({lines[i].text, lines[i].score, box_of(regions[i], searched, picture)});
    }
    return found;
  }

  static BoundingBox box_of(const Quadrilateral& region, const Searched& searched, const Image& picture) {
    const auto in_picture = [](double value, int64_t most) {
      return static_cast<int64_t>(std::clamp(value, 0.0, static_cast<double>(most)));
    };
    BoundingBox box{picture.width, picture.height, 0, 0};
    for (const Point corner : region) {
      const int64_t x = in_picture(corner.x * searched.ratio_x, picture.width),
                    y = in_picture((corner.y - static_cast<double>(searched.top)) * searched.ratio_y, picture.height);
      box = {std::min(box.xmin, x), std::min(box.ymin, y), std::max(box.xmax, x), std::max(box.ymax, y)};
    }
    return box;
  }

  std::vector<Quadrilateral> regions_of(const Image& image, const RegionRule& rule) const {
    const auto shortest = static_cast<double>(std::min(image.width, image.height));
    const double ratio = std::max(static_cast<double>(kSideToSearch) / shortest, 1.0);
    const auto extent = [&](int64_t x) {
      return std::max<int64_t>(multiple_of_32(static_cast<int64_t>(static_cast<double>(x) * ratio)), 32);
    };
    const int64_t width = extent(image.width), height = extent(image.height);
    if (width * height > kMostPixels)
      fail("the picture: its proportions of {} to {} are too far from those of a page", image.width, image.height);
    std::vector<float> values(static_cast<size_t>(3 * width * height));
    put_pixels(resize_linear(image, width, height), width, values.data());
    const std::vector<FeatureArray> outputs =
        finds_.run({{finds_.only_input().name, Tensor::from(values, {1, 3, height, width})}});
    if (outputs.empty() || outputs[0].shape != Shape{1, 1, height, width})
      fail("{}: expected a map [1, 1, {}, {}] of text", finds_.where(), height, width);
    return text_regions(outputs[0].values, width, height, image.width, image.height, rule);
  }

  // Lines by their proportions, so that those that go through a graph at once are alike.
  static std::vector<size_t> by_width(const std::vector<Image>& crops) {
    std::vector<size_t> order(crops.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto ratio = [&](size_t i) {
      return static_cast<double>(crops[i].width) / static_cast<double>(crops[i].height);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ratio(a) < ratio(b); });
    return order;
  }

  // The first output of a graph for these lines, padded to one width.
  static FeatureArray output_of(const GraphModel& graph, const std::vector<Image>& crops, std::span<const size_t> batch,
                                int64_t width) {
    const auto each = static_cast<size_t>(3 * kLineHeight * width);
    std::vector<float> values(batch.size() * each);
    for (size_t i = 0; i < batch.size(); ++i) put_pixels(line_of(crops[batch[i]], width), width, &values[i * each]);
    const auto count = static_cast<int64_t>(batch.size());
    std::vector<FeatureArray> outputs =
        graph.run({{graph.only_input().name, Tensor::from(values, {count, 3, kLineHeight, width})}});
    if (outputs.empty() || outputs[0].shape.empty() || outputs[0].shape[0] != count)
      fail("{}: expected an output of {} rows for {} lines", graph.where(), count, count);
    return std::move(outputs[0]);
  }

  void turn_upright(std::vector<Image>& crops) const {
    const std::vector<size_t> order = by_width(crops);
    for (size_t begin = 0; begin < order.size(); begin += kTogether) {
      const std::span batch = std::span(order).subspan(begin, std::min(kTogether, order.size() - begin));
      const FeatureArray chances = output_of(*turns_, crops, batch, kAngleWidth);
      if (chances.shape.size() != 2 || chances.shape[1] != 2)
        fail("{}: expected the chances of 0 and 180 degrees for each line", turns_->where());
      for (size_t i = 0; i < batch.size(); ++i) {
        const float upright = chances.values[2 * i], turned = chances.values[2 * i + 1];
        if (turned > upright && static_cast<double>(turned) > kSureOfAngle)
          crops[batch[i]] = upside_down(crops[batch[i]]);
      }
    }
  }

  std::vector<ReadLine> read(const std::vector<Image>& crops) const {
    std::vector<ReadLine> lines(crops.size());
    const std::vector<size_t> order = by_width(crops);
    for (size_t begin = 0; begin < order.size(); begin += kTogether) {
      const std::span batch = std::span(order).subspan(begin, std::min(kTogether, order.size() - begin));
      double ratio = static_cast<double>(kLineWidth) / static_cast<double>(kLineHeight);
      for (const size_t i : batch)
        ratio = std::max(ratio, static_cast<double>(crops[i].width) / static_cast<double>(crops[i].height));
      const FeatureArray scores =
          output_of(reads_, crops, batch, static_cast<int64_t>(static_cast<double>(kLineHeight) * ratio));
      if (scores.shape.size() != 3 || scores.shape[2] != static_cast<int64_t>(alphabet_.size()))
        fail("{}: expected chances [lines, places, {}], of the characters that it names", reads_.where(),
             alphabet_.size());
      const auto places = static_cast<size_t>(scores.shape[1]);
      for (size_t i = 0; i < batch.size(); ++i)
        lines[batch[i]] = alphabet_.read(std::span(scores.values).subspan(i * places * alphabet_.size()), places);
    }
    return lines;
  }

  GraphModel finds_;
  std::optional<GraphModel> turns_;
  GraphModel reads_;
  Alphabet alphabet_;
};

TaskParameters optical_character_recognition_parameters() {
  using Type = TaskParameter::Type;
  return {{"text_score", Type::kNumber, "the score that a line needs", "0.5"},
          {"box_thresh", Type::kNumber, "the mean chance of text that a region needs", "0.5"},
          {"thresh", Type::kNumber, "the chance of text that a pixel needs", "0.3"},
          {"unclip_ratio", Type::kNumber, "how far a line reaches beyond what is found of it", "1.6"},
          {"use_cls", Type::kFlag, "lines that stand upside down are turned, where the directory has a graph for it",
           "true"}};
}

// The only graph of a directory with this word in its name; empty where there is none.
fs::path graph_named(const std::string& directory, const std::string& word) {
  fs::path found;
  for (const fs::path& path : list_directory(directory)) {
    const std::string name = path.filename().string();
    if (path.extension() != ".onnx" || name.find(word) == std::string::npos) continue;
    if (!found.empty())
      fail("{}: expected one graph with {} in its name, found {} and {}", directory, quoted(word),
           found.filename().string(), name);
    found = path;
  }
  return found;
}

std::unique_ptr<Pipeline> load_optical_character_recognition(const std::string& directory, const LoadOptions& options,
                                                             const std::string& /*task*/) {
  if (!directory_exists(directory))
    fail("{}: expected a directory with PaddleOCR's graphs: *det*.onnx, *rec*.onnx, perhaps *cls*.onnx", directory);
  const fs::path finds = graph_named(directory, "det"), turns = graph_named(directory, "cls"),
                 reads = graph_named(directory, "rec");
  if (finds.empty() || reads.empty())
    fail("{}: expected PaddleOCR's graphs *det*.onnx and *rec*.onnx, found no {}", directory,
         finds.empty() ? "*det*.onnx" : "*rec*.onnx");
  std::optional<GraphModel> angle;
  if (!turns.empty()) angle = GraphModel::load(turns, options);
  return std::make_unique<OpticalCharacterRecognition>(GraphModel::load(finds, options), std::move(angle),
                                                       GraphModel::load(reads, options));
}

constexpr TaskRecord kOpticalCharacterRecognition{.name = "optical-character-recognition",
                                                  .alias = "ocr",
                                                  .example = "page.png --text_score 0.6 --output lines.png",
                                                  .input = InputKind::kImage,
                                                  .result = ResultKind::kObjects,
                                                  .parameters = optical_character_recognition_parameters,
                                                  .load = load_optical_character_recognition};
const RegisterTask kRegisterOpticalCharacterRecognition(kOpticalCharacterRecognition);

}  // namespace
}  // namespace transom
