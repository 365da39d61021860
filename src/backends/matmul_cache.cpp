#include "backends/matmul_cache.h"

#include <unistd.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "base/log.h"

namespace octavo::backends {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;  // of the file: another one is not read
constexpr uintmax_t kMaxFileBytes = 4 << 20;

std::string hex(const std::array<uint64_t, 8>& code) {
  std::string text;
  for (const uint64_t word : code) text += format("{:016x}", word);
  return text;
}

bool parse_hex(std::string_view text, std::array<uint64_t, 8>& code) {
  if (text.size() != 16 * code.size()) return false;
  for (uint64_t& word : code) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + 16, word, 16);
    if (error != std::errc() || stop != text.data() + 16) return false;
    text.remove_prefix(16);
  }
  return true;
}

Result<std::string> read_file(const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return data_loss(format("{}: {}", path, error.message()));
  if (size > kMaxFileBytes) return data_loss(format("{}: {} bytes are too many", path, size));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return data_loss(format("{}: cannot be read", path));
  return text.str();
}

Result<MatmulAlgorithm> parse_algorithm(const Json& json, const std::string& source) {
  MatmulAlgorithm algorithm;
  if (!parse_hex(OCTAVO_TRY(json_string(json, "code", source)), algorithm.code)) {
    return data_loss(format("{}: code is not 128 hexadecimal digits", source));
  }
  algorithm.us = OCTAVO_TRY(json_double(json, "us", source));
  if (!(algorithm.us > 0) || !std::isfinite(algorithm.us)) {
    return data_loss(format("{}: us is {}", source, algorithm.us));
  }
  return algorithm;
}

}  // namespace

std::string matmul_cache_path(const std::string& folder, const MatmulMachine& machine) {
  if (folder.empty()) return "";
  std::string name = machine.gpu;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return format("{}/cublaslt/{}-{}-{}.json", folder, name, machine.driver, machine.library);
}

MatmulCache::MatmulCache(std::string path, MatmulMachine machine)
    : path_(std::move(path)), machine_(std::move(machine)) {
  std::error_code error;
  if (path_.empty() || !fs::exists(path_, error)) return;
  if (const Status status = read(); !status.ok()) {
    algorithms_.clear();
    log_warning("{}; matrix products are measured again", status.message());
  }
}

const MatmulAlgorithm* MatmulCache::find(std::string_view key) const {
  const auto it = algorithms_.find(key);
  return it == algorithms_.end() ? nullptr : &it->second;
}

Status MatmulCache::put(const std::string& key, const MatmulAlgorithm& algorithm) {
  algorithms_[key] = algorithm;
  return path_.empty() ? Status() : write();
}

Status MatmulCache::read() {
  const std::string text = OCTAVO_TRY(read_file(path_));
  const Json json = OCTAVO_TRY(parse_json(text, path_));
  if (OCTAVO_TRY(json_int(json, "format", path_)) != kFormat) {
    return unsupported(format("{}: written by another version", path_));
  }
  MatmulMachine machine;
  machine.gpu = OCTAVO_TRY(json_string(json, "gpu", path_));
  const int64_t driver = OCTAVO_TRY(json_int(json, "driver", path_));
  const int64_t library = OCTAVO_TRY(json_int(json, "cublaslt", path_));
  if (machine.gpu != machine_.gpu || driver != machine_.driver || library != machine_.library) {
    return unsupported(format("{}: of another machine ({}, driver {}, cuBLASLt {})", path_,
                              machine.gpu, driver, library));
  }
  const Json* products = json_find(json, "products");
  if (products == nullptr || !products->is_object()) {
    return data_loss(format("{}: products is missing", path_));
  }
  for (const auto& [key, value] : products->get_object()) {
    const std::string name(key);
    algorithms_[name] = OCTAVO_TRY(parse_algorithm(value, format("{}: {}", path_, name)));
  }
  return {};
}

// To a file beside it, which then takes its place: a reader sees the old one or the new one.
Status MatmulCache::write() const {
  JsonObject products;
  for (const auto& [key, algorithm] : algorithms_) {
    products[key] = JsonObject{{"code", hex(algorithm.code)}, {"us", algorithm.us}};
  }
  const JsonObject json{{"format", kFormat},
                        {"gpu", machine_.gpu},
                        {"driver", machine_.driver},
                        {"cublaslt", machine_.library},
                        {"products", std::move(products)}};
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  const std::string temporary = format("{}.{}", path_, getpid());
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << dump_json(json, 1) << '\n';
  file.close();
  if (!file) {
    fs::remove(temporary, error);
    return internal_error(format("{}: cannot be written", path_));
  }
  fs::rename(temporary, path_, error);
  if (!error) return {};
  const std::string why = error.message();
  fs::remove(temporary, error);
  return internal_error(format("{}: {}", path_, why));
}

}  // namespace octavo::backends
