// SPDX-License-Identifier: Apache-2.0
// Files of COCO (Lin et al., 2014): one object with the lists `images`, `annotations` and `categories`. A row is a
// picture, with the columns of rows that name it and list its objects; objects of iscrowd are many, and left out.
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/files/directories.h"
#include "inputs/data/tables/row_format.h"

namespace transom {
namespace {

namespace fs = std::filesystem;
namespace dom = simdjson::dom;

struct CocoPicture {
  std::string file;
  std::string boxes = "[", masks = "[";  // as JSON, without the end
  std::vector<std::string> classes;
};

// The number of a picture or a class, which some tools write as text.
std::string coco_id(const dom::object& item, const char* key, const std::string& where) {
  dom::element value;
  if (item[key].get(value) == simdjson::SUCCESS) {
    if (value.is_int64()) return std::to_string(int64_t(value));
    if (value.is_string()) return std::string(std::string_view(value));
  }
  fail("{}: expected a number in {}", where, key);
}

std::string coco_text(const dom::object& item, const char* key, const std::string& where) {
  std::string_view text;
  if (item[key].get(text) != simdjson::SUCCESS || text.empty()) fail("{}: expected a text in {}", where, key);
  return std::string(text);
}

// A field as JSON; null where there is none.
std::string coco_json(const dom::object& item, const char* key) {
  dom::element value;
  return item[key].get(value) == simdjson::SUCCESS ? simdjson::minify(value) : "null";
}

bool is_crowd(const dom::object& item) {
  dom::element value;
  if (item["iscrowd"].get(value) != simdjson::SUCCESS) return false;
  return value.is_bool() ? bool(value) : value.is_int64() && int64_t(value) != 0;
}

// Where the picture lies: beside the file, or as COCO's own folders do, with annotations/instances_NAME.json beside the
// folder NAME. As it is named where it is nowhere.
std::string coco_file(const fs::path& table, const std::string& name) {
  const fs::path folder = table.parent_path();
  const std::string stem = table.stem().string();
  std::vector<fs::path> candidates{fs::path(name), folder / name, folder / "images" / name,
                                   folder.parent_path() / "images" / name};
  if (const size_t line = stem.find('_'); line != stem.npos)
    candidates.push_back(folder.parent_path() / stem.substr(line + 1) / name);
  for (const fs::path& candidate : candidates)
    if (file_exists(candidate)) return candidate.string();
  return name;
}

class CocoFormat : public RowFormat {
 public:
  CocoFormat(const std::string& name, const dom::object& document) : name_(name) {
    std::map<std::string, std::string> classes;
    std::unordered_map<std::string, size_t> numbers;
    each(document, "categories", [&](const dom::object& item, const std::string& where) {
      classes[coco_id(item, "id", where)] = coco_text(item, "name", where);
    });
    each(document, "images", [&](const dom::object& item, const std::string& where) {
      if (!numbers.emplace(coco_id(item, "id", where), pictures_.size()).second)
        fail("{}: expected an id of its own, found {} again", where, coco_id(item, "id", where));
      pictures_.push_back({coco_file(name, coco_text(item, "file_name", where)), "[", "[", {}});
    });
    each(document, "annotations", [&](const dom::object& item, const std::string& where) {
      if (is_crowd(item)) return;
      const auto picture = numbers.find(coco_id(item, "image_id", where));
      if (picture == numbers.end())
        fail("{}: image_id {} is not among the images", where, coco_id(item, "image_id", where));
      const auto known = classes.find(coco_id(item, "category_id", where));
      if (known == classes.end())
        fail("{}: category_id {} is not among the categories", where, coco_id(item, "category_id", where));
      CocoPicture& shown = pictures_[picture->second];
      const char* comma = shown.classes.empty() ? "" : ",";
      shown.boxes += comma + coco_json(item, "bbox");
      shown.masks += comma + coco_json(item, "segmentation");
      shown.classes.push_back(known->second);
    });
  }

  size_t start() const override { return 0; }
  std::vector<std::string> columns() const override {
    return {"image", "objects.bbox", "objects.category", "objects.segmentation"};
  }
  bool read(size_t& position, int64_t, std::vector<std::string>& columns, Row& row) const override {
    if (position >= pictures_.size()) return false;
    const CocoPicture& shown = pictures_[position++];
    row.assign(columns.size(), std::monostate());
    row[0] = shown.file;
    row[1] = JsonList{shown.boxes + "]"};
    row[2] = shown.classes;
    row[3] = JsonList{shown.masks + "]"};
    return true;
  }

 private:
  template <typename Take>
  void each(const dom::object& document, const char* key, const Take& take) const {
    dom::array items;
    if (document[key].get(items) != simdjson::SUCCESS) fail("{}: expected a list in {}", name_, key);
    size_t number = 0;
    for (const dom::element element : items) {
      const std::string where = fmt::format("{}: {}[{}]", name_, key, number++);
      dom::object item;
      if (element.get(item) != simdjson::SUCCESS) fail("{}: expected an object", where);
      take(item, where);
    }
  }

  std::string name_;
  std::vector<CocoPicture> pictures_;
};

}  // namespace

std::unique_ptr<RowFormat> coco_format(const std::string& name, std::string_view text) {
  const size_t start = text.find_first_not_of("\xEF\xBB\xBF \t\r\n");
  if (start == text.npos || text[start] != '{') return nullptr;
  for (const char* key : {"\"images\"", "\"annotations\"", "\"categories\""})
    if (text.find(key) == text.npos) return nullptr;
  dom::parser parser;
  dom::object document;
  dom::array list;
  // Lines of rows with such columns are no single document.
  if (parser.parse(text.data() + start, text.size() - start).get(document) != simdjson::SUCCESS) return nullptr;
  for (const char* key : {"images", "annotations", "categories"})
    if (document[key].get(list) != simdjson::SUCCESS) return nullptr;
  // One row in a file of its own has lists of other things.
  dom::object first;
  if (document["images"].get(list) == simdjson::SUCCESS && list.size() > 0 &&
      list.at(0).get(first) != simdjson::SUCCESS)
    return nullptr;
  return std::make_unique<CocoFormat>(name, document);
}

}  // namespace transom
