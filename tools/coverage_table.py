#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Branches of host/ by folder, and those that no test took, from gcovr's JSON.

coverage_table.py COVERAGE.json [--list FOLDER] [--write FILE.md]
"""
import argparse
import collections
import json
import re


def branches(files):
    """(file, line, taken, count) of every line that has branches."""
    for f in files:
        lines = collections.defaultdict(list)
        for line in f["lines"]:
            if not line.get("gcovr/noncode") and not line.get("gcovr/excluded"):
                lines[line["line_number"]].append([b["count"] > 0 for b in line["branches"] if not b.get("gcovr/excluded")])
        for number, parts in sorted(lines.items()):
            # A line of a text that is compiled more than once (types) has a list of branches each time.
            same = [p for p in parts if len(p) == len(parts[0])]
            merged = [any(column) for column in zip(*same)]
            if merged:
                yield f["file"], number, sum(merged), len(merged)


def reason(text):
    """Why nothing took it, as far as the line tells."""
    for pattern, why in REASONS:
        if re.search(pattern, text):
            return why
    return "a case that no test has"


REASONS = [
    (r"CLA_TRY_CL|cla_check_cl|CL_SUCCESS", "an OpenCL call fails here"),
    (r"cla_alloc|cla_realloc|alloc\(|_create\(|str_status|CLA_TRY\(cla_str", "no memory, or no object, is left here"),
    (r"CLA_TRY|status [!=]= CLATTN_OK", "what is called fails here"),
    (r"CLA_CHECK", "an error that no test makes here"),
]


def source(path):
    with open(path, encoding="utf-8") as f:
        return f.read().split("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("json")
    parser.add_argument("--list", help="lines of this folder or file too")
    parser.add_argument("--write", help="the table and every line, as Markdown")
    args = parser.parse_args()
    with open(args.json, encoding="utf-8") as f:
        found = list(branches(json.load(f)["files"]))
    table = collections.defaultdict(lambda: [0, 0])
    for path, _, taken, count in found:
        for key in ("/".join(path.split("/")[:2]), "host"):
            table[key][0] += taken
            table[key][1] += count
    rows = [f"| {key} | {t} | {n} | {n - t} | {100 * t / n:.2f} % |" for key, (t, n) in sorted(table.items(), key=lambda x: (x[0] == "host", x[0]))]
    head = ["| folder | branches taken | of | not taken | |", "|---|---|---|---|---|"]
    print("\n".join(head + rows))
    missed = [x for x in found if x[2] < x[3]]
    if args.list:
        files = collections.Counter()
        for path, number, taken, count in missed:
            if path.startswith(args.list):
                files[path] += count - taken
                print(f"{path}:{number}: {count - taken} of {count}: {source(path)[number - 1].strip()}")
        for path, n in files.most_common():
            print(n, path)
    if args.write:
        write(args.write, head + rows, missed)


def write(path, table, missed):
    text = ["# Branches of host/ that no test takes", "",
            "Made by `tools/coverage.sh`, which says how; what it leaves out and what the figures mean stands in "
            "[testing](testing.md#branches).", ""] + table
    last = ""
    for name, number, taken, count in missed:
        if name != last:
            text += ["", f"**{name}**", "", "| line | not taken | the line | why |", "|---|---|---|---|"]
            last = name
        line = source(name)[number - 1].strip()
        shown = line.replace("|", "\\|")
        text.append(f"| {number} | {count - taken} of {count} | `{shown}` | {reason(line)} |")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
