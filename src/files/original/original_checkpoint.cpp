// SPDX-License-Identifier: Apache-2.0
#include "files/original/original_checkpoint.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/numbers/float8.h"
#include "base/numbers/half_bits.h"
#include "files/blocks/ggml/ggml_blocks.h"
#include "files/checkpoint/safetensors.h"
#include "files/checkpoint/torch_file.h"
#include "files/config/config.h"
#include "files/family/family.h"
#include "files/gguf/gguf_file.h"
#include "files/gguf/gguf_model.h"
#include "files/original/original_tensors.h"
#include "files/original/pipeline_files.h"

namespace transom {
namespace {

constexpr size_t kMostFiles = 64;
constexpr int64_t kMostWidth = 1 << 16;

using OriginalFile = std::map<std::string, OriginalTensor, std::less<>>;

bool is_original_name(const fs::path& file) {
  const std::string ending = file.extension().string();
  return ending == ".safetensors" || ending == ".ckpt" || ending == ".gguf";
}

// Files that save numbers of 8 bits have no scales; those that have are of another kind.
void refuse_scales(const OriginalFile& file, const std::string& where) {
  for (const auto& [name, tensor] : file)
    for (const char* ending : {"scale_weight", "weight_scale", "scale_input", "input_scale", "comfy_quant",
                               "scaled_fp8", "absmax", "quant_map", "quant_state.bitsandbytes__nf4"})
      if (name.ends_with(ending))
        fail(ErrorKind::kUnsupported,
             "{}: tensor {} belongs to codes with scales of their own, which are not read; expected float32, float16, "
             "bfloat16 or float8_e4m3fn, or a GGUF file",
             where, quoted(name));
}

// fp8 as float16, which has all of its numbers.
TensorView without_codes(const TensorView& view) {
  static const std::array<uint16_t, 256> kHalves = [] {
    std::array<uint16_t, 256> halves{};
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = half_of_float(float8_values()[i]);
    return halves;
  }();
  const std::shared_ptr<std::byte[]> bytes(new std::byte[2 * view.bytes.size()]);
  auto* to = reinterpret_cast<uint16_t*>(bytes.get());
  for (size_t i = 0; i < view.bytes.size(); ++i) to[i] = kHalves[static_cast<uint8_t>(view.bytes[i])];
  return {DType::kFloat16, view.shape, {bytes.get(), 2 * view.bytes.size()}, bytes};
}

// Shapes that ggml cannot have stand in the metadata, as ComfyUI-GGUF writes them.
std::vector<int64_t> shape_of_tensor(const GgufFile& file, const GgufTensor& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  const std::string key = "comfy.gguf.orig_shape." + tensor.name;
  if (!file.has(key)) return shape;
  const auto count = [](const std::vector<int64_t>& extents) {
    int64_t all = 1;
    for (const int64_t extent : extents)
      if (extent < 0 || extent > kMostWidth * kMostWidth || (all *= std::max<int64_t>(extent, 1)) > int64_t{1} << 40)
        return int64_t{-1};
    return all;
  };
  const std::vector<int64_t> stated = file.get_ints(key);
  if (stated.size() > 8 || count(stated) != count(shape))
    fail("{}: {}: expected the shape of as many numbers as tensor {} has", file.where(), quoted(key),
         quoted(tensor.name));
  return stated;
}

OriginalTensor original_tensor(const GgufFile& file, const GgufTensor& tensor) {
  const std::vector<int64_t> shape = shape_of_tensor(file, tensor);
  if (const std::optional<DType> plain = ggml_plain_type(tensor.type))
    return {.view = {*plain, shape, tensor.bytes, tensor.owner}};
  const std::string where = fmt::format("{}: tensor {}", file.where(), quoted(tensor.name));
  if (tensor.shape.size() != 2) fail("{}: expected a matrix of blocks, found {} axes", where, tensor.shape.size());
  auto matrix = ggml_matrix(tensor.type, tensor.shape[0], tensor.shape[1], tensor.bytes, tensor.owner, where);
  if (shape == tensor.shape) return {.matrix = std::move(matrix)};
  return {.view = dequantised_view(*matrix, shape)};  // a convolution, whose rows are no rows of codes
}

bool is_of_llama_cpp(const GgufFile& file) {
  const std::string architecture = file.get_string("general.architecture", "");
  return std::any_of(families().begin(), families().end(), [&](const Family& family) {
    const std::optional<GgufFamily>& gguf = *family.foreign.gguf;
    return gguf && (gguf->architecture == architecture || gguf->encoder_architecture == architecture);
  });
}

OriginalFile read_original(const fs::path& path) {
  OriginalFile result;
  const std::string ending = path.extension().string();
  if (ending == ".gguf") {
    const GgufFile file = GgufFile::open(path);
    if (is_of_llama_cpp(file)) {  // a text encoder by itself
      const Checkpoint checkpoint = gguf_checkpoint(file);
      for (const auto& [name, view] : checkpoint.tensors()) result[name] = {.view = view};
      for (const auto& [name, weight] : checkpoint.compressed()) result[name] = {.matrix = weight.matrix};
      return result;
    }
    for (const GgufTensor& tensor : file.tensors()) result[tensor.name] = original_tensor(file, tensor);
    return result;
  }
  NamedViews tensors = ending == ".ckpt" ? read_torch_state_dict(path) : SafetensorsFile::open(path).tensors();
  for (auto& [name, view] : tensors) result[name] = {.view = std::move(view)};
  return result;
}

std::vector<int64_t> shape_in(const OriginalTensor& tensor) {
  if (!tensor.matrix) return tensor.view.shape;
  return {tensor.matrix->layout().rows, tensor.matrix->layout().depth};
}

// Where a file holds a part.
struct Found {
  fs::path path;
  OriginalFile file;
  const OriginalLayout* layout = nullptr;
  std::string beginning;
};

std::optional<Found> find_in(const fs::path& path, const std::vector<OriginalLayout>& layouts, const Config& config) {
  OriginalFile file = read_original(path);
  for (const OriginalLayout& layout : layouts)
    for (const std::string& beginning : layout.beginnings) {
      const auto mark = file.find(beginning + layout.mark);
      if (mark == file.end()) continue;
      const std::vector<int64_t> shape = shape_in(mark->second);
      if (!layout.width.empty() && (shape.empty() || shape.back() != config.get_int(layout.width, -1))) continue;
      return Found{path, std::move(file), &layout, beginning};
    }
  return std::nullopt;
}

// Of the class that config.json names; empty where it has none of these layouts.
std::vector<OriginalLayout> layouts_of(const Config& config) {
  std::vector<std::string> names = config.get_strings("architectures");
  if (names.empty() && config.has("_class_name")) names.push_back(config.get_string("_class_name"));
  if (names.empty()) return {};
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures)
      if (architecture.name == names[0] && !family.foreign.original.empty()) {
        std::vector<OriginalLayout> layouts = family.foreign.original;
        std::erase_if(layouts, [&](const OriginalLayout& layout) {
          return !layout.architecture.empty() && layout.architecture != names[0];
        });
        return layouts;
      }
  return {};
}

fs::path folder_above(const fs::path& folder) {
  std::error_code none;
  const fs::path found = fs::absolute(folder, none), whole = (none ? folder : found).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).parent_path();
}

