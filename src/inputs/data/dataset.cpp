// SPDX-License-Identifier: Apache-2.0
#include "transom/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "inputs/data/column_types.h"
#include "inputs/data/tables/row_format.h"

namespace transom {

class Dataset::Rows {
 public:
  Rows(std::string name, std::vector<Column> columns) : name_(std::move(name)), columns_(std::move(columns)) {}
  virtual ~Rows() = default;
  virtual int64_t size() const = 0;
  // The values of a row brought to the types of `columns`, which are these rows' but for those that are as_written.
  virtual Row row(int64_t index, const std::vector<Column>& columns) const = 0;
  virtual bool in_memory() const { return true; }
  virtual bool untyped() const { return false; }
  const std::string& name() const { return name_; }
  const std::vector<Column>& columns() const { return columns_; }

 private:
  std::string name_;
  std::vector<Column> columns_;
};

namespace {

Row typed(Row row, const std::vector<Column>& columns, const std::string& name, int64_t number) {
  row.resize(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    try {
      if (columns[i].as_written && std::holds_alternative<std::monostate>(row[i])) row[i] = std::string();
      else row[i] = to_column_type(std::move(row[i]), columns[i].type);
    } catch (const Error& error) {
      fail("{}: row {}, column '{}': {}", name, number, columns[i].name, error.what());
    }
  }
  return row;
}

// Rows in memory: with their types, or, `untyped`, as the cells of a file are written.
class HeldRows : public Dataset::Rows {
 public:
  HeldRows(std::string name, std::vector<Column> columns, std::vector<Row> rows, bool untyped = false)
      : Rows(std::move(name), std::move(columns)), rows_(std::move(rows)), untyped_(untyped) {}
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  bool untyped() const override { return untyped_; }
  Row row(int64_t index, const std::vector<Column>& columns) const override {
    const Row& row = rows_[static_cast<size_t>(index)];
    return untyped_ ? typed(row, columns, name(), index + 1) : row;
  }

