// Tokenizer: text to token ids and back, and chat templates. Safe to use from several threads at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo {

using TokenId = int32_t;

// Bytes [begin, end) of a string.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

struct EncodeOptions {
  // Add the tokens that the vocabulary puts around a text (BOS, EOS), where it asks for them.
  bool add_special = true;
  // Recognise control tokens in the text. Off: `<|im_start|>` is eleven characters like any others.
  bool parse_special = false;
};

// One turn of a conversation in plain text.
struct Message {
  std::string role;  // "system", "user", "assistant", or what else the model's template knows
  std::string content;
};

// The JSON text that Tokenizer::render() takes. Bytes that are not valid UTF-8 become U+FFFD.
std::string to_messages_json(std::span<const Message> messages);

// What else than messages the template may use. Everything is JSON text, so that values keep their
// kinds and their key order.
struct RenderOptions {
  bool add_generation_prompt = true;
  std::string tools_json;    // an array, or "" for none
  std::string context_json;  // an object of further template variables, or ""
  // Jinja text in place of the model's own template, or "". The last one stays parsed.
  std::string chat_template;
};

// A rendered prompt: `user_spans`, ascending and disjoint, are the parts that came from message
// contents. They are encoded as plain text even where they spell a control token.
struct RenderedPrompt {
  std::string text;
  std::vector<TextSpan> user_spans;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocab_size() const = 0;

  // The ids of a text. Any bytes are accepted; what is not UTF-8 becomes byte tokens where the
  // vocabulary has them.
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              const EncodeOptions& options) const = 0;

  // The ids of a rendered prompt: control tokens are recognised outside user_spans only. A BOS that
  // the template already wrote is not added again.
  virtual Result<std::vector<TokenId>> encode_prompt(const RenderedPrompt& prompt) const = 0;

  // The bytes a token stands for (may be a part of a UTF-8 character); "" for control tokens unless
  // `show_special`. `id` must lie in [0, vocab_size).
  virtual std::string token_bytes(TokenId id, bool show_special) const = 0;

  // The vocabulary's own spelling of a token, for people: "Ġhello", "<|im_end|>".
  virtual std::string token_piece(TokenId id) const = 0;

  virtual bool is_control(TokenId id) const = 0;

  // The text of `ids`; bytes that are not valid UTF-8 become U+FFFD. An id outside the vocabulary
  // is an error. Where has_space_prefix(), one space at the very start is left out.
  virtual Result<std::string> decode(std::span<const TokenId> ids, bool show_special) const = 0;

  // Whether texts are encoded with a space put before them, as SentencePiece does.
  virtual bool has_space_prefix() const { return false; }

  // -1 where the vocabulary has none.
  virtual TokenId bos_id() const = 0;
  virtual TokenId eos_id() const = 0;

  // Every token that ends an answer, ascending.
  virtual std::span<const TokenId> stop_ids() const = 0;

  // Whether the model carries a chat template that this engine understands; when not, `render` says
  // why, unless it is given one.
  virtual bool has_chat_template() const = 0;

  // Renders `messages_json`, an array of objects with "role" and "content", by the model's
  // template. A template's raise_exception is kInvalidArgument with the template's own words.
  virtual Result<RenderedPrompt> render(std::string_view messages_json,
                                        const RenderOptions& options) const = 0;
};

// Whether the text of a chat template parses; `source`, where it is from, starts the error.
Status check_chat_template(std::string_view chat_template, const std::string& source);

// Renders by the text of a chat template alone, without a model: what tokens the template may name
// (bos_token and so on), context_json says. `source`, where the text is from, starts the error of a
// template that does not parse.
Result<RenderedPrompt> render_chat_template(std::string_view chat_template,
                                            const std::string& source,
                                            std::string_view messages_json,
                                            const RenderOptions& options);

}  // namespace octavo
