// SPDX-License-Identifier: Apache-2.0
// What a machine of tiles says of a program by its own clock, as text and as pictures: how full each tile is, and the
// bulk synchronous steps of each chip, in compute, exchange and synchronisation.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/display.h"
#include "tools/explain/explanation.h"

namespace transom {
namespace {

constexpr double kPage = 1100, kBegin = 90, kEnd = 1080;
constexpr int64_t kMostTiles = 1 << 20, kMostChips = 1024;

struct Kind {
  const char *name, *color, *label;
};
constexpr Kind kBytes[] = {{"always_live", "#3b6ea5", "always live: weights, sums, what micro-batches under way need"},
                           {"temporary", "#4f9a5b", "temporary: the most at one time"},
                           {"code", "#8a8a8a", "code and exchange code"}};
constexpr Kind kCycles[] = {{"compute", "#b5484f", "compute"},
                            {"exchange", "#c9782c", "exchange between tiles"},
                            {"sync", "#3b6ea5", "synchronisation"},
                            {"link", "#7a4fa3", "links between chips"},
                            {"host", "#8a8a8a", "streams of the host"}};

double number(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_number())
    fail("machine profile: expected a number \"{}\" from the device", name);
  return found->get<double>();
}

const Json& member(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name))
    fail("machine profile: expected \"{}\" from the device, found none", name);
  return object[name];
}

struct Machine {
  Json json;
  double clock;
  int64_t chips, tiles;  // of a chip

  explicit Machine(const Explanation& e) : json(parse_json(e.machine, "machine profile")) {
    clock = number(json, "clock");
    chips = static_cast<int64_t>(number(json, "chips"));
    tiles = static_cast<int64_t>(number(json, "tiles_per_chip"));
    if (!(clock > 0) || chips < 1 || chips > kMostChips || tiles < 1 || chips * tiles > kMostTiles)
      fail("machine profile: expected a clock, chips and tiles, found {} Hz, {} chips of {} tiles", clock, chips,
           tiles);
  }
  bool pipelined() const { return json.contains("pipeline"); }
  std::string emulated() const {
    if (member(json, "emulated") != true) return "the machine itself";
    return member(json, "clocks_alone") == true ? "emulated, clocks alone: no values were computed" : "emulated";
  }
};

std::string key_of(std::span<const Kind> kinds) {
  std::string text = "<p class=\"key\">";
  for (const Kind& kind : kinds) text += fmt::format("<span style=\"background:{}\"></span>{}", kind.color, kind.label);
  return text + "</p>\n";
}

// One column for each few tiles: the fullest of them.
std::string memory_of_tiles(const Machine& machine, const Json& tiles) {
  constexpr double kHeight = 220, kTop = 16, kFloor = 190;
  const double limit = number(machine.json, "bytes_per_tile");
  const auto count = static_cast<size_t>(machine.chips * machine.tiles);
  std::vector<const Json*> lists;
  for (const Kind& kind : kBytes) {
    lists.push_back(&member(tiles, kind.name));
    if (!lists.back()->is_array() || lists.back()->size() != count)
      fail("machine profile: expected {} numbers of bytes {}", count, kind.name);
  }
  const auto bytes = [&](size_t kind, size_t tile) {
    const Json& value = (*lists[kind])[tile];
    return value.is_number() ? value.get<double>() : 0.0;
  };
  const auto total = [&](size_t tile) { return bytes(0, tile) + bytes(1, tile) + bytes(2, tile); };
  double most = limit;
  for (size_t tile = 0; tile < count; ++tile) most = std::max(most, total(tile));
  const size_t columns = std::min<size_t>(count, 990);
  const double width = (kEnd - kBegin) / static_cast<double>(columns);
  std::string text =
      fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Memory by tile\">\n", kPage, kHeight);
  for (size_t column = 0; column < columns; ++column) {
    const size_t first = column * count / columns, behind = std::max(first + 1, (column + 1) * count / columns);
    size_t fullest = first;
    for (size_t tile = first; tile < behind; ++tile)
      if (total(tile) > total(fullest)) fullest = tile;
    double floor = kFloor;
    for (size_t kind = 0; kind < std::size(kBytes); ++kind) {
      const double height = bytes(kind, fullest) / most * (kFloor - kTop);
      if (height < 0.05) continue;
      floor -= height;
      text += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"><title>tile {}: {:.0f} of "
          "{:.0f} "
          "bytes, {} {:.0f}</title></rect>\n",
          kBegin + static_cast<double>(column) * width, floor, width, height, kBytes[kind].color, fullest,
          total(fullest), limit, kBytes[kind].name, bytes(kind, fullest));
    }
  }
  const double line = kFloor - limit / most * (kFloor - kTop);
  text += fmt::format("<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" class=\"level\"/>\n", kBegin, line, kEnd,
                      line);
  text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.0f} KiB</text>\n", kBegin - 6, line + 4,
                      limit / 1024);
  for (int64_t chip = 0; chip < machine.chips; ++chip) {
    const double begin = kBegin + (kEnd - kBegin) * static_cast<double>(chip) / static_cast<double>(machine.chips);
    text += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" class=\"axis\"/>\n", begin, kTop,
                        kFloor + 6);
    if (machine.chips <= 32)
      text += fmt::format("<text x=\"{:.1f}\" y=\"{}\">chip {}</text>\n", begin + 4, kFloor + 18, chip);
  }
  return text + "</svg>\n";
}

