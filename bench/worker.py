# SPDX-License-Identifier: Apache-2.0
"""One peer in a process of its own: a JSON request a line on standard input, an answer a line on standard output.
It sleeps between requests, so that none of its threads takes part in the timing of another peer."""
import gc
import json
import os
import sys
import time

from backends import BACKENDS, Refused
from ours import Array
from scenario import parse_problem

SAMPLE_SECONDS = 0.02  # a sample is the median of as many calls as take that long
CALLS_MOST = 100


def seconds_of(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def median(values):
    values = sorted(values)
    n = len(values)
    return values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2


class Worker:
    def __init__(self, name, options):
        self.name = name
        self.backend = BACKENDS[name](options)

    def hello(self):
        return {"version": self.backend.version()}

    def arrays(self, request):
        return {name: Array(**of) for name, of in request["arrays"].items()}

    def open(self, request):
        """Prepares a scenario, computes it in each way, and leaves the result of the fastest in the array."""
        s = parse_problem(request["name"], request["problem"])
        self.mapped, self.out = self.arrays(request), Array(**request["out"])
        ways = self.backend.open(s, self.mapped, self.out)
        self.ways, best = {}, None
        for name, function in ways.items():
            seconds_of(function)  # with what compilers and allocators take
            seconds, result = seconds_of(function)
            if seconds < 1:
                seconds = min(seconds, seconds_of(function)[0])
            if self.name == "clattn" or best is None or seconds < best:
                if self.name != "clattn":
                    self.ways.clear()
                self.ways[name] = (function, seconds)
                best = seconds
                if self.name != "clattn":
                    self.backend.store(result, self.out)
        if self.name == "clattn":  # of the plan now; run() leaves that of the call
            self.backend.store(None, self.out)
        return {"seconds": {n: t for n, (_, t) in self.ways.items()}, "facts": getattr(self.backend, "facts", {})}

    def run(self, request):
        """One sample of each way, in ms, behind a call that is not timed."""
        samples = {}
        for name, (function, seconds) in self.ways.items():
            calls = max(1, min(CALLS_MOST, int(SAMPLE_SECONDS / max(seconds, 1e-6))))
            if seconds < 1:
                function()
            samples[name] = 1e3 * median([seconds_of(function)[0] for _ in range(calls)])
        return {"ms": samples}

    def close(self, request):
        self.ways = {}
        self.backend.close()
        gc.collect()
        return {}

    def peak(self, request):
        return self.backend.peak(request["bytes"])

    def memory(self, request):
        """What a run takes beyond the inputs: largest resident size less that before, after a tiny run of the same."""
        peaks = []
        for part in request["parts"]:
            s = parse_problem("memory", part["problem"])
            mapped, out = self.arrays(part), Array(**part["out"])
            for array in mapped.values():
                sum(array.map[:: 4096])
            only = {"call_only": True} if self.name == "clattn" else {}
            before = resident_now()
            way = next(iter(self.backend.open(s, mapped, out, **only).values()))
            result = way()
            peaks.append(resident_most() - before)
            del way, result
            self.backend.close()
        return {"bytes": peaks[-1]}


def status_bytes(key):
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key + ":"))


def resident_now():
    gc.collect()
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the largest size so far is forgotten
    return status_bytes("VmRSS")


def resident_most():
    return status_bytes("VmHWM")


def main():
    name, options = sys.argv[1], json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print do not disturb
    gc.disable()

    def answer(of):
        answers.write(json.dumps(of) + "\n")
        answers.flush()

    try:
        worker = Worker(name, options)
        answer(worker.hello())
    except ImportError as missing:
        answer({"refused": str(missing)})
        return
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(getattr(worker, request["do"])(request))
        except Refused as reason:
            answer({"refused": str(reason)})
        except Exception as failure:  # of any library: it is told, and counted
            answer({"failed": f"{type(failure).__name__}: {' '.join(str(failure).split())[:200]}"})


main()
