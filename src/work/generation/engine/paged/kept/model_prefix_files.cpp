// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/kept/model_prefix_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/threads/threads.h"
#include "files/config/config.h"
#include "files/hub/digest.h"
#include "graph/ops/computing.h"
#include "graph/ops/products/integer_products.h"
#include "graph/ops/products/packed_matrix.h"
#include "runtime/device/device.h"
#include "runtime/tensor/evaluator.h"
#include "work/generation/engine/paged/cache_blocks.h"

namespace transom {
namespace {

constexpr size_t kStretch = size_t{1} << 22, kFingerprintDigits = 32;

// Stretches of it are hashed side by side.
std::string digest_of_numbers(const Tensor& tensor) {
  if (!tensor.defined()) return "-";
  const std::vector<std::byte> bytes = tensor.to_bytes();
  std::vector<std::string> digests((bytes.size() + kStretch - 1) / kStretch);
  parallel_for(digests.size(), [&](size_t i) {
    const size_t begin = i * kStretch;
    digests[i] =
        sha256_of_text({reinterpret_cast<const char*>(bytes.data()) + begin, std::min(kStretch, bytes.size() - begin)});
  });
  return fmt::format("{} {}", to_string(tensor.type()), fmt::join(digests, ""));
}

std::string digest_of_weight(const Parameter& parameter) {
  if (!parameter.packed) return digest_of_numbers(parameter.value);
  const PackedMatrix& packed = *parameter.packed;
  std::string text =
      fmt::format("{} {} {} {} {}", packed.bits, packed.rows, packed.depth, packed.group, packed.activations);
  for (const Tensor* part : {&packed.bytes, &packed.scales, &packed.minima, &packed.values, &packed.order})
    text += ' ' + digest_of_numbers(*part);
  if (const IntegerWeight* integers = packed.integers.get()) {
    text += fmt::format(" {} {}", static_cast<int>(integers->input_type), integers->zero_point);
    for (const Tensor* part : {&integers->codes, &integers->scales, &integers->input_scale, &integers->input_inverse})
      text += ' ' + digest_of_numbers(*part);
  }
  return text;
}

// Other code may round otherwise, with the same version: the libraries themselves. They are read once a process, which
// goes on with what it has loaded.
std::string digest_of_library(const fs::path& path) {
  static std::mutex mutex;
  static std::map<fs::path, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace(path, path.string());
  if (is_new && file_exists(path)) place->second = sha256_of(path);
  return place->second;
}

std::string code_and_device() {
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(&prefix_fingerprint), &info) && info.dli_fname;
  const DeviceInfo device = describe_device(*default_device());
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", known ? digest_of_library(info.dli_fname) : "",
                     digest_of_library(device.plugin), device.name.substr(0, device.name.find(':')), device.description,
                     device.architecture, device.driver);
}

}  // namespace

std::string prefix_fingerprint(const GenerativeModel& model, const std::vector<KeyValueShape>& shapes,
                               int64_t block_size) {
  Computing computing = model.computing();
  computing.adapters = nullptr;
  std::string text = code_and_device() + dump_json(json_of(model.config())) + '\n' + key_of(computing).value() + '\n';
  for (const KeyValueShape& shape : shapes)
    text += fmt::format("{} {} {} {} {}\n", shape.heads, shape.key_width, shape.value_width, name_of(shape.dtype),
                        to_string(shape.state));
  text += std::to_string(block_size) + '\n';
  for (const auto* parameters : {&model.parameters(), &model.frozen(), &model.buffers()})
    for (const std::shared_ptr<Parameter>& parameter : *parameters)
      text += parameter->name + ' ' + digest_of_weight(*parameter) + '\n';
  return sha256_of_text(text).substr(0, kFingerprintDigits);
}

std::unique_ptr<PrefixFiles> prefix_files_of(const GenerativeModel& model, const EngineOptions& options,
                                             const std::vector<KeyValueShape>& shapes) {
  if (options.prefix_cache_directory.empty()) return nullptr;
  if (EvaluatorScope::current())
    fail(ErrorKind::kUnsupported, "prefix_cache_directory: not for a model over several processes; leave it out");
  if (model.adaptation())
    fail(ErrorKind::kUnsupported,
         "prefix_cache_directory: not for a model with adapters of its own; merge them, or leave it out");
  if (!options.prefix_caching) fail("prefix_cache_directory: expected prefix_caching too, which is off");
  return std::make_unique<PrefixFiles>(options.prefix_cache_directory,
                                       prefix_fingerprint(model, shapes, options.block_size),
                                       bytes_of_block(shapes, options.block_size), options.prefix_cache_disk_bytes);
}

}  // namespace transom
