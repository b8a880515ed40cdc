// SPDX-License-Identifier: Apache-2.0
// POST /v1/images/edits: a picture as multipart/form-data, of which a text says what it becomes; where a mask, or the
// picture itself, is transparent, or everywhere. POST /v1/images/variations: pictures that are like one, without a
// text.
#include <algorithm>

#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/http/multipart.h"
#include "apps/serve/openai/drawing_fields.h"
#include "apps/serve/openai/routes.h"
#include "base/text/base64.h"
#include "inputs/images/formats.h"
#include "inputs/images/image.h"
#include "inputs/images/write_png.h"

namespace transom::serve {
namespace {

constexpr const char* kChangeTask = "image-to-image";
constexpr int64_t kUnitOfExtents = 8;
constexpr size_t kLongestFormField = 2 << 20;  // bytes

struct PictureForm {
  std::string_view image, mask;
  Json fields = Json::object();
};

bool is_text_field(const std::string& name) {
  for (const char* text :
       {"prompt", "negative_prompt", "model", "size", "user", "scheduler", "response_format", "output_format",
        "background", "quality", "style", "moderation", "input_fidelity", "control_image"})
    if (name == text) return true;
  return false;
}

// Forms hold texts alone: "2" and "true" are what they say.
Json form_value(const FormPart& part) {
  if (part.content.size() > kLongestFormField)
    refuse_field(part.name, "{}: expected at most {} bytes, found {}", part.name, kLongestFormField,
                 part.content.size());
  std::string text(part.content);
  if (is_text_field(part.name)) return text;
  const Json value = Json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? value : Json(std::move(text));
}

PictureForm read_picture_form(const std::shared_ptr<Call>& call) {
  const std::string* type = call->request().header("content-type");
  PictureForm form;
  for (const FormPart& part : parse_multipart(call->request().body, type ? *type : "")) {
    const bool is_image = part.name == "image" || part.name == "image[]";
    if (is_image && !form.image.empty()) refuse_field("image", "image: expected one picture, found several");
    if (is_image) form.image = part.content;
    else if (part.name == "mask") form.mask = part.content;
    else if (form.fields.contains(part.name)) refuse_field(part.name, "{}: is there twice", quoted(part.name, 60));
    else form.fields[part.name] = form_value(part);
  }
  if (form.image.empty()) refuse_field("image", "image: missing; expected the bytes of a picture");
  return form;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string data_url(const Image& image) {
  return "data:image/png;base64," +
         to_base64(encode_png({.width = image.width, .height = image.height, .channels = 3, .values = image.pixels}));
}

// With a mask the picture is drawn in any size, without one in its own.
void fit_size(const Image& image, bool masked, Json& parameters) {
  const auto fitted = [](int64_t extent) { return extent / kUnitOfExtents * kUnitOfExtents; };
  if (masked) {
    if (!parameters.contains("width")) parameters["width"] = fitted(image.width);
    if (!parameters.contains("height")) parameters["height"] = fitted(image.height);
    return;
  }
  if (!parameters.contains("width")) return;
  if (parameters["width"] != fitted(image.width) || parameters["height"] != fitted(image.height))
    refuse_field("size", "size: without a mask the picture keeps its size, {}x{}; found {}x{}", fitted(image.width),
                 fitted(image.height), parameters["width"].get<int64_t>(), parameters["height"].get<int64_t>());
  parameters.erase("width");
  parameters.erase("height");
}

void change_picture(const std::shared_ptr<Call>& call, bool with_text, const std::string& path) {
  const PictureForm form = read_picture_form(call);
  RequestFields fields(form.fields);
  const auto name = fields.text("model");
  const auto can_change = [](const ModelFacts& model) { return model.runs(kChangeTask); };
  ServedModel& model = call->use_model(name ? &*name : nullptr, can_change, kChangeTask);
  std::string prompt;
  if (with_text) {
    const auto told = fields.text("prompt", kLongestImagePrompt);
    if (!told) refuse_field("prompt", "prompt: missing; expected a text");
    prompt = *told;
  } else if (!form.mask.empty()) {
    refuse_field("mask", "mask: not a field of this path");
  }
  Json parameters = drawing_parameters(fields);
  parameters["prompt"] = prompt;
  if (const auto strength = fields.number("strength", 0, 1)) parameters["strength"] = *strength;
  if (const auto scale = fields.number("image_guidance_scale", 0, 1000)) parameters["image_guidance_scale"] = *scale;
  expect_picture_form(fields, path);
  refuse_unknown_drawing(fields);
  const Image image = decode_image(bytes_of(form.image), "image");
  std::optional<Image> places;
  if (!form.mask.empty()) {
    places = transparent_places(bytes_of(form.mask), "mask");
    if (!places) refuse_field("mask", "mask: expected a PNG file that is transparent where the picture is drawn anew");
  } else if (with_text) {
    places = transparent_places(bytes_of(form.image), "image");
  }
  if (places) parameters["mask_image"] = data_url(*places);
  fit_size(image, places.has_value(), parameters);
  compute_task(call, model, kChangeTask, {ImageInput(FileBytes{std::string(form.image)})}, parameters,
               [call](const std::vector<TaskResult>& results) { reply_pictures(call, results); });
}

}  // namespace

void image_edits(const std::shared_ptr<Call>& call) { change_picture(call, true, "/v1/images/edits"); }
void image_variations(const std::shared_ptr<Call>& call) { change_picture(call, false, "/v1/images/variations"); }

}  // namespace transom::serve
