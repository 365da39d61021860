#include "hub/http_streams.h"

#include <algorithm>
#include <list>

#include "base/format.h"
#include "hub/curl.h"

namespace octavo::hub {
namespace {

// Of one answer, however slow: what takes longer hangs.
constexpr long kTimeoutS = 6 * 3600;

struct Stream {
  StreamRequest request;
  StreamSink* sink = nullptr;
  std::unique_ptr<CURL, CurlDeleter> handle;
  std::unique_ptr<curl_slist, CurlDeleter> headers;
  std::string failure;  // of the sink
  std::list<Stream>::iterator self;
};

// libcurl is C: no exception may pass through it.
size_t on_stream_body(char* data, size_t unit, size_t count, void* context) {
  auto& stream = *static_cast<Stream*>(context);
  try {
    stream.sink->on_bytes({data, unit * count});
    return unit * count;
  } catch (const std::exception& error) {
    stream.failure = error.what();
    return 0;
  }
}

std::string answer_header(CURL* handle, const Stream& stream) {
  const std::string& name = stream.request.answer_header;
  curl_header* header = nullptr;
  if (name.empty() ||
      curl_easy_header(handle, name.c_str(), 0, CURLH_HEADER, -1, &header) != CURLHE_OK) {
    return "";
  }
  return header->value;
}

// Whether all of them could be added.
bool add_headers(Stream& stream) {
  std::vector<std::string> headers = stream.request.headers;
  headers.emplace_back("Expect:");  // no waiting for "100 Continue"
  for (const std::string& header : headers) {
    curl_slist* list = curl_slist_append(stream.headers.get(), header.c_str());
    if (list == nullptr) return false;
    if (stream.headers == nullptr) stream.headers.reset(list);
  }
  return true;
}

void set_options(Stream& stream) {
  CURL* const handle = stream.handle.get();
  set_common_options(handle);
  curl_easy_setopt(handle, CURLOPT_URL, stream.request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT, kTimeoutS);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, stream.headers.get());
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_stream_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &stream);
  curl_easy_setopt(handle, CURLOPT_PRIVATE, &stream);
  if (stream.request.body.empty()) return;
  curl_easy_setopt(handle, CURLOPT_POSTFIELDS, stream.request.body.data());
  curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                   static_cast<curl_off_t>(stream.request.body.size()));
}

}  // namespace

struct HttpStreams::Impl {
  std::unique_ptr<CURLM, CurlMultiDeleter> multi;
  std::list<Stream> streams;

  void end(CURL* handle, CURLcode code) {
    char* context = nullptr;
    curl_easy_getinfo(handle, CURLINFO_PRIVATE, &context);
    auto& stream = *reinterpret_cast<Stream*>(context);
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    std::string failure = stream.failure;
    if (code != CURLE_OK && failure.empty()) failure = curl_easy_strerror(code);
    const std::string header = answer_header(handle, stream);
    StreamSink* const sink = stream.sink;
    curl_multi_remove_handle(multi.get(), handle);
    streams.erase(stream.self);
    if (!header.empty()) sink->on_header(header);
    sink->on_end(static_cast<int>(status), failure);
  }
};

HttpStreams::HttpStreams() : impl_(std::make_unique<Impl>()) {
  init_curl();
  impl_->multi.reset(curl_multi_init());
}

HttpStreams::~HttpStreams() {
  for (Stream& stream : impl_->streams) {
    curl_multi_remove_handle(impl_->multi.get(), stream.handle.get());
  }
}

Status HttpStreams::start(StreamRequest request, StreamSink& sink) {
  if (impl_->multi == nullptr) return internal_error("libcurl does not start");
  impl_->streams.emplace_front();
  Stream& stream = impl_->streams.front();
  stream.self = impl_->streams.begin();
  stream.request = std::move(request);
  stream.sink = &sink;
  stream.handle.reset(curl_easy_init());
  if (stream.handle == nullptr || !add_headers(stream)) {
    impl_->streams.pop_front();
    return internal_error("libcurl does not start");
  }
  set_options(stream);
  const CURLMcode code = curl_multi_add_handle(impl_->multi.get(), stream.handle.get());
  if (code == CURLM_OK) return {};
  impl_->streams.pop_front();
  return internal_error(curl_multi_strerror(code));
}

Status HttpStreams::poll(double timeout_s) {
  CURLM* const multi = impl_->multi.get();
  if (multi == nullptr) return internal_error("libcurl does not start");
  const int timeout_ms = static_cast<int>(std::clamp(timeout_s, 0.0, 60.0) * 1000);
  CURLMcode code = CURLM_OK;
  if (timeout_ms > 0) code = curl_multi_poll(multi, nullptr, 0, timeout_ms, nullptr);
  int num_running = 0;
  if (code == CURLM_OK) code = curl_multi_perform(multi, &num_running);
  if (code != CURLM_OK) return internal_error(curl_multi_strerror(code));
  int num_left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &num_left)) {
    if (message->msg == CURLMSG_DONE) impl_->end(message->easy_handle, message->data.result);
  }
  return {};
}

int64_t HttpStreams::num_running() const {
  return static_cast<int64_t>(impl_->streams.size());
}

}  // namespace octavo::hub
