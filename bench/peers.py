#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times clattn and its peers on the same problems, interleaved in one run, and says whether the goals are met.

Each peer is a process of its own (worker.py) with as many threads; only one works at a time, and a timing starts when
the processor time of all others stands still. Inputs are the same bytes, in memory that all processes map. Results
are compared with sums in double. Exit status: 0 all goals met, 1 a goal missed or a result wrong, 2 wrong use.
bench/run_peers.sh makes an environment with the peers; this script itself needs the standard library only."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import report
from ours import Array, Library
from scenario import bytes_of, count_of, parse_problem, read

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ["torch", "onnxruntime", "openvino", "numpy"]
TITLES = {"clattn": "clattn", "torch": "PyTorch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "numpy": "NumPy"}
DIFFERENTIATE = ["clattn", "torch"]  # they have a backward pass
PAUSE = 0.05  # seconds before each timing, at least
IDLE_SHARE = 0.02  # of one core, that others may still use
ALLOWED = {"f32": 3e-5, "f64": 1e-12, "f16": 3e-3, "bf16": 2e-2, "q8_0": 2e-2, "q4_0": 2e-2}


class Worker:
    def __init__(self, name, options, script="worker.py"):
        environment = dict(os.environ, POCL_MAX_PTHREAD_COUNT=str(options["threads"]), OMP_NUM_THREADS=str(options["threads"]))
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, script), name, json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        self.hello = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": f"the process ended ({self.process.wait()})"}

    def ask(self, what, **more):
        try:
            self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"failed": f"the process ended ({self.process.wait()})"}
        return self.answer()

    def cpu_seconds(self):
        """That all its threads have run."""
        total, tasks = 0, f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks) if os.path.isdir(tasks) else []:
            try:
                with open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
                    total += int(file.read().split()[0])
            except OSError:
                continue
        return total * 1e-9

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def wait_until_idle(workers):
    """Pauses, and goes on pausing for up to a second while a thread of any worker still spins."""
    for _ in range(20):
        before = sum(w.cpu_seconds() for w in workers)
        time.sleep(PAUSE)
        if sum(w.cpu_seconds() for w in workers) - before < IDLE_SHARE * PAUSE:
            return True
    return False


