"""The interfaces of libdlc in C, Fortran and Python, as lines of Markdown from their sources.

Interfaces is a part of reference.Tables: its methods are tables.
"""
import ast
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "bindings/python/dlc"
WIDTH = 100
NAMES = {"dlc.open": "_model.py", "dlc.read_metrics": "_metrics.py", "dlc.Model": "_model.py",
         "dlc.Parameters": "_model.py", "dlc.Evaluation": "_model.py", "dlc.Tensor": "_arrays.py",
         "dlc.Error": "_errors.py", "dlc.Warning": "_errors.py"}


def block(language, lines):
    return [f"```{language}", *lines, "```"]


def signature(name, function):
    """A function as it is called: without self and annotations."""
    a = function.args
    for argument in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]:
        if argument:
            argument.annotation = None
    a.args = [x for x in a.args if x.arg != "self"]
    return f"{name}({ast.unparse(a)})"


def is_public(node):
    return isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node)


class Interfaces:
    def c(self):
        text = (ROOT / "include/dlc.h").read_text()
        begin, end = text.index("/* An open network"), text.index("#ifdef __cplusplus\n}")
        yield from block("c", text[begin:end].rstrip().split("\n"))

    def python(self):
        for name, file in NAMES.items():
            body = ast.parse((PYTHON / file).read_text()).body
            node = next(n for n in body if getattr(n, "name", None) == name[4:])
            function = isinstance(node, ast.FunctionDef)
            yield from ("", f"## {name}", "")
            called = textwrap.wrap(signature(name, node), WIDTH, subsequent_indent="    ") if function else []
            yield from block("text", [*called, *([""] if function else []),
                                      *ast.get_docstring(node).split("\n")])
            for method in filter(is_public, [] if function else node.body):
                shown = f".{method.name}" if method.decorator_list else signature(f".{method.name}", method)
                yield from ("", f"`{shown}`", "")
                yield from block("text", ast.get_docstring(method).split("\n"))

    def fortran(self):
        lines = (ROOT / "bindings/fortran/dlc.f90.in").read_text().split("\n")
        first, last = (next(i for i, line in enumerate(lines) if mark in line) for mark in ("! Roles", "dlc_max_rank"))
        yield from ("", "## Constants", "", *block("fortran", [line[2:] for line in lines[first:last]]))
        for name in ("dlc_status", "dlc_tensor", "dlc_array", "dlc_model"):
            yield from ("", f"## {name}", "", *block("fortran", type_text(lines, name)))
        for shown, procedure in procedures(lines):
            yield from ("", f"## {shown}", "", *block("fortran", procedure_text(lines, shown, procedure)))


def with_comment(lines, at):
    """The first line of the comment that ends before a line."""
    while lines[at - 1].startswith("  ! ") and not lines[at - 1].startswith("  ! ----"):
        at -= 1
    return at


def type_text(lines, name):
    """A type with its public parts."""
    at = next(i for i, line in enumerate(lines) if re.fullmatch(rf"  type(, public)? :: {name}", line))
    end = lines.index(f"  end type {name}")
    text = lines[with_comment(lines, at):end + 1]
    hidden = "procedure, private|generic|!@|procedure :: |  contains"
    if "    private" in text:
        hidden += "|type|integer|logical"
    return [line[2:] for line in text if not re.match(rf"    (?:private|{hidden})|  contains", line)]


def procedures(lines):
    """(name as it is called, procedure)."""
    yield from ((name, name) for name in ("dlc_open", "dlc_close", "dlc_version"))
    for line in lines:
        if bound := re.fullmatch(r"    procedure :: (\w+) => (\w+)", line):
            yield f"net%{bound[1]}", bound[2]


def procedure_text(lines, shown, procedure):
    """Comment, first line and dummy arguments of a procedure."""
    head = re.compile(rf"  (?:[\w()]+ )?(?:subroutine|function) {procedure}\b")
    at = end = next(i for i, line in enumerate(lines) if head.match(line))
    while lines[end].endswith("&"):
        end += 1
    dummies = [line for line in lines[end + 1:lines.index("", end)] if "intent(" in line or "procedure(" in line]
    text = [*lines[with_comment(lines, at):end + 1], *dummies]
    return [line[2:].replace(procedure, shown.removeprefix("net%")) for line in text]
