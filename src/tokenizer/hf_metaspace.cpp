#include "tokenizer/hf_metaspace.h"

#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"

namespace octavo::tokenizer {
namespace {

Result<HfMetaspace::Prepend> read_prepend(const Json& json, const std::string& source) {
  using Prepend = HfMetaspace::Prepend;
  if (json_find(json, "prepend_scheme") == nullptr) {
    if (json_find(json, "add_prefix_space") == nullptr) return Prepend::kAlways;
    const bool add = OCTAVO_TRY(json_bool(json, "add_prefix_space", source));
    return add ? Prepend::kAlways : Prepend::kNever;
  }
  const std::string scheme = OCTAVO_TRY(json_string(json, "prepend_scheme", source));
  if (scheme == "never") return Prepend::kNever;
  if (scheme == "first") return Prepend::kFirst;
  if (scheme == "always") return Prepend::kAlways;
  return unsupported(format("{}: 'prepend_scheme' is '{}'", source, scheme));
}

}  // namespace

Result<HfMetaspace> HfMetaspace::from_json(const Json& json, const std::string& source) {
  HfMetaspace metaspace;
  metaspace.replacement = OCTAVO_TRY(json_string(json, "replacement", source));
  const std::string& text = metaspace.replacement;
  if (text.empty() || utf8_decode(text, 0).size_bytes != text.size()) {
    return data_loss(format("{}: 'replacement' is '{}', not one character", source, text));
  }
  metaspace.prepend = OCTAVO_TRY(read_prepend(json, source));
  if (json_find(json, "split") != nullptr) {
    metaspace.split = OCTAVO_TRY(json_bool(json, "split", source));
  }
  return metaspace;
}

}  // namespace octavo::tokenizer
