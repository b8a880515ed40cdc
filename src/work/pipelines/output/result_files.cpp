// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/output/result_files.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "inputs/audio/write_wav.h"
#include "inputs/images/write_png.h"
#include "work/pipelines/images/image_model.h"
#include "work/pipelines/output/drawn_boxes.h"
#include "work/pipelines/output/subtitles.h"

namespace transom {
namespace {

constexpr const char* kNumpy = ".npy";
constexpr const char* kSafetensors = ".safetensors";

// The header of NumPy's format 1.0 ends at a multiple of 64 bytes.
std::string npy_header(const std::vector<int64_t>& shape) {
  std::string extents;
  for (const int64_t extent : shape) extents += fmt::format("{}, ", extent);
  std::string fields = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", extents);
  constexpr size_t kBefore = 10;  // magic, version, length
  fields.append(63 - (kBefore + fields.size()) % 64, ' ');
  fields += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(fields.size() & 0xff);
  header += static_cast<char>(fields.size() >> 8);
  return header + fields;
}

bool is_array_name(const std::string& path) { return path.ends_with(kNumpy) || path.ends_with(kSafetensors); }

// The numbers of a result that has some.
const FeatureArray& numbers_of(const TaskResult& result) {
  if (const DepthMap* map = std::get_if<DepthMap>(&result)) return map->predicted_depth;
  return std::get<FeatureArray>(result);
}

void write_numbers(const TaskRecord& task, const std::string& path, const std::vector<TaskResult>& results) {
  const char* name = task.result == ResultKind::kDepth ? "predicted_depth" : "embeddings";
  const Shape& each = numbers_of(results.at(0)).shape;
  auto values = std::make_shared<std::vector<float>>();
  for (const TaskResult& result : results) {
    const FeatureArray& array = numbers_of(result);
    if (array.shape != each)
      fail("--output: expected results of one shape, found others{}",
           find_parameter(task.parameters(), "pooling") ? "; --pooling auto gives one vector a text" : "");
    values->insert(values->end(), array.values.begin(), array.values.end());
  }
  std::vector<int64_t> shape{static_cast<int64_t>(results.size())};
  shape.insert(shape.end(), each.begin(), each.end());
  const auto bytes = std::as_bytes(std::span(*values));
  if (path.ends_with(kSafetensors)) {
    write_safetensors(path, {{name, TensorView{DType::kFloat32, shape, bytes, values}}});
    return;
  }
  AtomicFile file(path);
  file.write(npy_header(shape));
  file.write(bytes);
  file.commit();
}

// "masks-2.png" of the second of several pictures.
std::string numbered(const fs::path& path, size_t number, size_t count) {
  if (count == 1) return path.string();
  fs::path name = path;
  return name.replace_filename(fmt::format("{}-{}{}", path.stem().string(), number, path.extension().string()))
      .string();
}

struct FileWriter {
  const std::string& path;
  const TaskInput* input = nullptr;  // what the result is of

  void operator()(const std::vector<DetectedObject>& objects) const {
    const auto* image = input ? std::get_if<ImageInput>(input) : nullptr;
    if (!image) fail(ErrorKind::kInternal, "{}: boxes without the picture that they are of", path);
    write_png(path, with_boxes(image_of(image->source), objects));
  }

