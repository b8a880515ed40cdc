// SPDX-License-Identifier: Apache-2.0
// What a machine is: tiles, memory, clock, exchange. Figures of Mk2 (ipu2) and of Bow, which is Mk2 at a higher clock.
#pragma once

#include <cstdint>
#include <string>

#include "poplar/Type.hpp"

namespace poplar {

enum class TargetType { IPU, IPU_MODEL, CPU };

class Target {
 public:
  Target() = default;
  // `name`: "ipu2" or "bow". Refuses other names, and numbers of IPUs that are no power of two.
  static Target createIPUTarget(unsigned numIPUs, const std::string& name);
  static Target createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, const std::string& name);

  // The machine with so many of its tiles, as one IPU.
  static Target createVirtualTarget(const Target& whole, unsigned tiles);

  TargetType getTargetType() const { return TargetType::IPU_MODEL; }
  const std::string& getTargetArchString() const { return name_; }
  unsigned getNumIPUs() const { return ipus_; }
  unsigned getTilesPerIPU() const { return tiles_per_ipu_; }
  unsigned getNumTiles() const { return ipus_ * tiles_per_ipu_; }
  unsigned getNumWorkerContexts() const { return 6; }
  unsigned getBytesPerTile() const { return 624 * 1024; }
  unsigned getDataPathWidth() const { return 64; }  // bits
  unsigned getVectorWidth(const Type& type) const;  // elements of the data path
  unsigned getExchangeBytesPerCycle() const { return 4; }
  unsigned getTilesPerSharedExchangeBus() const { return 2; }
  unsigned getMemcpyBytesPerCycle() const { return 8; }
  double getTileClockFrequency() const { return clock_; }  // Hz
  unsigned getTypeSize(const Type& type) const;            // bytes

 private:
  std::string name_;
  unsigned ipus_ = 0, tiles_per_ipu_ = 0;
  double clock_ = 0;
};

}  // namespace poplar
