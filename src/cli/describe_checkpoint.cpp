#include "cli/describe_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/format.h"
#include "base/utf8.h"
#include "formats/gguf.h"

namespace octavo::cli {
namespace {

using formats::Checkpoint;
using formats::GgufCheckpoint;
using formats::TensorInfo;

constexpr size_t kShownElements = 6;

// --- JSON ---

// The double that prints like the float: 0.1 instead of 0.10000000149011612.
double shortest_double(float value) {
  if (!std::isfinite(value)) return value;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

Json shown_value(const Json& value, bool is_f32) {
  if (is_f32 && value.is_double()) {
    return shortest_double(static_cast<float>(value.get_double()));
  }
  return value;
}

// `type` is what the file says, "" where its format has no types.
JsonObject describe_value(const Json& value, const std::string& type) {
  const bool is_f32 = type == "f32" || type == "array[f32]";
  JsonObject out;
  if (!type.empty()) out.emplace("type", type);
  if (!value.is_array()) {
    out.emplace("value", shown_value(value, is_f32));
    return out;
  }
  const JsonArray& array = value.get_array();
  JsonArray first;
  for (size_t i = 0; i < std::min(array.size(), kShownElements); ++i) {
    first.push_back(shown_value(array[i], is_f32));
  }
  out.emplace("count", array.size());
  out.emplace("first", std::move(first));
  return out;
}

JsonObject describe_metadata(const Checkpoint& checkpoint) {
  const auto* gguf = dynamic_cast<const GgufCheckpoint*>(&checkpoint);
  JsonObject out;
  size_t i = 0;
  for (const auto& entry : checkpoint.metadata().get_object()) {
    const std::string type =
        gguf == nullptr ? "" : formats::gguf_type_name(gguf->metadata_types()[i++]);
    out.emplace(entry.key(), describe_value(entry.value(), type));
  }
  return out;
}

JsonObject describe_tensor(const TensorInfo& info) {
  JsonArray shape;
  for (const int64_t extent : info.shape) shape.emplace_back(extent);
  return {{"name", info.name},
          {"type", dtype_traits(info.dtype).name},
          {"shape", std::move(shape)},
          {"bytes", info.size_bytes},
          {"offset", info.offset_bytes}};
}

struct TypeTotal {
  int64_t tensors = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;
};

// --- text ---

std::string text_of(const Json& value) {
  return std::string(to_view(value.as_string()));
}

// A name as between the quotes of a JSON string, without what could confuse a terminal.
std::string json_escaped(std::string_view name) {
  const std::string quoted = dump_json(Json(boost::json::string_view(name.data(), name.size())));
  return quoted.substr(1, quoted.size() - 2);
}

// The start of a text, whole characters only.
std::string_view cut(std::string_view text) {
  constexpr size_t kMaxBytes = 72;
  if (text.size() <= kMaxBytes) return text;
  text = text.substr(0, kMaxBytes);
  return text.substr(0, text.size() - utf8_incomplete_suffix(text));
}

// Compact JSON, cut where it is long; strings then say how long they are.
std::string shown_text(const Json& value) {
  if (!value.is_string()) {
    const std::string text = dump_json(value);
    const std::string_view start = cut(text);
    return std::string(start) + (start.size() < text.size() ? "…" : "");
  }
  const std::string_view whole = to_view(value.get_string());
  const std::string_view start = cut(whole);
  if (start.size() == whole.size()) return dump_json(value);
  return format("\"{}…\" ({} bytes)", json_escaped(start), whole.size());
}

std::string bytes_text(int64_t bytes) {
  constexpr double kMib = 1024.0 * 1024;
  return bytes < 100 * 1024 ? format("{} bytes", bytes)
                            : format("{:.1f} MiB", static_cast<double>(bytes) / kMib);
}

std::string render_value(const JsonObject& value) {
  if (const Json* scalar = value.if_contains("value")) return shown_text(*scalar);
  const auto count = value.at("count").to_number<uint64_t>();
  const JsonArray& first = value.at("first").as_array();
  std::string out = format("{}:", count);
  for (const Json& element : first) out += format(" {},", shown_text(element));
  if (first.empty()) return "0";
  out.pop_back();
  return count > first.size() ? out + ", …" : out;
}

// Wide enough for most names, so that one long name does not move all columns.
size_t column_width(const std::vector<std::string>& names) {
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, std::min<size_t>(name.size(), 56));
  return width;
}

std::string render_metadata(const JsonObject& metadata) {
  std::vector<std::string> keys;
  for (const auto& entry : metadata) keys.push_back(json_escaped(to_view(entry.key())));
  const size_t width = column_width(keys);
  std::string out = format("Metadata    {} keys\n", metadata.size());
  size_t i = 0;
  for (const auto& entry : metadata) {
    const JsonObject& value = entry.value().as_object();
    const Json* type = value.if_contains("type");
    out += format("  {:<{}}  {:<13}  {}\n", keys[i++], width, type == nullptr ? "" : text_of(*type),
                  render_value(value));
  }
  return out;
}

std::string render_tensors(const JsonArray& tensors) {
  std::vector<std::string> names;
  for (const Json& tensor : tensors)
    names.push_back(json_escaped(to_view(tensor.at("name").as_string())));
  const size_t width = column_width(names);
  std::string out = format("Tensors     {}\n", tensors.size());
  size_t i = 0;
  for (const Json& tensor : tensors) {
    out += format("  {:<{}}  {:<8}  {:<16}  {} bytes at {}\n", names[i++], width,
                  text_of(tensor.at("type")), dump_json(tensor.at("shape")),
                  tensor.at("bytes").as_int64(), tensor.at("offset").as_int64());
  }
  return out;
}

}  // namespace

JsonObject describe_checkpoint(const Checkpoint& checkpoint) {
  std::map<std::string_view, TypeTotal> totals;
  TypeTotal all;
  JsonArray tensors;
  for (const TensorInfo& info : checkpoint.tensors()) {
    const int64_t count = shape_count(info.shape);
    for (TypeTotal* total : {&totals[dtype_traits(info.dtype).name], &all}) {
      total->tensors += 1;
      total->parameters += count;
      total->bytes += info.size_bytes;
    }
    tensors.push_back(describe_tensor(info));
  }
  const auto fields = [](const TypeTotal& total) {
    return JsonObject{
        {"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.bytes}};
  };
  JsonObject types;
  for (const auto& [name, total] : totals) types.emplace(name, fields(total));
  JsonObject out{{"path", checkpoint.path()},
                 {"format", checkpoint.format_name()},
                 {"file_bytes", checkpoint.file_bytes()}};
  if (const auto* gguf = dynamic_cast<const GgufCheckpoint*>(&checkpoint)) {
    out.emplace("version", gguf->version());
    out.emplace("alignment", gguf->alignment());
  }
  out.emplace("total", fields(all));
  out.emplace("types", std::move(types));
  out.emplace("metadata", describe_metadata(checkpoint));
  out.emplace("tensors", std::move(tensors));
  return out;
}

std::string render_description(const JsonObject& description) {
  std::string out =
      format("File        {}\n", json_escaped(to_view(description.at("path").as_string())));
  out += format("Format      {}", text_of(description.at("format")));
  if (const Json* version = description.if_contains("version")) {
    out += format(" version {}, alignment {}", version->to_number<int>(),
                  description.at("alignment").to_number<int>());
  }
  out += format(", {}\n", bytes_text(description.at("file_bytes").as_int64()));
  const auto line = [](const std::string& label, const JsonObject& total) {
    const int64_t tensors = total.at("tensors").as_int64();
    return format("{:<11} {} parameters in {} tensor{}, {}\n", label,
                  total.at("parameters").as_int64(), tensors, tensors == 1 ? "" : "s",
                  bytes_text(total.at("bytes").as_int64()));
  };
  out += line("Weights", description.at("total").as_object());
  for (const auto& type : description.at("types").as_object()) {
    out += line("  " + std::string(type.key()), type.value().as_object());
  }
  out += render_metadata(description.at("metadata").as_object());
  return out + render_tensors(description.at("tensors").as_array());
}

}  // namespace octavo::cli
