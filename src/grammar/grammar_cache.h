// GrammarCache: the grammars of one vocabulary that were used last, compiled.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "grammar/matcher.h"
#include "octavo/request.h"
#include "octavo/status.h"

namespace octavo::grammar {

class GrammarCache {
 public:
  // `tokenizer` may be null: then no answer can be constrained. It must outlive this.
  explicit GrammarCache(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // At the beginning of an answer. Safe from several threads; a grammar that is not there is
  // compiled by the caller's.
  Result<Matcher> matcher(const StructuredOutputs& outputs);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<CompiledGrammar> grammar;
  };

  std::shared_ptr<CompiledGrammar> find(const std::string& key);
  std::shared_ptr<const TokenTrie> trie();

  const Tokenizer* tokenizer_;
  std::mutex mutex_;                       // guards what follows
  std::shared_ptr<const TokenTrie> trie_;  // once it was needed
  std::list<Entry> entries_;               // the last used first
};

}  // namespace octavo::grammar
