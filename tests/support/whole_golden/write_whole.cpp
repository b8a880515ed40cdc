// SPDX-License-Identifier: Apache-2.0
// write_whole SOURCE TARGET: the golden cases as models are read, from what the tree keeps of them
// (tests/golden/README.md). The build runs it. What is there and not older stays.
//   NAME.drawn.json   tensors of the safetensors file NAME by the place where they were drawn; the others are in NAME
//   NAME.copy         the path, from SOURCE, of a file that is equal
//   NAME.parts        a list of texts, and of {"file", "from", "count"}: bytes of a file of SOURCE
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

#include "normal_numbers.h"

namespace transom::golden {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kDrawn = ".drawn.json";
constexpr const char* kCopy = ".copy";
constexpr const char* kParts = ".parts";

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot be read: " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Tests may read the old file meanwhile.
void replace(const fs::path& path, const std::string& bytes) {
  const fs::path beside = path.string() + ".new";
  std::ofstream file(beside, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot be written: " + beside.string());
  fs::rename(beside, path);
}

struct StoredTensor {
  std::string dtype;
  Json shape;
  std::string bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

StoredTensors read_tensors(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  StoredTensors tensors;
  const Json header = Json::parse(file.substr(sizeof length, length));
  for (const auto& [name, about] : header.items()) {
    if (name == "__metadata__") continue;
    const auto places = about.at("data_offsets").get<std::vector<size_t>>();
    tensors[name] = {about.at("dtype"), about.at("shape"),
                     file.substr(sizeof length + length + places.at(0), places.at(1) - places.at(0))};
  }
  return tensors;
}

std::string file_of(const StoredTensors& tensors, const Json& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::string bytes;
  for (const bool wide : {true, false})  // larger elements first, so that all are aligned
    for (const auto& [name, tensor] : tensors) {
      if ((tensor.dtype.ends_with("64")) != wide) continue;
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {bytes.size(), bytes.size() + tensor.bytes.size()}}};
      bytes += tensor.bytes;
    }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string file(sizeof length, 0);
  std::memcpy(file.data(), &length, sizeof length);
  return file + text + bytes;
}

uint16_t bfloat16_of(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// Of finite numbers; what is between the steps of 2^-24 goes to the nearest, ties to even.
uint16_t float16_of(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const float size = std::abs(x);
  if (size < 0x1p-14f) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24f)));
  bits &= 0x7FFFFFFFu;
  return static_cast<uint16_t>(sign | ((bits + 0xFFFu + (bits >> 13 & 1u)) - (112u << 23)) >> 13);
}

std::string bytes_of(const std::string& dtype, const std::vector<float>& numbers) {
  if (dtype == "F32") return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
  if (dtype != "BF16" && dtype != "F16") throw std::runtime_error("expected F32, F16 or BF16, found " + dtype);
  std::string bytes;
  for (const float x : numbers) {
    const uint16_t bits = dtype == "F16" ? float16_of(x) : bfloat16_of(x);
    bytes += {static_cast<char>(bits & 0xFFu), static_cast<char>(bits >> 8)};
  }
  return bytes;
}

size_t count_of(const Json& shape) {
  size_t count = 1;
  for (const auto& extent : shape) count *= extent.get<size_t>();
  return count;
}

StoredTensor drawn_tensor(UniformNumbers& uniform, const Json& rule) {
  std::vector<float> numbers =
      normal_numbers(uniform, rule.at("at"), count_of(rule.at("shape")), rule.value("cut", false));
  const double root = std::sqrt(rule.value("width", 1.0));
  const auto deviation = static_cast<float>(rule.value("factor", 1.2) / root), mean = rule.value("mean", 0.0f);
  const bool divided = rule.value("divided", false);
  for (float& x : numbers) {
    x = divided ? x / static_cast<float>(root) : deviation * x;
    if (mean != 0) x = mean + x;
  }
  const auto zeros = rule.value("zero", std::vector<size_t>());  // first, count, first, count ...
  for (size_t k = 0; k + 1 < zeros.size(); k += 2)
    for (size_t i = 0; i < zeros[k + 1]; ++i) numbers.at(zeros[k] + i) = 0;
  const std::string dtype = rule.value("dtype", "F32");
  return {dtype, rule.at("shape"), bytes_of(dtype, numbers)};
}

