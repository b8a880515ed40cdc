// SPDX-License-Identifier: Apache-2.0
// Pictures of several requests share the steps of their network, and each is, bit for bit, what it is alone.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "work/pipelines/diffusion/picture_model.h"

namespace transom {
namespace {

class SharedSteps : public testing::TestWithParam<const char*> {
 protected:
  SharedSteps()
      : model_(load_picture_model(PipelineDirectory(test::golden_folder() / "diffusion" / GetParam() / "model"),
                                  {.batch_invariant = true})) {}
  PictureRequest request(const char* prompt, uint64_t seed, int64_t steps, int64_t extent = 16) const {
    PictureRequest request{.prompt = prompt, .height = extent, .width = extent, .steps = steps, .seed = seed};
    request.guidance = model_->defaults(false, false).guidance;
    return request;
  }
  std::unique_ptr<PictureModel> model_;
};

TEST_P(SharedSteps, GiveTheBitsOfEachAlone) {
  std::vector<PictureRequest> requests{request("a cat", 1, 3), request("a small dog under a tree", 2, 5),
                                       request("a cat", 3, 2, 32), request("a house", 4, 3), request("", 5, 1)};
  requests[1].pictures = 2;
  requests[3].guidance = 1;  // without a second pass
  const std::vector<std::vector<Picture>> together = model_->draw_together(requests);
  ASSERT_EQ(together.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<Picture> alone = model_->draw(requests[i]);
    ASSERT_EQ(together[i].size(), alone.size()) << i;
    for (size_t k = 0; k < alone.size(); ++k) EXPECT_EQ(together[i][k].values, alone[k].values) << i;
    EXPECT_EQ(alone[0].height, requests[i].height);
  }
  EXPECT_NE(together[0][0].values, together[3][0].values);
}

// What one cannot have is refused before any is drawn.
TEST_P(SharedSteps, RefuseWhatOneOfThemCannotHave) {
  const std::vector<PictureRequest> requests{request("a cat", 1, 1), request("a cat", 1, 0)};
  EXPECT_ANY_THROW(model_->draw_together(requests));
}

INSTANTIATE_TEST_SUITE_P(Pipelines, SharedSteps, testing::Values("sd-pndm", "sd-euler", "sdxl", "flux", "sd3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace transom
