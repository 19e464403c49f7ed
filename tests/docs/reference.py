"""The tables of docs/reference and docs/internals that sources hold, as lines of Markdown.

    tables = Tables(build)      runs print_tables and the programs of a build
    tables.NAME()               the lines between `<!-- generated: NAME -->` and `<!-- /generated -->`

A page's text is pages(text, tables): all its tables anew. No line is longer than 120 characters.
"""
import functools
import itertools
import pathlib
import re
import subprocess
import textwrap

import interfaces

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs/reference").glob("*.md")), *sorted((ROOT / "docs/internals").glob("*.md"))]
MARK = re.compile(r"(<!-- generated: ([\w-]+)(?: ([^>]*?))? -->\n).*?(<!-- /generated -->)", re.S)
WIDTH = 118
# A recipe's name for the letter that config.def has.
RECIPES = {"A": "volumes", "B": "minimal", "C": "tracked", "D": "weather", "E": "keras"}


def fresh(text, tables):
    """A page with its tables as the sources have them."""
    def table(m):
        lines = getattr(tables, m[2].replace("-", "_"))(*(m[3] or "").split())
        return m[1] + "\n".join(lines) + "\n" + m[4]
    return MARK.sub(table, text)


def wrapped(text, first="", rest=""):
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False,
                         break_long_words=False) or [first]


def without_letters(text):
    """System letters as the recipes that have their constants."""
    text = re.sub(r"systems ([A-E]) and ([A-E])", lambda m: f"recipes `{RECIPES[m[1]]}` and `{RECIPES[m[2]]}`", text)
    return re.sub(r"system ([A-E])\b", lambda m: f"recipe `{RECIPES[m[1]]}`", text)


def table(rows):
    """Rows of a table, the first of which has its titles; columns that are empty are left out."""
    columns = [i for i, title in enumerate(rows[0]) if any(row[i] for row in rows[1:])]
    for number, row in enumerate(rows):
        yield "| " + " | ".join(row[i] for i in columns) + " |"
        if number == 0:
            yield "|" + "---|" * len(columns)


