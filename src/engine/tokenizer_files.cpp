#include "engine/tokenizer_files.h"

#include <filesystem>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "tokenizer/hf_tokenizer.h"
#include "tokenizer/load.h"
#include "tokenizer/spm_file.h"
#include "tokenizer/tiktoken_file.h"

namespace octavo::engine {
namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// "eos_token_id" is an id or a list of ids.
Status append_eos_ids(const Json& config, const std::string& path, std::vector<int64_t>& ids) {
  constexpr const char* kKey = "eos_token_id";
  const Json* value = json_find(config, kKey);
  if (value == nullptr) return {};
  if (!value->is_array()) {
    ids.push_back(OCTAVO_TRY(json_int(config, kKey, path)));
    return {};
  }
  for (const Json& id : value->get_array()) {
    if (!id.is_int64()) return data_loss(format("{}: '{}' must hold integers", path, kKey));
    ids.push_back(id.get_int64());
  }
  return {};
}

Result<Json> read_json(const std::string& path) {
  return parse_json(OCTAVO_TRY(formats::read_text_file(path)), path);
}

// null for a file that is not there.
Result<Json> read_object_if_any(const std::string& path) {
  if (!exists(path)) return Json();
  Json json = OCTAVO_TRY(read_json(path));
  if (!json.is_object()) return data_loss(path + ": must hold an object");
  return json;
}

// Of the files of a folder that may name end tokens.
Result<std::vector<int64_t>> eos_ids_of_folder(const std::string& folder) {
  std::vector<int64_t> ids;
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string path = format("{}/{}", folder, name);
    OCTAVO_TRY(append_eos_ids(OCTAVO_TRY(read_object_if_any(path)), path, ids));
  }
  return ids;
}

Result<std::vector<int64_t>> eos_ids_of_gguf(const formats::Checkpoint& checkpoint) {
  std::vector<int64_t> ids;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (json_find(checkpoint.metadata(), key) == nullptr) continue;
    ids.push_back(OCTAVO_TRY(json_int(checkpoint.metadata(), key, checkpoint.path())));
  }
  return ids;
}

// By the file's name; `config` is what the files beside it say.
Result<std::unique_ptr<Tokenizer>> load_vocabulary(const std::string& path,
                                                   const tokenizer::HfConfig& config) {
  if (!path.ends_with(".json")) {
    const std::string file = OCTAVO_TRY(formats::read_text_file(path));
    // A SentencePiece model starts with its first piece, field 1; no line of Base64 does.
    return file.starts_with('\n') ? tokenizer::load_spm_tokenizer(file, config, path)
                                  : tokenizer::load_tiktoken_tokenizer(file, config, path);
  }
  const Json json = OCTAVO_TRY(read_json(path));
  return tokenizer::load_hf_tokenizer(json, config, path);
}

// tokenizer.json says more than tokenizer.model, which older models alone have.
Result<std::unique_ptr<Tokenizer>> tokenizer_of_folder(const std::string& folder) {
  std::string path = folder + "/tokenizer.json";
  if (!exists(path) && exists(folder + "/tokenizer.model")) path = folder + "/tokenizer.model";
  if (!exists(path)) return not_found(path + ": the model's tokenizer is not there");
  tokenizer::HfConfig config;
  config.tokenizer_config_path = folder + "/tokenizer_config.json";
  const Json tokenizer_config = OCTAVO_TRY(read_object_if_any(config.tokenizer_config_path));
  if (tokenizer_config.is_object()) config.tokenizer_config = &tokenizer_config;
  const std::vector<int64_t> eos_ids = OCTAVO_TRY(eos_ids_of_folder(folder));
  config.eos_ids = eos_ids;
  config.chat_template_path = folder + "/chat_template.jinja";
  if (exists(config.chat_template_path)) {
    config.chat_template = OCTAVO_TRY(formats::read_text_file(config.chat_template_path));
  }
  return load_vocabulary(path, config);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_of(const formats::Checkpoint& checkpoint) {
  if (checkpoint.format_name() == "gguf") {
    return tokenizer::load_gguf_tokenizer(checkpoint.metadata(), checkpoint.path());
  }
  if (checkpoint.format_name() == "safetensors") return tokenizer_of_folder(checkpoint.path());
  return unsupported(format("{}: no tokenizer is known for this format", checkpoint.path()));
}

Result<std::unique_ptr<Tokenizer>> tokenizer_at(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const size_t end = path.find_last_not_of('/');
    return tokenizer_of_folder(path.substr(0, end == std::string::npos ? 1 : end + 1));
  }
  if (path.ends_with(".json") || path.ends_with(".model")) {
    return load_vocabulary(path, {.tokenizer_config_path = path});
  }
  return tokenizer_of(*OCTAVO_TRY(formats::open_checkpoint(path)));
}

Result<std::vector<TokenId>> configured_stop_ids(const formats::Checkpoint& checkpoint,
                                                 int64_t vocab_size) {
  const bool gguf = checkpoint.format_name() == "gguf";
  const std::vector<int64_t> eos_ids =
      OCTAVO_TRY(gguf ? eos_ids_of_gguf(checkpoint) : eos_ids_of_folder(checkpoint.path()));
  std::vector<TokenId> ids;
  for (const int64_t id : eos_ids) {
    if (id >= 0 && id < vocab_size) ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace octavo::engine