// Of little-endian whole numbers: value, how many of it, value, how many of it ...
StoredTensor tensor_of_runs(const Json& rule) {
  static const std::map<std::string, size_t> widths{{"I64", 8}, {"I32", 4}, {"U8", 1}, {"BOOL", 1}};
  StoredTensor tensor{rule.at("dtype"), rule.at("shape"), {}};
  const size_t width = widths.at(tensor.dtype);
  const auto runs = rule.at("runs").get<std::vector<int64_t>>();
  for (size_t k = 0; k + 1 < runs.size(); k += 2)
    for (int64_t i = 0; i < runs[k + 1]; ++i) tensor.bytes.append(reinterpret_cast<const char*>(&runs[k]), width);
  if (tensor.bytes.size() != width * count_of(tensor.shape)) throw std::runtime_error("runs of another length");
  return tensor;
}

std::string whole_file(const fs::path& recipe_path, const fs::path& rest) {
  const Json recipe = Json::parse(contents(recipe_path));
  StoredTensors tensors = fs::exists(rest) ? read_tensors(contents(rest)) : StoredTensors();
  UniformNumbers uniform(recipe.at("seed"));
  for (const auto& [name, rule] : recipe.at("tensors").items())
    tensors[name] = rule.contains("runs") ? tensor_of_runs(rule) : drawn_tensor(uniform, rule);
  return file_of(tensors, recipe.value("metadata", Json::object()));
}

std::string joined(const Json& parts, const fs::path& source) {
  std::string text;
  for (const Json& part : parts)
    text += part.is_string() ? part.get<std::string>()
                             : contents(source / part.at("file").get<std::string>())
                                   .substr(part.at("from").get<size_t>(), part.at("count").get<size_t>());
  return text;
}

class Tree {
 public:
  Tree(fs::path source, fs::path target) : source_(std::move(source)), target_(std::move(target)) {}

  void write() {
    std::map<fs::path, fs::path> copies;  // where to, and what says where from
    for (auto entry = fs::recursive_directory_iterator(source_); entry != fs::recursive_directory_iterator(); ++entry) {
      const fs::path path = entry->path(), place = path.lexically_relative(source_);
      if (entry->is_directory()) {
        if (place == "make") entry.disable_recursion_pending();
        continue;
      }
      const std::string name = place.string();
      if (name.ends_with(kCopy)) {
        copies[without(name, kCopy)] = path;
      } else if (name.ends_with(kParts)) {  // what they are of does not change alone
        if (is_older(without(name, kParts), path))
          replace(target_ / without(name, kParts), joined(Json::parse(contents(path)), source_));
      } else if (name.ends_with(kDrawn)) {
        const fs::path whole = without(name, kDrawn), rest = source_ / whole;
        if (is_older(whole, path) || (fs::exists(rest) && is_older(whole, rest)))
          replace(target_ / whole, whole_file(path, rest));
      } else if (!fs::exists(path.string() + kDrawn) && is_older(place, path)) {
        replace(target_ / place, contents(path));
      }
    }
    for (const auto& [to, rule] : copies) {
      const fs::path from = target_ / first_line(contents(rule));
      if (is_older(to, from) || is_older(to, rule)) replace(target_ / to, contents(from));
    }
    remove_others();
  }

 private:
  static fs::path without(const std::string& name, const std::string& ending) {
    return name.substr(0, name.size() - ending.size());
  }
  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

  // Marks `place` as one that is there, and makes its folder.
  bool is_older(const fs::path& place, const fs::path& than) {
    const fs::path whole = target_ / place;
    if (written_.insert(place).second) fs::create_directories(whole.parent_path());
    return !fs::exists(whole) || fs::last_write_time(whole) < fs::last_write_time(than);
  }

  void remove_others() {
    std::vector<fs::path> others;
    for (const auto& entry : fs::recursive_directory_iterator(target_))
      if (!entry.is_directory() && !written_.contains(entry.path().lexically_relative(target_)))
        others.push_back(entry.path());
    for (const fs::path& path : others) fs::remove(path);
    std::vector<fs::path> folders;
    for (const auto& entry : fs::recursive_directory_iterator(target_))
      if (entry.is_directory()) folders.push_back(entry.path());
    for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
      if (fs::is_empty(*folder)) fs::remove(*folder);
  }

  fs::path source_, target_;
  std::set<fs::path> written_;
};

}  // namespace
}  // namespace transom::golden

int main(int count, char** words) {
  if (count != 3) {
    std::cerr << "usage: write_whole SOURCE TARGET\n";
    return 2;
  }
  try {
    std::filesystem::create_directories(words[2]);
    transom::golden::Tree(words[1], words[2]).write();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "write_whole: " << error.what() << '\n';
    return 1;
  }
}