  void operator()(const DepthMap& map) const { write_png(path, map.depth); }
  void operator()(const Waveform& sound) const { write_wav(path, sound); }
  void operator()(const Transcription& result) const {
    if (path.ends_with(".txt")) return write_file(path, result.text + "\n");
    write_file(path, subtitles(result, path.ends_with(".vtt") ? SubtitleForm::kWebVtt : SubtitleForm::kSubRip));
  }
  void operator()(const std::vector<Picture>& pictures) const {
    for (size_t i = 0; i < pictures.size(); ++i) write_png(numbered(path, i + 1, pictures.size()), pictures[i]);
  }
  void operator()(const std::vector<Segment>& segments) const {
    for (size_t i = 0; i < segments.size(); ++i) write_png(numbered(path, i + 1, segments.size()), segments[i].mask);
    const bool are_named =
        std::any_of(segments.begin(), segments.end(), [](const Segment& s) { return !s.label.empty(); });
    const auto* image = input ? std::get_if<ImageInput>(input) : nullptr;
    if (!image || !are_named) return;
    fs::path name = path;
    name.replace_filename(name.stem().string() + "-drawn" + name.extension().string());
    write_png(name.string(), with_segments(image_of(image->source), segments));
  }
  template <typename T>
  void operator()(const T&) const {
    fail(ErrorKind::kInternal, "{}: a result that is no file", path);
  }
};

// A file in the folder for each input, by the input's name; of two with one name the second has a number.
std::vector<std::string> names_in(const fs::path& folder, const std::vector<std::string>& inputs,
                                  const std::string& ending) {
  std::vector<std::string> paths;
  std::set<std::string> taken;
  for (const std::string& input : inputs) {
    const std::string stem = fs::path(input).stem().string();
    std::string name = stem;
    for (size_t number = 2; !taken.insert(name).second; ++number) name = fmt::format("{}-{}", stem, number);
    paths.push_back((folder / (name + ending)).string());
  }
  return paths;
}

}  // namespace

std::vector<std::string> file_endings(const TaskRecord& task) {
  switch (task.result) {
    case ResultKind::kVectors:
      return {kNumpy, kSafetensors};
    case ResultKind::kDepth:
      return {".png", kNumpy, kSafetensors};
    case ResultKind::kObjects:
    case ResultKind::kSegments:
    case ResultKind::kPictures:
      return {".png"};
    case ResultKind::kSound:
      return {".wav"};
    case ResultKind::kTranscription:
      return {".srt", ".vtt", ".txt"};
    default:
      return {};
  }
}

std::string file_help(const TaskRecord& task) {
  const std::vector<std::string> endings = file_endings(task);
  if (endings.empty()) return "";
  const bool vectors = task.result == ResultKind::kVectors;
  return fmt::format("file of the {}, {}, in place of showing them{}", vectors ? "vectors" : "results",
                     fmt::join(endings, " or "), vectors ? "" : "; of several inputs a folder");
}

const Picture* only_picture(const TaskResult& result) {
  if (const DepthMap* map = std::get_if<DepthMap>(&result)) return &map->depth;
  const auto* pictures = std::get_if<std::vector<Picture>>(&result);
  return pictures && pictures->size() == 1 ? &pictures->front() : nullptr;
}

void expect_result_file(const TaskRecord& task, const std::string& path, bool several) {
  const std::vector<std::string> endings = file_endings(task);
  if (several && !is_array_name(path) && !fs::path(path).has_extension() && task.result != ResultKind::kVectors) return;
  for (const std::string& ending : endings)
    if (path.ends_with(ending) && (!several || is_array_name(path))) return;
  if (several && task.result != ResultKind::kVectors)
    fail(ErrorKind::kUsage, "--output: expected a folder for the results of several inputs, found {}", quoted(path));
  fail(ErrorKind::kUsage, "--output: expected a file that ends in {}, found {}", fmt::join(endings, " or "),
       quoted(path));
}

void write_results(const TaskRecord& task, const std::string& path, const std::vector<TaskResult>& results,
                   const std::vector<std::string>& names, const std::vector<TaskInput>& inputs) {
  const auto input = [&](size_t i) { return i < inputs.size() ? &inputs[i] : nullptr; };
  if (results.empty()) fail("--output: there are no results");
  if (is_array_name(path)) return write_numbers(task, path, results);
  if (results.size() == 1 && fs::path(path).has_extension()) return std::visit(FileWriter{path, input(0)}, results[0]);
  make_directories(path);
  const std::vector<std::string> paths = names_in(path, names, file_endings(task).front());
  for (size_t i = 0; i < results.size(); ++i) std::visit(FileWriter{paths.at(i), input(i)}, results[i]);
}

}  // namespace transom
