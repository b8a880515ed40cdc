// SPDX-License-Identifier: Apache-2.0
// The text of products of tiles by a group: parts of the operands are brought to group memory, a line of words for each
// row or column, and multiplied fragment by fragment (source/fragments.h). A group's waves stand in two rows.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "gpu/source/fragments.h"
#include "gpu/source/kernel_text.h"

namespace transom::gpu {

// A tile of `lines` rows (of A) or columns (of B), each `words` words, in group memory `name`. lines * words is a
// multiple of 4 * kGroup.
struct Tile {
  std::string name;
  int64_t lines, words;
  int64_t stride() const { return words + 4; }  // so that threads that read together read from different banks
  int64_t chunks() const { return lines * words / (4 * kGroup); }  // of four words, that a thread brings
};

// What a tile is brought from: element (r, k) of the operand lies at base + place(r, k). All are names or expressions.
struct TileSource {
  transom_dtype dtype;
  std::string base;
  std::function<std::string(const std::string& r, const std::string& k)> place;
  std::string lines, depth;  // how many there are; what lies outside is 0
  bool deep = true;          // neighbours in the depth lie side by side
  std::string fast = "0";    // whether each group of 16 bytes of a deep line may be read at once
  // In the place of `place`, for elements that are not all there: writes statements for element (r, k), both inside of
  // `lines` and `depth`, and gives the element's place and the condition that it exists.
  std::function<std::pair<std::string, std::string>(const std::string& r, const std::string& k)> gather = nullptr;
  std::string outside = "";  // the bits of one that does not exist, if they are not 0
};
// The condition for that: base and all strides are multiples of 16 bytes.
std::string fast_condition(transom_dtype dtype, const std::string& base, const std::vector<std::string>& strides);

void declare_tile(KernelText& text, const Tile& tile);
// Reads lines [r0, ...) and elements [k0, ...) of the source to `u32 <registers>[4 * chunks]`, then to the tile.
void declare_registers(KernelText& text, const Tile& tile, const std::string& registers);
void fetch_tile(KernelText& text, const Tile& tile, const TileSource& from, const std::string& r0,
                const std::string& k0, const std::string& registers);
// As above, four words at a time by what `words` writes: it sets registers[at] ... registers[at + 3] from line `r` and
// elements `k` on, names of indices that are not yet checked against any extent.
void fetch_tile(KernelText& text, const Tile& tile, const FragmentKind& kind, bool deep, const std::string& k0,
                const std::function<void()>& words);
void put_tile(KernelText& text, const Tile& tile, bool deep, const std::string& registers);
// All in one.
void bring_tile(KernelText& text, const Tile& tile, const TileSource& from, const std::string& r0,
                const std::string& k0);

// The results of a group's product of `rows` x `columns`, in registers. `columns` is a multiple of 64, rows of 32.
struct Results {
  FragmentKind kind;
  std::string name;
  int64_t rows, columns;
  int64_t down() const { return rows / 32; }  // fragments of a wave
  std::string across() const;
};
// Before any results: "lane", and where the wave's part begins. Once a kernel and set of fragments.
void declare_waves(KernelText& text, const FragmentKind& kind);
void declare_results(KernelText& text, const Results& results);
void clear_results(KernelText& text, const Results& results);
// results += the first `words` words of A's lines by those of B's. A's words begin at `a_word`. `rest`: what is added
// to B; both take turns, so that the order of a sum is that of tiles of any width.
void multiply_tiles(KernelText& text, const Results& results, const Tile& a, const Tile& b, int64_t words,
                    const std::string& a_word = "0", const Tile* rest = nullptr);
// whole += what the first `words` words of B's lines sum to, of bytes; `whole` has 32 rows, all alike.
void add_columns(KernelText& text, const Results& whole, const Tile& b, int64_t words);
// "row" and "column" in the tile, of result e of fragment f.
void write_place(KernelText& text, const Results& results);
// For each result: what `body` writes, of "row" and "column" in the tile and the result `name`[f][e].
void for_results(KernelText& text, const Results& results, const std::function<void(const std::string& value)>& body);

}  // namespace transom::gpu
