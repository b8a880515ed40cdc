// SPDX-License-Identifier: Apache-2.0
// HDF5, as far as Keras writes weights: groups in symbol tables, datasets of numbers that lie in one piece
// (HDF5 File Format Specification 2.0: superblock 0 and 1, object headers 1).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/files/files.h"
#include "files/checkpoint/tensor_view.h"

namespace transom {

// All datasets of numbers by their path without the first slash, "bert/encoder/kernel:0", in the order of the file's
// groups. Views into `bytes`, which `owner` keeps alive. Chunks, compression, newer groups and other element types are
// refused by name. Errors begin with `where`.
NamedViews parse_hdf5(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner);
NamedViews read_hdf5(const fs::path& path);

}  // namespace transom
