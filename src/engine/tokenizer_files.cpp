#include "engine/tokenizer_files.h"

#include <filesystem>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "tokenizer/hf_tokenizer.h"
#include "tokenizer/load.h"

namespace octavo::engine {
namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// "eos_token_id" is an id or a list of ids.
Status append_eos_ids(const Json* config, const std::string& path, std::vector<int64_t>& ids) {
  constexpr const char* kKey = "eos_token_id";
  const Json* value = config == nullptr ? nullptr : json_find(*config, kKey);
  if (value == nullptr) return {};
  if (!value->is_array()) {
    ids.push_back(OCTAVO_TRY(json_int(*config, kKey, path)));
    return {};
  }
  for (const Json& id : value->get_array()) {
    if (!id.is_int64()) return data_loss(format("{}: '{}' must hold integers", path, kKey));
    ids.push_back(id.get_int64());
  }
  return {};
}

Result<std::vector<int64_t>> eos_ids_of_folder(const formats::Checkpoint& checkpoint) {
  std::vector<int64_t> ids;
  for (const char* name : {"generation_config", "config"}) {
    OCTAVO_TRY(append_eos_ids(json_find(checkpoint.metadata(), name),
                              format("{}/{}.json", checkpoint.path(), name), ids));
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

Result<std::unique_ptr<Tokenizer>> tokenizer_of_folder(const formats::Checkpoint& checkpoint) {
  const std::string& folder = checkpoint.path();
  const std::string path = folder + "/tokenizer.json";
  if (!exists(path)) return not_found(path + ": the model's tokenizer is not there");
  const Json tokenizer = OCTAVO_TRY(parse_json(OCTAVO_TRY(formats::read_text_file(path)), path));
  const std::vector<int64_t> eos_ids = OCTAVO_TRY(eos_ids_of_folder(checkpoint));
  tokenizer::HfTokenizerFiles files{
      .tokenizer = tokenizer,
      .tokenizer_config = json_find(checkpoint.metadata(), "tokenizer_config"),
      .eos_ids = eos_ids,
  };
  const std::string template_path = folder + "/chat_template.jinja";
  if (exists(template_path)) {
    files.chat_template = OCTAVO_TRY(formats::read_text_file(template_path));
  }
  return tokenizer::load_hf_tokenizer(files, path);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_of(const formats::Checkpoint& checkpoint) {
  if (checkpoint.format_name() == "gguf") {
    return tokenizer::load_gguf_tokenizer(checkpoint.metadata(), checkpoint.path());
  }
  if (checkpoint.format_name() == "safetensors") return tokenizer_of_folder(checkpoint);
  return unsupported(format("{}: no tokenizer is known for this format", checkpoint.path()));
}

Result<std::vector<TokenId>> configured_stop_ids(const formats::Checkpoint& checkpoint,
                                                 int64_t vocab_size) {
  const bool gguf = checkpoint.format_name() == "gguf";
  const std::vector<int64_t> eos_ids =
      OCTAVO_TRY(gguf ? eos_ids_of_gguf(checkpoint) : eos_ids_of_folder(checkpoint));
  std::vector<TokenId> ids;
  for (const int64_t id : eos_ids) {
    if (id >= 0 && id < vocab_size) ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace octavo::engine
