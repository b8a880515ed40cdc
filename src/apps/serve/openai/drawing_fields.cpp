// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/drawing_fields.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include "apps/serve/api/known_fields.h"
#include "base/text/base64.h"
#include "inputs/images/write_png.h"

namespace transom::serve {
namespace {

constexpr int64_t kMostImages = 10;
constexpr size_t kLargestControlImage = 64 << 20;  // bytes

// "512x768": width and height; "auto" leaves them to the model.
void read_size(const std::string& size, Json& parameters) {
  if (size == "auto") return;
  const size_t cross = size.find('x');
  int64_t width = 0, height = 0;
  const char* const end = size.data() + size.size();
  if (cross != size.npos) {
    const auto first = std::from_chars(size.data(), size.data() + cross, width);
    const auto second = std::from_chars(size.data() + cross + 1, end, height);
    if (first.ptr == size.data() + cross && second.ptr == end && width > 0 && height > 0) {
      parameters["width"] = width;
      parameters["height"] = height;
      return;
    }
  }
  refuse_field("size", "size: expected WIDTHxHEIGHT or auto, found {}", quoted(size, 40));
}

// What a ControlNet sees: a data: URL.
void read_control(RequestFields& fields, Json& parameters) {
  if (const auto picture = fields.text("control_image", kLargestControlImage)) parameters["control_image"] = *picture;
  if (const auto scale = fields.number("controlnet_conditioning_scale", -1000, 1000))
    parameters["controlnet_conditioning_scale"] = *scale;
  for (const char* share : {"control_guidance_start", "control_guidance_end"})
    if (const auto value = fields.number(share, 0, 1)) parameters[share] = *value;
  if (const auto guesses = fields.boolean("guess_mode")) parameters["guess_mode"] = *guesses;
}

}  // namespace

Json drawing_parameters(RequestFields& fields) {
  Json parameters = Json::object();
  if (const auto count = fields.integer("n", 1, kMostImages)) parameters["num_images_per_prompt"] = *count;
  if (const auto size = fields.text("size", 100)) read_size(*size, parameters);
  for (const char* name : {"negative_prompt", "scheduler"})
    if (const auto text = fields.text(name, kLongestImagePrompt)) parameters[name] = *text;
  if (const auto steps = fields.integer("num_inference_steps", 1, 1000)) parameters["num_inference_steps"] = *steps;
  if (const auto seed = fields.integer("seed", 0, int64_t{1} << 53)) parameters["seed"] = *seed;
  if (const auto scale = fields.number("guidance_scale", 0, 1000)) parameters["guidance_scale"] = *scale;
  for (const char* share : {"guidance_rescale", "eta"})
    if (const auto value = fields.number(share, 0, 1)) parameters[share] = *value;
  if (const auto layers = fields.integer("clip_skip", 0, 100)) parameters["clip_skip"] = *layers;
  if (const auto tokens = fields.integer("max_sequence_length", 1, 512)) parameters["max_sequence_length"] = *tokens;
  if (const auto scale = fields.number("true_cfg_scale", 0, 1000)) parameters["true_cfg_scale"] = *scale;
  read_control(fields, parameters);
  return parameters;
}

void expect_picture_form(RequestFields& fields, const std::string& path) {
  fields.choice("response_format", {"b64_json"});
  fields.choice("output_format", {"png"});
  fields.choice("background", {"auto", "opaque"});
  fields.integer("partial_images", 0, 0);
  if (fields.boolean("stream").value_or(false)) refuse_field("stream", "stream: pictures are sent whole");
  for (const char* of_other_models : {"quality", "style", "moderation", "input_fidelity"})
    if (fields.any(of_other_models)) report_once(path, of_other_models, "it is of OpenAI's own models");
}

void refuse_unknown_drawing(const RequestFields& fields) {
  const std::span<const KnownField> known = known_fields();
  for (const std::string& name : fields.unknown())
    if (std::none_of(known.begin(), known.end(),
                     [&](const KnownField& each) { return each.name == name && each.what == KnownField::kNoEffect; }))
      refuse_field(name, "{}: not a field of this path", quoted(name, 60));
}

void reply_pictures(const std::shared_ptr<Call>& call, const std::vector<TaskResult>& results) {
  Json data = Json::array();
  for (const Picture& picture : std::get<std::vector<Picture>>(results.at(0)))
    data.push_back({{"b64_json", to_base64(encode_png(picture))}});
  call->reply({{"created", static_cast<int64_t>(std::time(nullptr))}, {"data", std::move(data)}});
}

}  // namespace transom::serve
