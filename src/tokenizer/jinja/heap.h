// Memory of one render (or of a template's literals): everything is freed at once, so values need
// no reference counts and cycles cannot leak. Counts what it hands out.
#pragma once

#include <array>
#include <memory_resource>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/text.h"
#include "tokenizer/jinja/value.h"

namespace octavo::tokenizer::jinja {

class Heap {
 public:
  Heap() : arena_(initial_.data(), initial_.size(), &counter_) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  size_t used_bytes() const { return counter_.bytes; }
  std::pmr::memory_resource* resource() { return &arena_; }

  // The object's destructor never runs: it may own nothing but memory of this heap.
  template <typename T, typename... Args>
  T* make(Args&&... args) {
    return new (arena_.allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
  }
  template <typename T>
  std::span<const T> copy(std::span<const T> items) {
    if (items.empty()) return {};
    T* to = static_cast<T*>(arena_.allocate(items.size_bytes(), alignof(T)));
    std::uninitialized_copy(items.begin(), items.end(), to);
    return {to, items.size()};
  }
  std::string_view copy(std::string_view text) {
    const std::span<const char> copied = copy(std::span<const char>(text.data(), text.size()));
    return {copied.data(), copied.size()};
  }

  // Strings: `borrow` keeps the caller's bytes, which must outlive the heap.
  const Str* borrow(std::string_view text) { return make<Str>(text); }
  const Str* str(std::string_view text) { return make<Str>(copy(text)); }
  const Str* str(const TextBuilder& text) {
    return make<Str>(copy(std::string_view(text.text())),
                     copy(std::span<const TextSpan>(text.taint())));
  }
  // Bytes [begin, end) of `s`, shared.
  const Str* substr(const Str& s, size_t begin, size_t end);

  // Containers; an error where they would exceed Extent's limits. What fills a dict checks it.
  Result<Value> sequence(SequenceKind kind, std::span<const Value> items);
  Result<Value> list(const std::vector<Value>& items) {
    return sequence(SequenceKind::kList, items);
  }
  Result<Value> iterator(const std::vector<Value>& items) {
    return sequence(SequenceKind::kIterator, items);
  }
  Result<Value> tuple(std::span<const Value> items) {
    return sequence(SequenceKind::kTuple, items);
  }
  Dict* dict() { return make<Dict>(&arena_); }

  Value undefined(std::string_view hint) { return Value::of(make<Undefined>(hint)); }

 private:
  struct Counter : std::pmr::memory_resource {
    size_t bytes = 0;
    void* do_allocate(size_t size, size_t alignment) override {
      bytes += size;
      return std::pmr::new_delete_resource()->allocate(size, alignment);
    }
    void do_deallocate(void* p, size_t size, size_t alignment) override {
      std::pmr::new_delete_resource()->deallocate(p, size, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
      return this == &other;
    }
  };

  alignas(std::max_align_t) std::array<std::byte, 8192> initial_;
  Counter counter_;
  std::pmr::monotonic_buffer_resource arena_;
};

}  // namespace octavo::tokenizer::jinja
