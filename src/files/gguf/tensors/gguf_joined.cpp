// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/tensors/gguf_joined.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "files/checkpoint/converted_view.h"

namespace transom {
namespace {

// Of a row of the whole: the part that has it, and its place there.
struct RowSource {
  size_t part = 0;
  int64_t row = -1;
};

class JoinedMatrix : public BlockMatrix {
 public:
  JoinedMatrix(BlockLayout layout, std::vector<std::shared_ptr<const BlockMatrix>> parts, std::vector<RowSource> rows)
      : BlockMatrix(std::move(layout)), parts_(std::move(parts)), rows_(std::move(rows)) {}
  void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const override {
    const RowSource& from = rows_[static_cast<size_t>(row)];
    parts_[from.part]->read_row(from.row, codes, scales, minima);
  }
  bool read_stored(int64_t row, uint8_t* codes, uint16_t* scales, uint16_t* minima) const override {
    const RowSource& from = rows_[static_cast<size_t>(row)];
    return parts_[from.part]->read_stored(from.row, codes, scales, minima);
  }
  bool has_quick_rows() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->has_quick_rows(); });
  }
  void release() const override {
    for (const auto& part : parts_) part->release();
  }

 private:
  std::vector<std::shared_ptr<const BlockMatrix>> parts_;
  std::vector<RowSource> rows_;
};

bool are_alike(const BlockLayout& a, const BlockLayout& b) {
  return a.depth == b.depth && a.bits == b.bits && a.group == b.group && a.has_minima == b.has_minima &&
         a.scale_type == b.scale_type && a.values == b.values && a.order == b.order &&
         a.inputs_by_token == b.inputs_by_token;
}

int64_t rows_in(const GgufPart& part) {
  if (part.matrix) return part.matrix->layout().rows;
  return part.view.shape.empty() ? 1 : part.view.shape[0];
}

std::vector<RowSource> sources_of(const std::vector<GgufPart>& parts, const std::string& name) {
  size_t total = 0;
  for (const GgufPart& part : parts) {
    if (rows_in(part) != static_cast<int64_t>(part.rows.size()))
      fail("{}: expected {} rows, found {}", part.where, part.rows.size(), rows_in(part));
    total += part.rows.size();
  }
  std::vector<RowSource> sources(total);
  for (size_t p = 0; p < parts.size(); ++p)
    for (size_t i = 0; i < parts[p].rows.size(); ++i) {
      const int64_t row = parts[p].rows[i];
      if (row < 0 || row >= static_cast<int64_t>(total) || sources[static_cast<size_t>(row)].row >= 0)
        fail("{}: with the tensors beside it, it does not make the rows of {}: are they all there?", parts[p].where,
             name);
      sources[static_cast<size_t>(row)] = {p, static_cast<int64_t>(i)};
    }
  return sources;
}

// The numbers of all rows, in the type of the parts; `columns` of each row.
TensorView joined_view(const std::vector<GgufPart>& parts, const std::vector<RowSource>& sources,
                       const std::vector<int64_t>& columns, const std::string& name) {
  const TensorView& first = parts[0].view;
  std::vector<int64_t> shape = first.shape;
  for (const GgufPart& part : parts)
    if (part.view.shape.size() != shape.size() ||
        !std::equal(shape.begin() + 1, shape.end(), part.view.shape.begin() + 1))
      fail("{}: its rows are not as long as those of the other tensors that make {}", part.where, name);
  shape[0] = static_cast<int64_t>(sources.size());
  size_t row = size_of(first.dtype);
  for (size_t axis = 1; axis < shape.size(); ++axis) row *= static_cast<size_t>(shape[axis]);
  const std::shared_ptr<std::byte[]> bytes(new std::byte[row * sources.size()]);
  const size_t element = columns.empty() ? 0 : row / columns.size();
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::byte* from = parts[sources[i].part].view.bytes.data() + static_cast<size_t>(sources[i].row) * row;
    std::byte* to = bytes.get() + i * row;
    if (columns.empty()) std::memcpy(to, from, row);
    for (size_t c = 0; c < columns.size(); ++c)
      std::memcpy(to + static_cast<size_t>(columns[c]) * element, from + c * element, element);
  }
  return {first.dtype, std::move(shape), {bytes.get(), row * sources.size()}, bytes};
}

void check_columns(const std::vector<int64_t>& columns, const GgufPart& part) {
  const int64_t found = part.matrix                   ? part.matrix->layout().depth
                        : part.view.shape.size() == 2 ? part.view.shape[1]
                                                      : 0;
  std::vector<bool> seen(columns.size());
  for (const int64_t column : columns) {
    if (column < 0 || column >= static_cast<int64_t>(columns.size()) || seen[static_cast<size_t>(column)])
      fail(ErrorKind::kInternal, "{}: its columns have no order", part.where);
    seen[static_cast<size_t>(column)] = true;
  }
  if (found != static_cast<int64_t>(columns.size()))
    fail("{}: expected {} columns, found {}", part.where, columns.size(), found);
}

void make_plain(GgufPart& part) {
  if (part.matrix) part.view = dequantised_view(*part.matrix);
  part.matrix.reset();
  if (part.view.dtype == DType::kFloat32) return;
  auto wide = converted_view(part.view, DType::kFloat32);
  if (!wide) fail("{}: expected numbers of 16 or 32 bits", part.where);
  part.view = std::move(*wide);
}

}  // namespace

void add_gguf_parts(Checkpoint& checkpoint, const std::string& name, std::vector<GgufPart> parts,
                    const std::vector<int64_t>& columns) {
  std::vector<RowSource> sources = sources_of(parts, name);
  const GgufPart& first = parts[0];
  if (!columns.empty())
    for (const GgufPart& part : parts) check_columns(columns, part);
  const bool in_codes = std::all_of(parts.begin(), parts.end(), [&](const GgufPart& part) {
    return part.matrix && first.matrix && are_alike(part.matrix->layout(), first.matrix->layout());
  });
  if (in_codes && (columns.empty() || first.matrix->layout().order.empty())) {
    BlockLayout layout = first.matrix->layout();
    layout.rows = static_cast<int64_t>(sources.size());
    if (!columns.empty()) layout.order = columns;
    std::vector<std::shared_ptr<const BlockMatrix>> matrices;
    for (const GgufPart& part : parts) matrices.push_back(part.matrix);
    return checkpoint.add_compressed(
        name, {std::make_shared<JoinedMatrix>(std::move(layout), std::move(matrices), std::move(sources))});
  }
  const bool are_one_type = std::all_of(parts.begin(), parts.end(), [&](const GgufPart& part) {
    return !part.matrix && part.view.dtype == first.view.dtype;
  });
  if (!are_one_type)
    for (GgufPart& part : parts) make_plain(part);
  checkpoint.add(name, joined_view(parts, sources, columns, name));
}

}  // namespace transom
