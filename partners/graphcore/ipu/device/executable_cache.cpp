// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/executable_cache.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <istream>
#include <iterator>
#include <poplar/DeviceManager.hpp>
#include <sstream>
#include <streambuf>

namespace transom::ipu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "transom ipu executable 1\n";
constexpr uintmax_t kLargestFile = uintmax_t{8} << 30;

// Not against somebody who wants two texts to have one: keys are compared whole.
uint64_t hash_of(std::string_view bytes, uint64_t hash = 0xcbf29ce484222325) {
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  };
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  uint64_t rest = bytes.size();
  for (; at < bytes.size(); ++at) rest = rest << 8 | static_cast<uint8_t>(bytes[at]);
  mix(rest);
  return hash;
}

void put_number(std::string& to, uint64_t value) {
  for (int i = 0; i < 8; ++i, value >>= 8) to += static_cast<char>(value);
}

// Bytes of a file that was read, front to back.
class Parts {
 public:
  explicit Parts(std::string_view bytes) : left(bytes) {}
  std::string_view left;
  bool skip(std::string_view text) {
    if (!left.starts_with(text)) return false;
    left.remove_prefix(text.size());
    return true;
  }
  std::optional<uint64_t> number() {
    if (left.size() < 8) return std::nullopt;
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(left[i])) << 8 * i;
    left.remove_prefix(8);
    return value;
  }
};

// A stream over bytes that are not copied.
struct BytesBuffer : std::streambuf {
  explicit BytesBuffer(std::string_view bytes) {
    char* begin = const_cast<char*>(bytes.data());
    setg(begin, begin, begin + bytes.size());
  }
};

std::optional<std::string> read_whole(const fs::path& path, std::string& why) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || !fs::is_regular_file(path, error)) return why = "not a file", std::nullopt;
  if (size > kLargestFile) return why = "too large", std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) return why = "it cannot be read", std::nullopt;
  return bytes;
}

// The file that holds a function.
template <typename Function>
fs::path file_of(Function* function) {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(function), &info) || !info.dli_fname) return {};
  return info.dli_fname;
}

// Of the code that makes programs: this plugin's, and the libraries', which come together in one release.
const std::string& code_version() {
  static const std::string version = [] {
    std::string why;
    const auto mine = read_whole(file_of(&program_key), why);
    const fs::path libraries = file_of(&poplar::DeviceManager::createDeviceManager);
    std::error_code error;
    const uintmax_t size = fs::file_size(libraries, error);
    if (!mine || error) return std::string();
    const auto time = fs::last_write_time(libraries, error).time_since_epoch().count();
    if (libraries == file_of(&program_key)) return fmt::format("{:016x}", hash_of(*mine));
    return fmt::format("{:016x} {} {} {}", hash_of(*mine), libraries.string(), size, time);
  }();
  return version;
}

template <typename List>
void add_list(std::string& to, const List* list, size_t count) {
  to += '[';
  for (size_t i = 0; i < count; ++i) fmt::format_to(std::back_inserter(to), "{},", list[i]);
  to += ']';
}

void add_graph(std::string& to, const transom_graph& graph, bool with_scopes) {
  const auto out = std::back_inserter(to);
  for (size_t i = 0; i < graph.values_count; ++i) {
    const transom_value& value = graph.values[i];
    fmt::format_to(out, "{}", value.dtype);
    add_list(to, value.shape, static_cast<size_t>(std::max(0, value.rank)));
  }
  to += '\n';
  // Texts with their lengths, so that no two lists of them read alike.
  const auto text = [&](const char* value) {
    const std::string_view view = value ? value : "";
    fmt::format_to(out, "{}:{} ", view.size(), view);
  };
  for (const transom_node& node : plugin::Nodes(graph)) {
    text(node.op);
    if (with_scopes) text(node.scope);
    add_list(to, node.inputs, node.inputs_count);
    add_list(to, node.outputs, node.outputs_count);
    for (size_t i = 0; i < node.attributes_count; ++i) {
      const transom_attribute& attribute = node.attributes[i];
      text(attribute.name);
      fmt::format_to(out, "{} {} {:x} ", attribute.kind, attribute.int_value,
                     std::bit_cast<uint64_t>(attribute.float_value));
      text(attribute.string_value);
      add_list(to, attribute.ints, attribute.ints_count);
    }
    if (node.region) {
      to += '{';
      add_graph(to, *node.region, with_scopes);
      to += '}';
    }
    to += '\n';
  }
  add_list(to, graph.inputs, graph.inputs_count);
  add_list(to, graph.outputs, graph.outputs_count);
}

}  // namespace

