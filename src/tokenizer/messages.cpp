// A conversation in plain text as the JSON that templates take.
#include "base/json.h"
#include "octavo/tokenizer.h"

namespace octavo {

std::string to_messages_json(std::span<const Message> messages) {
  JsonArray array;
  for (const Message& message : messages) {
    array.push_back(JsonObject{{"role", message.role}, {"content", message.content}});
  }
  return dump_json(array);
}

}  // namespace octavo
