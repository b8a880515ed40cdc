// SPDX-License-Identifier: Apache-2.0
// HDF5 in the form in which Keras writes weights and hdf5_file.h reads them: superblock 0, groups in symbol tables,
// datasets in one piece.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "files/checkpoint/tensor_view.h"

namespace transom {

class Hdf5Writer {
 public:
  // A dataset at a path of groups, "bert/encoder/kernel:0", of little-endian numbers of the shape. `values` gives its
  // bytes when the file is written, so that one tensor at a time is in memory. Errors: bfloat16 and bool, which HDF5
  // has no standard type for; a path that is taken, or leads through a dataset.
  void add_dataset(std::string_view path, DType dtype, std::vector<int64_t> shape, std::function<TensorView()> values);
  // A second name of a dataset that was added. Errors as above; `of` has none.
  void add_link(std::string_view path, std::string_view of);
  // Attributes of a group ("" for the root), which is made where it is missing.
  void add_text(std::string_view group, std::string name, std::string_view text);
  // As Keras writes long lists: NAME, or NAME0, NAME1 ... where they do not fit into one attribute.
  void add_texts(std::string_view group, const std::string& name, const std::vector<std::string>& texts);

  // The file appears complete or not at all.
  void write(const fs::path& path);

 private:
  struct Dataset {
    DType dtype;
    std::vector<int64_t> shape;
    uint64_t bytes;
    std::function<TensorView()> values;
    uint32_t names = 1;
  };
  struct Node {
    std::map<std::string, Node, std::less<>> children;
    std::vector<std::string> attributes;  // messages
    int64_t dataset = -1;                 // of datasets_; groups have none
  };
  struct Head;

  Node& group(std::string_view path);
  Node& place_of_dataset(std::string_view path);
  uint64_t write_node(const Node& node, Head& head) const;
  uint64_t write_group(const Node& node, Head& head) const;
  uint64_t write_dataset(const Node& node, Head& head) const;

  Node root_;
  std::vector<Dataset> datasets_;
};

}  // namespace transom
