// SPDX-License-Identifier: Apache-2.0
// The formats of JSON Schema as regular expressions: RFC 3339 (dates, times, durations), RFC 5321 (mail), RFC 1123
// (hosts), RFC 4291 (addresses), RFC 3986 and 3987 (URI, IRI), RFC 6901 (pointers), RFC 6570 (templates), RFC 9562
// (UUID). Where a format is no regular language, or dialects differ, they write less: no second of 60, no host names
// with "--", no quoted names in front of an @.
#include <fmt/format.h>

#include <map>
#include <string>

#include "work/generation/constraint/schema/facts.h"

namespace transom::constraint {
namespace {

using Patterns = std::map<std::string, std::string, std::less<>>;

std::string any_of(std::initializer_list<std::string> parts) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "(?:" : "|") + part;
  return all + ")";
}

void add_times(Patterns& all) {
  const std::string year = "(?:[1-9]\\d{3}|0[1-9]\\d\\d|00[1-9]\\d|000[1-9])";
  const std::string leap_year = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
  const std::string day = any_of({"(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])", "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)",
                                  "02-(?:0[1-9]|1\\d|2[0-8])"});
  const std::string date = any_of({year + "-" + day, leap_year + "-02-29"});
  const std::string minutes = "(?:[01]\\d|2[0-3]):[0-5]\\d";
  const std::string time = minutes + ":[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]" + minutes + ")";
  all["date"] = date;
  all["time"] = time;
  all["date-time"] = date + "T" + time;
  const std::string hours = any_of({"\\d+H(?:\\d+M(?:\\d+S)?)?", "\\d+M(?:\\d+S)?", "\\d+S"});
  const std::string days = any_of({"\\d+Y(?:\\d+M(?:\\d+D)?)?", "\\d+M(?:\\d+D)?", "\\d+D"});
  all["duration"] = "P" + any_of({"\\d+W", "T" + hours, days + "(?:T" + hours + ")?"});
}

void add_hosts(Patterns& all) {
  const std::string byte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)", four = "(?:" + byte + "\\.){3}" + byte;
  const std::string h = "[0-9A-Fa-f]{1,4}";
  std::initializer_list<std::string> whole{
      fmt::format("(?:{0}:){{7}}{0}", h),
      fmt::format("(?:{0}:){{1,7}}:", h),
      fmt::format("(?:{0}:){{1,6}}:{0}", h),
      fmt::format("(?:{0}:){{1,5}}(?::{0}){{1,2}}", h),
      fmt::format("(?:{0}:){{1,4}}(?::{0}){{1,3}}", h),
      fmt::format("(?:{0}:){{1,3}}(?::{0}){{1,4}}", h),
      fmt::format("(?:{0}:){{1,2}}(?::{0}){{1,5}}", h),
      fmt::format("{0}:(?::{0}){{1,6}}", h),
      fmt::format(":(?::{0}){{1,7}}|::", h),
      fmt::format("(?:{0}:){{6}}{1}", h, four),
      fmt::format("(?:{0}:){{1,5}}:{1}", h, four),
      fmt::format("(?:{0}:){{1,4}}:{0}:{1}", h, four),
      fmt::format("::(?:{0}:){{0,4}}{1}", h, four),
  };
  all["ipv4"] = four;
  all["ipv6"] = any_of(whole);
  const std::string label = "[A-Za-z0-9](?:-?[A-Za-z0-9]){0,30}";  // at most 61 characters
  const std::string host = label + "(?:\\." + label + "){0,3}";    // at most 247
  all["hostname"] = host;
  const std::string word = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,21}";
  all["email"] = word + "(?:\\." + word + "){0,2}@" + host;  // at most 64 in front
  all["uuid"] = "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}";
}

// `more`: characters beyond ASCII, for a class.
void add_addresses(Patterns& all, const std::string& name, const std::string& more) {
  const std::string plain = "A-Za-z0-9._~!$&'()*+,;=" + more, escape = "%[0-9A-Fa-f]{2}";
  const auto some = [&](const std::string& others) { return fmt::format("(?:[{}{}-]|{})", plain, others, escape); };
  const std::string character = some(":@"), segments = fmt::format("(?:/{}*)*", character);
  const std::string authority = fmt::format("(?:{}*@)?(?:\\[{}\\]|{}*)(?::\\d*)?", some(":"), all["ipv6"], some(""));
  const std::string tail = fmt::format("(?:\\?(?:{0}|[/?])*)?(?:#(?:{0}|[/?])*)?", character);
  const std::string at_root = fmt::format("//{}{}|/(?:{}+{})?", authority, segments, character, segments);
  const std::string absolute =
      fmt::format("[A-Za-z][A-Za-z0-9+.-]*:(?:{}|{}+{}|){}", at_root, character, segments, tail);
  all[name] = absolute;
  all[name + "-reference"] = any_of({absolute, fmt::format("(?:{}|{}+{}|){}", at_root, some("@"), segments, tail)});
}

void add_pointers(Patterns& all) {
  const std::string pointer = "(?:/(?:[^/~]|~[01])*)*";
  all["json-pointer"] = pointer;
  all["relative-json-pointer"] = "(?:0|[1-9]\\d*)(?:#|" + pointer + ")";
  const std::string name = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})", names = name + "(?:\\.?" + name + ")*";
  const std::string variable = names + "(?::[1-9]\\d{0,3}|\\*)?";
  all["uri-template"] = fmt::format(
      "(?:[A-Za-z0-9._~:/?#@!$&()*+,;=\\[\\]-]|%[0-9A-Fa-f]{{2}}|\\{{[+#./;?&]?{0}(?:,{0})*\\}})*", variable);
}

}  // namespace

std::string_view pattern_of_format(std::string_view name) {
  static const Patterns kPatterns = [] {
    Patterns all;
    add_times(all), add_hosts(all), add_addresses(all, "uri", "");
    add_addresses(all, "iri", "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef");
    add_pointers(all);
    return all;
  }();
  const auto found = kPatterns.find(name);
  return found == kPatterns.end() ? std::string_view() : found->second;
}

}  // namespace transom::constraint
