# SPDX-License-Identifier: Apache-2.0
"""Medians, goals and tables of what peers.py measured. Standard library only."""
import json
import math
import os
import re
import subprocess
import time


def median(values):
    values = sorted(values)
    n = len(values)
    return (values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2) if n else None


def spread(values):
    """The middle half of the samples, in shares of the median."""
    values = sorted(values)
    n = len(values)
    return (values[(3 * n) // 4 if n > 3 else -1] - values[n // 4 if n > 3 else 0]) / median(values) if n else None


def time_of(run, who, way=None):
    """The median in ms of a peer's fastest way; of clattn the plan, or the way that is named."""
    way = way or ("plan" if who == "clattn" else None)
    of = [median(ms) for (name, w), ms in run.samples.items() if name == who and ms and (way is None or w == way)]
    return min(of) if of else None


def fastest_peer(run):
    """Of those whose result is right."""
    peers = {who for who, _ in run.samples if who != "clattn" and who not in run.wrong}
    times = [(time_of(run, who), who) for who in peers if time_of(run, who)]
    return min(times) if times else (None, None)


def shares(run):
    """Of the best samples of the peaks, measured in between: multiply-adds of the whole run, reading as many bytes."""
    ms = time_of(run, "clattn")
    if not ms or not run.peaks:
        return None, None
    fma = run.s_operations / ms * 1e-6 / run.fma_peak
    reading = run.s_bytes / ms * 1e-6 / max(p["gbytes"] for p in run.peaks)
    return (fma if fma <= 1.02 else None), reading  # above 1: other programs had the processors in every sample


def size_of(s):
    return max(s.N, s.M)


def value_of(kind, other, run, runs):
    """None: not measured."""
    ms, peer = time_of(run, "clattn"), fastest_peer(run)[0]
    fma, reading = shares(run)
    that = next((time_of(r, "clattn") for r in runs if r.s.name == other), None)
    if not ms or "clattn" in run.wrong:
        return None
    if kind == "peers":
        return peer / ms if peer else None
    if kind == "call":
        return peer / time_of(run, "clattn", "call") if peer else None
    if kind == "torch":
        return time_of(run, "torch") / ms if time_of(run, "torch") and "torch" not in run.wrong else None
    if kind == "faster":
        return that / ms if that else None
    if kind == "order":
        size = next((size_of(r.s) for r in runs if r.s.name == other), None)
        return math.log(ms / that) / math.log(size_of(run.s) / size) if that and size and size != size_of(run.s) else None
    return fma if kind == "fma" else reading


def judge(run, runs):
    """[(text of the goal, value or None, met)]"""
    of = []
    for kind, other, relation, bound in run.s.goals:
        value = value_of(kind, other, run, runs)
        met = value is not None and (value >= bound if relation == ">=" else value <= bound)
        of.append((f"{kind}{f'({other})' if other else ''} {relation} {bound:g}", value, met))
    return of


# ---- texts ----


def number(ms):
    return "-" if ms is None else f"{ms:.3g}" if ms < 99.95 else f"{ms:.0f}"


def percent(share):
    return "-" if share is None else f"{100 * share:.0f} %"


def goal_text(value, met):
    return "not measured" if value is None else f"{value:.2f}" if met else f"{value:.2f} **missed**"


def line_of(run, titles):
    parts = [f"{titles[who]} {way} {number(median(ms))} ms" for (who, way), ms in run.samples.items() if ms]
    parts += [f"{titles[who]}: {why}" for who, why in run.notes.items()]
    parts += [f"WRONG: {titles[who]} is off by {run.errors[who]:.2g}" for who in run.wrong]
    return "; ".join(parts)


def cell_of(run, who):
    ms = time_of(run, who)
    if who in run.wrong:
        return f"wrong ({run.errors[who]:.1g})"
    if ms is None:
        return "-"
    most = max((spread(v) or 0) for (name, _), v in run.samples.items() if name == who)
    return f"{number(ms)} ± {100 * most / 2:.0f} %"


def table(runs, versions, titles):
    peers = [who for who in versions if who != "clattn"]
    lines = ["| scenario | problem | clattn, ms | one call | GFLOP/s | of FMA peak | of read bandwidth | "]
    lines[0] += "".join(f"{titles[who]} | " for who in peers) + "fastest peer / clattn | / one call | goals |"
    lines.append("|" + "---|" * (lines[0].count("|") - 1))
    for run in runs:
        ms, call, (peer, who) = time_of(run, "clattn"), time_of(run, "clattn", "call"), fastest_peer(run)
        fma, reading = shares(run)
        goals = [f"{text}: {goal_text(v, met)}" for text, v, met in judge(run, runs)]
        cells = [f"`{run.s.name}`", run.s.text, cell_of(run, "clattn"), number(call)]
        cells += [f"{run.s_operations / ms * 1e-6:.0f}" if ms else "-", percent(fma), percent(reading)]
        cells += [cell_of(run, p) for p in peers]
        cells += [f"{peer / ms:.2f}" if peer and ms else "-", f"{peer / call:.2f}" if peer and call else "-"]
        lines.append("| " + " | ".join(cells + ["; ".join(goals) or "-"]) + " |")
    return "\n".join(lines)


def reasons(runs, titles):
    """Who took no part, and why: scenarios by reason."""
    of = {}
    for run in runs:
        for who, why in run.notes.items():
            of.setdefault((titles[who], why), []).append(run.s.name)
    return "\n".join(f"- {who}, {len(names)} scenarios: {why} ({', '.join(names)})" for (who, why), names in of.items())


def memory_table(memory):
    sizes = sorted({n for of in memory.values() for n in of})
    lines = ["| MiB beyond the inputs | " + " | ".join(f"n {n}" for n in sizes) + " | grows as n to the |"]
    lines.append("|---|" + "---|" * (len(sizes) + 1))
    notes = []
    for title, of in memory.items():
        known = [(n, b) for n, b in sorted(of.items()) if not isinstance(b, str) and b > 0]
        order = "-"
        if len(known) > 1:
            order = f"{math.log(known[-1][1] / known[-2][1]) / math.log(known[-1][0] / known[-2][0]):.2f}"
        cells = ["-" if isinstance(of[n], str) else f"{of[n] / 2**20:.1f}" for n in sizes]
        notes += [f"- {title}, n {n}: {of[n]}" for n in sizes if isinstance(of[n], str)]
        lines.append(f"| {title} | " + " | ".join(cells) + f" | {order} |")
    return "\n".join(lines + ([""] + notes if notes else []))


def machine():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        text = lines.read()
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    flags = re.search(r"^flags\s*: (.*)$", text, re.M)
    kinds = [f for f in ("avx2", "avx512f", "amx_tile") if flags and f in flags[1].split()]
    name = model[1] if model else "a CPU"
    return f"{len(os.sched_getaffinity(0))} cores of {name}{', ' + ', '.join(kinds) if kinds else ''}"


def commit():
    got = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return got.stdout.strip() or "unknown"


def when_and_where(options):
    return f"{time.strftime('%Y-%m-%d')}, {machine()}, {options.threads} threads each"


def disturbed(taken):
    if taken <= 0.03:
        return ""
    return f" OTHER PROGRAMS TOOK {100 * taken:.0f} % OF THE PROCESSORS MEANWHILE: these are no times of a quiet machine."


def heading(options, versions, runs, titles, taken):
    fma = [p["gflops"] for run in runs for p in run.peaks]
    of = ", ".join(f"{titles[who]} {v}" for who, v in versions.items() if who != "clattn")
    text = f"{when_and_where(options)}; clattn {commit()} on {versions['clattn']}"
    text += f"; {of}" if of else ""
    if fma:
        text += f". Peak of multiply-adds in this run: median {median(fma):.0f}, best {max(fma):.0f} GFLOP/s"
    return text + "." + (disturbed(taken) if runs else "")


def insert(path, mark, text):
    """Replaces what stands between the lines <!-- mark --> and <!-- /mark -->."""
    with open(path, encoding="utf-8") as file:
        old = file.read()
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    if begin not in old or end not in old:
        raise ValueError(f"{path}: the lines {begin.strip()} and {end} are missing")
    new = old[: old.index(begin) + len(begin)] + text.strip() + "\n" + old[old.index(end) :]
    with open(path, "w", encoding="utf-8") as file:
        file.write(new)


def as_json(runs, memory, versions, heading_text, titles):
    def one(run):
        fma, reading = shares(run)
        peer, who = fastest_peer(run)
        return {
            "name": run.s.name,
            "problem": run.s.text,
            "ms": {f"{name} {way}": median(ms) for (name, way), ms in run.samples.items() if ms},
            "spread": {f"{name} {way}": spread(ms) for (name, way), ms in run.samples.items() if ms},
            "samples": {f"{name} {way}": ms for (name, way), ms in run.samples.items()},
            "fastest_peer": who,
            "fastest_peer_ms": peer,
            "operations": run.s_operations,
            "moved_bytes": run.s_bytes,
            "algorithm": run.facts.get("algorithm"),
            "peaks": run.peaks,
            "fma_share": fma,
            "read_share": reading,
            "errors": {who: e if math.isfinite(e) else None for who, e in run.errors.items()},
            "wrong": run.wrong,
            "no_part": run.notes,
            "goals": [{"goal": text, "value": v, "met": met} for text, v, met in judge(run, runs)],
        }

    return {"about": heading_text, "versions": versions, "scenarios": [one(r) for r in runs], "memory": memory}


def finish(options, runs, memory, versions, absent, titles, taken, seconds):
    """Writes the files, prints the table; the exit status."""
    for run in runs:
        run.fma_peak = max((p["gflops"] for r in runs for p in r.peaks), default=0)
    about = heading(options, versions, runs, titles, taken)
    parts = {}
    if runs:
        no_part = reasons(runs, titles)
        parts["peers"] = about + "\n\n" + table(runs, versions, titles) + ("\n\nNo part took:\n\n" + no_part if no_part else "")
    if memory:
        parts["memory"] = f"{about}\n\n{memory_table(memory)}"
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "peers.md"), "w", encoding="utf-8") as file:
        file.write("\n\n".join(parts.values()) + "\n")
    with open(os.path.join(options.out, "peers.json"), "w", encoding="utf-8") as file:
        json.dump(as_json(runs, memory, versions, about, titles), file, indent=1)
        file.write("\n")
    for mark, text in parts.items():
        print("\n" + text)
        if options.docs:
            insert(options.docs, mark, text)
    goals = [g for run in runs for g in judge(run, runs)]
    missed = [g for g in goals if g[1] is not None and not g[2]]
    unknown = [g for g in goals if g[1] is None]
    wrong = [who for run in runs for who in run.wrong]
    failed = [run.s.name for run in runs if not time_of(run, "clattn")]
    print(f"\n{len(runs)} scenarios, {len(versions) - 1} peers, {len(absent)} peers absent, {sum(len(r.notes) for r in runs)} times "
          f"no part taken, {len(wrong)} wrong results; {seconds:.0f} s")  # fmt: skip
    print(f"goals: {len(goals)}, met {len(goals) - len(missed) - len(unknown)}, missed {len(missed)}, not measured {len(unknown)}")
    return 1 if missed or "clattn" in wrong or failed else 0
