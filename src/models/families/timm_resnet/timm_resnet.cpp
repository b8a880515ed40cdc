// SPDX-License-Identifier: Apache-2.0
// timm's ResNets and ResNeXts.
#include "models/families/timm_resnet/timm_resnet_body.h"
#include "models/families/timm_wrapper/timm_network.h"

namespace transom {
namespace {

class TimmResNetNetwork : public TimmNetwork {
 public:
  TimmResNetNetwork(const Config& config, const Scope& scope) : body_(config, scope) {}
  Facts facts() const override { return {body_.num_channels(), body_.num_classes(), body_.width(), "fc"}; }
  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const override { return body_(image, context); }

 private:
  TimmResNet<BatchNorm> body_;
};

const RegisterTimm kTimmResNets({
    .examples = "resnet50d, resnext50_32x4d, seresnext101_32x8d, wide_resnet50_2",
    .knows = TimmResNetConfig::is_name,
    .make = [](const Config& config, const Scope& scope) -> std::unique_ptr<TimmNetwork> {
      return std::make_unique<TimmResNetNetwork>(config, scope);
    },
});

}  // namespace
}  // namespace transom
