#!/usr/bin/env python3
"""Makes golden cases of our own: tiny checkpoints with random weights, and what Hugging Face
transformers computes for them, in the format that tests/data/goldens/README.md describes.

  tools/make_golden.py OUT [CASE...]

writes a folder for each case of the table below (or for those named) into OUT. Needs torch,
transformers 5 and safetensors; never run by CI. A case's weights depend on its name alone, its
logits also on the version of transformers, which golden.json names.
"""

import argparse
import hashlib
import json
import math
import zlib
from pathlib import Path

import safetensors.torch
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

VOCAB = 256
NUM_GREEDY = 32
PROMPT_LENGTHS = (1, 7, 33, 150)
ALL_POSITIONS_PROMPT = 2
MIN_ROUTER_GAP = 0.1

LLAMA = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=3,
             num_key_value_heads=1, head_dim=16, vocab_size=VOCAB, max_position_embeddings=256,
             rms_norm_eps=1e-5, tie_word_embeddings=True)

PLAIN_ROPE = dict(rope_type="default", rope_theta=10000.0)

# name: (config class, summary, keys of the config, {mistake: keys that make it}, notes[, lengths of
# the prompts])
CASES = {
    "llama_dynamic": (
        "LlamaConfig",
        "rope that is stretched by how long the sequence is: short, at the border, beyond it",
        LLAMA | dict(max_position_embeddings=24, rope_parameters=dict(
            rope_type="dynamic", factor=8.0, rope_theta=10000.0)),
        {"rope scaling ignored": dict(rope_parameters=dict(
            rope_type="default", rope_theta=10000.0)),
         "rope linear instead of dynamic": dict(rope_parameters=dict(
             rope_type="linear", factor=8.0, rope_theta=10000.0))},
        ["Logits have the frequencies of a sequence as long as the prompt. Continuations have, "
         "from the first token on, those of the length that they will reach: prompt and 32 "
         "tokens."]),
    "qwen2_window": (
        "Qwen2Config",
        "a window of 8 from layer 1 on: use_sliding_window with max_window_layers",
        dict(hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=VOCAB, max_position_embeddings=256,
             rms_norm_eps=1e-6, tie_word_embeddings=True, use_sliding_window=True,
             sliding_window=8, max_window_layers=1,
             rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
        {"window ignored": dict(use_sliding_window=False, sliding_window=None, layer_types=None),
         "window in every layer": dict(max_window_layers=0, layer_types=None),
         "window of 9": dict(sliding_window=9)},
        []),
    "qwen3_moe_plain": (
        "Qwen3MoeConfig",
        "softmax over all experts without renormalising, every second layer dense",
        dict(hidden_size=48, intermediate_size=64, moe_intermediate_size=16, num_hidden_layers=4,
             num_attention_heads=2, num_key_value_heads=1, head_dim=16, vocab_size=VOCAB,
             max_position_embeddings=256, rms_norm_eps=1e-6, tie_word_embeddings=True,
             num_experts=6, num_experts_per_tok=3, norm_topk_prob=False, decoder_sparse_step=2,
             mlp_only_layers=[], rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
        {"weights renormalised": dict(norm_topk_prob=True),
         "two experts": dict(num_experts_per_tok=2)},
        []),
    "qwen3_moe_all": (
        "Qwen3MoeConfig",
        "experts in every layer and weights that sum to 1, the form that GGUF files have",
        dict(hidden_size=32, intermediate_size=64, moe_intermediate_size=16, num_hidden_layers=2,
             num_attention_heads=2, num_key_value_heads=1, head_dim=16, vocab_size=VOCAB,
             max_position_embeddings=256, rms_norm_eps=1e-6, tie_word_embeddings=False,
             num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1,
             mlp_only_layers=[], rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
        {"weights not renormalised": dict(norm_topk_prob=False)},
        []),
    "mistral_window_edge": (
        "MistralConfig",
        "contexts one shorter than the window, as long, and one longer",
        dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, head_dim=16, vocab_size=VOCAB, max_position_embeddings=256,
             rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=33,
             rope_parameters=PLAIN_ROPE),
        {"window ignored": dict(sliding_window=None), "window of 32": dict(sliding_window=32),
         "window of 34": dict(sliding_window=34)},
        [], (32, 33, 34, 67)),
    "llama4_chunk_edge": (
        "Llama4TextConfig",
        "prompts and continuations that end at a chunk's end, begin the next, and go beyond; one "
        "expert",
        dict(hidden_size=32, intermediate_size=24, intermediate_size_mlp=48, num_hidden_layers=4,
             num_attention_heads=3, num_key_value_heads=1, head_dim=16, vocab_size=VOCAB,
             max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=True,
             num_local_experts=1, num_experts_per_tok=1, interleave_moe_layer_step=2,
             attention_chunk_size=8, floor_scale=4, attn_scale=0.1, attn_temperature_tuning=True,
             use_qk_norm=True, rope_parameters=PLAIN_ROPE),
        {"chunk of 7": dict(attention_chunk_size=7), "chunk of 9": dict(attention_chunk_size=9),
         "no chunks": dict(attention_chunk_size=4096)},
        [], (8, 9, 33, 17)),
    "mixtral_one_expert": (
        "MixtralConfig",
        "one expert, of which one is chosen; five query heads of one",
        dict(hidden_size=40, intermediate_size=48, num_hidden_layers=2, num_attention_heads=5,
             num_key_value_heads=1, head_dim=8, vocab_size=VOCAB, max_position_embeddings=256,
             rms_norm_eps=1e-5, tie_word_embeddings=True, num_local_experts=1,
             num_experts_per_tok=1, sliding_window=None, rope_parameters=PLAIN_ROPE),
        {"norms of another eps": dict(rms_norm_eps=1e-1)},
        []),
    "qwen3_moe_top1": (
        "Qwen3MoeConfig",
        "one expert of four, weighed by its share of all",
        dict(hidden_size=32, intermediate_size=64, moe_intermediate_size=16, num_hidden_layers=2,
             num_attention_heads=3, num_key_value_heads=3, head_dim=24, vocab_size=VOCAB,
             max_position_embeddings=256, rms_norm_eps=1e-6, tie_word_embeddings=True,
             num_experts=4, num_experts_per_tok=1, norm_topk_prob=False, decoder_sparse_step=1,
             mlp_only_layers=[], rope_parameters=PLAIN_ROPE),
        {"weights renormalised": dict(norm_topk_prob=True)},
        []),
    "llama_five_heads": (
        "LlamaConfig",
        "five heads, each with its own keys and values, of 24",
        LLAMA | dict(hidden_size=40, num_attention_heads=5, num_key_value_heads=5, head_dim=24,
                     rope_parameters=PLAIN_ROPE),
        {"rope base": dict(rope_parameters=dict(rope_type="default", rope_theta=20000.0))},
        []),
    "qwen3_five_heads": (
        "Qwen3Config",
        "five query heads of one, of 40, with q/k norms",
        dict(hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=5,
             num_key_value_heads=1, head_dim=40, vocab_size=VOCAB, max_position_embeddings=256,
             rms_norm_eps=1e-6, tie_word_embeddings=True, rope_parameters=PLAIN_ROPE),
        {"rope base": dict(rope_parameters=dict(rope_type="default", rope_theta=20000.0))},
        []),
}

# Keys of transformers 5's config that say nothing about a model.
NOISE = {"return_dict", "output_hidden_states", "output_attentions", "torchscript",
         "use_bfloat16", "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size",
         "chunk_size_feed_forward", "id2label", "label2id", "problem_type", "tokenizer_class",
         "_name_or_path", "pruned_heads", "tie_encoder_decoder", "prefix", "is_decoder",
         "task_specific_params", "finetuning_task"}


def fill(model, seed):
    """Weights large enough for every part to matter, the same wherever this runs."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                value = 1 + 0.3 * noise
            elif name.endswith(".bias"):
                value = 0.5 * noise
            else:
                gains = {"q_proj": 2.0, "k_proj": 2.0, "mlp.gate.": 4.0}
                gain = next((g for part, g in gains.items() if part in name), 1.0)
                value = gain * noise / math.sqrt(parameter.shape[-1])
            if "embed" in name:
                value = 2.0 * value
            parameter.copy_(value.bfloat16().float())


def build(config_class, keys, dtype):
    config = getattr(transformers, config_class)(**keys, attn_implementation="eager",
                                                   experts_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config)
    return model.to(dtype).eval()


def logits(model, ids, rope_length=None, routing=None):
    """All logits of one pass; the frequencies are those of a sequence of `rope_length` tokens, as
    many as there are if it is not given."""
    if model.config.rope_parameters["rope_type"] == "dynamic":
        # transformers keeps the frequencies of the longest sequence so far.
        rotary = model.model.rotary_emb
        rotary.rope_type = "default"
        rotary.inv_freq, _ = ROPE_INIT_FUNCTIONS["dynamic"](
            model.config, rotary.inv_freq.device, seq_len=rope_length or len(ids))
    extra = {} if routing is None else {"output_router_logits": True}
    with torch.no_grad():
        out = model(torch.tensor([ids]), use_cache=False, **extra)
    if routing is not None:
        routing.extend(layer.float() for layer in out.router_logits)
    return out.logits[0].float()


def residual_stream(model, ids):
    """The stream at the last position: after the embedding, then after each layer."""
    states = []
    hooks = [model.model.layers[0].register_forward_pre_hook(
        lambda _, args: states.append(args[0][0, -1].float()))]
    for layer in model.model.layers:
        hooks.append(layer.register_forward_hook(lambda _, __, out: states.append(
            (out[0] if isinstance(out, tuple) else out).reshape(-1, model.config.hidden_size)[-1]
            .float())))
    logits(model, ids)
    for hook in hooks:
        hook.remove()
    return torch.stack(states)


def greedy(model, ids):
    """Tokens, runners-up and margins, all of one rotation."""
    tokens, runners_up, margins = [], [], []
    for _ in range(NUM_GREEDY):
        row = logits(model, ids + tokens, rope_length=len(ids) + NUM_GREEDY)[-1]
        values, order = row.topk(2)
        tokens.append(int(order[0]))
        runners_up.append(int(order[1]))
        margins.append(float(f"{values[0] - values[1]:.4g}"))
    return {"ids": ids, "greedy": tokens, "runner_up": runners_up, "margin": margins}


def compare(expected, actual):
    """How far logits [n, vocab] are apart, as golden.json says it."""
    p, q = expected.log_softmax(-1), actual.log_softmax(-1)
    kl = (p.exp() * (p - q)).sum(-1)
    same = int((expected.argmax(-1) == actual.argmax(-1)).sum())
    return {"max_abs": float(f"{(actual - expected).abs().max():.2g}"),
            "rms": float(f"{(actual - expected).square().mean().sqrt():.2g}"),
            "max_kl": float(f"{kl.max():.2g}"), "median_kl": float(f"{kl.median():.2g}"),
            "argmax_equal": f"{same}/{len(expected)}"}


def every_logit(model, prompts):
    rows = [logits(model, prompts[ALL_POSITIONS_PROMPT])]
    rows += [logits(model, ids)[-1:] for ids in prompts]
    return torch.cat(rows)


def configs(model, keys, eos):
    """The config in the spelling of transformers 5, and in that of 4."""
    new = {k: v for k, v in model.config.to_dict().items() if k not in NOISE and v is not None}
    new |= {"architectures": [type(model).__name__], "dtype": "bfloat16", "eos_token_id": eos,
            "bos_token_id": 1}
    old = {k: v for k, v in new.items() if k not in ("dtype", "rope_parameters", "layer_types")}
    rope = dict(keys["rope_parameters"])
    old |= {"torch_dtype": "bfloat16", "transformers_version": "4.51.3",
            "rope_theta": rope.pop("rope_theta")}
    kind = rope.pop("rope_type")
    old["rope_scaling"] = None if kind == "default" else {"type": kind} | rope
    if old["model_type"] == "qwen3_moe":
        old["num_experts"] = old.pop("num_local_experts", None) or old["num_experts"]
    return dict(sorted(old.items())), dict(sorted(new.items()))


def make(name, out):
    config_class, summary, keys, mistakes, notes, *other_lengths = CASES[name]
    lengths = other_lengths[0] if other_lengths else PROMPT_LENGTHS
    seed = zlib.crc32(name.encode())
    model = build(config_class, keys, torch.float32)
    fill(model, seed)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    generator = torch.Generator().manual_seed(seed + 1)
    num_experts = getattr(model.config, "num_local_experts", None) or getattr(
        model.config, "num_experts", 0)
    experts = model.config.num_experts_per_tok if num_experts > 1 else None  # one is no choice
    while True:
        prompts = [torch.randint(3, VOCAB, (n,), generator=generator).tolist()
                   for n in lengths]
        routing = []
        all_logits = logits(model, prompts[ALL_POSITIONS_PROMPT],
                            routing=routing if experts else None)
        if not experts:
            break
        # Choices of experts that another rounding could not turn over: one that changes at the
        # first position changes everything after it.
        top = torch.stack(routing).topk(experts + 1, dim=-1)
        gaps = top.values[..., experts - 1] - top.values[..., experts]
        if gaps.min() > MIN_ROUTER_GAP:
            break
    rows = [greedy(model, ids) for ids in prompts]
    said = {token for row in rows for token in row["greedy"]}
    eos = next(token for token in range(2, VOCAB) if token not in said)
    expected = every_logit(model, prompts)
    tensors = {"all_logits": all_logits,
               "last_logits": torch.stack([logits(model, ids)[-1] for ids in prompts]),
               "hidden_last": residual_stream(model, prompts[ALL_POSITIONS_PROMPT])}
    meanings = {
        "last_logits": "[prompt, vocab] logits after the last token of each prompt",
        "all_logits": "[position, vocab] logits at every position of all_positions_prompt",
        "hidden_last": "[layer, hidden] residual stream at the last position of that prompt: after "
                       "the embedding, then after each layer (before the final norm)"}
    if experts:
        tensors["router_experts"] = top.indices[..., :experts].sort(-1).values.int()
        tensors["router_gaps"] = gaps
        meanings["router_experts"] = "[MoE layer, position, k] experts chosen, ascending"
        meanings["router_gaps"] = ("[MoE layer, position] router logit of the last chosen expert "
                                   "minus that of the first rejected one")

    def variant(changes, dtype):
        other = build(config_class, keys | changes, dtype)
        other.load_state_dict({k: v.to(dtype) for k, v in state.items()})
        return every_logit(other, prompts)

    double = variant({}, torch.float64)
    golden = {
        "case": name, "family": model.config.model_type, "summary": summary,
        "reference": {"library": f"transformers {transformers.__version__}, "
                                 f"torch {torch.__version__.split('+')[0]}",
                      "dtype": "float32", "attention": "eager", "device": "cpu",
                      "cache": "none: the whole sequence is recomputed at every step"},
        "tensors": meanings, "all_positions_prompt": ALL_POSITIONS_PROMPT,
        "max_abs_logit": float(f"{expected.abs().max():.4g}"),
        "min_margin": min(min(row["margin"]) for row in rows), "prompts": rows,
        "accuracy": {"float64_max_abs": float(f"{(double - expected).abs().max():.2g}"),
                     "bfloat16_run": compare(expected, variant({}, torch.bfloat16))},
        "sensitivity": [{"mistake": what} | {k: v for k, v in compare(
            expected, variant(changes, torch.float32)).items() if k in ("max_abs", "argmax_equal")}
            for what, changes in mistakes.items()],
        "notes": notes}
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.to(torch.bfloat16).save_pretrained(folder)  # names tensors as on the hub
    weights = (folder / "model.safetensors").read_bytes()
    golden["weights"] = {"dtype": "bfloat16",
                         "sha256": {"model.safetensors": hashlib.sha256(weights).hexdigest()}}
    safetensors.torch.save_file({k: v.contiguous() for k, v in tensors.items()},
                                folder / "golden.safetensors")
    old, new = configs(model, keys, eos)
    for file, content in (("config.json", old), ("config.other.json", new),
                          ("generation_config.json", {"bos_token_id": 1, "eos_token_id": eos}),
                          ("golden.json", golden)):
        (folder / file).write_text(json.dumps(content, indent=None if file == "golden.json" else 1)
                                   + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, "
          f"{golden['accuracy']}, {golden['sensitivity']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    args = parser.parse_args()
    unknown = [name for name in args.cases if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are: {', '.join(CASES)}")
    torch.use_deterministic_algorithms(True)
    for name in args.cases or CASES:
        make(name, args.out)


if __name__ == "__main__":
    main()
