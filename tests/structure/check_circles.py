#!/usr/bin/env python3
"""No source files of the product depend on each other in a circle, and no folders do, except as LISTED.

check_circles.py BUILD

File a depends on file b where a's object needs a function or variable that b's object defines (nm). The strongly
connected components of that graph (Tarjan, SIAM J. Comput. 1(2), 1972) are the circles. A folder depends on those that
its files depend on.
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../e2e"))
from checks import check, finish  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_PRODUCT = ("tests/", "bench/")
# The circles that stay: their files, and why.
LISTED_FILES = {
    tuple(f"frontends/dl/{name}.c" for name in ("apply", "bind", "call", "declare", "eval", "stmt")):
        "the evaluator: an expression applies modules and formulas, whose statements are expressions",
}
LISTED_FOLDERS = {}


def is_generated(entry):
    return BUILD.resolve() in pathlib.Path(entry["directory"], entry["file"]).resolve().parents


def objects():
    """{source: object} of the product."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if source.endswith(".c") and not source.startswith(("..", *NO_PRODUCT)) and not is_generated(entry):
            found[source] = os.path.join(entry["directory"], entry["output"])
    return found


def symbols(paths):
    """{object: (defined, needed) names}."""
    found = {path: (set(), set()) for path in paths}
    for line in subprocess.run(["nm", "-A", *paths], capture_output=True, text=True, check=True).stdout.splitlines():
        path, _, rest = line.rpartition(":")
        *_, kind, name = rest.split()
        if kind in "TDRBVW":
            found[path][0].add(name)
        elif kind == "U":
            found[path][1].add(name)
    return found


def dependencies():
    """{source: sources that it depends on}."""
    names = objects()
    of = symbols(names.values())
    table = {source: of[path] for source, path in names.items()}
    home = {name: source for source, (defined, _) in table.items() for name in defined}
    return {source: {home[name] for name in needed if name in home} - {source} for source, (_, needed) in table.items()}


def circles(graph):
    """The components of more than one node, each sorted."""
    index, low, stack, held, found = {}, {}, [], set(), []
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + 2 * len(graph)))  # a path through all nodes

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node), held.add(node)
        for then in sorted(graph.get(node, ())):
            if then not in index:
                visit(then)
                low[node] = min(low[node], low[then])
            elif then in held:
                low[node] = min(low[node], index[then])
        if low[node] == index[node]:
            part = []
            while not part or part[-1] != node:
                part.append(stack.pop())
                held.discard(part[-1])
            if len(part) > 1:
                found.append(tuple(sorted(part)))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def folders(graph):
    """{folder: folders that it depends on}."""
    found = {}
    for source, needed in graph.items():
        to = found.setdefault(os.path.dirname(source), set())
        to.update(os.path.dirname(other) for other in needed)
    return {folder: to - {folder} for folder, to in found.items()}


def test(what, found, listed):
    for circle in found:
        check(circle in listed, f"{len(circle)} {what} depend on each other in a circle: {' '.join(circle)}")
    for circle in listed:
        check(circle in found, f"this circle of {what} is listed, and is none: {' '.join(circle)}")


check(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [("a", "b", "c")], "a circle of three is not found")
graph = dependencies()
check(len(graph) > 300 and sum(map(len, graph.values())) > 1000,
      f"{len(graph)} sources, {sum(map(len, graph.values()))} arrows")
test("files", circles(graph), LISTED_FILES)
test("folders", circles(folders(graph)), LISTED_FOLDERS)
finish()
