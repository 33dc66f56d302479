#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Doxygen reads in the place of a public header: its comments as Doxygen marks them, lists of enumerators expanded.

filter.py HEADER    (INPUT_FILTER of docs/api/Doxyfile)

The headers' comments are for people who read headers. A comment before a declaration documents it, one behind a field on
the same line that field, or those of the line; the first of a file documents the file. Their texts are kept as they are laid out.
"""
import re
import sys

LIST = re.compile(r"#define (CLATTN_\w+)_LIST\(X\)((?:.*\\\n)+.*\n)")
ENTRY = re.compile(r'X\((\w+), (\w+),(?: \d+, \d+,)? "([^"]*)"\)(?:\s*/\*(.*?)\*/)?')
ENUM = re.compile(r"#define (CLATTN_\w+)_ENUM\(.*\n\s+CLATTN_\w+_LIST\(CLATTN_\w+_ENUM\)\n#undef \w+\n")
FIELDS = re.compile(
    r"^( +)((?:const )?\w+)\s+(\*?\w+(?:\[\w+\])?(?:,\s+\*?\w+(?:\[\w+\])?)+);(\s*/\*\*<(?:[^*]|\*(?!/))*\*/)?", re.M
)


def escaped(text):
    return re.sub(r"([\\@<>&#%$\"])", r"\\\1", text)


def unstarred(comment):
    lines = [re.sub(r"^ \* ?", "", line) for line in comment.split("\n")]
    return "\n".join(lines).strip("\n").rstrip()


def block(comment, command=""):
    """A documentation block: the first sentence as the brief one, all of it as it stands."""
    text = unstarred(comment)
    flat = " ".join(text.split())
    brief = re.split(r"(?<=[.;])\s", flat, maxsplit=1)[0]
    body = "" if brief == flat else f"\n@verbatim\n{text}\n@endverbatim\n"
    return f"/** {command}{escaped(brief)}\n{body}*/"


def expanded(text):
    """Lists of enumerators, each with its text and comment, in the place of the macros that make enums of them."""
    lists = {name: ENTRY.findall(body) for name, body in LIST.findall(text)}

    def enum(found):
        lines = []
        for name, value, words, comment in lists[found.group(1)]:
            said = f'"{words}"' + (f": {comment.strip()}" if comment.strip() else "")
            lines.append(f"    {name} = {value}, /* {said} */\n")
        return "".join(lines)

    return ENUM.sub(enum, text)


def documented(text):
    out, at, first = [], 0, True
    for found in re.finditer(r"/\*(.*?)\*/", text, re.S):
        out.append(text[at : found.start()])
        at = found.end()
        comment = found.group(1).strip()
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if comment.startswith(("SPDX", "----", "X(")):
            continue
        if line.strip() == "":
            out.append(block(comment, "@file\n" if first else ""))
            first = False
        else:
            out.append("/**< " + escaped(" ".join(unstarred(comment).split())) + " */")
    return "".join(out) + text[at:]


def one_a_line(text):
    """Fields that share a line and its comment become a line each."""

    def split(found):
        indent, kind, names = found.group(1, 2, 3)
        comment = found.group(4) or ""
        return "\n".join(f"{indent}{kind} {name.strip()};{comment}" for name in names.split(","))

    return FIELDS.sub(split, text)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    sys.stdout.write(one_a_line(documented(expanded(text))))


main()
