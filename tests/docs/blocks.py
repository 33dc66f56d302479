#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles or runs each code block of README.md, docs/*.md and python/README.md, as a reader would.

blocks.py --build DIR --prefix DIR [--python PROGRAM] [FILE...]

A file's blocks share a scratch folder, in their order: `build` there is the build, tools, examples and others are the
repository's, q.npy, k.npy, v.npy, m.safetensors and texts.txt are small data, and the device, where none is named,
is `cpu`, which compiles nothing. What is done with a block:

    c        is saved as example.c and compiled, with warnings as errors; with `main` it runs
    cmake    is the CMakeLists.txt of a project, configured and built
    python   is saved as example.py and runs, with the package that --python has
    sh       runs, each line as it stands; the first that fails fails the block
    text     right behind one of these is its output, which is compared; elsewhere, and without a language: not code

HTML comments before a block, which readers of the page do not see, say what else (several are allowed):

    <!-- skip: WHY -->               the block is not run; counted, with the reason
    <!-- skip "PART": WHY -->        nor are lines that hold PART
    <!-- with "A" as "B" -->         B in the place of A, so that it takes seconds
    <!-- before: LINE -->            a line that goes before it: what the text around the block says
    <!-- differs: WHY -->            the output is not the same everywhere, and not compared

Last line: N passed, N failed; exit status 1 when something failed.
"""
import argparse
import collections
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = ("c", "cmake", "python", "sh")
MARK = re.compile(r'^<!-- (skip|with|before|differs)\b ?(?:"((?:[^"])*)")?(?: as "([^"]*)")?(?:: ?)?(.*?) ?-->$')
Block = collections.namedtuple("Block", "line language text marks follows")


def blocks_of(path):
    """The fenced blocks of a file; follows: nothing but marks and empty lines lies between it and the one before."""
    blocks, marks, inside, start, follows = [], [], None, 0, False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n"), 1):
            fence = re.match(r"^```(\w*)$", line)
            if inside is None and fence:
                inside, start, text = fence.group(1), number, []
            elif inside is not None and line == "```":
                blocks.append(Block(start, inside, "\n".join(text) + "\n", marks, follows))
                inside, marks, follows = None, [], True
            elif inside is not None:
                text.append(line)
            elif line.startswith("<!--"):
                mark = MARK.match(line)
                if mark:  # else a comment of another kind
                    marks.append(mark.groups())
            elif line.strip():
                marks, follows = [], False
    if inside is not None:
        sys.exit(f"{path}:{start}: the block does not end")
    return blocks


class Runner:
    def __init__(self, options):
        self.options = options
        self.counts = collections.Counter()
        self.skipped = []
        self.environment = dict(os.environ, CLATTN_CACHE_DIR="off", CLATTN_TUNING_FILE="tuning.txt", CLATTN_DEVICE="cpu",
                                OMP_WAIT_POLICY="passive", PYTHONDONTWRITEBYTECODE="1")
        lib = os.path.join(options.prefix, "lib")
        self.environment.update(
            PATH=os.path.join(options.prefix, "bin") + os.pathsep + os.environ["PATH"],
            LD_LIBRARY_PATH=lib,
            PKG_CONFIG_PATH=os.path.join(lib, "pkgconfig"),
            CMAKE_PREFIX_PATH=options.prefix,
        )

    def run(self, *command):
        done = subprocess.run(command, cwd=self.scratch, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)[:200]}: status {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
        return done.stdout

    def save(self, name, text):
        with open(os.path.join(self.scratch, name), "w", encoding="utf-8") as file:
            file.write(text)

    def c(self, text):
        self.save("example.c", text)
        include, lib = (os.path.join(self.options.prefix, part) for part in ("include", "lib"))
        flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I" + include]
        if "main(" not in text:
            return self.run("cc", *flags, "-c", "example.c", "-o", "example.o")
        self.run("cc", *flags, "example.c", "-o", "example", "-L" + lib, "-lclattn")
        return self.run("./example")

    def cmake(self, text):
        self.save("CMakeLists.txt", text)
        return self.run("cmake", "-B", "build-example") + self.run("cmake", "--build", "build-example")

    def python(self, text):
        self.save("example.py", text)
        return self.run(self.options.python, "example.py")

    def sh(self, text):
        return self.run("bash", "-euo", "pipefail", "-c", text)

    def prepare(self):
        for name in ("tools", "examples", "tests", "bench", "docs", "python", "include", "README.md"):
            os.symlink(os.path.join(ROOT, name), os.path.join(self.scratch, name))
        os.symlink(os.path.abspath(self.options.build), os.path.join(self.scratch, "build"))
        shutil.copy(os.path.join(ROOT, "tests", "docs", "texts.txt"), self.scratch)
        self.run("cc", "-std=c11", "-I" + os.path.join(self.options.prefix, "include"), os.path.join(ROOT, "tests", "docs", "make_data.c"),
                 "-o", "make_data", "-L" + os.path.join(self.options.prefix, "lib"), "-lclattn")
        self.run("./make_data")

    def block(self, where, block, output):
        """Its output; None when there is none to compare with."""
        text, kinds = block.text, {kind for kind, *_ in block.marks}
        if block.language not in RUN:
            if block.language not in ("", "text"):
                raise RuntimeError(f"a block in {block.language}: nothing is known of it")
            if block.language == "text" and block.follows and output is not None and "differs" not in kinds:
                if output != text:
                    raise RuntimeError("the output differs:\n" + "".join(difflib.unified_diff(text.splitlines(True), output.splitlines(True), "page", "output")))
                self.counts["outputs"] += 1
            else:
                self.counts["other texts"] += 1
            return None
        for kind, first, second, rest in block.marks:
            if kind == "skip" and first is None:
                self.skipped.append(f"{where}: {rest}")
                return None
            if first is not None and first not in text:
                raise RuntimeError(f'the mark\'s "{first}" is not in the block')
            if kind == "skip":
                left_out = [line for line in text.split("\n") if first in line]
                self.skipped += [f"{where}: {line.split('  #')[0].strip()}: {rest}" for line in left_out]
                text = "\n".join(line for line in text.split("\n") if first not in line)
            elif kind == "with":
                text = text.replace(first, second)
            elif kind == "before":
                text = rest + "\n" + text
        output = getattr(self, block.language)(text)
        self.counts[block.language] += 1
        return output

    def file(self, path):
        self.scratch = tempfile.mkdtemp(prefix="clattn-docs-")
        output, start = None, time.monotonic()
        try:
            blocks = blocks_of(path)
            if any(block.language in RUN for block in blocks):
                self.prepare()
            for block in blocks:
                where = f"{os.path.relpath(path, ROOT)}:{block.line}"
                try:
                    output = self.block(where, block, output)
                    self.counts["passed"] += 1
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    output = None
                    self.counts["failed"] += 1
                    print(f"{where}: FAILED: {error}")
        finally:
            shutil.rmtree(self.scratch)
        print(f"{os.path.relpath(path, ROOT)}: {time.monotonic() - start:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    options.prefix = os.path.abspath(options.prefix)
    if os.sep in options.python:
        options.python = os.path.abspath(options.python)
    docs = sorted(name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))
    files = options.files or [os.path.join(ROOT, name) for name in ["README.md", "python/README.md"] + ["docs/" + name for name in docs]]
    runner = Runner(options)
    for path in files:
        runner.file(os.path.abspath(path))
    for line in runner.skipped:
        print("not run:", line)
    counts = runner.counts
    print(", ".join(f"{counts[kind]} {kind}" for kind in RUN + ("outputs", "other texts")) + f", {len(runner.skipped)} not run")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


sys.exit(main())
