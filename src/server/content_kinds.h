// Which kinds of message contents a chat template takes: a text, a list of parts, or both. Found by
// rendering, since how a template reads contents does not show in its text.
#pragma once

#include <string>

#include "octavo/tokenizer.h"
#include "server/server_config.h"

namespace octavo::server {

struct ContentKinds {
  bool text = true;
  bool parts = false;
};

// `tokenizer` may be null; an empty `chat_template` is the model's own.
ContentKinds choose_content_kinds(const Tokenizer* tokenizer, const std::string& chat_template,
                                  ContentFormat format);

}  // namespace octavo::server