std::vector<fs::path> original_files(const fs::path& folder) {
  std::vector<fs::path> files;
  const auto add_from = [&](const fs::path& place) {
    for (const fs::path& file : list_directory(place))
      if (is_original_name(file) && file_exists(file) && files.size() < kMostFiles) files.push_back(file);
  };
  add_from(folder);
  const fs::path parent = folder_above(folder);
  if (path_exists(parent / kPipelineIndexName)) add_from(parent);
  return files;
}

std::optional<Found> find_original(const fs::path& folder, const std::vector<OriginalLayout>& layouts,
                                   const Config& config) {
  std::optional<Found> found;
  for (const fs::path& path : original_files(folder)) {
    std::optional<Found> other = find_in(path, layouts, config);
    if (other && found)
      fail("{}: {} and {} both hold weights of this part; expected one of them", folder.string(),
           quoted(found->path.filename().string()), quoted(path.filename().string()));
    if (other) found = std::move(other);
  }
  return found;
}

std::optional<Config> original_config(const fs::path& folder) {
  if (!directory_exists(folder) || !path_exists(folder / "config.json")) return std::nullopt;
  return Config::read(folder / "config.json");
}

void add_identity(Checkpoint& checkpoint, const OriginalLayout& layout, const Config& config) {
  const int64_t width = config.get_int(layout.identity_width, 0);
  if (width <= 0 || width > kMostWidth) fail("{}: {}: expected a width", config.where(), layout.identity_width);
  const auto n = static_cast<size_t>(width);
  const auto numbers = std::make_shared<std::vector<float>>(n * n, 0.0F);
  for (size_t i = 0; i < n; ++i) (*numbers)[i * n + i] = 1;
  checkpoint.add(layout.identity,
                 {DType::kFloat32, {width, width}, std::as_bytes(std::span<const float>(*numbers)), numbers});
}

}  // namespace

std::optional<Checkpoint> open_original_checkpoint(const fs::path& folder) {
  const std::optional<Config> config = original_config(folder);
  if (!config) return std::nullopt;
  const std::vector<OriginalLayout> layouts = layouts_of(*config);
  if (layouts.empty()) return std::nullopt;
  std::optional<Found> found = find_original(folder, layouts, *config);
  if (!found) return std::nullopt;
  const OriginalLayout& layout = *found->layout;
  const std::string where = found->path.string();
  refuse_scales(found->file, where);
  Checkpoint checkpoint(where);
  const OriginalNames names(layout.names ? layout.names(*config) : std::vector<OriginalModule>());
  for (auto& [name, tensor] : found->file) {
    if (!name.starts_with(found->beginning)) continue;
    const std::string rest = name.substr(found->beginning.size());
    if (rest == layout.identity) continue;
    if (!tensor.matrix && tensor.view.dtype == DType::kUInt8) tensor.view = without_codes(tensor.view);
    names.add(checkpoint, rest, tensor);
  }
  if (!layout.identity.empty()) add_identity(checkpoint, layout, *config);
  return checkpoint;
}

bool holds_original_checkpoint(const fs::path& folder) {
  const std::optional<Config> config = original_config(folder);
  if (!config) return false;
  const std::vector<OriginalLayout> layouts = layouts_of(*config);
  return !layouts.empty() && find_original(folder, layouts, *config).has_value();
}

std::optional<fs::path> pipeline_of_file(const fs::path& file) {
  if (!is_original_name(file) || !file_exists(file)) return std::nullopt;
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!path_exists(directory / kPipelineIndexName)) return std::nullopt;
  for (const fs::path& part : list_directory(directory))
    if (directory_exists(part) && path_exists(part / kNetworkWeightsName))
      fail(
          "{}: of this directory {} is read, not this file; give the directory, or move the file into one whose parts "
          "have no weights",
          file.string(), quoted((part.filename() / kNetworkWeightsName).string()));
  return directory;
}

bool is_of_pipeline(const fs::path& folder) {
  if (path_exists(folder / kPipelineIndexName) || path_exists(folder_above(folder) / kPipelineIndexName)) return true;
  const std::optional<Config> config = original_config(folder);
  return config && config->has("_class_name");
}

}  // namespace transom
