# SPDX-License-Identifier: Apache-2.0
"""Scenario files: NAME: PROBLEM ; GOALS. Standard library only."""
import re
from dataclasses import dataclass, field

DTYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 3, "bool": 7, "q8_0": 8, "q4_0": 9}
BLOCKS = {"f32": (1, 4), "f64": (1, 8), "f16": (1, 2), "bf16": (1, 2), "bool": (1, 1), "q8_0": (32, 34), "q4_0": (32, 18)}


def bytes_of(dtype, count):
    length, size = BLOCKS[dtype]
    return count // length * size


@dataclass
class Scenario:
    name: str
    text: str
    goals: list = field(default_factory=list)  # (kind, scenario or None, ">=" or "<=", number)
    linear: bool = False
    backward: bool = False  # with the forward pass: the result is dQ, dK and dV, one behind another
    B: int = 1
    H: int = 1
    Hk: int = 0
    N: int = 0
    M: int = 0
    D: int = 0
    Dv: int = 0
    q: str = "f32"
    k: str = ""
    v: str = ""
    causal: bool = False
    bottom_right: bool = False
    window: tuple = ()  # left, right; -1: no limit
    keep: bool = False
    bias: bool = False
    gelu: bool = False
    scale: float = 0.0  # 0: 1 / sqrt(D)

    def arrays(self):
        """name -> (dtype, shape) of the inputs and the result."""
        if self.linear:
            of = {"x": ("f32", (self.M, self.D)), "w": ("f32", (self.N, self.D)), "o": ("f32", (self.M, self.N))}
            return {**of, "bias": ("f32", (self.N,))} if self.bias else of
        of = {
            "q": (self.q, (self.B, self.H, self.N, self.D)),
            "k": (self.k, (self.B, self.Hk, self.M, self.D)),
            "v": (self.v, (self.B, self.Hk, self.M, self.Dv)),
            "o": (self.q, (self.B, self.H, self.N, self.Dv)),
        }
        if self.backward:
            of["d_o"] = of["o"]
            of["o"] = (self.q, (sum(count_of(of[name][1]) for name in "qkv"),))
        if self.keep:
            of["keep"] = ("bool", (self.N, self.M))
        if self.bias:
            of["bias"] = (self.q, (self.N, self.M))
        return of

    def scores(self):
        return self.B * self.H * self.N * self.M

    def operations(self):
        """Multiplications and additions of a linear layer; those of attention our plan says."""
        return 2.0 * self.M * self.N * self.D

    def moved_bytes(self):
        return float(sum(bytes_of(t, count_of(shape)) for t, shape in self.arrays().values()))


def count_of(shape):
    n = 1
    for s in shape:
        n *= s
    return n


GOAL = re.compile(r"^(peers|torch|call|fma|read|faster|order)(?:\((\w+)\))?(>=|<=)([0-9.]+)$")
SIZE = re.compile(r"^([bnqkdvhm])(\d+)(?:/(\d+))?$")


def parse_problem(name, text):
    s = Scenario(name, " ".join(text.split()))
    words = text.split()
    if words and words[0] == "linear":
        s.linear = True
        words = words[1:]
    elif words and words[0] == "backward":
        s.backward = True
        words = words[1:]
    for word in words:
        size = SIZE.match(word)
        if size and s.linear:
            letter, value = size[1], int(size[2])
            if letter not in "mnk":
                raise ValueError(f"{name}: {word}: a linear layer has m, n and k")
            setattr(s, {"m": "M", "n": "N", "k": "D"}[letter], value)
        elif size:
            letter, value = size[1], int(size[2])
            if letter == "n":
                s.N = s.M = value
            elif letter == "h":
                s.H, s.Hk = value, int(size[3] or value)
            elif letter == "d":
                s.D = value
                s.Dv = s.Dv or value
            else:
                setattr(s, {"b": "B", "q": "N", "k": "M", "v": "Dv"}[letter], value)
        elif word in DTYPES and not s.linear:
            s.q = word
        elif word.startswith("kv="):
            s.k, s.v = (word[3:].split(",") * 2)[:2]
        elif word in ("causal", "causal=top-left", "causal=bottom-right"):
            s.causal, s.bottom_right = True, word.endswith("bottom-right")
        elif word.startswith("window="):
            s.window = tuple(-1 if x == "inf" else int(x) for x in word[7:].split(","))
        elif word in ("keep", "bias", "gelu"):
            setattr(s, word, True)
        else:
            raise ValueError(f"{name}: {word}: peers know no such word")
    s.Hk = s.Hk or s.H
    s.k, s.v = s.k or s.q, s.v or s.q
    if s.backward and (s.k != s.q or s.v != s.q):
        raise ValueError(f"{name}: q, k and v are of one type with backward")
    if not (s.N and s.M and s.D):
        raise ValueError(f"{name}: a size is missing: {text}")
    return s


def parse_goal(name, word):
    m = GOAL.match(word)
    if not m or (m[1] in ("faster", "order")) != bool(m[2]):
        raise ValueError(f"{name}: {word}: no such goal")
    return (m[1], m[2], m[3], float(m[4]))


def read(path):
    scenarios = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.split("#")[0].strip()
            if not line:
                continue
            problem, _, goals = line.partition(";")
            name, colon, text = problem.partition(":")
            if not colon:
                raise ValueError(f"{path}: {line}: NAME: PROBLEM is needed")
            s = parse_problem(name.strip(), text.strip())
            s.goals = [parse_goal(s.name, word) for word in goals.split()]
            scenarios.append(s)
    names = [s.name for s in scenarios]
    for s in scenarios:
        if names.count(s.name) > 1:
            raise ValueError(f"{path}: {s.name} is there twice")
        for goal in s.goals:
            if goal[1] and goal[1] not in names:
                raise ValueError(f"{path}: {s.name}: there is no scenario {goal[1]}")
    return scenarios