std::string graph_text(const transom_graph& graph, bool with_scopes) {
  std::string text;
  add_graph(text, graph, with_scopes);
  return text;
}

std::string program_key(const transom_graph& graph, const poplar::Target& target, const IpuConfig& config) {
  if (code_version().empty()) return {};
  std::string key =
      fmt::format("code {}\nmachine {} {} {}\nconfiguration {} {} {} {} {} {} {} {}\n", code_version(),
                  target.getTargetArchString(), target.getNumIPUs(), target.getTilesPerIPU(), config.ipus_per_replica,
                  config.replication_factor, config.replicated_tensor_sharding, config.optimizer_state_offchip,
                  config.gradient_accumulation_steps, config.enable_half_partials,
                  config.embedding_serialization_factor, config.stochastic_rounding);
  add_list(key, config.layers_per_ipu.data(), config.layers_per_ipu.size());
  add_list(key, config.matmul_proportion.data(), config.matmul_proportion.size());
  add_graph(key, graph, true);
  return key;
}

fs::path ExecutableCache::folder_of(const IpuConfig& config) {
  if (!config.executable_cache_dir.empty()) return config.executable_cache_dir;
  const char* set = std::getenv("POPTORCH_CACHE_DIR");
  return set ? set : "";
}

fs::path ExecutableCache::path_of(const std::string& key) const {
  return folder_ / fmt::format("{:016x}{:016x}.executable", hash_of(key), hash_of(key, 0x2545f4914f6cdd1d));
}

std::optional<poplar::Executable> ExecutableCache::find(const std::string& key) const {
  std::error_code error;
  if (folder_.empty() || key.empty()) return std::nullopt;
  const fs::path path = path_of(key);
  if (!fs::exists(path, error)) return std::nullopt;
  std::string why = "it is cut off, or not such a file";
  if (const auto bytes = read_whole(path, why)) {
    Parts parts(*bytes);
    if (!parts.skip(kFirstLine)) {
    } else if (const auto size = parts.number(); size != key.size() || !parts.skip(key)) {
      why = "it is another program's";
    } else if (const auto sum = parts.number(); sum && *sum == hash_of(parts.left)) {
      try {
        BytesBuffer buffer(parts.left);
        std::istream stream(&buffer);
        return poplar::Executable::deserialize(stream);
      } catch (const std::exception& broken) {
        why = broken.what();
      }
    } else {
      why = "it is cut off or damaged";
    }
  }
  warn_(fmt::format("{}: expected a program that was compiled before: {}; it is compiled again", path.string(), why));
  return std::nullopt;
}

void ExecutableCache::keep(const std::string& key, const poplar::Executable& executable) const {
  if (folder_.empty() || key.empty()) return;
  const fs::path path = path_of(key);
  static std::atomic<unsigned> files{0};
  fs::path beside = path;
  beside += fmt::format(".{}.{}", ::getpid(), files++);
  std::error_code error;
  try {
    fs::create_directories(folder_);
    std::ostringstream stream;
    executable.serialize(stream);
    const std::string program = std::move(stream).str();
    std::string head(kFirstLine);
    put_number(head, key.size());
    head += key;
    put_number(head, hash_of(program));
    std::ofstream file(beside, std::ios::binary);
    file.write(head.data(), static_cast<std::streamsize>(head.size()));
    file.write(program.data(), static_cast<std::streamsize>(program.size()));
    file.close();
    if (!file)
      throw fs::filesystem_error("expected room for the file", beside, std::error_code(errno, std::generic_category()));
    fs::rename(beside, path);
  } catch (const std::exception& failed) {
    fs::remove(beside, error);
    warn_(fmt::format("{}: a program is not kept: {}", path.string(), failed.what()));
  }
}

}  // namespace transom::ipu
