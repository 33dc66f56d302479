# SPDX-License-Identifier: Apache-2.0
"""PyTorch with a real model in a process of its own: a JSON request a line on standard input, an answer a line on
standard output. It sleeps between requests."""

import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"


def seconds_of(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


class Embedder:
    """sentence-transformers: encode() from texts, and the model alone from tokens."""

    def __init__(self, options):
        import sentence_transformers
        from sentence_transformers.models import Normalize, Pooling, Transformer

        transformer = Transformer(options["minilm"], max_seq_length=256)
        pooling = Pooling(transformer.get_word_embedding_dimension(), "mean")
        self.model = sentence_transformers.SentenceTransformer(modules=[transformer, pooling, Normalize()], device="cpu")
        self.version = f"sentence-transformers {sentence_transformers.__version__}"

    def vocabulary(self):
        return self.model.tokenizer.get_vocab()

    def run(self, request):
        import torch

        texts = request["texts"]
        with torch.inference_mode():
            if request["way"] == "encode":
                return self.model.encode(texts, batch_size=len(texts), show_progress_bar=False)
            if getattr(self, "texts", None) != texts:
                self.texts, self.features = texts, self.model.tokenize(texts)
                self.shape = list(self.features["input_ids"].shape)
            return self.model(dict(self.features))["sentence_embedding"].numpy()

    def facts(self, result):
        return {"values": result[:, :8].tolist(), "shape": getattr(self, "shape", None)}


class Generator:
    """transformers, from the same GGUF file, which it expands to f32: greedy, with its cache."""

    def __init__(self, options):
        import torch
        import transformers

        folder, file = os.path.split(options["smollm2"])
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
        self.version = f"transformers {transformers.__version__}"

    def prompt(self, words, count):
        """The first words that have so many tokens, and commas for what is missing."""
        ids = lambda text: self.tokenizer(text, add_special_tokens=False)["input_ids"]
        low, high = 1, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if len(ids(" ".join(words[:middle]))) <= count else (low, middle - 1)
        text = " ".join(words[:low])
        while len(ids(text)) < count:
            text += " ,"
        return {"text": text, "ids": ids(text)}

    def run(self, request):
        import torch

        ids, times, start = torch.tensor([request["ids"]]), [], time.perf_counter()
        with torch.inference_mode():
            out, tokens = None, []
            for _ in range(request["count"]):
                cache = out.past_key_values if out else None
                out = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                tokens.append(int(out.logits[0, -1].argmax()))
                ids = torch.tensor([tokens[-1:]])
                times.append(time.perf_counter() - start)
        return tokens, times

    def facts(self, result):
        return {"tokens": result[0], "first": result[1][0], "rest": result[1][-1] - result[1][0]}


def main():
    options, answers = json.loads(sys.argv[2]), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers

    def answer(what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    try:
        import torch

        torch.set_num_threads(options["threads"])
        peer = {"embed": Embedder, "generate": Generator}[sys.argv[1]](options)
    except Exception as failure:  # pylint: disable=broad-except
        answer({"failed": f"{type(failure).__name__}: {failure}".split("\n", maxsplit=1)[0]})
        return
    answer({"version": f"{peer.version}, PyTorch {torch.__version__}"})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "words":
            answer({"words": peer.vocabulary()})
            continue
        if request["do"] == "prompt":
            answer(peer.prompt(request["words"], request["count"]))
            continue
        seconds, result = seconds_of(lambda: peer.run(request))
        answer({"seconds": seconds, **peer.facts(result)})


if __name__ == "__main__":
    main()