def busy_seconds():
    """Of all processors, by anyone."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(x) for x in file.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


class Others:
    """The share of the processors that other programs took while we measured."""

    def __init__(self, workers):
        self.workers = workers
        self.start, self.busy, self.ours = time.monotonic(), busy_seconds(), self.used()

    def used(self):
        own = os.times()
        return sum(w.cpu_seconds() for w in self.workers) + sum(own[:4])  # of this process and of children that ended

    def share(self):
        took = busy_seconds() - self.busy - (self.used() - self.ours)
        return max(0.0, took / ((time.monotonic() - self.start) * os.cpu_count()))


def fresh_arrays(library, s, folder, seed):
    arrays = {}
    for i, (name, (dtype, shape)) in enumerate(s.arrays().items()):
        if name != "o":
            arrays[name] = Array(os.path.join(folder, f"{s.name}.{name}"), dtype, shape, create=True)
            library.fill(arrays[name], 1000 * seed + i)
    return arrays


def result_array(s, folder, who):
    dtype, shape = s.arrays()["o"]
    out = Array(os.path.join(folder, f"{s.name}.o.{who}"), dtype, shape, create=True)
    out.map[:] = b"\xff" * len(out.map)  # NaN: what is not written must not look right
    return out


def remove(arrays):
    for array in arrays:
        os.unlink(array.path)


def largest_error(library, s, arrays, out):
    """Of some rows in the middle and the last ones; gradients are looked at as a whole."""
    if s.backward:
        return library.error(s, arrays, out, 0, 0)
    rows = s.M if s.linear else s.N
    some = 2 if s.linear else 4
    begins = {max(0, rows // 2 - some // 2), max(0, rows - some)}
    errors = [library.error(s, arrays, out, begin, min(some, rows)) for begin in begins]
    return max(errors) if all(e == e for e in errors) else float("nan")


def allowed(s, ways):
    types = [s.q, s.k, s.v] + [way.split(" in ")[1] for way in ways if " in " in way]
    return max(ALLOWED[t] for t in types)


class Run:
    """One scenario: who takes part, the samples of all, what came out."""

    def __init__(self, s):
        self.s = s
        self.samples = {}  # (who, way) -> ms
        self.notes = {}  # who -> why it took no part
        self.errors = {}
        self.wrong = []
        self.peaks = []
        self.facts = {}

    def open(self, library, workers, folder, seed):
        self.arrays = fresh_arrays(library, self.s, folder, seed)
        self.outs, self.taking_part = {}, []
        described = {name: a.describe() for name, a in self.arrays.items()}
        for w in workers:
            out = self.outs[w.name] = result_array(self.s, folder, w.name)
            got = w.ask("open", name=self.s.name, problem=self.s.text, arrays=described, out=out.describe())
            if "seconds" not in got:
                self.notes[w.name] = got.get("refused") or got["failed"]
                continue
            self.taking_part.append(w)
            self.facts = got["facts"] or self.facts
            self.judge(library, w.name, got["seconds"])
            for way in got["seconds"]:
                self.samples[(w.name, way)] = []

    def judge(self, library, who, ways):
        error = largest_error(library, self.s, self.arrays, self.outs[who])
        self.errors[who] = error
        if not error <= allowed(self.s, ways):
            self.wrong.append(who)

    def rounds(self, workers, rounds, limit):
        start = time.monotonic()
        for turn in range(rounds):
            if turn >= 3 and time.monotonic() - start > limit:
                break
            order = self.taking_part[turn % max(1, len(self.taking_part)) :] + self.taking_part[: turn % max(1, len(self.taking_part))]
            for w in order:
                if turn >= self.rounds_of(w.name):
                    continue
                wait_until_idle(workers)
                got = w.ask("run")
                for way, ms in got.get("ms", {}).items():
                    self.samples[(w.name, way)].append(ms)
                if "ms" not in got:
                    self.notes[w.name] = got.get("failed", "no answer")
                if w.name == "clattn":
                    self.sample_peak(w)

    def rounds_of(self, who):
        """Of what takes seconds fewer are enough; the first is not trusted alone."""
        slowest = max((min(ms) for (name, _), ms in self.samples.items() if name == who and ms), default=0)
        return 2 if slowest > 3000 else 3 if slowest > 1000 else 1000

    def sample_peak(self, w):
        for _ in range(3):
            got = w.ask("peak", bytes=self.facts.get("moved_bytes") or self.s.moved_bytes())
            if "gflops" in got:
                self.peaks.append(got)

    def close(self, library, workers):
        for w in self.taking_part:
            if w.name == "clattn":  # the last thing it did was the one call, into this array
                self.judge(library, w.name, {})
            w.ask("close")
        self.wrong = sorted(set(self.wrong))
        remove(list(self.arrays.values()) + list(self.outs.values()))
        self.arrays = self.outs = None
        self.s_operations = self.facts.get("operations") or (self.s.operations() if self.s.linear else 0)
        self.s_bytes = self.facts.get("moved_bytes") or self.s.moved_bytes()


def measure(options, library, workers, scenarios, folder):
    runs = []
    for i, s in enumerate(scenarios):
        run = Run(s)
        print(f"[{i + 1}/{len(scenarios)}] {s.name}: {s.text}", flush=True)
        run.open(library, workers, folder, i + 1)
        run.rounds(workers, options.rounds, options.limit)
        run.close(library, workers)
        runs.append(run)
        print("    " + report.line_of(run, TITLES), flush=True)
    return runs


# ---- memory ----


def memory_of(worker_options, library, who, n, folder, backward):
    """Bytes beyond the inputs, in a new process; a text where it cannot be."""
    free = available_bytes()
    if who in ("numpy", "onnxruntime") and 3 * 2 * n * n * 4 > free:
        return f"3 arrays of scores are {6 * n * n * 4 / 2**30:.0f} GiB, {free / 2**30:.0f} are free"
    worker = Worker(who, worker_options)
    parts, mine = [], []
    for size in (64, n):
        s = parse_problem(f"memory{size}", f"{'backward ' if backward else ''}b1 h2 n{size} d64")
        arrays, out = fresh_arrays(library, s, folder, 1), result_array(s, folder, who)
        mine += [*arrays.values(), out]
        parts.append({"problem": s.text, "arrays": {k: a.describe() for k, a in arrays.items()}, "out": out.describe()})
    got = worker.hello if "version" not in worker.hello else worker.ask("memory", parts=parts)
    worker.end()
    remove(mine)
    return got["bytes"] if "bytes" in got else got.get("refused") or got.get("failed")


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def measure_memory(options, worker_options, library, names, folder):
    sizes = [int(n) for n in options.memory_sizes.split(",")]
    of = {}
    for who, backward in [(who, False) for who in names] + [(who, True) for who in names if who in DIFFERENTIATE]:
        title = f"{TITLES[who]}, forward and backward" if backward else TITLES[who]
        for n in sizes:
            print(f"memory: {title}, n {n}", flush=True)
            of.setdefault(title, {})[n] = memory_of(worker_options, library, who, n, folder, backward)
    return of


# ---- all of it ----


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build", help="where clattn is built (build)")
    p.add_argument("--scenarios", default=os.path.join(HERE, "scenarios.txt"))
    p.add_argument("--only", help="names of scenarios, with commas; a name that ends in * is a beginning")
    p.add_argument("--problem", help="one problem in place of the file's")
    p.add_argument("--peers", default=",".join(PEERS), help="with commas, or none")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--limit", type=float, default=8, help="seconds of a scenario, after which no round begins; three there are")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--device", default="", help="clattn's (the best)")
    p.add_argument("--memory", action="store_true", help="also the memory that a run takes as n grows")
    p.add_argument("--memory-sizes", default="2048,4096,8192,16384")
    p.add_argument("--no-times", action="store_true", help="memory alone")
    p.add_argument("--out", default="build-bench/results", help="folder of peers.json and peers.md")
    p.add_argument("--docs", help="a Markdown file, whose part between the marks peers and memory is replaced")
    return p.parse_args()


def chosen(options):
    if options.problem:
        return [parse_problem("problem", options.problem)]
    scenarios = read(options.scenarios)
    if not options.only:
        return scenarios
    wanted = options.only.split(",")
    fits = lambda name, w: name.startswith(w[:-1]) if w.endswith("*") else name == w
    for w in wanted:
        if not any(fits(s.name, w) for s in scenarios):
            raise ValueError(f"--only: there is no scenario {w}")
    return [s for s in scenarios if any(fits(s.name, w) for w in wanted)]


def shared_folder():
    """In memory where there is room."""
    room = "/dev/shm"
    free = os.statvfs(room).f_bavail * os.statvfs(room).f_frsize if os.path.isdir(room) else 0
    return tempfile.TemporaryDirectory(prefix="clattn-", dir=room if free > 1 << 30 else None)


def main():
    options = parse_arguments()
    start = time.monotonic()
    try:
        scenarios = [] if options.no_times else chosen(options)
        names = [] if options.peers == "none" else options.peers.split(",")
        for name in names:
            if name not in PEERS:
                raise ValueError(f"--peers: there is no peer {name}; there are {', '.join(PEERS)}")
        library = Library(options.build)
    except (ValueError, OSError) as failure:
        print(f"peers: {failure}", file=sys.stderr)
        return 2
    worker_options = {"build": options.build, "device": options.device, "threads": options.threads}
    workers, absent = [], {}
    for name in ["clattn", *names]:
        worker = Worker(name, worker_options)
        if "version" in worker.hello:
            workers.append(worker)
        else:
            absent[name] = worker.hello.get("refused") or worker.hello["failed"]
            worker.end()
    for name, reason in absent.items():
        print(f"skipped peer {name}: {reason}")
    if "clattn" in absent:
        return 2
    versions = {w.name: w.hello["version"] for w in workers}
    with shared_folder() as folder:
        others = Others(workers)
        runs = measure(options, library, workers, scenarios, folder)
        taken = others.share() if runs else 0.0
        for w in workers:
            w.end()
        memory = measure_memory(options, worker_options, library, list(versions), folder) if options.memory else {}
    return report.finish(options, runs, memory, versions, absent, TITLES, taken, time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
