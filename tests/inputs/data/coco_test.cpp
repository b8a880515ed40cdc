// SPDX-License-Identifier: Apache-2.0
// Files of COCO as rows, and masks as pycocotools 2.0 makes them.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "inputs/data/tables/coco_masks.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/dataset.h"

namespace transom {
namespace {

// Each row of the mask as the number that its pixels are in binary, the left one first.
std::vector<int64_t> rows_of_mask(const char* segmentation) {
  const ObjectMask mask = object_mask(segmentation, 15, 13, "mask");
  std::vector<int64_t> rows(static_cast<size_t>(mask.height), 0);
  for (size_t i = 0; i < mask.pixels.size(); ++i) {
    int64_t& row = rows[i / static_cast<size_t>(mask.width)];
    row = 2 * row + mask.pixels[i];
  }
  return rows;
}

TEST(CocoMasks, ArePolygons) {
  EXPECT_EQ(rows_of_mask("[[2, 2, 10, 3, 7, 11]]"),
            (std::vector<int64_t>{0, 0, 7680, 4064, 4032, 1984, 960, 896, 384, 384, 0, 0, 0}));
  EXPECT_EQ(rows_of_mask("[[3.4, 1.2, 9.7, 2.9, 11.3, 8.8, 6.1, 12.6, 1.05, 7.5]]"),
            (std::vector<int64_t>{0, 3072, 3968, 4064, 8160, 8176, 16368, 16368, 8176, 4064, 1984, 896, 0}));
  EXPECT_EQ(rows_of_mask("[[1, 1, 1, 1, 1, 1]]"), std::vector<int64_t>(13, 0));
}

// Parts outside of the picture, and the union of several.
TEST(CocoMasks, AreUnionsOfPolygons) {
  EXPECT_EQ(rows_of_mask("[[0, 0, 12, 0, 12, 8, 0, 8], [-5, 4, 30, 6, 3, 20]]"),
            (std::vector<int64_t>{32760, 32760, 32760, 32760, 32760, 32767, 32767, 32767, 32767, 32767, 32767, 32767,
                                  32767}));
}

TEST(CocoMasks, AreLengthsInTextAndInNumbers) {
  EXPECT_EQ(
      rows_of_mask(R"({"size": [13, 15], "counts": "042N11N02ON0002ON21NO000013010M23ML40M10OO00311O22NNL02000N01001OO)"
                   R"(010O28NH11OO00022NN10002004M"})"),
      (std::vector<int64_t>{28165, 20785, 31104, 24719, 10333, 379, 24399, 19480, 13070, 12986, 5916, 26158, 28247}));
  EXPECT_EQ(rows_of_mask(R"({"size": [13, 15], "counts": [14, 3, 178]})"),
            (std::vector<int64_t>{0, 8192, 8192, 8192, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(CocoMasks, RefusesWhatIsNone) {
  const auto refusal = [](const char* text) { return test::message_of([&] { object_mask(text, 15, 13, "mask"); }); };
  EXPECT_NE(refusal("[]").find("expected a list of polygons"), std::string::npos);
  EXPECT_NE(refusal("[[1, 2, 3, 4]]").find("three corners or more"), std::string::npos);
  EXPECT_NE(refusal("[[1, 2, 3, 4, 5, 1e300]]").find("expected corners of a polygon in pixels"), std::string::npos);
  EXPECT_NE(refusal(R"({"size": [15, 13], "counts": [195]})").find("size: expected the picture's, [13, 15]"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"size": [13, 15], "counts": [196]})").find("195 pixels together, found more"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"size": [13, 15], "counts": [3]})").find("195 pixels together, found 3"), std::string::npos);
  EXPECT_NE(refusal(R"({"size": [13, 15], "counts": "l"})").find("a text that ends early"), std::string::npos);
}

constexpr const char* kCoco = R"({"info": {}, "licenses": [],
  "images": [{"id": 7, "file_name": "a.png"}, {"id": 3, "file_name": "b.png"}],
  "annotations": [
    {"id": 1, "image_id": 3, "category_id": 18, "bbox": [1, 2, 3, 4], "segmentation": [[1, 2, 4, 2, 4, 6]]},
    {"id": 2, "image_id": 3, "category_id": 1, "bbox": [0, 0, 9, 9], "segmentation": {"size": [2, 2], "counts": [4]},
     "iscrowd": 1},
    {"id": 3, "image_id": 3, "category_id": 1, "bbox": [5, 5, 2, 2]}],
  "categories": [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]})";

TEST(CocoFiles, AreRowsOfPictures) {
  const test::TemporaryFolder folder;
  // Pictures lie beside the file, or beside its folder in one that its name ends with.
  for (const char* name : {"annotations", "val"}) std::filesystem::create_directory(folder / name);
  write_file(folder / "annotations" / "instances_val.json", kCoco);
  write_file(folder / "val" / "b.png", "");
  const Dataset data = Dataset::load(folder / "annotations" / "instances_val.json");
  ASSERT_EQ(data.size(), 2);
  const Row none = data.row(0), row = data.row(1);
  EXPECT_EQ(std::get<std::string>(none[*data.find("image")]), "a.png");
  EXPECT_EQ(std::get<JsonList>(none[*data.find("objects.bbox")]).text, "[]");
  EXPECT_EQ(std::get<std::string>(row[*data.find("image")]), (folder / "val" / "b.png").string());
  EXPECT_EQ(std::get<JsonList>(row[*data.find("objects.bbox")]).text, "[[1,2,3,4],[5,5,2,2]]");
  EXPECT_EQ(std::get<std::vector<std::string>>(row[*data.find("objects.category")]),
            (std::vector<std::string>{"dog", "person"}));
  EXPECT_EQ(std::get<JsonList>(row[*data.find("objects.segmentation")]).text, "[[[1,2,4,2,4,6]],null]");
}

TEST(CocoFiles, RefusesWhatBelongsToNothing) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = kCoco;
    text.replace(text.find(from), from.size(), to);
    write_file(folder / "coco.json", text);
    return test::message_of([&] { Dataset::load(folder / "coco.json"); });
  };
  EXPECT_NE(refusal(R"("image_id": 3)", R"("image_id": 4)").find("image_id 4 is not among the images"),
            std::string::npos);
  EXPECT_NE(refusal(R"("category_id": 18)", R"("category_id": 2)").find("category_id 2 is not among the categories"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"id": 3, "file_name)", R"({"id": 7, "file_name)").find("expected an id of its own"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