class Tables(interfaces.Interfaces):
    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()

    def run(self, program, *arguments):
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "HOME": "/dev/null"}
        done = subprocess.run([self.build / program, *arguments], cwd=ROOT, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
        return done.stdout

    @functools.cached_property
    def rows(self):
        """Of each table of the sources its rows: lists of texts."""
        found = {}
        for row in self.run("tests/docs/print_tables").split("\x1e")[:-1]:
            kind, *fields = row.split("\x1f")[:-1]
            found.setdefault(kind, []).append(fields)
        return found

    def keys(self):
        """A heading a group, an entry a key: what it takes, its default, and what it means."""
        for line in self.rows["keys"][0][0].split("\n"):
            if line.startswith("### "):
                yield from ("", "##" + line[3:], "")
            cells = [c.strip() for c in line.strip("|").split(" | ")]
            if not line.startswith("| `"):
                continue
            key, value, default, meaning = cells[0], cells[1], cells[2], " | ".join(cells[3:])
            meaning, *also = meaning.split("; also `")
            yield from wrapped(f"- {key}: {value}. Default: {default}.", rest="    ")
            text = without_letters(meaning) + "." + (f" Also `{also[0]}." if also else "")
            plain = re.match(r"[a-z]+[ ,.;]", text)
            yield from wrapped(text[0].upper() + text[1:] if plain else text, "    ", "    ")

    def functions(self, *titles):
        """Layers and functions of those headings of builtins.def: call, parameters, op, precision category."""
        group, groups = "", {}
        for line in (ROOT / "frontends/dl/builtins.def").read_text().split("\n"):
            heading = re.fullmatch(r"/\* (.*) \*/", line)
            group = heading[1].replace(" ", "-") if heading else group
            named = re.match(r'(?:BUILTIN|ELEM|REDUCE|FORMULA)\("(\w+)"', line)
            if named:
                groups[named[1]] = group
        rows = [("call", "makes", "op", "mixed precision")]
        for name, makes, op, category, *parameters in self.rows["function"]:
            if titles and groups[name] not in titles:
                continue
            pairs = zip(parameters[::2], parameters[1::2])
            call = ", ".join(p if not d or "=" in p else f"{p}={d}" for p, d in pairs)
            shown = f"`{op}`" if op and op != name else op and "the same"
            width = 64 if max(len(shown), len(makes)) < 24 else 40
            calls = textwrap.wrap(f"{name}({call})", width, break_long_words=False)
            formula = [f"`{line}`"
                       for line in textwrap.wrap(shown.strip("`"), 60)] if shown.startswith("`") else [shown]
            for i, (line, means) in enumerate(itertools.zip_longest(calls, formula, fillvalue="")):
                rows.append((line and f"`{line}`", "" if i else makes, means, "" if i else category))
        yield from table(rows)

    def schedules(self):
        """Courses of the learning rate: their options with defaults, PyTorch's class, the unit."""
        text = (ROOT / "ir/base/rate_phases.def").read_text()
        for name, of, unit, means in re.findall(r'COURSE\((\w+), "(\w*)", "(\w+)", "(.*)"\)', text):
            options = ", ".join(f"`{o}` {d}"
                                for c, o, d in re.findall(r'OPTION\((\w+), (\w+), "(.*?)"', text) if c == name)
            yield from wrapped(f"- `{name}`{of and f' ({of})'}, by {unit}s: {means}.", rest="    ")
            yield from wrapped(f"Options: {options}.", "    ", "    ")

    def diagnostics(self):
        heading = ""
        titles = {"E01": "Text and syntax", "E02": "Axes and shapes", "E03": "Names and calls",
                  "E04": "Values known when compiling", "E05": "Parts of a model", "E06": "Configuration",
                  "E08": "Later stages", "W07": "Warnings"}
        for name, code, _ in sorted(self.rows["diagnostic"], key=lambda row: row[1].replace("W", "Z")):
            title = titles[code[3:6]]
            if title != heading:
                yield from ("", f"## {title}")
                heading = title
            said = self.run("cli/dlc", "explain", code).strip("\n").split("\n")
            assert said[0] == f"{code} {name}", said[0]
            yield from ("", f"### {code} {name}", "", "```text")
            for line in said[2:]:
                yield from wrapped(line) if len(line) > WIDTH and not line.startswith(" ") else [line]
            yield "```"

    def exit_statuses(self):
        yield "| status | constant | cause |"
        yield "|---|---|---|"
        for name, number, why in re.findall(r"^    (DL_\w+) = (\d+),?(?: +/\* (.*) \*/)?$",
                                            (ROOT / "ir/base/status.h").read_text(), re.M):
            yield f"| {number} | `{name}` | {why or 'done'} |"

    def environment(self):
        text = self.run("cli/dlc", "--help=all")
        lines = text[text.index("\nEnvironment:\n"):].split("\n\n")[0].strip("\n").split("\n")[1:]
        yield "```text"
        for line in lines:
            yield from self.cut(line)
        yield "```"

    @staticmethod
    def cut(line):
        """A line of --help in the width of a page; its rest stands under its last column."""
        if len(line) <= WIDTH:
            return [line.rstrip()]
        line = re.sub(r",(?=\S{60})", ", ", line)
        column = re.match(r" *\S+(?:,? \S+)*?  +|", line).end() or len(line) - len(line.lstrip()) + 4
        return wrapped(line, rest=" " * min(column, 40))

    def help(self, program, *command):
        """What --help of a program or of its command prints, without the configuration's keys."""
        text = self.run(program, *command, "--help=all").split("\nKeys of every configuration")[0]
        text = text.split("\nEnvironment:\n")[0]
        yield "```text"
        for line in text.strip("\n").split("\n"):
            yield from self.cut(line)
        yield "```"

    def foreign_formats(self):
        yield "| format | known by | converted by |"
        yield "|---|---|---|"
        seen = set()
        for name, endings, package, _ in self.rows["format"]:
            known = ", ".join(f"`.{e}`" for e in endings.split()) or "its first bytes"
            if (row := f"| {name} | {known} | {package or '-'} |") not in seen:
                yield row
            seen.add(row)

    def passes(self):
        order = self.pipeline()
        helps = {name: row for name, *row in self.rows["pass"]}
        yield "| dump | pass | takes | leaves | bodies |"
        yield "|---|---|---|---|---|"
        for number, name in enumerate(order, 1):
            takes, leaves, bodies, _ = helps[name]
            yield f"| {number:02d} | {name} | {takes.lower()} | {leaves.lower()} | {bodies.lower()} |"

    @staticmethod
    def pipeline():
        text = (ROOT / "passes/pipeline.c").read_text()
        return "".join(re.findall(r'"([^"]*)"', text[text.index("dl_pipeline[] ="):].split(";")[0])).split(",")

    def ops(self):
        titles = {"SOURCE": "made of nothing", "ELEM": "a scalar expression an element",
                  "REDUCE": "combines along axes",
                  "MOVE": "moves elements", "CONTRACT": "sums of products", "HIGH": "composite, written out by `lower`",
                  "TEMPLATE": "written by hand for each device", "COLLECTIVE": "between ranks", "FUSED": "a kernel"}
        yield "| class | meaning | ops |"
        yield "|---|---|---|"
        for kind, meaning in titles.items():
            names = ", ".join(f"`{row[0]}`" for row in self.rows["op"] if row[2] == kind)
            first, *rest = textwrap.wrap(names, 60)
            yield f"| {kind} | {meaning} | {first} |"
            for line in rest:
                yield f"| | | {line} |"
