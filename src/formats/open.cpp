// Tells model files apart by their first bytes. What octavo does not read is named, with what to
// use instead: a wrong download is the most common reason for ending here.
#include <filesystem>
#include <span>

#include "base/check.h"
#include "base/format.h"
#include "formats/checkpoint.h"
#include "formats/gguf_split.h"
#include "formats/hf_checkpoint.h"
#include "formats/mmap_file.h"
#include "formats/safetensors.h"

namespace octavo::formats {
namespace {

constexpr std::string_view kUseGguf = "use a GGUF file of the model or its folder with safetensors";

struct Signature {
  std::string_view prefix;
  std::string_view what;
};

using namespace std::string_view_literals;

constexpr Signature kUnsupportedFormats[] = {
    {"PK\x03\x04"sv, "a zip archive, probably a PyTorch checkpoint"},
    {"\x80\x02"sv, "a Python pickle, probably a PyTorch checkpoint"},
    {"\x80\x03"sv, "a Python pickle, probably a PyTorch checkpoint"},
    {"\x80\x04"sv, "a Python pickle, probably a PyTorch checkpoint"},
    {"\x80\x05"sv, "a Python pickle, probably a PyTorch checkpoint"},
    {"lmgg"sv, "a GGML file, the predecessor of GGUF"},
    {"fmgg"sv, "a GGML file, the predecessor of GGUF"},
    {"tjgg"sv, "a GGML file, the predecessor of GGUF"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"version https://git-lfs"sv, "a Git LFS pointer, not the model it stands for"},
    {"<!DOCTYPE"sv, "a web page"},
    {"<!doctype"sv, "a web page"},
    {"<html"sv, "a web page"},
};

Status unsupported_format(const std::string& path, std::string_view content) {
  if (content.empty()) return data_loss(path + ": the file is empty");
  if (is_safetensors(std::as_bytes(std::span(content)))) {
    return unsupported(format(
        "{}: this is a safetensors file, weights alone; give the folder with its config.json",
        path));
  }
  for (const Signature& signature : kUnsupportedFormats) {
    if (content.starts_with(signature.prefix)) {
      return unsupported(format("{}: this is {}; {}", path, signature.what, kUseGguf));
    }
  }
  return unsupported(format("{}: this is no model file that octavo knows; {}", path, kUseGguf));
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> open_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return std::shared_ptr<const Checkpoint>(OCTAVO_TRY(HfCheckpoint::open(path)));
  }
  const std::shared_ptr<const MmapFile> file = OCTAVO_TRY(MmapFile::open(path));
  const std::string_view content(reinterpret_cast<const char*>(file->bytes().data()),
                                 file->bytes().size());
  if (!content.starts_with(kGgufMagic)) return unsupported_format(path, content);
  auto checkpoint = OCTAVO_TRY(GgufCheckpoint::parse(file));
  return std::shared_ptr<const Checkpoint>(
      OCTAVO_TRY(join_gguf_parts(path, std::move(checkpoint))));
}

}  // namespace octavo::formats