 private:
  std::vector<Row> rows_;
  bool untyped_;
};

// Rows that stay in the mapped file; each is read when it is asked for.
class MappedRows : public Dataset::Rows {
 public:
  MappedRows(std::string name, std::vector<Column> columns, std::shared_ptr<const MappedFile> file,
             std::unique_ptr<RowFormat> format, std::vector<uint64_t> offsets)
      : Rows(std::move(name), std::move(columns)),
        file_(std::move(file)),
        format_(std::move(format)),
        offsets_(std::move(offsets)) {
    for (const Column& column : this->columns()) names_.push_back(column.name);
  }
  int64_t size() const override { return static_cast<int64_t>(offsets_.size()); }
  bool in_memory() const override { return false; }
  bool untyped() const override { return format_->untyped(); }
  Row row(int64_t index, const std::vector<Column>& columns) const override {
    Row row;
    std::vector<std::string> names = names_;
    size_t position = offsets_[static_cast<size_t>(index)];
    // The file may have been changed under us.
    require(format_->read(position, index + 1, names, row) && names.size() == names_.size(),
            "{}: row {}: has changed since the file was opened", name(), index + 1);
    return typed(std::move(row), columns, name(), index + 1);
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::unique_ptr<RowFormat> format_;
  std::vector<uint64_t> offsets_;
  std::vector<std::string> names_;
};

}  // namespace

Dataset Dataset::load(const std::filesystem::path& path, const DatasetOptions& options) {
  const std::string name = path.string();
  auto file = MappedFile::open(path);
  auto format = format_of(path, file->text(), options);
  const bool hold = file->text().size() <= options.memory_limit;

  std::vector<std::string> names = format->columns();
  std::vector<ColumnTypeFinder> finders(names.size(), ColumnTypeFinder(format->untyped()));
  std::vector<Row> rows;
  std::vector<uint64_t> offsets;
  Row row;
  int64_t number = 1;
  for (size_t position = format->start();; ++number) {
    const size_t offset = position;
    if (!format->read(position, number, names, row)) break;
    finders.resize(names.size(), ColumnTypeFinder(format->untyped()));
    for (size_t i = 0; i < row.size(); ++i)
      finders[i].add(row[i], fmt::format("{}: row {}, column '{}'", name, number, names[i]));
    if (hold) rows.push_back(std::move(row));
    else offsets.push_back(offset);
  }
  require(number > 1, "{}: expected rows, found none", name);

  std::vector<Column> columns;
  for (size_t i = 0; i < names.size(); ++i)
    columns.push_back({names[i], finders[i].type(), finders[i].whole_numbers()});
  if (!hold)
    return Dataset(
        std::make_shared<MappedRows>(name, std::move(columns), std::move(file), std::move(format), std::move(offsets)));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (format->untyped()) rows[i].resize(columns.size());
    else rows[i] = typed(std::move(rows[i]), columns, name, static_cast<int64_t>(i) + 1);
  }
  return Dataset(std::make_shared<HeldRows>(name, std::move(columns), std::move(rows), format->untyped()));
}

Dataset Dataset::from_rows(std::vector<Column> columns, std::vector<Row> rows, const std::string& name) {
  for (size_t i = 0; i < rows.size(); ++i)
    require(rows[i].size() == columns.size(), "{}: row {}: expected {} values, found {}", name, i + 1, columns.size(),
            rows[i].size());
  return Dataset(std::make_shared<HeldRows>(name, std::move(columns), std::move(rows)));
}

int64_t Dataset::size() const { return selection_ ? static_cast<int64_t>(selection_->size()) : rows_->size(); }

const std::string& Dataset::name() const { return rows_->name(); }

bool Dataset::in_memory() const { return rows_->in_memory(); }

bool Dataset::is_untyped() const { return rows_->untyped(); }

const std::vector<Column>& Dataset::columns() const { return columns_ ? *columns_ : rows_->columns(); }

Dataset Dataset::with_text(size_t column) const {
  const Column& found = columns().at(column);
  if (found.as_written || (found.type == ColumnType::kString && !is_untyped())) return *this;
  if (!is_untyped())
    fail("{}, column '{}': expected text, found {}", where(0), found.name, column_type_name(found.type));
  std::vector<Column> changed = columns();
  changed[column] = {.name = found.name, .type = ColumnType::kString, .as_written = true};
  Dataset result = *this;
  result.columns_ = std::make_shared<const std::vector<Column>>(std::move(changed));
  return result;
}

std::optional<size_t> Dataset::find(std::string_view column) const {
  const auto& all = columns();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Column& each) { return each.name == column; });
  if (found == all.end()) return std::nullopt;
  return static_cast<size_t>(found - all.begin());
}

Row Dataset::row(int64_t index) const {
  require(index >= 0 && index < size(), "{}: expected a row below {}, found {}", rows_->name(), size(), index);
  return rows_->row(selection_ ? (*selection_)[static_cast<size_t>(index)] : index, columns());
}

Dataset Dataset::select(std::vector<int64_t> rows) const {
  for (int64_t& index : rows) {
    require(index >= 0 && index < size(), "{}: expected a row below {}, found {}", rows_->name(), size(), index);
    if (selection_) index = (*selection_)[static_cast<size_t>(index)];
  }
  Dataset result = *this;
  result.selection_ = std::make_shared<const std::vector<int64_t>>(std::move(rows));
  return result;
}

Dataset Dataset::first(int64_t rows) const {
  std::vector<int64_t> numbers(static_cast<size_t>(std::clamp<int64_t>(rows, 0, size())));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  return select(std::move(numbers));
}

std::string Dataset::where(int64_t row) const {
  return fmt::format("{}: row {}", rows_->name(), (selection_ ? (*selection_)[static_cast<size_t>(row)] : row) + 1);
}

}  // namespace transom
