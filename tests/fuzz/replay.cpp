// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: every file of a directory, then a few thousand mutations of them, the same on
// every machine. With a file in place of the directory it runs that one. With --keep FILE each mutation is written
// there before it runs, so that the one that crashed can be kept.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutations = 4000;
constexpr size_t kMaximumSize = 1 << 16;

using Bytes = std::vector<uint8_t>;

void run(const Bytes& bytes) {
  // A block of exactly this size, so that the address sanitizer sees a read behind it.
  const auto copy = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  LLVMFuzzerTestOneInput(copy.get(), bytes.size());
}

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Bytes> read_seeds(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {read(path)};
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(path)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const auto& each : paths) seeds.push_back(read(each));
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& seeds) : seeds_(seeds) {}

  Bytes next() {
    Bytes bytes = seeds_[below(seeds_.size())];
    for (uint64_t i = 1 + below(6); i > 0; --i) change(bytes);
    if (bytes.size() > kMaximumSize) bytes.resize(kMaximumSize);
    return bytes;
  }

 private:
  // std's distributions differ between libraries, the engine does not.
  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : engine_() % limit; }

  void change(Bytes& bytes) {
    const size_t at = below(bytes.size() + 1), length = std::min<size_t>(bytes.size() - at, 1 + below(16));
    const auto place = bytes.begin() + static_cast<ptrdiff_t>(at);
    switch (below(8)) {
      case 0:
        if (length > 0) *place ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1:
        if (length > 0) *place = static_cast<uint8_t>(below(256));
        break;
      case 2:
        bytes.erase(place, place + static_cast<ptrdiff_t>(length));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4: {  // a number at the edge of its type, as bytes or as text
        constexpr int64_t kEdges[] = {0,         -1,        1,          127,       255,      65535,
                                      INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN};
        const int64_t edge = kEdges[below(std::size(kEdges))];
        const std::string text = std::to_string(edge);
        if (below(2) == 0) bytes.insert(place, text.begin(), text.end());
        else std::memcpy(bytes.data() + at, &edge, std::min<size_t>(bytes.size() - at, size_t{1} << below(4)));
        break;
      }
      case 5: {  // a part once more
        const Bytes part(place, place + static_cast<ptrdiff_t>(length));
        const auto target = bytes.begin() + static_cast<ptrdiff_t>(below(bytes.size() + 1));
        bytes.insert(target, part.begin(), part.end());
        break;
      }
      case 6: {  // a part of another seed
        const Bytes& other = seeds_[below(seeds_.size())];
        const size_t from = below(other.size() + 1), count = std::min<size_t>(other.size() - from, below(64));
        bytes.insert(place, other.begin() + static_cast<ptrdiff_t>(from),
                     other.begin() + static_cast<ptrdiff_t>(from + count));
        break;
      }
      default: {  // what has a meaning in many formats
        constexpr char kMarks[] = "{}[]\",:\n\t\\()0-.e#'";
        bytes.insert(place, static_cast<uint8_t>(kMarks[below(sizeof kMarks - 1)]));
      }
    }
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937_64 engine_{20240229};
};

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s CORPUS [--keep FILE]\n", words[0]);
    return 2;
  }
  const std::string keep = count > 3 && std::strcmp(words[2], "--keep") == 0 ? words[3] : "";
  const std::vector<Bytes> seeds = read_seeds(words[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: expected seeds, found none\n", words[1]);
    return 1;
  }
  for (const Bytes& seed : seeds) run(seed);
  if (!std::filesystem::is_directory(words[1])) return 0;
  Mutator mutator(seeds);
  for (int i = 0; i < kMutations; ++i) {
    const Bytes bytes = mutator.next();
    if (!keep.empty())
      std::ofstream(keep, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    run(bytes);
  }
  std::printf("%zu seeds, %d mutations\n", seeds.size(), kMutations);
  return 0;
}
