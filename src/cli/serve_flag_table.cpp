#include "cli/serve_flag_store.h"
#include "cli/serve_flags.h"

namespace octavo::cli {
namespace {

using enum FlagKind;
using enum FlagSupport;

// NOLINTNEXTLINE(bugprone-macro-parentheses): a member is a name
#define OCTAVO_OPTION(member) [](Options& options) -> auto& { return options.member; }

constexpr ServeFlag kModelFlags[] = {
    {"--model", "", kValue, kWorks, "MODEL", "the model, in place of the argument",
     store<OCTAVO_OPTION(model)>},
    {"--served-model-name", "", kList, kWorks, "NAME",
     "what clients call the model; the first stands in answers",
     store<OCTAVO_OPTION(server.served_model_names)>},
    {"--max-model-len", "", kValue, kWorks, "N",
     "tokens of context: 4096, 32k, or auto for what the model has", store_max_model_len},
    {"--dtype", "", kValue, kWorks, "TYPE",
     "arithmetic of matrix products: auto, bfloat16, float32", store_dtype},
    {"--max-logprobs", "", kValue, kWorks, "N",
     "most logprobs that a request may ask for; at most 20", store_max_logprobs},
    {"--generation-config", "", kValue, kWorks, "auto|vllm|FOLDER",
     "where default sampling comes from; vllm: not from the model",
     store<OCTAVO_OPTION(generation_config)>},
    {"--override-generation-config", "", kValue, kWorks, "JSON",
     "default sampling: temperature, top_p, top_k, min_p, repetition_penalty, max_new_tokens",
     store<OCTAVO_OPTION(override_generation_config)>},
    {"--backend", "", kValue, kWorks, "NAME",
     "what computes: auto, cpu, cuda, ref; auto: a GPU that can be used",
     store<OCTAVO_OPTION(engine.backend)>},
    {"--threads", "", kValue, kWorks, "N",
     "compute threads of the CPU; 0: as many as affinity and cgroup allow",
     store<OCTAVO_OPTION(engine.threads)>},
    {"--repack", "", kBool, kWorks, "",
     "copy weights into the fastest layout; without, they are read where the file lies",
     store<OCTAVO_OPTION(engine.repack)>},
    {"--attention-backend", "", kValue, kWorks, "NAME",
     "which attention kernels; auto: the best that can run",
     store<OCTAVO_OPTION(engine.attn_implementation)>},
    {"--trust-remote-code", "", kBool, kNoEffect, "", "octavo runs no code that comes with a model",
     nullptr},
    {"--tokenizer-mode", "", kValue, kNoEffect, "MODE", "there is one tokenizer, and it is fast",
     nullptr},
    {"--seed", "", kValue, kNoEffect, "N", "requests without a seed get one of their own", nullptr},
    {"--load-format", "", kValue, kNoEffect, "FORMAT", "the format is seen from the file", nullptr},
    {"--download-dir", "", kValue, kRefused, "", "set OCTAVO_HOME", nullptr},
    {"--tokenizer", "", kValue, kRefused, "", "the model's own tokenizer is used", nullptr},
    {"--skip-tokenizer-init", "", kBool, kRefused, "",
     "the tokenizer is always loaded where there is one", nullptr},
    {"--revision", "", kValue, kWorks, "NAME", "the branch, tag or commit of a model of the hub",
     store<OCTAVO_OPTION(revision)>},
    {"--tokenizer-revision", "", kValue, kRefused, "", "the model's own tokenizer is used",
     nullptr},
    {"--quantization", "-q", kValue, kRefused, "auto", "the file says how it is quantized",
     nullptr},
    {"--hf-overrides", "", kValue, kWorks, "JSON",
     "is_matryoshka or matryoshka_dimensions: which dimensions embeddings may be cut to; for other "
     "keys edit the model's config.json",
     store_hf_overrides},
    {"--hf-token", "", kValue, kRefused, "", "set HF_TOKEN", nullptr},
    {"--logprobs-mode", "", kValue, kRefused, "raw_logprobs",
     "logprobs are of the model's own distribution", nullptr},
    {"--runner", "", kValue, kWorks, "auto|generate|pooling",
     "accepted for scripts: every model answers and gives embeddings", store_runner},
    {"--convert", "", kValue, kWorks, "auto|none|embed", "accepted for scripts, as --runner",
     store_convert},
    {"--task", "", kValue, kWorks, "auto|generate|embed", "accepted for scripts, as --runner",
     store_task},
    {"--pooler-config", "--override-pooler-config", kValue, kWorks, "JSON",
     "of embeddings: pooling_type LAST or MEAN, normalize, dimensions", store_pooler_config},
    {"--limit-mm-per-prompt", "", kValue, kNoEffect, "JSON", "models take text only", nullptr},
    {"--enable-sleep-mode", "", kBool, kRefused, "",
     "use /pause and /resume with --enable-dev-endpoints", nullptr},
    {"--logits-processors", "", kList, kRefused, "",
     "there are no plugins; requests have logit_bias, bad_words and allowed_token_ids", nullptr},
};

constexpr ServeFlag kMemoryFlags[] = {
    {"--kv-cache-memory-bytes", "", kValue, kWorks, "BYTES", "size of the KV cache: 4G",
     store<OCTAVO_OPTION(engine.kv_cache_memory_bytes)>},
    {"--num-gpu-blocks-override", "", kValue, kWorks, "N", "size of the KV cache in blocks",
     store<OCTAVO_OPTION(engine.num_gpu_blocks_override)>},
    {"--max-paged-cache-size", "", kValue, kWorks, "N",
     "octavo's own: most blocks of the KV cache; 0: no limit",
     store<OCTAVO_OPTION(engine.max_paged_cache_size)>},
    {"--block-size", "", kValue, kWorks, "N", "tokens of a KV block",
     store<OCTAVO_OPTION(engine.block_size)>},
    {"--kv-cache-dtype", "", kValue, kWorks, "TYPE",
     "type of cached keys and values: auto, bfloat16; on the CPU float32, float16, int8; on a GPU "
     "fp8",
     store<OCTAVO_OPTION(engine.kv_cache_dtype)>},
    {"--enable-kv-cache-quantization", "", kBool, kWorks, "", "the same as --kv-cache-dtype int8",
     store_kv_cache_quantization},
    {"--enable-prefix-caching", "", kBool, kWorks, "",
     "reuse what earlier prompts computed; on unless turned off",
     store<OCTAVO_OPTION(engine.enable_prefix_caching)>},
    {"--gpu-memory-utilization", "", kValue, kWorks, "SHARE",
     "of a GPU's free memory, for weights, workspace and KV cache; no effect on the CPU",
     store<OCTAVO_OPTION(engine.gpu_memory_utilization)>},
    {"--prefix-caching-hash-algo", "", kValue, kNoEffect, "NAME",
     "prefixes are compared token by token", nullptr},
    {"--swap-space", "", kValue, kNoEffect, "GIB", "preempted sequences are computed again",
     nullptr},
    {"--cpu-offload-gb", "", kValue, kRefused, "0", "weights are not split between devices",
     nullptr},
    {"--kv-offloading-size", "", kValue, kRefused, "0", "the KV cache has one tier", nullptr},
};

constexpr ServeFlag kSchedulingFlags[] = {
    {"--max-num-seqs", "", kValue, kWorks, "N", "sequences that run at once",
     store<OCTAVO_OPTION(engine.max_num_seqs)>},
    {"--max-num-batched-tokens", "", kValue, kWorks, "N", "tokens of a step; 0: 512, on a GPU 2048",
     store<OCTAVO_OPTION(engine.max_num_batched_tokens)>},
    {"--long-prefill-token-threshold", "", kValue, kWorks, "N",
     "most tokens of one prompt in a step; 0: no limit",
     store<OCTAVO_OPTION(engine.long_prefill_token_threshold)>},
    {"--scheduling-policy", "", kValue, kWorks, "fcfs|priority", "who is first",
     store_scheduling_policy},
    {"--max-num-queued-reqs", "", kValue, kWorks, "N",
     "requests that wait; one more is answered 503",
     store<OCTAVO_OPTION(engine.max_num_queued_reqs)>},
    {"--max-num-queued-tokens", "", kValue, kWorks, "N", "prompt tokens that wait",
     store<OCTAVO_OPTION(engine.max_num_queued_tokens)>},
    {"--watermark", "", kValue, kWorks, "SHARE", "share of KV blocks that admission leaves free",
     store<OCTAVO_OPTION(engine.watermark)>},
    {"--admission-factor", "", kValue, kWorks, "FACTOR",
     "octavo's own: a request waits until its KV blocks times this are there; 1.2",
     store<OCTAVO_OPTION(engine.admission_factor)>},
    {"--enable-chunked-prefill", "", kBool, kNoEffect, "", "prompts are always computed in chunks",
     nullptr},
    {"--async-scheduling", "", kBool, kNoEffect, "", "", nullptr},
    {"--stream-interval", "", kValue, kRefused, "1", "each token is sent as it comes", nullptr},
    {"--disable-hybrid-kv-cache-manager", "", kBool, kNoEffect, "",
     "on the CPU layers with a window always give back what they no longer see", nullptr},
};

constexpr ServeFlag kParallelFlags[] = {
    {"--tensor-parallel-size", "-tp", kValue, kRefused, "1", "a model runs on one device", nullptr},
    {"--pipeline-parallel-size", "-pp", kValue, kRefused, "1", "a model runs on one device",
     nullptr},
    {"--data-parallel-size", "-dp", kValue, kRefused, "1", "start several servers behind a proxy",
     nullptr},
    {"--decode-context-parallel-size", "-dcp", kValue, kRefused, "1", "a model runs on one device",
     nullptr},
    {"--prefill-context-parallel-size", "-pcp", kValue, kRefused, "1", "a model runs on one device",
     nullptr},
    {"--enable-expert-parallel", "", kBool, kRefused, "", "a model runs on one device", nullptr},
    {"--nnodes", "", kValue, kRefused, "1", "a model runs on one device", nullptr},
    {"--distributed-executor-backend", "", kValue, kNoEffect, "NAME",
     "a model runs in this process", nullptr},
    {"--disable-custom-all-reduce", "", kBool, kNoEffect, "", "a model runs on one device",
     nullptr},
};

constexpr ServeFlag kExecutionFlags[] = {
    {"--enforce-eager", "", kBool, kNoEffect, "", "nothing is compiled at start", nullptr},
    {"--compilation-config", "-O", kValue, kNoEffect, "JSON", "nothing is compiled at start",
     nullptr},
    {"--cudagraph-capture-sizes", "", kList, kNoEffect, "N", "shapes are captured as they come",
     nullptr},
    {"--max-cudagraph-capture-size", "", kValue, kNoEffect, "N", "shapes are captured as they come",
     nullptr},
    {"--optimization-level", "", kValue, kNoEffect, "N", "nothing is compiled at start", nullptr},
    {"--performance-mode", "", kValue, kNoEffect, "MODE", "", nullptr},
};

constexpr ServeFlag kFeatureFlags[] = {
    {"--enable-lora", "", kBool, kRefused, "",
     "LoRA adapters are not supported yet: merge them into the model", nullptr},
    {"--lora-modules", "", kList, kRefused, "",
     "LoRA adapters are not supported yet: merge them into the model", nullptr},
    {"--max-loras", "", kValue, kNoEffect, "N", "LoRA adapters are not supported yet", nullptr},
    {"--max-lora-rank", "", kValue, kNoEffect, "N", "LoRA adapters are not supported yet", nullptr},
    {"--speculative-config", "", kValue, kWorks, "JSON",
     "guess tokens ahead: method (ngram, draft_model), num_speculative_tokens, model, "
     "prompt_lookup_max, prompt_lookup_min",
     store_speculative_config},
    {"--speculative-model", "", kValue, kRefused, "", "use --speculative-config", nullptr},
    {"--num-speculative-tokens", "", kValue, kRefused, "0", "use --speculative-config", nullptr},
    {"--structured-outputs-config", "", kValue, kNoEffect, "JSON",
     "octavo has one way to constrain answers", nullptr},
    {"--guided-decoding-backend", "", kValue, kNoEffect, "NAME",
     "octavo has one way to constrain answers", nullptr},
    {"--reasoning-parser", "", kValue, kRefused, "",
     "reasoning is not split off yet: it stays in the content", nullptr},
    {"--enable-auto-tool-choice", "", kBool, kRefused, "",
     "tool calls are not parsed yet; tools are shown to the model with tool_choice none", nullptr},
    {"--tool-call-parser", "", kValue, kRefused, "", "tool calls are not parsed yet", nullptr},
    {"--tool-parser-plugin", "", kValue, kRefused, "", "there are no plugins", nullptr},
    {"--exclude-tools-when-tool-choice-none", "", kBool, kWorks, "",
     "do not show tools to the model with tool_choice none",
     store<OCTAVO_OPTION(server.exclude_tools_when_tool_choice_none)>},
    {"--kv-transfer-config", "", kValue, kRefused, "{}", "keys and values are not transferred",
     nullptr},
    {"--kv-events-config", "", kValue, kRefused, "{}", "events of the KV cache are not published",
     nullptr},
};

constexpr ServeFlag kConfigFlags[] = {
    {"--config", "", kValue, kWorks, "FILE", "a YAML file whose keys are these flags; flags win",
     store<OCTAVO_OPTION(config_file)>},
};

// Of commands that bound by themselves how much waits, in place of the server's.
constexpr ServeFlag kNoQueuedReqs{"--max-num-queued-reqs",
                                  "",
                                  kValue,
                                  kRefused,
                                  "",
                                  "no more is submitted than may wait",
                                  nullptr};
constexpr ServeFlag kNoQueuedTokens{"--max-num-queued-tokens",
                                    "",
                                    kValue,
                                    kRefused,
                                    "",
                                    "no more is submitted than may wait",
                                    nullptr};

constexpr ServeFlag kGenerateFlags[] = {
    {"--input", "-i", kValue, kWorks, "FILE", "requests, one JSON object a line",
     store<OCTAVO_OPTION(generate.input)>},
    {"--output", "-o", kValue, kWorks, "FILE",
     "answers in the order of the requests; what is there already is gone on with",
     store<OCTAVO_OPTION(generate.output)>},
    {"--overwrite", "", kBool, kWorks, "", "begin --output anew",
     store<OCTAVO_OPTION(generate.overwrite)>},
    {"--max-tokens", "", kValue, kWorks, "N",
     "most tokens of an answer whose line does not say; 0: what the context holds",
     store<OCTAVO_OPTION(generate.max_tokens)>},
    {"--debug-page-table", "", kBool, kWorks, "",
     "print which KV blocks a request has, before its last token",
     store<OCTAVO_OPTION(generate.debug_page_table)>},
    kNoQueuedReqs,
    kNoQueuedTokens,
};

constexpr ServeFlag kThroughputFlags[] = {
    {"--dataset-name", "", kValue, kWorks, "random|trace", "where lengths come from",
     store<OCTAVO_OPTION(throughput.dataset_name)>},
    {"--dataset-path", "", kValue, kWorks, "FILE",
     "of trace: Azure's CSV, or Mooncake's lines of JSON with shared prefixes",
     store<OCTAVO_OPTION(throughput.dataset_path)>},
    {"--num-prompts", "", kValue, kWorks, "N", "requests, all submitted at once; 1000",
     store<OCTAVO_OPTION(throughput.num_prompts)>},
    {"--input-len", "", kValue, kWorks, "N",
     "of random: tokens of a prompt behind its prefix; 1024",
     store<OCTAVO_OPTION(throughput.input_len)>},
    {"--output-len", "", kValue, kWorks, "N", "tokens of an answer; 128, or as the trace says",
     store<OCTAVO_OPTION(throughput.output_len)>},
    {"--prefix-len", "", kValue, kWorks, "N",
     "of random: tokens before them that all prompts share; 0",
     store<OCTAVO_OPTION(throughput.prefix_len)>},
    {"--n", "", kValue, kWorks, "N", "answers to a request; 1", store<OCTAVO_OPTION(throughput.n)>},
    {"--seed", "", kValue, kWorks, "N", "of the prompts and of sampling; 0",
     store<OCTAVO_OPTION(throughput.seed)>},
    {"--temperature", "", kValue, kWorks, "T", "octavo's own: of sampling; 1, and 0 is greedy",
     store<OCTAVO_OPTION(throughput.temperature)>},
    {"--output-json", "", kValue, kWorks, "FILE", "write the figures there too",
     store<OCTAVO_OPTION(throughput.output_json)>},
    kNoQueuedReqs,
    kNoQueuedTokens,
};

#undef OCTAVO_OPTION

const FlagGroup kServeGroups[] = {
    {"Model", kModelFlags},           {"Memory", kMemoryFlags},
    {"Scheduling", kSchedulingFlags}, {"Several devices", kParallelFlags},
    {"Execution", kExecutionFlags},   {"Adapters, speculation, tools, transfer", kFeatureFlags},
    {"Configuration", kConfigFlags},  {"Logs and metrics", observability_flags()},
    {"Front end", front_end_flags()}, {"Chat", chat_flags()},
};

// Without a front end.
const FlagGroup kGenerateGroups[] = {
    {"Files", kGenerateFlags},        {"Chat", chat_flags()},
    {"Model", kModelFlags},           {"Memory", kMemoryFlags},
    {"Scheduling", kSchedulingFlags}, {"Several devices", kParallelFlags},
    {"Execution", kExecutionFlags},   {"Adapters, speculation, tools, transfer", kFeatureFlags},
    {"Configuration", kConfigFlags},
};

constexpr FlagGroup kThroughputGroups[] = {
    {"Work", kThroughputFlags},
    {"Model", kModelFlags},
    {"Memory", kMemoryFlags},
    {"Scheduling", kSchedulingFlags},
    {"Several devices", kParallelFlags},
    {"Execution", kExecutionFlags},
    {"Adapters, speculation, tools, transfer", kFeatureFlags},
    {"Configuration", kConfigFlags},
};

}  // namespace

const EngineCommand kServeCommand{
    "octavo serve",
    "Serve a model over HTTP, with the API of vLLM and OpenAI.\n"
    "Usage: octavo serve MODEL [FLAGS]\n\n"
    "Examples:\n"
    "  octavo serve smollm2\n"
    "  octavo serve model.gguf --port 8080 --served-model-name llama --api-key secret\n"
    "  octavo serve ./Llama-3.2-1B-Instruct --max-model-len 8k --max-num-seqs 64\n"
    "  octavo serve --config serve.yaml\n",
    kServeGroups};

const EngineCommand kGenerateCommand{
    "octavo generate",
    "Answer a file of requests, many at once. A run that was killed goes on where it was.\n"
    "Usage: octavo generate MODEL --input FILE --output FILE [FLAGS]\n\n"
    "A line is {\"prompt\" | \"messages\" | \"prompt_token_ids\": ..., any sampling field}, or one "
    "of\n"
    "OpenAI's batches: {\"custom_id\", \"method\", \"url\", \"body\"}.\n\n"
    "Examples:\n"
    "  octavo generate smollm2 --input prompts.jsonl --output answers.jsonl\n",
    kGenerateGroups};

const EngineCommand kThroughputCommand{
    "octavo bench throughput",
    "Measure how fast a model answers many requests at once.\n"
    "Usage: octavo bench throughput MODEL [FLAGS]\n\n"
    "Examples:\n"
    "  octavo bench throughput smollm2 --input-len 128 --output-len 128 --num-prompts 32\n"
    "  octavo bench throughput smollm2 --dataset-name trace --dataset-path trace.csv\n",
    kThroughputGroups};

}  // namespace octavo::cli
