#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the examples with real models against PyTorch, interleaved in one run: embed against sentence-transformers,
generate against transformers, in f32, with as many threads.

In each round every one takes a turn; a turn is the shortest of some repetitions in a process that is warm, and the
table has the medians of the rounds. Results are compared too. Exit status: 0 all at least as fast as PyTorch and
right, 1 not so, 2 wrong use. bench/run_models.sh makes the environment; this script itself needs the standard library
only."""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import report
from peers import Others, Worker, wait_until_idle

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS, TEXT_TOKENS, PROMPT, TOKENS = 32, 128, 512, 33  # tokens of a text with [CLS] and [SEP]; the first and 32 more
REPEAT = 3
ALLOWED = 2e-6  # of an embedding's number


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--build", default="build", help="where the examples are built (build)")
    p.add_argument("--models", default="build/models", help="what tools/fetch_models.sh filled (build/models)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--device", default="", help="clattn's (the best)")
    p.add_argument("--out", default="build-bench/results", help="folder of models.md")
    p.add_argument("--docs", help="a Markdown file, whose part between the marks models is replaced")
    return p.parse_args()


class Failed(Exception):
    pass


class Programs:
    """embed and generate, each time a process of its own, with kernels compiled before."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.minilm = os.path.join(options.models, "minilm")
        self.smollm2 = os.path.join(options.models, "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
        threads = str(options.threads)
        self.environment = dict(os.environ, POCL_MAX_PTHREAD_COUNT=threads, OMP_NUM_THREADS=threads)

    def run(self, name, *words):
        device = ["--device", self.options.device] if self.options.device else []
        program = os.path.join(self.options.build, "examples", name)
        done = subprocess.run([program, *words, *device], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{name}: {done.stderr.strip() or done.returncode}")
        return done.stdout, done.stderr

    def embed(self, texts, repeat):
        path = os.path.join(self.folder, "texts.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(texts) + "\n")
        text, told = self.run("embed", "-m", self.minilm, "-f", path, "--json", "--repeat", str(repeat))
        found = re.search(r"([0-9.]+) ms, the shortest", told)
        return float(found.group(1)) if found else 0.0, json.loads(text)

    def generate(self, prompt, weights, count, repeat):
        path = os.path.join(self.folder, "prompt.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(prompt)
        text, told = self.run(
            "generate", "-m", self.smollm2, "-f", path, "-n", str(count), "--ids", "--weights", weights, "--repeat", str(repeat)
        )
        lines = text.splitlines()
        ids = [[int(x) for x in line.split(":")[1].split()] for line in lines[:2]]
        found = re.search(r"tokens in ([0-9.]+) s(?:; then ([0-9]+) in ([0-9.]+) s)?", told)
        rate = float(found.group(2)) / float(found.group(3)) if found.group(2) else 0.0
        return 1e3 * float(found.group(1)), rate, ids[0], ids[1]


def words_of(worker, count, chance):
    """Words that are one token each to embed."""
    plain = sorted(w for w in worker.ask("words")["words"] if re.fullmatch("[a-z]{4,}", w))
    return [chance.choice(plain) for _ in range(count)]


def best(worker, repeat, **request):
    answers = [worker.ask("run", **request) for _ in range(repeat)]
    for answer in answers:
        if "seconds" not in answer:
            raise Failed(answer.get("failed", "no answer"))
    return answers


def measure_embed(options, programs, worker, workers):
    size = TEXT_TOKENS - 2  # without [CLS] and [SEP]
    words = words_of(worker, TEXTS * size, random.Random(1))
    texts = [" ".join(words[i * size : (i + 1) * size]) for i in range(TEXTS)]
    samples = {"clattn": [], "encode": [], "model": []}
    programs.embed(texts, 1)
    for way in ("encode", "model"):
        best(worker, 1, texts=texts, way=way)
    for turn in range(options.rounds):
        print(f"embed: round {turn + 1}", flush=True)
        wait_until_idle(workers)
        ms, ours = programs.embed(texts, REPEAT + 1)
        samples["clattn"].append(ms)
        for way in ("encode", "model"):
            wait_until_idle(workers)
            answers = best(worker, REPEAT, texts=texts, way=way)
            samples[way].append(1e3 * min(a["seconds"] for a in answers))
    if answers[0]["shape"] != [TEXTS, TEXT_TOKENS] or any(len(o["ids"]) != TEXT_TOKENS for o in ours):
        raise Failed(f"texts have {answers[0]['shape']} tokens")
    error = max(abs(x - y) for o, row in zip(ours, answers[0]["values"]) for x, y in zip(o["embedding"], row))
    return {way: report.median(x) for way, x in samples.items()}, error


def measure_generate(options, programs, worker, words, workers):
    asked = worker.ask("prompt", words=words, count=PROMPT)
    prompt, ids = asked["text"], asked["ids"]
    kinds = ["f32", "stored"]
    first, rate, tokens = {k: [] for k in [*kinds, "torch"]}, {k: [] for k in [*kinds, "torch"]}, {}
    if any(programs.generate(prompt, kind, 1, 1)[2] != ids for kind in kinds):
        raise Failed("the prompt has other tokens in transformers")
    best(worker, 1, ids=ids, count=2)
    for turn in range(options.rounds):
        print(f"generate: round {turn + 1}", flush=True)
        for kind in kinds:
            wait_until_idle(workers)
            ms, per_second, _, tokens[kind] = programs.generate(prompt, kind, TOKENS, REPEAT)
            first[kind].append(ms)
            rate[kind].append(per_second)
        wait_until_idle(workers)
        answers = best(worker, REPEAT, ids=ids, count=TOKENS)
        first["torch"].append(1e3 * min(a["first"] for a in answers))
        rate["torch"].append((TOKENS - 1) / min(a["rest"] for a in answers))
        tokens["torch"] = answers[0]["tokens"]
    return {k: report.median(x) for k, x in first.items()}, {k: report.median(x) for k, x in rate.items()}, tokens


def table(embed, error, first, rate, tokens):
    """The Markdown lines, and whether all is as fast and right."""
    rows, good = [], error <= ALLOWED
    head = ["| what | clattn | PyTorch | as fast as PyTorch |", "|---|---|---|---|"]

    def row(what, ours, theirs, unit, ratio):
        nonlocal good
        good = good and ratio >= 1
        rows.append(f"| {what} | {ours:.4g} {unit} | {theirs:.4g} {unit} | {ratio:.2f} times |")

    texts = f"`embed`, {TEXTS} texts of {TEXT_TOKENS} tokens"
    row(f"{texts}, against `encode`", embed["clattn"], embed["encode"], "ms", embed["encode"] / embed["clattn"])
    row(f"{texts}, against the model alone", embed["clattn"], embed["model"], "ms", embed["model"] / embed["clattn"])
    for kind, name in (("f32", "weights in f32"), ("stored", "weights in Q4_1")):
        row(f"`generate`, {name}: first token behind {PROMPT}", first[kind], first["torch"], "ms", first["torch"] / first[kind])
        row(f"`generate`, {name}: tokens a second", rate[kind], rate["torch"], "", rate[kind] / rate["torch"])
    same = sum(1 for a, b in zip(tokens["f32"], tokens["torch"]) if a == b)
    good = good and same == TOKENS
    facts = f"Embeddings differ by at most {error:.1e}; {same} of {TOKENS} tokens are the same."
    return "\n".join(head + rows) + f"\n\n{facts}", good


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="clattn-") as folder:
        programs = Programs(options, folder)
        given = {"threads": options.threads, "minilm": programs.minilm, "smollm2": programs.smollm2}
        for path in (programs.minilm, programs.smollm2, os.path.join(options.build, "examples", "embed")):
            if not os.path.exists(path):
                print(f"models: {path} is not there", file=sys.stderr)
                return 2
        workers = [Worker(name, given, "models_worker.py") for name in ("embed", "generate")]
        others = Others(workers)
        try:
            for w in workers:
                if "version" not in w.hello:
                    raise Failed(w.hello["failed"])
            words = words_of(workers[0], PROMPT, random.Random(2))
            embed, error = measure_embed(options, programs, workers[0], workers)
            first, rate, tokens = measure_generate(options, programs, workers[1], words, workers)
        except Failed as failure:
            print(f"models: {failure}", file=sys.stderr)
            return 2
        finally:
            taken = others.share()
            for w in workers:
                w.end()
    lines, good = table(embed, error, first, rate, tokens)
    versions = "; ".join(w.hello["version"] for w in workers)
    text = f"{report.when_and_where(options)}; clattn {report.commit()}; {versions}.{report.disturbed(taken)}\n\n{lines}"
    print("\n" + text)
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "models.md"), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    if options.docs:
        report.insert(options.docs, "models", text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
