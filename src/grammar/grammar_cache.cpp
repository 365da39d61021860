#include "grammar/grammar_cache.h"

#include "base/check.h"
#include "base/format.h"
#include "grammar/compile.h"

namespace octavo::grammar {
namespace {

// Each takes some MB with its masks, and 50 MB at most.
constexpr size_t kMaxGrammars = 16;

// Different for different demands: each part with its length before it.
std::string key_of(const StructuredOutputs& outputs) {
  std::string key = outputs.json_object ? "object" : "";
  const auto add = [&](const char* name, const std::string& text) {
    key += format("{} {} ", name, text.size());
    key += text;
  };
  if (outputs.json) add("json", *outputs.json);
  if (outputs.regex) add("regex", *outputs.regex);
  if (outputs.grammar) add("grammar", *outputs.grammar);
  for (const std::string& choice : outputs.choice) add("choice", choice);
  return key;
}

}  // namespace

std::shared_ptr<CompiledGrammar> GrammarCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->key != key) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->grammar;
  }
  return nullptr;
}

std::shared_ptr<const TokenTrie> GrammarCache::trie() {
  const std::lock_guard lock(mutex_);
  if (trie_ == nullptr) trie_ = std::make_shared<TokenTrie>(*tokenizer_);
  return trie_;
}

Result<Matcher> GrammarCache::matcher(const StructuredOutputs& outputs) {
  if (tokenizer_ == nullptr) {
    return invalid_argument("structured_outputs needs a model with a vocabulary");
  }
  if (tokenizer_->stop_ids().empty()) {
    return invalid_argument("structured_outputs needs a model with an end token");
  }
  const std::string key = key_of(outputs);
  std::shared_ptr<CompiledGrammar> grammar = find(key);
  if (grammar == nullptr) {
    grammar = std::make_shared<CompiledGrammar>(OCTAVO_TRY(compile(outputs)), trie());
    const std::lock_guard lock(mutex_);
    entries_.push_front({key, grammar});
    if (entries_.size() > kMaxGrammars) entries_.pop_back();
  }
  Matcher matcher(std::move(grammar), *tokenizer_);
  if (matcher.lost()) return invalid_argument("structured_outputs: the grammar is too ambiguous");
  return matcher;
}

}  // namespace octavo::grammar