// A lane for each chip, over the cycles of one run.
std::string timeline_of_steps(const Machine& machine) {
  const Json& steps = member(machine.json, "steps");
  double all = 0;
  for (const Json& step : steps)
    for (const Kind& kind : kCycles) all += number(step, kind.name);
  const double lane = 34, height = lane * static_cast<double>(machine.chips) + 50;
  std::string text =
      fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Steps by chip\">\n", kPage, height);
  for (int64_t chip = 0; chip < machine.chips; ++chip)
    text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">chip {}</text>\n", kBegin - 8,
                        static_cast<double>(chip) * lane + 26, chip);
  double at = 0;
  for (const Json& step : steps) {
    const double chip = number(step, "chip");
    if (!(chip >= 0 && chip < static_cast<double>(machine.chips)))
      fail("machine profile: expected a step of a chip below {}, found {}", machine.chips, chip);
    const Json& name = member(step, "name");
    for (const Kind& kind : kCycles) {
      const double cycles = number(step, kind.name), width = cycles / std::max(all, 1.0) * (kEnd - kBegin);
      if (width >= 0.02)
        text += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"><title>{}: {} {:.0f} "
            "cycles</title></rect>\n",
            kBegin + at / all * (kEnd - kBegin), chip * lane + 8, width, lane - 8, kind.color,
            escaped(name.is_string() ? name.get<std::string>() : ""), kind.label, cycles);
      at += cycles;
    }
  }
  for (int i = 0; i <= 5; ++i)
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.4g} ms</text>\n",
                        kBegin + (kEnd - kBegin) * i / 5, height - 20, all / machine.clock * 1e3 * i / 5);
  return text + "</svg>\n";
}

std::string sums(const Json& cycles) {
  double all = 0;
  for (const Kind& kind : kCycles) all += number(cycles, kind.name);
  std::string text;
  for (const Kind& kind : kCycles)
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", kind.name,
                        100 * number(cycles, kind.name) / std::max(all, 1.0));
  return fmt::format("{:.0f} cycles ({})", all, text);
}

}  // namespace

std::string machine_text(const Explanation& e) {
  if (e.machine.empty()) return "";
  const Machine machine(e);
  std::string text = fmt::format("machine ({}): {} chips, a run takes {}; fullest tile {:.0f} of {:.0f} bytes\n",
                                 machine.emulated(), machine.chips, sums(member(machine.json, "cycles")),
                                 number(machine.json, "fullest_tile"), number(machine.json, "bytes_per_tile"));
  if (machine.pipelined()) {
    const Json& pipeline = machine.json["pipeline"];
    const double micro_batches = number(pipeline, "micro_batches");
    std::vector<std::string> by_chip;
    for (const Json& cycles : member(pipeline, "by_chip")) by_chip.push_back(cycles.dump());
    text += fmt::format(
        "as a pipeline ({}): {:.0f} cycles between two micro-batches (by chip: {}); {:.0f} micro-batches take {:.4f} "
        "s, "
        "{:.1f} samples/s without the host and the update; fullest tile {:.0f} bytes: {}\n",
        machine.emulated(), number(pipeline, "slowest"), fmt::join(by_chip, ", "), micro_batches,
        number(pipeline, "seconds"), e.samples * micro_batches / std::max(number(pipeline, "seconds"), 1e-12),
        number(pipeline, "fullest_tile"), member(pipeline, "fits") == true ? "it fits" : "it does not fit");
  }
  return text;
}

std::string machine_pictures(const Explanation& e) {
  if (e.machine.empty()) return "";
  const Machine machine(e);
  std::string text = fmt::format("<h2>The machine</h2>\n<p>{}</p>\n", escaped(machine_text(e)));
  text +=
      "<h2>Steps</h2>\n<p>Bulk synchronous steps of one run by the clock of the machine: all tiles of a chip "
      "compute, synchronise, exchange.</p>\n" +
      timeline_of_steps(machine) + key_of(kCycles) +
      "<h2>Memory by tile</h2>\n<p>One micro-batch after the other; a column is the fullest of its tiles, the "
      "dashed line what a tile has.</p>\n" +
      memory_of_tiles(machine, member(machine.json, "tiles")) + key_of(kBytes);
  if (machine.pipelined())
    text +=
        "<h2>Memory by tile, as a pipeline</h2>\n<p>With sums of gradients, and what micro-batches under way "
        "still need.</p>\n" +
        memory_of_tiles(machine, member(machine.json["pipeline"], "tiles"));
  return text;
}

}  // namespace transom
