// SPDX-License-Identifier: Apache-2.0
#include "poplar/Target.hpp"

#include <cstdlib>

#include "poplar/DeviceManager.hpp"
#include "poplar/exceptions.hpp"
#include "simulator/model.h"

namespace ipu_emulator {

size_t size_of(Type type) {
  static constexpr size_t kSizes[] = {0, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 4};
  return kSizes[static_cast<size_t>(type.id())];
}

namespace {

constexpr std::string_view kClocks = ":clocks";

std::string machines() {
  const char* set = std::getenv("TRANSOM_EMULATED_IPU");
  return set && *set ? set : "bow:4";
}

}  // namespace

bool clocks_alone() { return machines().ends_with(kClocks); }

}  // namespace ipu_emulator

namespace poplar {

std::string Type::toString() const {
  static constexpr const char* kNames[] = {
      "none", "bool",         "char",      "unsigned char",      "signed char", "short", "unsigned short",
      "int",  "unsigned int", "long long", "unsigned long long", "half",        "float"};
  return kNames[static_cast<size_t>(id_)];
}

Target Target::createIPUTarget(unsigned numIPUs, const std::string& name) {
  return createIPUTarget(numIPUs, 1472, name);
}

Target Target::createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, const std::string& name) {
  if (name != "ipu2" && name != "bow") throw invalid_option("expected ipu2 or bow, found \"" + name + "\"");
  if (numIPUs == 0 || (numIPUs & (numIPUs - 1)) != 0 || numIPUs > 1024)
    throw invalid_option("expected a number of IPUs that is a power of two up to 1024, found " +
                         std::to_string(numIPUs));
  if (tilesPerIPU == 0 || tilesPerIPU > 1472)
    throw invalid_option("expected 1 to 1472 tiles an IPU, found " + std::to_string(tilesPerIPU));
  Target target;
  target.name_ = name;
  target.ipus_ = numIPUs;
  target.tiles_per_ipu_ = tilesPerIPU;
  target.clock_ = name == "bow" ? 1.85e9 : 1.33e9;
  return target;
}

Target Target::createVirtualTarget(const Target& whole, unsigned tiles) {
  Target target = whole;
  target.ipus_ = 1;
  target.tiles_per_ipu_ = tiles;
  return target;
}

unsigned Target::getTypeSize(const Type& type) const { return static_cast<unsigned>(ipu_emulator::size_of(type)); }
unsigned Target::getVectorWidth(const Type& type) const {
  const unsigned size = getTypeSize(type);
  return size ? getDataPathWidth() / 8 / size : 1;
}

std::vector<Device> DeviceManager::getDevices(TargetType, unsigned numIPUs) const {
  std::string generation = ipu_emulator::machines();
  if (ipu_emulator::clocks_alone()) generation.resize(generation.size() - ipu_emulator::kClocks.size());
  unsigned long ipus = 4;
  if (const size_t colon = generation.find(':'); colon != std::string::npos) {
    char* end = nullptr;
    ipus = std::strtoul(generation.c_str() + colon + 1, &end, 10);
    if (*end || ipus == 0 || ipus > 1024)
      throw invalid_option("TRANSOM_EMULATED_IPU: expected <generation>:<IPUs>[:clocks], found \"" + generation + "\"");
    generation.resize(colon);
  }
  if (numIPUs > ipus) return {};
  return std::vector<Device>(ipus / numIPUs, Device(Target::createIPUTarget(numIPUs, generation)));
}

}  // namespace poplar
